//! Parses `#[entity(..)]`, `#[property(..)]` and `#[key_part(..)]`.

use proc_macro2::Span;
use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, DeriveInput, Error, Ident, LitInt, LitStr, Path, Result, Token, parse_quote};

use crate::declaration::{Declarations, Marks};
use crate::names::{Case, did_you_mean};
use crate::serde;

/// The attributes of the struct or enum itself.
pub(crate) struct Container {
    /// The path of the client crate: `::rowkey` or the value of `crate = ".."`.
    pub(crate) krate: Path,
    pub(crate) rename_all: Option<Case>,
    pub(crate) partition: Option<LitStr>,
    pub(crate) row: Option<LitStr>,
    pub(crate) kind: Option<LitStr>,
    /// The property that holds the kind, or that distinguishes the types of a set.
    pub(crate) discriminator: Option<LitStr>,
    pub(crate) version: Option<i32>,
    /// What it declares besides its keys and properties.
    pub(crate) declarations: Declarations,
    /// Whether it is written through a store.
    pub(crate) store: Option<Span>,
    /// The library that determines the stored types of the fields.
    pub(crate) compat: Option<Ident>,
    /// Whether every row has the types of the fields.
    pub(crate) exact: bool,
    /// Whether all inserts may go to one end of the table or of a partition.
    pub(crate) append_ok: bool,
    /// The integer type as which an enum is stored.
    pub(crate) repr: Option<LitStr>,
}

/// The libraries that `compat` supports, each with its variant of `Compat`.
const LIBRARIES: [(&str, &str); 4] = [
    ("azure_data_tables-0.21", "AzureDataTables"),
    ("dotnet", "DotNet"),
    ("javascript", "JavaScript"),
    ("python", "Python"),
];

/// The types that `as` supports.
const TYPES: [&str; 6] = ["DateTime", "Double", "Guid", "Int32", "Int64", "String"];

/// The attributes of a field.
#[derive(Default)]
pub(crate) struct Field {
    pub(crate) rename: Option<LitStr>,
    pub(crate) default: Option<DefaultValue>,
    pub(crate) skip: Option<Span>,
    pub(crate) json: Option<Span>,
    /// What it declares.
    pub(crate) marks: Marks,
    /// Whether each of its entries is a property.
    pub(crate) rest: Option<Span>,
    /// The type as which it is stored, a variant of `edm::Type`.
    pub(crate) stored: Option<Ident>,
    /// Whether every row has this type.
    pub(crate) exact: Option<Span>,
    /// Whether each of its fields is a property.
    pub(crate) flatten: Option<Span>,
    /// The prefix of the property names of a flattened field.
    pub(crate) prefix: Option<LitStr>,
    /// A module whose functions convert the field.
    pub(crate) with: Option<(Path, Span)>,
    pub(crate) system: Option<(System, Span)>,
}

/// `default` or `default = "path"`.
pub(crate) struct DefaultValue {
    pub(crate) path: Option<Path>,
    pub(crate) span: Span,
}

/// The properties that every entity has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    PartitionKey,
    RowKey,
    Timestamp,
}

