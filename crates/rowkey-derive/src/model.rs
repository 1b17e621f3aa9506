//! A struct that is an entity or a projection, and what becomes of each of its fields.

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{
    Data, DeriveInput, Error, Fields, GenericArgument, Generics, Ident, LitInt, LitStr, Path,
    PathArguments, Result, Type, Visibility,
};

use crate::attrs::{Container, DefaultValue, Field as Attrs, System};
use crate::index::{self, Index};
use crate::list::{self, List};
use crate::names::{Case, check_property, constant};
use crate::template::Template;

/// The most properties that an entity has besides its keys and its Timestamp.
const MAX_PROPERTIES: usize = 252;

/// The property that tells the type where the rows do not.
pub(crate) const KIND: &str = "EntityType";

/// The property that tells the version of the type.
pub(crate) const VERSION: &str = "EntityVersion";

/// A struct and what its attributes say.
pub(crate) struct Model<'a> {
    pub(crate) krate: Path,
    pub(crate) vis: &'a Visibility,
    pub(crate) ident: &'a Ident,
    pub(crate) fields: Vec<Field<'a>>,
    pub(crate) kind: Option<LitStr>,
    pub(crate) version: Option<i32>,
    /// The type of the version before.
    pub(crate) from: Option<Type>,
    /// The most rows of an entity.
    pub(crate) wide: Option<LitInt>,
}

/// The rows that `wide` may allow: the other operations of a transaction are the op row and one more.
const WIDE: std::ops::RangeInclusive<usize> = 2..=98;

/// The properties of further rows that are the entity's.
const IN_FURTHER: usize = 249;

/// The templates of an entity.
pub(crate) struct Keys {
    pub(crate) partition: Template,
    pub(crate) row: Template,
    pub(crate) indexes: Vec<Index>,
    pub(crate) lists: Vec<List>,
    /// Whether the entity is written through a store.
    pub(crate) store: bool,
}

pub(crate) struct Field<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) ty: &'a Type,
    pub(crate) role: Role,
}

/// What becomes of a field.
pub(crate) enum Role {
    /// It is in a key template.
    Key,
    /// It is stored under this name.
    Property {
        name: String,
        json: bool,
        encrypt: bool,
        /// Whether its value is in a blob.
        blob: bool,
        default: Option<DefaultValue>,
    },
    /// Each of its entries is stored under its own name.
    Rest,
    /// It is not stored.
    Skipped(Option<DefaultValue>),
    /// It receives one of the properties that every entity has.
    System(System),
}

