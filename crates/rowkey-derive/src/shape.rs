//! Types with a single value: newtypes, and enums without fields.

use syn::spanned::Spanned as _;
use syn::{
    Data, DataEnum, DeriveInput, Error, Expr, Fields, Ident, Lit, LitStr, Member, Path, Result,
    Type, UnOp, Variant,
};

use crate::attrs::{self, Container, refuse};
use crate::model::{combine, plain};
use crate::names::Case;
use crate::types::{refuse_generics, refuse_lifetimes};

pub(crate) enum Shape<'a> {
    Newtype(Newtype<'a>),
    Variants(Variants<'a>),
    Numbers(Numbers<'a>),
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
    pub(crate) other: Option<Other<'a>>,
}

/// The variants of an enum and the number of each.
pub(crate) struct Numbers<'a> {
    pub(crate) krate: Path,
    pub(crate) idents: Vec<&'a Ident>,
    pub(crate) values: Vec<i64>,
    /// `Int32` or `Int64`.
    pub(crate) repr: Ident,
    pub(crate) other: Option<Other<'a>>,
}

/// The variant that holds values that match no other variant.
pub(crate) struct Other<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) ty: &'a Type,
}

impl<'a> Shape<'a> {
    /// `namespace` is the name of the attribute.
    pub(crate) fn parse(input: &'a DeriveInput, namespace: &str) -> Result<Self> {
        let is_property = namespace == "property";
        let refused = || {
            let other = if is_property {
                " or a number; one variant may hold all other values, with `#[property(other)]`"
            } else {
                ""
            };
            Error::new(
                input.ident.span(),
                format!(
                    "this derive requires a struct with one field, which is stored as that field, \
                     or an enum whose variants have no fields, which is stored as text{other}"
                ),
            )
        };
        match &input.data {
            Data::Struct(data) => {
                refuse_lifetimes(&input.generics, derive(namespace))?;
                let container = Container::parse(input, namespace, &[], false)?;
                let mut fields = data.fields.members().zip(&data.fields);
                let (Some((member, field)), None) = (fields.next(), fields.next()) else {
                    return Err(refused());
                };
                refuse(&field.attrs, namespace, "the field of a newtype")?;
                Ok(Self::Newtype(Newtype { krate: container.krate, member, ty: &field.ty }))
            }
            Data::Enum(data) => {
                refuse_generics(&input.generics, derive(namespace))?;
                let allowed: &[&str] = if is_property { &["repr"] } else { &[] };
                let container = Container::parse(input, namespace, allowed, true)?;
                let (variants, other) = variants(data, namespace, &refused)?;
                match container.repr.clone() {
                    Some(repr) => numbers(&variants, other, container, &repr).map(Self::Numbers),
                    None => texts(&variants, other, container).map(Self::Variants),
                }
            }
            Data::Union(_) => Err(refused()),
        }
    }
}

fn derive(namespace: &str) -> &'static str {
    if namespace == "property" { "Property" } else { "KeyPart" }
}

type Named<'a> = (&'a Variant, Option<LitStr>);

/// The variants with one value each, with their other names, and the variant for all other values.
fn variants<'a>(
    data: &'a DataEnum,
    namespace: &str,
    refused: &dyn Fn() -> Error,
) -> Result<(Vec<Named<'a>>, Option<Other<'a>>)> {
    let (mut named, mut other, mut errors) = (Vec::new(), None, None);
    let is_key = namespace == "key_part";
    for variant in &data.variants {
        let attrs::Variant { rename, other: is_other } =
            match attrs::Variant::parse(&variant.attrs, namespace) {
                Ok(attrs) => attrs,
                Err(error) => {
                    combine(&mut errors, error);
                    continue;
                }
            };
        match (&variant.fields, is_other) {
            (Fields::Unit, None) => {
                let is_control = |text: &LitStr| text.value().chars().any(char::is_control);
                if let Some(text) = rename.as_ref().filter(|text| is_key && is_control(text)) {
                    let what = "keys must not contain control characters";
                    combine(&mut errors, Error::new(text.span(), what));
                }
                named.push((variant, rename));
            }
            (Fields::Unnamed(fields), Some(span)) if fields.unnamed.len() == 1 => {
                if let Some(rename) = rename {
                    let what = "a variant with `other` cannot have a `rename`";
                    combine(&mut errors, Error::new(rename.span(), what));
                }
                if other.is_some() {
                    let what = "duplicate `other`: only one variant can hold all other values";
                    combine(&mut errors, Error::new(span, what));
                }
                other = Some(Other { ident: &variant.ident, ty: &fields.unnamed[0].ty });
            }
            (_, Some(span)) => {
                let what = "a variant with `other` must have one field: `Other(String)`";
                combine(&mut errors, Error::new(span, what));
            }
            (_, None) => combine(&mut errors, refused()),
        }
    }
    if named.is_empty() && errors.is_none() {
        errors = Some(refused());
    }
    errors.map_or(Ok((named, other)), Err)
}

