//! The types whose values are one value: newtypes, and enums without fields.

use syn::{
    Data, DataEnum, DeriveInput, Error, Fields, Ident, LitStr, Member, Path, Result, Type, Variant,
};

use crate::attrs::{Container, refuse, variant_rename};
use crate::model::{combine, plain};
use crate::names::Case;

pub(crate) enum Shape<'a> {
    Newtype(Newtype<'a>),
    Variants(Variants<'a>),
}

/// A struct of one field.
pub(crate) struct Newtype<'a> {
    pub(crate) krate: Path,
    pub(crate) member: Member,
    pub(crate) ty: &'a Type,
}

/// The variants of an enum and the text of each.
pub(crate) struct Variants<'a> {
    pub(crate) krate: Path,
    pub(crate) idents: Vec<&'a Ident>,
    pub(crate) texts: Vec<String>,
}

impl<'a> Shape<'a> {
    /// `namespace` is the name of the attribute.
    pub(crate) fn parse(input: &'a DeriveInput, namespace: &str) -> Result<Self> {
        let refused = || {
            Error::new(
                input.ident.span(),
                "this is derived for a struct of one field, which is stored as that field, and for \
                 an enum whose variants have no fields, which is stored as text",
            )
        };
        match &input.data {
            Data::Struct(data) => {
                let container = Container::parse(input, namespace, &[], false)?;
                let mut fields = data.fields.members().zip(&data.fields);
                let (Some((member, field)), None) = (fields.next(), fields.next()) else {
                    return Err(refused());
                };
                refuse(&field.attrs, namespace, "the field of a newtype")?;
                Ok(Self::Newtype(Newtype { krate: container.krate, member, ty: &field.ty }))
            }
            Data::Enum(data) if data.variants.iter().all(|v| matches!(v.fields, Fields::Unit)) => {
                let container = Container::parse(input, namespace, &[], true)?;
                if data.variants.is_empty() {
                    return Err(refused());
                }
                variants(data, container, namespace).map(Self::Variants)
            }
            _ => Err(refused()),
        }
    }
}

fn variants<'a>(data: &'a DataEnum, container: Container, namespace: &str) -> Result<Variants<'a>> {
    let mut this = Variants { krate: container.krate, idents: Vec::new(), texts: Vec::new() };
    let mut errors = None;
    for variant in &data.variants {
        match text(variant, container.rename_all, namespace) {
            Ok((text, span)) => {
                if let Some(other) = this.texts.iter().position(|known| *known == text) {
                    let what = format!(
                        "`{}` and `{}` are both {text:?}",
                        variant.ident, this.idents[other]
                    );
                    combine(&mut errors, Error::new(span, what));
                }
                this.idents.push(&variant.ident);
                this.texts.push(text);
            }
            Err(error) => combine(&mut errors, error),
        }
    }
    errors.map_or(Ok(this), Err)
}

/// The text of a variant, and the token it comes from.
fn text(
    variant: &Variant,
    rename_all: Option<Case>,
    namespace: &str,
) -> Result<(String, proc_macro2::Span)> {
    let rename = variant_rename(&variant.attrs, namespace)?;
    let name = plain(&variant.ident);
    let text = match (&rename, rename_all) {
        (Some(text), _) => text.value(),
        (None, Some(case)) => case.apply(&name),
        (None, None) => name,
    };
    let span = rename.as_ref().map_or_else(|| variant.ident.span(), LitStr::span);
    if namespace == "key_part" && text.chars().any(char::is_control) {
        return Err(Error::new(span, "keys must not contain control characters"));
    }
    Ok((text, span))
}
