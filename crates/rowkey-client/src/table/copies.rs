//! Checks that the copies in an index have the properties that a query of them needs.

use rowkey_entity::index::Index;

use crate::error::{Error, Result};

/// Fails if the copies in the index lack one of these properties.
pub(super) fn copies_have<'a>(
    index: &Index,
    names: impl IntoIterator<Item = &'a str>,
    what: &str,
) -> Result<()> {
    let Some(missing) = names.into_iter().find(|name| !index.has_column(name)) else {
        return Ok(());
    };
    let index = index.name;
    Err(Error::invalid(format!(
        "the {what} needs the property `{missing}`, which the copies in the index `{index}` do not have"
    ))
    .advise(
        "name its field in `copy(..)` of the index and build it anew, narrow the range if it is a \
         value of the index, or read the entities and look at it there",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rowkey_entity::Filter;
    use rowkey_entity::index::{Copied, Scope};

    #[test]
    fn columns_that_copies_do_not_have_are_named_with_the_index() {
        let by_name = Index {
            name: "by_name",
            scope: Scope::SamePartition,
            table: None,
            unique: true,
            partition_head: "",
            row_head: "name_",
            row_template: &[],
            copy: Copied::Only(&["Age"]),
        };
        let check = |filter: Filter| copies_have(&by_name, filter.columns(), "filter");
        assert!(check(Filter::raw("Age gt 5 and RowKey ge 'a'").unwrap()).is_ok());
        let filter = Filter::raw("Age gt 5 or not (active or Name eq 'x')").unwrap();
        assert_eq!(filter.columns().collect::<Vec<_>>(), ["Age", "active", "Name"]);
        let error = check(filter).unwrap_err().to_string();
        assert!(error.contains("the filter needs the property `active`"), "{error}");
        assert!(error.contains("index `by_name`") && error.contains("`copy(..)`"), "{error}");
    }
}