fn texts<'a>(
    variants: &[Named<'a>],
    other: Option<Other<'a>>,
    container: Container,
) -> Result<Variants<'a>> {
    let mut this =
        Variants { krate: container.krate, idents: Vec::new(), texts: Vec::new(), other };
    let mut errors = None;
    for (variant, rename) in variants {
        let text = text(variant, rename.as_ref(), container.rename_all);
        if let Some(known) = this.texts.iter().position(|known| *known == text) {
            let span = rename.as_ref().map_or_else(|| variant.ident.span(), LitStr::span);
            let what =
                format!("`{}` and `{}` are both {text:?}", variant.ident, this.idents[known]);
            combine(&mut errors, Error::new(span, what));
        }
        this.idents.push(&variant.ident);
        this.texts.push(text);
    }
    errors.map_or(Ok(this), Err)
}

/// The text of a variant.
fn text(variant: &Variant, rename: Option<&LitStr>, rename_all: Option<Case>) -> String {
    let name = plain(&variant.ident);
    match (rename, rename_all) {
        (Some(text), _) => text.value(),
        (None, Some(case)) => case.apply(&name),
        (None, None) => name,
    }
}

fn numbers<'a>(
    variants: &[Named<'a>],
    other: Option<Other<'a>>,
    container: Container,
    repr: &LitStr,
) -> Result<Numbers<'a>> {
    let range = match &*repr.value() {
        "Int32" => i64::from(i32::MIN)..=i64::from(i32::MAX),
        "Int64" => i64::MIN..=i64::MAX,
        _ => {
            let what = "`repr` must be \"Int32\" or \"Int64\"";
            return Err(Error::new(repr.span(), what));
        }
    };
    let mut this = Numbers {
        krate: container.krate,
        idents: Vec::new(),
        values: Vec::new(),
        repr: Ident::new(&repr.value(), repr.span()),
        other,
    };
    let mut errors = None;
    if container.rename_all.is_some() {
        let what = "`rename_all` requires variants that are stored as text; remove it, or `repr`";
        combine(&mut errors, Error::new(repr.span(), what));
    }
    let mut next = Some(0_i64);
    for (variant, rename) in variants {
        if let Some(rename) = rename {
            let what = "`rename` requires variants that are stored as text";
            combine(&mut errors, Error::new(rename.span(), what));
        }
        let (number, span) = match &variant.discriminant {
            Some((_, expr)) => (literal(expr), expr.span()),
            None => (next, variant.ident.span()),
        };
        let Some(number) = number.filter(|number| range.contains(number)) else {
            let what = format!(
                "a discriminant must be an integer literal within the range of {}",
                repr.value()
            );
            combine(&mut errors, Error::new(span, what));
            continue;
        };
        next = number.checked_add(1);
        this.idents.push(&variant.ident);
        this.values.push(number);
    }
    errors.map_or(Ok(this), Err)
}

/// The value of `3` or `-3`.
fn literal(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Lit(one) => match &one.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            // Parsed with its sign, because the smallest number is valid only with it.
            let Expr::Lit(one) = &*unary.expr else { return None };
            let Lit::Int(number) = &one.lit else { return None };
            format!("-{}", number.base10_digits()).parse().ok()
        }
        Expr::Group(group) => literal(&group.expr),
        Expr::Paren(paren) => literal(&paren.expr),
        _ => None,
    }
}
