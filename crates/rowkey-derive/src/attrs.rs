//! Parses `#[entity(..)]`, `#[property(..)]` and `#[key_part(..)]`.

use proc_macro2::Span;
use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, DeriveInput, Error, Ident, LitInt, LitStr, Path, Result, Token, parse_quote};

use crate::names::{Case, did_you_mean};
use crate::serde;

/// The attributes that may be given several times.
const INDEX: &str = "index";
const UNIQUE: &str = "unique";
const LIST: &str = "list";

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
    /// The type of the previous version.
    pub(crate) from: Option<syn::Type>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) lists: Vec<List>,
    /// Whether it is written through a store.
    pub(crate) store: Option<Span>,
    /// The maximum number of rows of an entity.
    pub(crate) wide: Option<LitInt>,
    /// Whether each property of a wide entity has a row of its own choice, and the first characters that choose it.
    pub(crate) parts: Option<(Option<LitInt>, Span)>,
    /// The library that determines the stored types of the fields.
    pub(crate) compat: Option<Ident>,
    /// Whether every row has the types of the fields.
    pub(crate) exact: bool,
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

/// `index(name = by_email, row = "email_{email:lower}", ..)`.
pub(crate) struct Index {
    pub(crate) name: Ident,
    pub(crate) partition: Option<LitStr>,
    /// The table of its rows; `None` for the table of the entities.
    pub(crate) table: Option<LitStr>,
    pub(crate) row: LitStr,
    pub(crate) many: bool,
    /// Whether it is a `unique(..)`, whose rows only claim the value in `partition`.
    pub(crate) claims: bool,
    /// The number of partitions over which the claims of a `unique(..)` are spread; `None` if each claim has its
    /// own.
    pub(crate) buckets: Option<LitInt>,
    /// The fields that copies have; `None` for all.
    pub(crate) copy: Option<Vec<Ident>>,
    /// A condition that the entity must meet to be in the index.
    pub(crate) when: Option<Path>,
}

/// `list(name = by_tag, value = "{tags}", max = 8)`.
pub(crate) struct List {
    pub(crate) name: Ident,
    /// The partition of its rows; `None` for the partition of the entities.
    pub(crate) partition: Option<LitStr>,
    /// The table of its rows; `None` for the table of the entities.
    pub(crate) table: Option<LitStr>,
    pub(crate) value: LitStr,
    /// The maximum number of values of an entity.
    pub(crate) max: Option<LitInt>,
    /// Whether each value has a blob instead of a row.
    pub(crate) blob: bool,
    /// A condition that the entity must meet to be in the list.
    pub(crate) when: Option<Path>,
}