impl<'a> Model<'a> {
    pub(crate) fn entity(input: &'a DeriveInput) -> Result<(Self, Keys)> {
        let allowed = [
            "partition",
            "row",
            "kind",
            "version",
            "from",
            "index",
            "list",
            "unique",
            "store",
            "wide",
        ];
        let mut container = Container::parse(input, "entity", &allowed, true)?;
        let fields = named_fields(input, "Entity")?;
        let (Some(partition), Some(row)) = (container.partition.take(), container.row.take())
        else {
            return Err(Error::new(
                input.ident.span(),
                "an entity names the templates of both keys: \
                 #[entity(partition = \"{department}\", row = \"id_{id}\")]",
            ));
        };
        let names: Vec<_> = fields.iter().filter_map(|f| f.ident.as_ref()).map(plain).collect();
        let template = |literal: &LitStr, is_row: bool| -> Result<Template> {
            let mut template = Template::parse(literal, is_row)?;
            template.resolve(&input.ident, &names)?;
            Ok(template)
        };
        let mut keys = match (template(&partition, false), template(&row, true)) {
            (Ok(partition), Ok(row)) => {
                Keys { partition, row, indexes: Vec::new(), lists: Vec::new(), store: false }
            }
            (Err(mut partition), Err(row)) => {
                partition.combine(row);
                return Err(partition);
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        let declared = std::mem::take(&mut container.indexes);
        let lists = std::mem::take(&mut container.lists);
        let store = container.store;
        let is_key = |i| keys.partition.values().chain(keys.row.values()).any(|p| p.index == i);
        let model = Self::new(input, container, fields, is_key, false)?;
        model.check_buckets(&keys.partition)?;
        keys.indexes = index::indexes(&model, &keys, declared, &names)?;
        keys.lists = list::lists(&model, &keys, lists, &names)?;
        keys.store = store.is_some();
        crate::store::check(&model, &keys, store)?;
        Ok((model, keys))
    }

    pub(crate) fn projection(input: &'a DeriveInput) -> Result<Self> {
        let container =
            Container::parse(input, "entity", &["partition", "row", "kind", "version"], true)?;
        if let Some(text) = container.partition.as_ref().or(container.row.as_ref()) {
            return Err(Error::new(
                text.span(),
                "a projection is only read and has no key templates; a field of it receives a key \
                 with `#[entity(partition_key)]` or `#[entity(row_key)]`",
            ));
        }
        if let Some(kind) = &container.kind {
            return Err(Error::new(kind.span(), "`kind` is for entities: a projection is of one"));
        }
        if container.version.is_some() {
            let what = "`version` is for entities: a projection is of any version";
            return Err(Error::new(input.ident.span(), what));
        }
        Self::new(input, container, named_fields(input, "Projection")?, |_| false, true)
    }

    fn new(
        input: &'a DeriveInput,
        container: Container,
        declared: &'a Fields,
        is_key: impl Fn(usize) -> bool,
        system: bool,
    ) -> Result<Self> {
        let mut errors = None;
        let mut fields = Vec::new();
        for (i, field) in declared.iter().enumerate() {
            let Some(ident) = &field.ident else { continue };
            let role = Attrs::parse(&field.attrs, system)
                .and_then(|attrs| role(ident, attrs, is_key(i), container.rename_all));
            match role {
                Ok(role) => fields.push(Field { ident, ty: &field.ty, role }),
                Err(error) => combine(&mut errors, error),
            }
        }
        let Container { krate, kind, version, from, wide, .. } = container;
        let own = usize::from(kind.is_some()) + usize::from(version.is_some());
        let limit = match rows(wide.as_ref()) {
            Ok(rows) => MAX_PROPERTIES - own + (rows - 1) * IN_FURTHER,
            Err(error) => {
                combine(&mut errors, error);
                usize::MAX
            }
        };
        check_names(&fields, (kind.is_some(), version.is_some(), limit), !system, &mut errors);
        let (vis, ident) = (&input.vis, &input.ident);
        errors.map_or(Ok(Self { krate, vis, ident, fields, kind, version, from, wide }), Err)
    }

    /// A bucket is of a value that every entity has and that the row shows.
    fn check_buckets(&self, partition: &Template) -> Result<()> {
        let unfit = partition.parts().filter(|part| part.bucket.is_some()).find(|part| {
            let field = &self.fields[part.index];
            let is_shown = match field.role {
                Role::Key => true,
                Role::Property { json, encrypt, blob, .. } => !json && !encrypt && !blob,
                Role::Rest | Role::Skipped(_) | Role::System(_) => false,
            };
            !is_shown || option_of(field.ty).is_some()
        });
        let Some(part) = unfit else { return Ok(()) };
        let what = format!(
            "`{{{}:bucket(..)}}`: a bucket is of a part of the RowKey, or of a property that is \
             stored as it is and never absent",
            part.field
        );
        Err(Error::new(partition.literal.span(), what))
    }

    /// The names of the properties that are to be encrypted, in the order of the fields.
    pub(crate) fn encrypted(&self) -> Vec<&str> {
        let encrypted = self.fields.iter().filter_map(|field| match &field.role {
            Role::Property { name, encrypt: true, .. } => Some(name.as_str()),
            _ => None,
        });
        encrypted.collect()
    }

    /// The names of the properties whose values are in blobs, in the order of the fields.
    pub(crate) fn blobs(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().filter_map(|field| match &field.role {
            Role::Property { name, blob: true, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// The most rows of an entity.
    pub(crate) fn rows(&self) -> usize {
        // It was checked when the attributes were read.
        rows(self.wide.as_ref()).unwrap_or(1)
    }

    /// Whether a field takes the properties that no other field names.
    pub(crate) fn has_rest(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.role, Role::Rest))
    }

    /// The names of the stored properties, in the order of the fields.
    pub(crate) fn properties(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().filter_map(|field| match &field.role {
            Role::Property { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }
}

/// The name of a field without `r#`.
pub(crate) fn plain(ident: &Ident) -> String {
    ident.unraw().to_string()
}

/// The `T` of `Option<T>`, as far as it can be told from how it is written.
pub(crate) fn option_of(ty: &Type) -> Option<&Type> {
    argument_of(ty, "Option")
}

/// The `T` of `Vec<T>` or `Option<Vec<T>>`, as far as it can be told from how it is written.
pub(crate) fn vec_of(ty: &Type) -> Option<&Type> {
    argument_of(option_of(ty).unwrap_or(ty), "Vec")
}

fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let path = match ty {
        Type::Path(path) => path,
        // A type that a `macro_rules!` macro took as `$t:ty`.
        Type::Group(group) => return argument_of(&group.elem, name),
        _ => return None,
    };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) if arguments.args.len() == 1 => Some(inner),
        _ => None,
    }
}

/// Where code about a type is said to be, so that a type that lacks a trait is pointed at. Names in
/// that code still mean what they mean in the rest of it, `self` in a macro for instance.
pub(crate) fn at(ty: &Type) -> Span {
    Span::call_site().located_at(ty.span())
}

/// Refuses generic parameters.
pub(crate) fn refuse_generics(generics: &Generics, derive: &str) -> Result<()> {
    if generics.params.is_empty() {
        return Ok(());
    }
    Err(Error::new_spanned(
        generics,
        format!(
            "`{derive}` is derived for types without generic parameters: what is stored must not \
             depend on them, and what is read borrows nothing"
        ),
    ))
}

pub(crate) fn combine(errors: &mut Option<Error>, error: Error) {
    match errors {
        Some(errors) => errors.combine(error),
        None => *errors = Some(error),
    }
}

fn named_fields<'a>(input: &'a DeriveInput, derive: &str) -> Result<&'a Fields> {
    refuse_generics(&input.generics, derive)?;
    match &input.data {
        Data::Struct(data) if matches!(data.fields, Fields::Named(_)) => Ok(&data.fields),
        _ => Err(Error::new(
            input.ident.span(),
            format!(
                "`{derive}` is derived for structs with named fields: their names become the names \
                 of the properties"
            ),
        )),
    }
}

fn role(ident: &Ident, attrs: Attrs, is_key: bool, rename_all: Option<Case>) -> Result<Role> {
    let Attrs { rename, default, skip, json, encrypt, blob, rest, system } = attrs;
    let (renamed, defaulted) =
        (rename.as_ref().map(LitStr::span), default.as_ref().map(|d| d.span));
    let conflict = |spans: [Option<Span>; 7], why: &str| match spans.into_iter().flatten().next() {
        Some(span) => Err(Error::new(span, format!("this does nothing: `{}` {why}", plain(ident)))),
        None => Ok(()),
    };
    if is_key {
        conflict(
            [renamed, defaulted, skip, json, encrypt, blob, rest],
            "is part of a key and not stored as a property",
        )?;
        return Ok(Role::Key);
    }
    if let Some((system, _)) = system {
        conflict(
            [renamed, defaulted, skip, json, encrypt, blob, rest],
            "receives a property that every entity has",
        )?;
        return Ok(Role::System(system));
    }
    if skip.is_some() {
        let why = "is skipped and not stored as a property";
        conflict([renamed, json, encrypt, blob, rest, None, None], why)?;
        return Ok(Role::Skipped(default));
    }
    if rest.is_some() {
        let why = "is no property: each of its entries is one, under its own name";
        conflict([renamed, defaulted, json, encrypt, blob, None, None], why)?;
        return Ok(Role::Rest);
    }
    let name = match (&rename, rename_all) {
        (Some(name), _) => name.value(),
        (None, Some(case)) => case.apply(&plain(ident)),
        (None, None) => plain(ident),
    };
    let span = renamed.unwrap_or_else(|| ident.span());
    check_property(&name).map_err(|what| Error::new(span, what))?;
    if let Some(blob) = blob.filter(|_| encrypt.is_some() || default.is_some()) {
        let what = if encrypt.is_some() {
            "a field in a blob is not encrypted; remove `encrypt`, and store bytes that are encrypted already"
        } else {
            "a field in a blob that is absent is `Default::default()`; remove `default`"
        };
        return Err(Error::new(blob, what));
    }
    Ok(Role::Property {
        name,
        json: json.is_some(),
        encrypt: encrypt.is_some(),
        blob: blob.is_some(),
        default,
    })
}

/// The most rows of an entity.
fn rows(wide: Option<&LitInt>) -> Result<usize> {
    let Some(number) = wide else { return Ok(1) };
    number.base10_parse().ok().filter(|rows| WIDE.contains(rows)).ok_or_else(|| {
        let (least, most) = (WIDE.start(), WIDE.end());
        let what = format!(
            "`wide` is the most rows of an entity, {least} to {most}: one transaction writes them, and \
             has 100 operations"
        );
        Error::new(number.span(), what)
    })
}

/// Refuses names that are taken, and more properties than the service keeps.
fn check_names(
    fields: &[Field<'_>],
    (kind, version, limit): (bool, bool, usize),
    columns: bool,
    errors: &mut Option<Error>,
) {
    let mut properties: Vec<(&Ident, &str)> = Vec::new();
    let mut open = fields.iter().filter(|field| matches!(field.role, Role::Rest));
    if let (Some(first), Some(second)) = (open.next(), open.next()) {
        let what = format!(
            "`{}` takes the properties that no field names already; one field has `rest`",
            first.ident
        );
        combine(errors, Error::new(second.ident.span(), what));
    }
    for field in fields {
        let Role::Property { name, json, blob, .. } = &field.role else { continue };
        let ident = field.ident;
        if matches!(&**name, "PartitionKey" | "RowKey" | "Timestamp") {
            let what = format!("the service itself keeps a property `{name}` in every entity");
            combine(errors, Error::new(ident.span(), what));
        } else if kind && name == KIND {
            let what = format!("`kind` keeps the kind in the property `{KIND}`");
            combine(errors, Error::new(ident.span(), what));
        } else if version && name == VERSION {
            let what = format!("`version` keeps the version in the property `{VERSION}`");
            combine(errors, Error::new(ident.span(), what));
        } else if let Some((other, _)) = properties.iter().find(|(_, known)| known == name) {
            let what = format!("`{ident}` and `{other}` are both stored as the property `{name}`");
            combine(errors, Error::new(ident.span(), what));
        }
        let name_of_column = constant(&plain(ident));
        let other = properties.iter().find(|(other, _)| constant(&plain(other)) == name_of_column);
        if let Some((other, _)) = other.filter(|_| columns && !json && !blob) {
            let what = format!("`{ident}` and `{other}` both make the column `{name_of_column}`");
            combine(errors, Error::new(ident.span(), what));
        }
        properties.push((ident, name));
        if properties.len() == limit + 1 {
            let what = format!("an entity has at most {limit} properties besides its keys");
            combine(errors, Error::new(ident.span(), what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(fields: usize, attributes: &str) -> Option<String> {
        let fields: Vec<_> = (0..fields).map(|i| format!("p{i}: i32")).collect();
        let fields = fields.join(", ");
        let text = format!("#[entity({attributes})] struct Large {{ id: u32, {fields} }}");
        let input: DeriveInput = syn::parse_str(&text).unwrap();
        Model::entity(&input).err().map(|error| error.to_string())
    }

    #[test]
    fn an_entity_of_more_than_252_properties_is_refused() {
        let templates = "partition = \"all\", row = \"{id}\"";
        assert_eq!(error(252, templates), None);
        let what = "an entity has at most 252 properties besides its keys";
        assert_eq!(error(253, templates).as_deref(), Some(what));
        let with_kind = format!("{templates}, kind = \"large\"");
        assert_eq!(error(251, &with_kind), None, "the kind is a property too");
        assert!(error(252, &with_kind).is_some());
    }

    #[test]
    fn options_are_recognized_as_they_are_written() {
        let inner = |text: &str| {
            let ty: Type = syn::parse_str(text).unwrap();
            option_of(&ty).map(|inner| quote::quote!(#inner).to_string())
        };
        assert_eq!(inner("Option<i32>").as_deref(), Some("i32"));
        assert_eq!(inner("::core::option::Option<Vec<u8>>").as_deref(), Some("Vec < u8 >"));
        assert_eq!(inner("Vec<u8>"), None);
        assert_eq!(inner("Option"), None);
    }
}
