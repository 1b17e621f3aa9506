//! Addresses of tables and entities, as in headers and full metadata.

use rowkey_wire::key;

use crate::op::table::Address;

/// The address of a table, as in `Location` and `DataServiceId`.
pub(crate) fn table_location(endpoint: &str, name: &str) -> String {
    format!("{endpoint}/Tables('{name}')")
}

/// The address of an entity, as in `Location` and `DataServiceId`.
pub(crate) fn entity_location(endpoint: &str, table: &str, address: &Address<'_>) -> String {
    let keys = address.partition_key.len() + address.row_key.len();
    let mut out = String::with_capacity(endpoint.len() + table.len() + keys + 64);
    write_entity_location(&mut out, endpoint, table, address);
    out
}

/// Appends the address of an entity.
pub(crate) fn write_entity_location(
    out: &mut String,
    endpoint: &str,
    table: &str,
    address: &Address<'_>,
) {
    out.extend([endpoint, "/", table]);
    key::write_address(out, &address.partition_key, &address.row_key);
}