/// The attributes of a field.
#[derive(Default)]
pub(crate) struct Field {
    pub(crate) rename: Option<LitStr>,
    pub(crate) default: Option<DefaultValue>,
    pub(crate) skip: Option<Span>,
    pub(crate) json: Option<Span>,
    pub(crate) encrypt: Option<Span>,
    pub(crate) blob: Option<Span>,
    /// The largest value in a blob's field that stays in the row.
    pub(crate) threshold: Option<LitInt>,
    /// Whether its blob is compressed.
    pub(crate) compress: Option<Span>,
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
    /// Whether the entity is expired from this time on.
    pub(crate) expiry: Option<Span>,
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
            from: None,
            indexes: Vec::new(),
            lists: Vec::new(),
            store: None,
            wide: None,
            parts: None,
            compat: None,
            exact: false,
            repr: None,
        };
        let always: &[&str] = if names { &["crate", "rename_all"] } else { &["crate"] };
        // A set has no stored form of its own.
        let of_serde: &[&str] = if namespace == "entity_set" { &[] } else { &[serde::IGNORE] };
        let allowed = [always, allowed, of_serde].concat();
        let mut ignores_serde = of_serde.is_empty();
        visit(&input.attrs, namespace, &allowed, |name, meta| {
            if name == INDEX {
                this.indexes.push(Index::parse(meta)?);
                return Ok(());
            }
            if name == UNIQUE {
                this.indexes.push(Index::parse_unique(meta)?);
                return Ok(());
            }
            if name == LIST {
                this.lists.push(List::parse(meta)?);
                return Ok(());
            }
            if name == "store" {
                this.store = Some(meta.path.span());
                return Ok(());
            }
            if name == "wide" {
                this.wide = Some(meta.value()?.parse()?);
                return Ok(());
            }
            if name == "parts" {
                let number = meta.input.peek(syn::Token![=]).then(|| meta.value()?.parse());
                this.parts = Some((number.transpose()?, meta.path.span()));
                return Ok(());
            }
            if name == "exact" {
                this.exact = true;
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
            if name == "from" {
                this.from = Some(meta.value()?.parse()?);
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

impl Index {
    fn parse(meta: &ParseNestedMeta) -> Result<Self> {
        let (mut name, mut partition, mut table, mut row) = (None, None, None, None);
        let (mut many, mut copy, mut when) = (false, None, None);
        let allowed = ["copy", "many", "name", "partition", "row", "table", "when"];
        nested(meta, INDEX, &allowed, |word, meta| {
            match word {
                "copy" => {
                    let mut fields = Vec::new();
                    meta.parse_nested_meta(|meta| {
                        let field = meta.path.require_ident()?;
                        if fields.contains(field) {
                            return Err(meta.error(format!("duplicate attribute `{field}`")));
                        }
                        fields.push(field.clone());
                        Ok(())
                    })?;
                    copy = Some(fields);
                }
                "many" => many = true,
                "name" => name = Some(meta.value()?.parse::<Ident>()?),
                "partition" => partition = Some(value(meta)?),
                "row" => row = Some(value(meta)?),
                "table" => table = Some(table_name(meta)?),
                _ => when = Some(value(meta)?.parse_with(Path::parse_mod_style)?),
            }
            Ok(())
        })?;
        let (Some(name), Some(row)) = (name, row) else {
            return Err(meta.error(
                "an index requires a name and a template: index(name = by_email, row = \
                 \"email_{email}\")",
            ));
        };
        beside(partition.as_ref(), table.as_ref())?;
        Ok(Self { name, partition, table, row, many, claims: false, buckets: None, copy, when })
    }

    /// `unique(name = by_number, value = "{number}", buckets = 16)`: its rows are in partitions named after the
    /// value, or after its bucket.
    fn parse_unique(meta: &ParseNestedMeta) -> Result<Self> {
        let (mut name, mut template, mut buckets, mut when) = (None, None, None, None);
        nested(meta, UNIQUE, &["buckets", "name", "value", "when"], |word, meta| {
            match word {
                "buckets" => buckets = Some(meta.value()?.parse::<LitInt>()?),
                "name" => name = Some(meta.value()?.parse::<Ident>()?),
                "value" => template = Some(value(meta)?),
                _ => when = Some(value(meta)?.parse_with(Path::parse_mod_style)?),
            }
            Ok(())
        })?;
        let (Some(name), Some(template)) = (name, template) else {
            return Err(meta.error(
                "a unique value requires a name and a template: unique(name = by_number, value = \
                 \"{number}\")",
            ));
        };
        let (span, copy) = (template.span(), Some(Vec::new()));
        let (partition, row) = if buckets.is_some() {
            (LitStr::new("", span), LitStr::new(&format!("claim_{}", template.value()), span))
        } else {
            (template, LitStr::new("claim", span))
        };
        let (partition, table) = (Some(partition), None);
        Ok(Self { name, partition, table, row, many: false, claims: true, buckets, copy, when })
    }
}

/// The name of a table, which the service would accept.
fn table_name(meta: &ParseNestedMeta) -> Result<LitStr> {
    let table: LitStr = value(meta)?;
    let name = table.value();
    let is_valid = (3..=63).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && !name.eq_ignore_ascii_case("tables");
    if is_valid {
        return Ok(table);
    }
    let what = "a table name has 3 to 63 letters and digits and begins with a letter";
    Err(Error::new(table.span(), what))
}

/// Checks that rows in another table have a partition there.
fn beside(partition: Option<&LitStr>, table: Option<&LitStr>) -> Result<()> {
    match (partition, table) {
        (None, Some(table)) => {
            let what = "`table` requires `partition`, the partition of the rows in that table";
            Err(Error::new(table.span(), what))
        }
        _ => Ok(()),
    }
}

impl List {
    fn parse(meta: &ParseNestedMeta) -> Result<Self> {
        let (mut name, mut template, mut max, mut when) = (None, None, None, None);
        let (mut partition, mut table, mut blob) = (None, None, false);
        nested(
            meta,
            LIST,
            &["blob", "max", "name", "partition", "table", "value", "when"],
            |word, meta| {
                match word {
                    "blob" => blob = true,
                    "max" => max = Some(meta.value()?.parse::<LitInt>()?),
                    "name" => name = Some(meta.value()?.parse::<Ident>()?),
                    "partition" => partition = Some(value(meta)?),
                    "table" => table = Some(table_name(meta)?),
                    "value" => template = Some(value(meta)?),
                    _ => when = Some(value(meta)?.parse_with(Path::parse_mod_style)?),
                }
                Ok(())
            },
        )?;
        let (Some(name), Some(value)) = (name, template) else {
            return Err(meta.error(
                "a list requires a name and a template: list(name = by_tag, value = \"{tags}\", \
                 max = 8)",
            ));
        };
        beside(partition.as_ref(), table.as_ref())?;
        Ok(Self { name, partition, table, value, max, blob, when })
    }
}

impl Field {
    /// `system` if fields may receive the properties that every entity has.
    pub(crate) fn parse(attrs: &[Attribute], system: bool) -> Result<Self> {
        let mut this = Self::default();
        let own = [
            "rename",
            "default",
            "skip",
            "json",
            "encrypt",
            "blob",
            "threshold",
            "compress",
            "rest",
            "as",
            "exact",
            "flatten",
            "prefix",
            "with",
            "expiry",
        ];
        let systems = ["partition_key", "row_key", "timestamp"];
        visit(attrs, "entity", &[&own[..], &systems[..]].concat(), |name, meta| {
            let span = meta.path.span();
            if !system && systems.contains(&name) {
                return Err(meta.error(format!(
                    "`{name}` is only valid in projections: the keys of an entity are made by its \
                     templates, and its Timestamp is in `Stored`"
                )));
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
                "encrypt" if system => {
                    return Err(meta
                        .error("`encrypt` is only valid in entities: projections do not decrypt"));
                }
                "encrypt" => this.encrypt = Some(span),
                "blob" => this.blob = Some(span),
                "threshold" => this.threshold = Some(meta.value()?.parse()?),
                "compress" => this.compress = Some(span),
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
                "expiry" if system => {
                    return Err(meta.error(
                        "`expiry` is only valid in entities: projections are read without a store",
                    ));
                }
                "expiry" => this.expiry = Some(span),
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
fn nested(
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
    if seen.contains(&name) && ![INDEX, LIST, UNIQUE].contains(&&*name) {
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

fn value(meta: &ParseNestedMeta) -> Result<LitStr> {
    meta.value()?.parse()
}