impl Container {
    /// Accepts the attributes in `allowed`, `crate`, and `rename_all` where names are derived.
    pub(crate) fn parse(
        input: &DeriveInput,
        namespace: &str,
        allowed: &[&str],
        names: bool,
    ) -> Result<Self> {
        let mut this = Self {
            krate: parse_quote!(::rowkey),
            rename_all: None,
            partition: None,
            row: None,
            kind: None,
            discriminator: None,
            version: None,
            declarations: Declarations::default(),
            store: None,
            compat: None,
            exact: false,
            append_ok: false,
            repr: None,
        };
        let always: &[&str] = if names { &["crate", "rename_all"] } else { &["crate"] };
        // A set has no stored form of its own.
        let of_serde: &[&str] = if namespace == "entity_set" { &[] } else { &[serde::IGNORE] };
        let allowed = [always, allowed, of_serde].concat();
        let mut ignores_serde = of_serde.is_empty();
        visit(&input.attrs, namespace, &allowed, |name, meta| {
            if this.declarations.parse(name, meta)? {
                return Ok(());
            }
            if name == "store" {
                this.store = Some(meta.path.span());
                return Ok(());
            }
            if name == "exact" {
                this.exact = true;
                return Ok(());
            }
            if name == "append_ok" {
                this.append_ok = true;
                return Ok(());
            }
            if name == serde::IGNORE {
                ignores_serde = true;
                return Ok(());
            }
            if name == "version" {
                this.version = Some(version(&meta.value()?.parse()?)?);
                return Ok(());
            }
            let text: LitStr = value(meta)?;
            match name {
                "crate" => this.krate = text.parse_with(Path::parse_mod_style)?,
                "rename_all" => this.rename_all = Some(Case::parse(&text)?),
                "partition" => this.partition = Some(text),
                "row" => this.row = Some(text),
                "discriminator" => this.discriminator = Some(text),
                "compat" => this.compat = Some(library(&text)?),
                "repr" => this.repr = Some(text),
                _ => this.kind = Some(text),
            }
            Ok(())
        })?;
        if !ignores_serde {
            serde::refuse(input, namespace)?;
        }
        Ok(this)
    }
}

impl Field {
    /// `system` if fields may receive the properties that every entity has.
    pub(crate) fn parse(attrs: &[Attribute], system: bool) -> Result<Self> {
        let mut this = Self::default();
        let own = [
            "rename", "default", "skip", "json", "rest", "as", "exact", "flatten", "prefix", "with",
        ];
        let marks = Declarations::marks();
        let of_marks: Vec<_> = marks.iter().map(|word| word.name).collect();
        let systems = ["partition_key", "row_key", "timestamp"];
        visit(attrs, "entity", &[&own[..], &of_marks[..], &systems[..]].concat(), |name, meta| {
            let span = meta.path.span();
            if !system && systems.contains(&name) {
                return Err(meta.error(format!(
                    "`{name}` is only valid in projections: the keys of an entity are made by its \
                     templates, and its Timestamp is in `Stored`"
                )));
            }
            if let Some(word) = marks.iter().find(|word| word.name == name) {
                return this.marks.parse(word, meta, system);
            }
            match name {
                "rename" => this.rename = Some(value(meta)?),
                "default" => {
                    let path = if meta.input.peek(Token![=]) {
                        Some(value(meta)?.parse_with(Path::parse_mod_style)?)
                    } else {
                        None
                    };
                    this.default = Some(DefaultValue { path, span });
                }
                "skip" => this.skip = Some(span),
                "json" => this.json = Some(span),
                "rest" if system => {
                    return Err(meta.error(
                        "`rest` is only valid in entities: projections name their properties",
                    ));
                }
                "rest" => this.rest = Some(span),
                "as" => this.stored = Some(stored(&value(meta)?)?),
                "exact" if system => {
                    return Err(meta
                        .error("`exact` is only valid in entities: projections have no columns"));
                }
                "exact" => this.exact = Some(span),
                "flatten" => this.flatten = Some(span),
                "prefix" => this.prefix = Some(value(meta)?),
                "with" => {
                    this.with = Some((value(meta)?.parse_with(Path::parse_mod_style)?, span));
                }
                "partition_key" => this.system = Some((System::PartitionKey, span)),
                "row_key" => this.system = Some((System::RowKey, span)),
                _ => this.system = Some((System::Timestamp, span)),
            }
            Ok(())
        })?;
        Ok(this)
    }
}

/// The attributes of a variant.
#[derive(Default)]
pub(crate) struct Variant {
    pub(crate) rename: Option<LitStr>,
    /// Whether it holds all values that match no other variant.
    pub(crate) other: Option<Span>,
}

