//! Refuses `#[serde(..)]` on types that are stored in another way: the name or default that it sets would be
//! ignored silently.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::{Attribute, Data, DeriveInput, Error, Result};

use crate::model::combine;

/// The attribute that declares serde's attributes to be for something else.
pub(crate) const IGNORE: &str = "ignore_serde";

/// Refuses serde's attributes on the type, its fields and its variants.
pub(crate) fn refuse(input: &DeriveInput, namespace: &str) -> Result<()> {
    let mut errors = None;
    let mut look = |attrs: &[Attribute], target: AttributeTarget| {
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
            for (name, span) in names(attr) {
                let what = explained(namespace, target, &name);
                combine(&mut errors, Error::new(span, what));
            }
        }
    };
    look(&input.attrs, AttributeTarget::Type);
    match &input.data {
        Data::Struct(data) => {
            data.fields.iter().for_each(|field| look(&field.attrs, AttributeTarget::Field));
        }
        Data::Enum(data) => {
            data.variants.iter().for_each(|variant| look(&variant.attrs, AttributeTarget::Variant));
        }
        Data::Union(_) => {}
    }
    errors.map_or(Ok(()), Err)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AttributeTarget {
    Type,
    Field,
    Variant,
}

/// The names in the attribute, with their spans.
fn names(attr: &Attribute) -> Vec<(String, Span)> {
    let mut names = Vec::new();
    let parsed = attr.parse_nested_meta(|meta| {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        names.push((name, meta.path.span()));
        crate::stub::skip(&meta)
    });
    if parsed.is_err() || names.is_empty() {
        // serde reports the syntax error.
        names.truncate(1);
        if names.is_empty() {
            names.push((String::new(), attr.span()));
        }
    }
    names
}

fn explained(namespace: &str, target: AttributeTarget, name: &str) -> String {
    let said = if name.is_empty() { "serde(..)".to_owned() } else { format!("serde({name})") };
    let ours = match (namespace, target, name) {
        (_, AttributeTarget::Type, "rename_all") => Some("rename_all = \"..\""),
        ("entity", AttributeTarget::Field, "rename") | (_, AttributeTarget::Variant, "rename") => {
            Some("rename = \"..\"")
        }
        ("entity", AttributeTarget::Field, "default") => Some("default"),
        ("entity", AttributeTarget::Field, "skip" | "skip_serializing" | "skip_deserializing") => {
            Some("skip")
        }
        ("entity", AttributeTarget::Field, "with" | "serialize_with" | "deserialize_with") => {
            Some("with = \"..\"")
        }
        ("entity", AttributeTarget::Field, "flatten") => Some("flatten"),
        ("property", AttributeTarget::Variant, "other") => Some("other"),
        _ => None,
    };
    let instead = ours.map_or_else(String::new, |ours| format!("write `#[{namespace}({ours})]`; "));
    let stored = if namespace == "key_part" { "written in keys" } else { "stored" };
    format!(
        "`#[{said}]` does not change how this is {stored}: {instead}if it is only for serde, put \
         `#[{namespace}({IGNORE})]` on the type"
    )
}
