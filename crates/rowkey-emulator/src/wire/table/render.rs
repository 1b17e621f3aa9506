//! Renders tables as the service writes them. Entities are rendered by [`rowkey_wire::odata::render`].

use rowkey_wire::odata::Metadata;
use rowkey_wire::odata::render::Origin;

/// The response to Create Table and Get Table.
pub(crate) fn table(level: Metadata, origin: Origin<'_>, name: &str) -> Vec<u8> {
    let mut out = String::with_capacity(256);
    out.push('{');
    if level != Metadata::None {
        push(
            &mut out,
            &["\"odata.metadata\":\"", origin.endpoint, "/$metadata#Tables/@Element\","],
        );
    }
    push_table(&mut out, level, origin, name);
    out.into_bytes()
}

/// The response to Query Tables.
pub(crate) fn tables<'a>(
    level: Metadata,
    origin: Origin<'_>,
    names: impl Iterator<Item = &'a str>,
) -> Vec<u8> {
    let mut out = String::with_capacity(512);
    out.push('{');
    if level != Metadata::None {
        push(&mut out, &["\"odata.metadata\":\"", origin.endpoint, "/$metadata#Tables\","]);
    }
    out.push_str("\"value\":[");
    for (i, name) in names.enumerate() {
        out.push_str(if i == 0 { "{" } else { ",{" });
        push_table(&mut out, level, origin, name);
    }
    out.push_str("]}");
    out.into_bytes()
}

/// Appends the members of a table, after the opening brace. Names need no escapes.
fn push_table(out: &mut String, level: Metadata, origin: Origin<'_>, name: &str) {
    if level == Metadata::Full {
        push(out, &["\"odata.type\":\"", origin.account, ".Tables\",\"odata.id\":\""]);
        push(out, &[origin.endpoint, "/Tables('", name, "')\",\"odata.editLink\":\"Tables('"]);
        push(out, &[name, "')\","]);
    }
    push(out, &["\"TableName\":\"", name, "\"}"]);
}

fn push(out: &mut String, parts: &[&str]) {
    out.extend(parts.iter().copied());
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin<'static> =
        Origin { account: "storagename", endpoint: "https://storagename.table.core.windows.net" };

    #[test]
    fn a_table_looks_as_recorded() {
        // sdk-python test_table.test_account_sas, cosmosdb-python test_table.test_create_table.
        assert_eq!(
            table(Metadata::Minimal, ORIGIN, "pytablesync99dc0b08"),
            br#"{"odata.metadata":"https://storagename.table.core.windows.net/$metadata#Tables/@Element","TableName":"pytablesync99dc0b08"}"#
        );
        assert_eq!(
            table(Metadata::None, ORIGIN, "tablea4ed0b50"),
            br#"{"TableName":"tablea4ed0b50"}"#
        );
    }

    #[test]
    fn a_list_of_tables_names_each_with_its_links_when_asked_fully() {
        assert_eq!(
            tables(Metadata::Full, ORIGIN, ["abc", "def"].into_iter()),
            br#"{"odata.metadata":"https://storagename.table.core.windows.net/$metadata#Tables","value":[{"odata.type":"storagename.Tables","odata.id":"https://storagename.table.core.windows.net/Tables('abc')","odata.editLink":"Tables('abc')","TableName":"abc"},{"odata.type":"storagename.Tables","odata.id":"https://storagename.table.core.windows.net/Tables('def')","odata.editLink":"Tables('def')","TableName":"def"}]}"#
        );
        assert_eq!(tables(Metadata::None, ORIGIN, std::iter::empty()), br#"{"value":[]}"#);
    }
}