impl Variant {
    pub(crate) fn parse(attrs: &[Attribute], namespace: &str) -> Result<Self> {
        let mut this = Self::default();
        let allowed: &[&str] =
            if namespace == "property" { &["rename", "other"] } else { &["rename"] };
        visit(attrs, namespace, allowed, |name, meta| {
            match name {
                "rename" => this.rename = Some(value(meta)?),
                _ => this.other = Some(meta.path.span()),
            }
            Ok(())
        })?;
        Ok(this)
    }
}

/// Refuses attributes where they have no meaning.
pub(crate) fn refuse(attrs: &[Attribute], namespace: &str, place: &str) -> Result<()> {
    match attrs.iter().find(|attr| attr.path().is_ident(namespace)) {
        Some(attr) => {
            Err(Error::new_spanned(attr, format!("`{namespace}` has no effect on {place}")))
        }
        None => Ok(()),
    }
}

/// Calls `one` for each attribute, after checking that it is allowed and given only once.
pub(crate) fn visit(
    attrs: &[Attribute],
    namespace: &str,
    allowed: &[&str],
    mut one: impl FnMut(&str, &ParseNestedMeta) -> Result<()>,
) -> Result<()> {
    let mut seen = Vec::new();
    for attr in attrs.iter().filter(|attr| attr.path().is_ident(namespace)) {
        attr.parse_nested_meta(|meta| {
            known(&meta, namespace, allowed, &mut seen).and_then(|name| one(&name, &meta))
        })?;
    }
    Ok(())
}

/// Like `visit`, for the attributes in parentheses after a name.
pub(crate) fn nested(
    meta: &ParseNestedMeta,
    namespace: &str,
    allowed: &[&str],
    mut one: impl FnMut(&str, &ParseNestedMeta) -> Result<()>,
) -> Result<()> {
    let mut seen = Vec::new();
    meta.parse_nested_meta(|meta| {
        known(&meta, namespace, allowed, &mut seen).and_then(|name| one(&name, &meta))
    })
}

/// The name, if it is allowed and not given twice.
fn known(
    meta: &ParseNestedMeta,
    namespace: &str,
    allowed: &[&str],
    seen: &mut Vec<String>,
) -> Result<String> {
    let name = meta.path.to_token_stream().to_string();
    if !allowed.contains(&&*name) {
        let hint = did_you_mean(&name, allowed.iter().copied());
        return Err(meta.error(format!("`{namespace}` has no attribute `{name}` here{hint}")));
    }
    if seen.contains(&name) && !Declarations::is_repeated(&name) {
        return Err(meta.error(format!("duplicate attribute `{name}`")));
    }
    seen.push(name.clone());
    Ok(name)
}

/// The variant of `Compat` for the name of a library.
fn library(text: &LitStr) -> Result<Ident> {
    let name = text.value();
    let known = LIBRARIES.iter().find(|(known, _)| *known == name);
    let (_, variant) = known.ok_or_else(|| {
        let names = LIBRARIES.map(|(name, _)| format!("`{name}`")).join(", ");
        Error::new(text.span(), format!("`compat` must be one of {names}"))
    })?;
    Ok(Ident::new(variant, text.span()))
}

/// The variant of `edm::Type` for the name of a type.
fn stored(text: &LitStr) -> Result<Ident> {
    let name = text.value();
    if !TYPES.contains(&&*name) {
        let names = TYPES.map(|name| format!("`{name}`")).join(", ");
        return Err(Error::new(text.span(), format!("`as` must be one of {names}")));
    }
    Ok(Ident::new(&name, text.span()))
}

fn version(number: &LitInt) -> Result<i32> {
    let version = number.base10_parse().ok().filter(|version| *version >= 1);
    let what = "`version` must be between 1 and 2147483647";
    version.ok_or_else(|| Error::new(number.span(), what))
}

pub(crate) fn value(meta: &ParseNestedMeta) -> Result<LitStr> {
    meta.value()?.parse()
}
