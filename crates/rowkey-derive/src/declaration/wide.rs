//! `wide = 40`: entities of several rows. `parts`: each property of such an entity chooses its row.

use std::ops::RangeInclusive;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned as _;
use syn::{Error, LitInt, Result, Token};

use super::Kind;
use super::rows::{Rows, overlap};
use crate::model::{Keys, Model};
use crate::role::Role;

/// The allowed values: the remaining operations of a transaction are the op row and one more.
const ROWS: RangeInclusive<usize> = 2..=98;

/// The properties of the further rows of a wide entity.
const OF_FURTHER: [&str; 3] = ["PrimaryPartitionKey", "PrimaryRowKey", "RowFormat"];

/// The RowKey prefix of further rows.
const FURTHER: &str = "wide_";

/// The operations of a transaction besides the op row.
const MAX_OPERATIONS: usize = 99;

/// The attributes as they are written.
#[derive(Default)]
pub(crate) struct Wide {
    /// The maximum number of rows of an entity.
    number: Option<LitInt>,
    /// Whether each property has a row of its own choice, and the first characters that choose it.
    parts: Option<(Option<LitInt>, Span)>,
}

impl Wide {
    /// The maximum number of rows of an entity.
    pub(super) fn rows(&self) -> Result<usize> {
        let Some(number) = &self.number else { return Ok(1) };
        number.base10_parse().ok().filter(|rows| ROWS.contains(rows)).ok_or_else(|| {
            let (least, most) = (ROWS.start(), ROWS.end());
            let what = format!(
                "`wide` must be between {least} and {most}: one transaction, limited to 100 \
                 operations, writes all rows of an entity"
            );
            Error::new(number.span(), what)
        })
    }

    /// The number of first characters of a property's name that choose its row.
    fn parts(&self) -> Result<Option<usize>> {
        let Some((number, span)) = &self.parts else { return Ok(None) };
        if self.number.is_none() {
            let what = "`parts` requires the number of rows: #[entity(store, wide = 64, parts)]";
            return Err(Error::new(*span, what));
        }
        let Some(number) = number else { return Ok(Some(usize::MAX)) };
        let parsed = number.base10_parse().ok().filter(|first| (1..=255).contains(first));
        parsed.map(Some).ok_or_else(|| {
            let what = "`parts` is the number of first characters of a name that choose its row, 1 to \
                        255; without a number, the whole name does";
            Error::new(number.span(), what)
        })
    }
}

impl Kind for Wide {
    fn words(&self) -> &'static [&'static str] {
        &["wide", "parts"]
    }

    fn parse(&mut self, word: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if word == "wide" {
            self.number = Some(meta.value()?.parse()?);
        } else {
            let number = meta.input.peek(Token![=]).then(|| meta.value()?.parse());
            self.parts = Some((number.transpose()?, meta.path.span()));
        }
        Ok(())
    }

    fn resolve(&mut self, _: (&Model<'_>, &Keys), _: &[String], _: &[Rows]) -> Result<()> {
        self.parts().map(|_| ())
    }

    /// Checks an entity of several rows against its other declarations.
    fn check(&self, model: &Model<'_>, keys: &Keys, rows: &[Rows]) -> Result<()> {
        let Some(number) = &self.number else { return Ok(()) };
        for field in &model.fields {
            let Role::Property { name, .. } = &field.role else { continue };
            if OF_FURTHER.contains(&&**name) {
                let what = format!(
                    "the property name `{name}` is reserved for the further rows of a wide entity"
                );
                return Err(Error::new(field.ident.span(), what));
            }
        }
        if let Some(whole) = rows.iter().find(|rows| rows.copies_all) {
            let what = format!(
                "a full copy in `{}` does not fit into one row: select properties of the wide entity \
                 with copy(..)",
                whole.name
            );
            return Err(Error::new(whole.name.span(), what));
        }
        let local = rows.iter().filter(|rows| rows.is_in_partition());
        let heads = local.map(|rows| &*rows.row_head);
        for head in [keys.row.head()].into_iter().chain(heads) {
            if let Some(what) = overlap(head, FURTHER, "the further rows of wide entities") {
                return Err(Error::new(keys.row.literal.span(), what));
            }
        }
        let most = model.rows + rows.iter().map(|rows| rows.operations).sum::<usize>();
        if most > MAX_OPERATIONS {
            let what = format!(
                "a change of one entity may need {most} operations for its rows, indexes and lists; \
                 the maximum is {MAX_OPERATIONS}"
            );
            return Err(Error::new(number.span(), what));
        }
        Ok(())
    }

    fn requires_store(&self, _: &Model<'_>) -> Option<(&'static str, Span)> {
        self.number.as_ref().map(|number| ("an entity of several rows", number.span()))
    }

    fn constant(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        let (krate, rows) = (&model.krate, model.rows);
        let parts = self.parts().ok().flatten().map_or_else(
            || quote! { ::core::option::Option::None },
            |first| quote! { ::core::option::Option::Some(#first) },
        );
        (rows > 1).then(|| quote! { wide: #krate::entity::Wide { rows: #rows, parts: #parts } })
    }
}
