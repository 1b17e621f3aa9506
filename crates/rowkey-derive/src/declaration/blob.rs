//! `blob`: fields whose values are in blobs.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Error, LitInt, Result};

use super::rows::Rows;
use super::{Kind, Marks, Word};
use crate::model::{Field, Keys, Model};
use crate::role::{Given, Role};

/// The suffix of the property that names the blob of another property.
const POINTER: &str = "_Blob";

/// The largest property that the service stores, in bytes.
const MAX_PROPERTY: usize = 64 << 10;

/// The fields in blobs; their role says which ones they are.
#[derive(Default)]
pub(crate) struct Blobs;

impl Kind for Blobs {
    fn marks(&self) -> &'static [Word] {
        const MARKS: &[Word] = &[
            Word::flag("blob"),
            Word { is_number: true, ..Word::flag("threshold") },
            Word::flag("compress"),
        ];
        MARKS
    }

    /// Checks the options of a field in a blob.
    fn check_field(&self, field: &Given<'_>) -> Result<()> {
        let of_key = "the property of an encrypted field has the key of its blob";
        let of_length = "the length of compressed content tells about the content";
        let marks = field.marks;
        for (name, value, why) in [("threshold", " = ..", of_key), ("compress", "", of_length)] {
            let Some(span) = marks.span(name) else { continue };
            if field.is_key || field.is_reference {
                // Refused for another reason, as `blob` is.
                continue;
            }
            if marks.span("blob").is_none() {
                let what = format!("`{name}` requires `blob`: #[entity(blob, {name}{value})]");
                return Err(Error::new(span, what));
            }
            if marks.span("encrypt").is_some() {
                let what = format!("`{name}` cannot be combined with `encrypt`: {why}");
                return Err(Error::new(span, what));
            }
        }
        threshold(marks).map(|_| ())
    }

    fn check(&self, model: &Model<'_>, _: &Keys, _: &[Rows]) -> Result<()> {
        for (blob, _) in fields(model) {
            let pointer = pointer(blob);
            if model.properties().any(|name| name == pointer) {
                let what = format!(
                    "the property name `{pointer}` is reserved for the reference to the blob of \
                     `{blob}`"
                );
                return Err(Error::new(model.ident.span(), what));
            }
        }
        Ok(())
    }

    fn requires_store(&self, model: &Model<'_>) -> Option<(&'static str, Span)> {
        fields(model).next().map(|(_, field)| ("a field in a blob", field.ident.span()))
    }

    fn properties(&self, model: &Model<'_>) -> Vec<String> {
        fields(model).map(|(name, _)| pointer(name)).collect()
    }

    fn constant(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        let krate = &model.krate;
        let blobs = fields(model).map(|(name, field)| {
            let pointer = pointer(name);
            // Checked when the attributes were parsed.
            let threshold = threshold(&field.marks).unwrap_or(0);
            let compress = field.marks.span("compress").is_some();
            quote! {
                #krate::entity::BlobField {
                    property: #name,
                    pointer: #pointer,
                    threshold: #threshold,
                    compress: #compress,
                }
            }
        });
        let blobs: Vec<_> = blobs.collect();
        (!blobs.is_empty()).then(|| quote! { blobs: &[#(#blobs),*] })
    }
}

/// The properties whose values are in blobs, in field order, with their fields.
fn fields<'m, 'a>(model: &'m Model<'a>) -> impl Iterator<Item = (&'m str, &'m Field<'a>)> {
    model.fields.iter().filter_map(|field| match &field.role {
        Role::Property { name, blob: true, .. } => Some((name.as_str(), field)),
        _ => None,
    })
}

/// The property that names the blob of `property`.
pub(crate) fn pointer(property: &str) -> String {
    format!("{property}{POINTER}")
}

/// The largest value in bytes that stays in the row nevertheless; 0 for none.
fn threshold(marks: &Marks) -> Result<usize> {
    let Some(literal) = marks.number("threshold") else { return Ok(0) };
    let parsed = literal.base10_parse().ok();
    parsed.filter(|bytes| (1..=MAX_PROPERTY).contains(bytes)).ok_or_else(|| wrong(literal))
}

fn wrong(threshold: &LitInt) -> Error {
    let what = format!(
        "`threshold` must be between 1 and {MAX_PROPERTY} bytes, the largest property: larger values are in \
         blobs"
    );
    Error::new(threshold.span(), what)
}
