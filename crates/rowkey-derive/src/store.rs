//! `store`: what a type that is written through a store must have so that its rows are told apart.

use proc_macro2::Span;
use syn::{Error, Result};

use crate::index::Index;
use crate::model::{Field, Keys, Model, Role};

/// What the RowKeys of a store's own rows begin with, in the partitions of entities.
const OPERATIONS: &str = "op_";

/// Ends the name of the property that says where the blob of another one is.
pub(crate) const POINTER: &str = "_Blob";

/// The property that tells which write a row comes from.
const MARK: &str = "EntityOp";

/// Checks the declarations of a store, or refuses what only a store keeps.
pub(crate) fn check(model: &Model<'_>, keys: &Keys, store: Option<Span>) -> Result<()> {
    if let Some(from) = &model.from
        && (store.is_none() || model.version.is_none_or(|version| version < 2))
    {
        let what = "`from` names the version before this one, whose entities a store converts; say \
                    `store` and which version this is: #[entity(store, version = 2, from = V1)]";
        return Err(Error::new_spanned(from, what));
    }
    let Some(store) = store else {
        let unique = keys.indexes.iter().find(|index| index.claims);
        let unique = unique.map(|index| ("a unique value", index.name.span()));
        let list = keys.lists.first().map(|list| ("a list", list.name.span()));
        let sealed = model
            .fields
            .iter()
            .find(|field| matches!(field.role, Role::Property { encrypt: true, .. }));
        let sealed = sealed.map(|field| ("an encrypted field", field.ident.span()));
        let in_blob = |field: &&Field<'_>| matches!(field.role, Role::Property { blob: true, .. });
        let blob = model.fields.iter().find(in_blob);
        let blob = blob.map(|field| ("a field in a blob", field.ident.span()));
        return match unique.or(list).or(sealed).or(blob) {
            Some((what, span)) => {
                let what = format!("{what} is kept by a store; add `store`: #[entity(store, ..)]");
                Err(Error::new(span, what))
            }
            None => Ok(()),
        };
    };
    let head = keys.row.head();
    if head.is_empty() {
        return Err(Error::new(
            store,
            "a store keeps rows of its own beside the entities, and nothing tells them apart; begin \
             the row template with text: `id_{id}`",
        ));
    }
    let heads = keys.indexes.iter().filter(|index| index.is_in_partition());
    let heads = [head].into_iter().chain(heads.map(Index::row_head));
    for head in heads {
        if head.starts_with(OPERATIONS) || OPERATIONS.starts_with(head) {
            let what = format!(
                "rows that begin with {head:?} cannot be told from the op rows of a store, which \
                 begin with {OPERATIONS:?}"
            );
            return Err(Error::new(keys.row.literal.span(), what));
        }
    }
    for blob in model.blobs() {
        let pointer = format!("{blob}{POINTER}");
        if model.properties().any(|name| name == pointer) {
            let what = format!("the property `{pointer}` says where the blob of `{blob}` is");
            return Err(Error::new(model.ident.span(), what));
        }
    }
    for field in &model.fields {
        if let Role::Property { name, .. } = &field.role
            && name == MARK
        {
            let what = format!("a store keeps the mark of the last write in the property `{MARK}`");
            return Err(Error::new(field.ident.span(), what));
        }
    }
    Ok(())
}
