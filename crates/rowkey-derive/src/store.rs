//! `store`: checks that the rows of a type that is written through a store can be distinguished.

use proc_macro2::Span;
use syn::{Error, Result};

use crate::model::{Keys, Model};
use crate::role::Role;

/// The RowKey prefix of a store's own rows in the partitions of entities.
const OPERATIONS: &str = "op_";

/// The properties that a store adds to an entity's own row.
const OWN: [(&str, &str); 3] = [
    ("EntityOp", "the mark of the last write"),
    ("EntityParts", "the parts of a wide entity"),
    ("EntityRows", "the number of rows of a wide entity"),
];

/// Checks the declarations of a store, or refuses attributes that require a store.
pub(crate) fn check(model: &Model<'_>, keys: &Keys, store: Option<Span>) -> Result<()> {
    let Some(store) = store else { return keys.declarations.check_without_store(model) };
    let head = keys.row.head();
    if head.is_empty() {
        return Err(Error::new(
            store,
            "the row template must begin with literal text, such as `id_{id}`, to distinguish \
             entities from the other rows of the store",
        ));
    }
    let rows = keys.declarations.rows();
    let heads = rows.iter().filter(|rows| rows.is_in_partition()).map(|rows| &*rows.row_head);
    for head in [head].into_iter().chain(heads) {
        if head.starts_with(OPERATIONS) || OPERATIONS.starts_with(head) {
            let what = format!(
                "rows that begin with {head:?} cannot be distinguished from the op rows of a \
                 store, which begin with {OPERATIONS:?}"
            );
            return Err(Error::new(keys.row.literal.span(), what));
        }
    }
    for field in &model.fields {
        let Role::Property { name, .. } = &field.role else { continue };
        if let Some((_, what)) = OWN.iter().find(|(own, _)| own == name) {
            let what = format!("the property name `{name}` is reserved for {what}");
            return Err(Error::new(field.ident.span(), what));
        }
    }
    keys.declarations.check(model, keys)
}
