//! `encrypt`: fields that are stored encrypted.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Error, Result};

use super::rows::{Head, Rows, overlap};
use super::{Kind, Word};
use crate::model::{Keys, Model};
use crate::role::Role;

/// The partition of the records of branch keys, and the prefix of their RowKeys.
const BRANCH_KEYS: (&str, &str) = ("encryption", "encryption_key_");

/// The encrypted fields; their role says which ones they are.
#[derive(Default)]
pub(crate) struct Encrypted;

impl Kind for Encrypted {
    fn marks(&self) -> &'static [Word] {
        const ENCRYPT: Word =
            Word { entities_only: Some("projections do not decrypt"), ..Word::flag("encrypt") };
        &[ENCRYPT]
    }

    /// Refuses a type with encrypted fields whose rows may have the keys of branch key records.
    fn check(&self, model: &Model<'_>, keys: &Keys, rows: &[Rows]) -> Result<()> {
        if fields(model).next().is_none() {
            return Ok(());
        }
        let (partition, record) = BRANCH_KEYS;
        let own = Head::of(&keys.partition);
        let others = rows.iter();
        let others = others.map(|one| (one.partition.as_ref(), &*one.row_head, one.name.span()));
        let all = [(None, keys.row.head(), keys.row.literal.span())].into_iter().chain(others);
        for (of, head, span) in all {
            if of.unwrap_or(&own).may_be(partition)
                && !head.is_empty()
                && let Some(what) = overlap(head, record, "the records of branch keys")
            {
                return Err(Error::new(span, what));
            }
        }
        Ok(())
    }

    fn requires_store(&self, model: &Model<'_>) -> Option<(&'static str, Span)> {
        fields(model).next().map(|(_, span)| ("an encrypted field", span))
    }

    fn constant(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        let names: Vec<_> = fields(model).map(|(name, _)| name).collect();
        (!names.is_empty()).then(|| quote! { encrypted: &[#(#names),*] })
    }
}

/// The names of the encrypted properties, in field order, and where the fields are.
fn fields<'a>(model: &'a Model<'_>) -> impl Iterator<Item = (&'a str, Span)> {
    model.fields.iter().filter_map(|field| match &field.role {
        Role::Property { name, encrypt: true, .. } => Some((name.as_str(), field.ident.span())),
        _ => None,
    })
}
