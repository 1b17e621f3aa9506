//! A struct that is an entity or a projection, with the roles of its fields.

use quote::quote_spanned;
use syn::ext::IdentExt as _;
use syn::{
    Data, DeriveInput, Error, Fields, Generics, Ident, LitStr, Path, Result, Type, Visibility,
};

use crate::attrs::{Container, Field as Attrs};
use crate::declaration::{Declarations, Marks};
use crate::names::{check_property, constant};
use crate::role::{Role, role};
use crate::template::{Part, Template};
use crate::types::{at, is_generic, option_of, refuse_lifetimes};

/// The maximum number of properties of an entity besides its keys and its Timestamp.
const MAX_PROPERTIES: usize = 252;

/// The property that identifies the type if the RowKeys do not.
pub(crate) const KIND: &str = "EntityType";

/// The property with the version of the type.
pub(crate) const VERSION: &str = "EntityVersion";

/// A struct and its attributes.
pub(crate) struct Model<'a> {
    pub(crate) krate: Path,
    pub(crate) vis: &'a Visibility,
    pub(crate) ident: &'a Ident,
    pub(crate) generics: &'a Generics,
    pub(crate) fields: Vec<Field<'a>>,
    pub(crate) kind: Option<LitStr>,
    /// The property that holds the kind.
    pub(crate) discriminator: String,
    pub(crate) version: Option<i32>,
    /// The maximum number of rows of an entity.
    pub(crate) rows: usize,
    /// The library that determines the stored types of the fields, a variant of `Compat`.
    pub(crate) compat: Option<Ident>,
    /// Whether every row has the types of the fields.
    pub(crate) exact: bool,
}

/// The number of the entity's properties that a further row can hold.
const IN_FURTHER: usize = 249;

/// The templates of an entity.
pub(crate) struct Keys {
    pub(crate) partition: Template,
    pub(crate) row: Template,
    /// What else the type declares.
    pub(crate) declarations: Declarations,
    /// Whether the entity is written through a store.
    pub(crate) store: bool,
    /// Whether all inserts may go to one end of the table or of a partition.
    pub(crate) append_ok: bool,
}

impl Keys {
    /// Whether the RowKey has the finer resolution of a value that is in both keys.
    pub(crate) fn is_finer_in_row(&self) -> bool {
        self.in_both().any(|(partition, row)| is_finer(row, partition))
    }

    fn in_both(&self) -> impl Iterator<Item = (&Part, &Part)> {
        let in_row = |part: &Part| self.row.values().find(|other| other.index == part.index);
        self.partition.values().filter_map(move |part| Some((part, in_row(part)?)))
    }

    /// Checks that one key has the finer resolution of all values that are in both keys.
    fn check_resolutions(&self) -> Result<()> {
        if !self.is_finer_in_row() {
            return Ok(());
        }
        let Some((part, _)) = self.in_both().find(|(partition, row)| is_finer(partition, row))
        else {
            return Ok(());
        };
        let what = format!(
            "`{{{}}}` is truncated in the RowKey, and another field in the PartitionKey: one of \
             the two keys must have the finer format of all fields that are in both",
            part.field
        );
        Err(Error::new(self.row.literal.span(), what))
    }
}

fn is_finer(part: &Part, than: &Part) -> bool {
    part.format.notation.resolution() > than.format.notation.resolution()
}

pub(crate) struct Field<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) ty: &'a Type,
    pub(crate) role: Role,
    /// What it declares.
    pub(crate) marks: Marks,
}

impl<'a> Model<'a> {
    pub(crate) fn entity(input: &'a DeriveInput) -> Result<(Self, Keys)> {
        let own = [
            "partition",
            "row",
            "kind",
            "discriminator",
            "version",
            "store",
            "compat",
            "exact",
            "append_ok",
        ];
        let allowed = [&own[..], &Declarations::words()].concat();
        let mut container = Container::parse(input, "entity", &allowed, true)?;
        let fields = named_fields(input, "Entity")?;
        let (Some(partition), Some(row)) = (container.partition.take(), container.row.take())
        else {
            return Err(Error::new(
                input.ident.span(),
                "an entity requires the templates of both keys: #[entity(partition = \
                 \"{department}\", row = \"id_{id}\")]",
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
                let declarations = Declarations::default();
                Keys { partition, row, declarations, store: false, append_ok: container.append_ok }
            }
            (Err(mut partition), Err(row)) => {
                partition.combine(row);
                return Err(partition);
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        keys.check_resolutions()?;
        let store = container.store;
        let is_key = |i| keys.partition.values().chain(keys.row.values()).any(|p| p.index == i);
        let (model, mut declarations) = Self::new(input, container, fields, is_key, false)?;
        model.check_buckets(&keys.partition)?;
        declarations.resolve(&model, &keys, &names)?;
        keys.declarations = declarations;
        keys.store = store.is_some();
        model.check_generic_parts(&keys)?;
        crate::store::check(&model, &keys, store)?;
        Ok((model, keys))
    }

    pub(crate) fn projection(input: &'a DeriveInput) -> Result<Self> {
        let container = Container::parse(
            input,
            "entity",
            &["partition", "row", "kind", "version", "compat"],
            true,
        )?;
        if let Some(text) = container.partition.as_ref().or(container.row.as_ref()) {
            return Err(Error::new(
                text.span(),
                "a projection has no key templates; to read a key, mark a field with \
                 `#[entity(partition_key)]` or `#[entity(row_key)]`",
            ));
        }
        if let Some(kind) = &container.kind {
            return Err(Error::new(kind.span(), "`kind` is only valid in entities"));
        }
        if container.version.is_some() {
            let what = "`version` is only valid in entities";
            return Err(Error::new(input.ident.span(), what));
        }
        let fields = named_fields(input, "Projection")?;
        Self::new(input, container, fields, |_| false, true).map(|(model, _)| model)
    }

    /// A struct whose fields are properties of the entity that contains it.
    pub(crate) fn flatten(input: &'a DeriveInput) -> Result<Self> {
        let container = Container::parse(input, "entity", &[], true)?;
        let fields = named_fields(input, "Flatten")?;
        let (model, _) = Self::new(input, container, fields, |_| false, false)?;
        for field in &model.fields {
            let what = match field.role {
                Role::Flatten(_) | Role::Rest => "put `rest` and `flatten` on fields of the entity",
                Role::Property { encrypt: true, .. }
                | Role::Property { blob: true, .. }
                | Role::Reference(_) => "put `encrypt` and `blob` on fields of the entity",
                _ => match field.marks.names().next() {
                    Some(name) => &format!("put `{name}` on a field of the entity"),
                    None => continue,
                },
            };
            let what = format!("a flattened struct can only have plain properties: {what}");
            return Err(Error::new(field.ident.span(), what));
        }
        Ok(model)
    }

    /// Refuses a key, an index or a list that contains a field of a generic type.
    fn check_generic_parts(&self, keys: &Keys) -> Result<()> {
        let parts = keys.partition.parts().chain(keys.row.parts());
        for part in parts.chain(keys.declarations.parts()) {
            let field = &self.fields[part.index];
            if is_generic(self.generics, field.ty) {
                let what = format!(
                    "`{}` is in a template, but its type depends on a type parameter: fields of \
                     keys, indexes and lists must have concrete types",
                    part.field
                );
                return Err(Error::new_spanned(field.ty, what));
            }
        }
        Ok(())
    }

    /// The generics with the bounds that reading and writing the fields need.
    pub(crate) fn bounded(&self) -> Generics {
        let mut generics = self.generics.clone();
        let krate = &self.krate;
        let fields = self.fields.iter().filter(|field| is_generic(self.generics, field.ty));
        for Field { ty, role, .. } in fields {
            let span = at(ty);
            let bound = match role {
                Role::Property { with: Some(_), .. }
                | Role::Key
                | Role::Reference(_)
                | Role::System(_) => continue,
                Role::Property { json: true, blob, .. } => {
                    let inner = option_of(ty).unwrap_or(ty);
                    let default =
                        blob.then(|| quote_spanned! { span => + ::core::default::Default });
                    quote_spanned! { span => #inner: #krate::entity::derive::Json #default }
                }
                Role::Property { blob: true, .. } => {
                    quote_spanned! { span => #ty: #krate::Property + ::core::default::Default }
                }
                Role::Property { default: Some(default), .. } if default.path.is_none() => {
                    quote_spanned! { span => #ty: #krate::Property + ::core::default::Default }
                }
                Role::Property { .. } => quote_spanned! { span => #ty: #krate::Property },
                Role::Rest => quote_spanned! { span => #ty: #krate::entity::Rest },
                Role::Flatten(_) => quote_spanned! { span => #ty: #krate::Flatten },
                Role::Skipped(Some(default)) if default.path.is_some() => continue,
                Role::Skipped(_) => quote_spanned! { span => #ty: ::core::default::Default },
            };
            if let Ok(bound) = syn::parse2(bound) {
                generics.make_where_clause().predicates.push(bound);
            }
        }
        generics
    }

    fn new(
        input: &'a DeriveInput,
        container: Container,
        declared: &'a Fields,
        is_key: impl Fn(usize) -> bool,
        system: bool,
    ) -> Result<(Self, Declarations)> {
        let mut errors = None;
        let mut fields = Vec::new();
        for (i, field) in declared.iter().enumerate() {
            let Some(ident) = &field.ident else { continue };
            let role = Attrs::parse(&field.attrs, system).and_then(|attrs| {
                role((ident, &field.ty), attrs, (is_key(i), system), container.rename_all)
            });
            match role {
                Ok((role, marks)) => fields.push(Field { ident, ty: &field.ty, role, marks }),
                Err(error) => combine(&mut errors, error),
            }
        }
        let Container { krate, kind, discriminator, version, declarations, compat, exact, .. } =
            container;
        if let (None, Some(name)) = (&kind, &discriminator) {
            let what = "`discriminator` requires a `kind`: kind = \"employee\"";
            combine(&mut errors, Error::new(name.span(), what));
        }
        let discriminator = self::discriminator(discriminator.as_ref());
        let discriminator = discriminator.unwrap_or_else(|error| {
            combine(&mut errors, error);
            KIND.to_owned()
        });
        let own = usize::from(kind.is_some()) + usize::from(version.is_some());
        let rows = declarations.rows_of_an_entity();
        let limit =
            rows.as_ref().map_or(usize::MAX, |rows| MAX_PROPERTIES - own + (rows - 1) * IN_FURTHER);
        let rows = rows.unwrap_or_else(|error| {
            combine(&mut errors, error);
            1
        });
        let told_by = kind.is_some().then_some(&*discriminator);
        check_names(&fields, (told_by, version.is_some(), limit), !system, &mut errors);
        let DeriveInput { vis, ident, generics, .. } = input;
        let model = Self {
            krate,
            vis,
            ident,
            generics,
            fields,
            kind,
            discriminator,
            version,
            rows,
            compat,
            exact,
        };
        errors.map_or(Ok((model, declarations)), Err)
    }

    /// Checks that a bucket is computed from a value that every entity has and that can be read from the row.
    fn check_buckets(&self, partition: &Template) -> Result<()> {
        let unfit = partition.parts().filter(|part| part.bucket.is_some()).find(|part| {
            let field = &self.fields[part.index];
            let is_shown = match field.role {
                Role::Key => true,
                Role::Property { json, encrypt, blob, .. } => !json && !encrypt && !blob,
                Role::Reference(_)
                | Role::Rest
                | Role::Flatten(_)
                | Role::Skipped(_)
                | Role::System(_) => false,
            };
            !is_shown || option_of(field.ty).is_some()
        });
        let Some(part) = unfit else { return Ok(()) };
        let what = format!(
            "`{{{}:bucket(..)}}`: a bucket requires a part of the RowKey, or a plain property that \
             is never absent",
            part.field
        );
        Err(Error::new(partition.literal.span(), what))
    }

    /// The flattened fields, each with the prefix of its property names.
    pub(crate) fn flattened(&self) -> impl Iterator<Item = (&Field<'a>, &str)> {
        self.fields.iter().filter_map(|field| match &field.role {
            Role::Flatten(prefix) => Some((field, prefix.as_str())),
            _ => None,
        })
    }

    /// Whether a field receives the properties that no other field names.
    pub(crate) fn has_rest(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.role, Role::Rest))
    }

    /// The names of the stored properties, in field order.
    pub(crate) fn properties(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().flat_map(|field| field.role.names()).map(String::as_str)
    }
}

/// The property that identifies the type, as named by an attribute.
pub(crate) fn discriminator(name: Option<&LitStr>) -> Result<String> {
    let Some(literal) = name else { return Ok(KIND.to_owned()) };
    let name = literal.value();
    check_property(&name).map_err(|what| Error::new(literal.span(), what))?;
    if ["PartitionKey", "RowKey", "Timestamp", VERSION].contains(&&*name) {
        let what = format!("`{name}` is a system property and cannot be the discriminator");
        return Err(Error::new(literal.span(), what));
    }
    Ok(name)
}

/// The name of a field without `r#`.
pub(crate) fn plain(ident: &Ident) -> String {
    ident.unraw().to_string()
}

pub(crate) fn combine(errors: &mut Option<Error>, error: Error) {
    match errors {
        Some(errors) => errors.combine(error),
        None => *errors = Some(error),
    }
}

fn named_fields<'a>(input: &'a DeriveInput, derive: &str) -> Result<&'a Fields> {
    refuse_lifetimes(&input.generics, derive)?;
    match &input.data {
        Data::Struct(data) if matches!(data.fields, Fields::Named(_)) => Ok(&data.fields),
        _ => Err(Error::new(
            input.ident.span(),
            format!(
                "`{derive}` requires a struct with named fields, whose names become property names"
            ),
        )),
    }
}

/// Refuses names that are already used, and more properties than the service stores.
fn check_names(
    fields: &[Field<'_>],
    (discriminator, version, limit): (Option<&str>, bool, usize),
    columns: bool,
    errors: &mut Option<Error>,
) {
    let mut properties: Vec<(&Ident, &str)> = Vec::new();
    let mut open = fields.iter().filter(|field| matches!(field.role, Role::Rest));
    if let (Some(first), Some(second)) = (open.next(), open.next()) {
        let what = format!(
            "duplicate `rest`: `{}` already receives the properties without a field",
            first.ident
        );
        combine(errors, Error::new(second.ident.span(), what));
    }
    for field in fields {
        let ident = field.ident;
        for name in field.role.names() {
            let what = if matches!(&**name, "PartitionKey" | "RowKey" | "Timestamp") {
                format!("the property name `{name}` is reserved by the service")
            } else if discriminator.is_some_and(|discriminator| name == discriminator) {
                format!("the property name `{name}` is reserved for the `kind`")
            } else if version && name == VERSION {
                format!("the property name `{VERSION}` is reserved for the `version`")
            } else if let Some((other, _)) = properties.iter().find(|(_, known)| known == name) {
                format!("`{ident}` and `{other}` are both stored as the property `{name}`")
            } else {
                continue;
            };
            combine(errors, Error::new(ident.span(), what));
        }
        let has_column =
            matches!(field.role, Role::Property { json: false, blob: false, with: None, .. });
        let name_of_column = constant(&plain(ident));
        let other = properties.iter().find(|(other, _)| constant(&plain(other)) == name_of_column);
        if let Some((other, _)) = other.filter(|_| columns && has_column) {
            let what = format!("`{ident}` and `{other}` both define the column `{name_of_column}`");
            combine(errors, Error::new(ident.span(), what));
        }
        for name in field.role.names() {
            properties.push((ident, name));
            if properties.len() == limit + 1 {
                let what =
                    format!("an entity can have at most {limit} properties besides its keys");
                combine(errors, Error::new(ident.span(), what));
            }
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
    fn an_entity_with_more_than_252_properties_is_rejected() {
        let templates = "partition = \"all\", row = \"{id}\"";
        assert_eq!(error(252, templates), None);
        let what = "an entity can have at most 252 properties besides its keys";
        assert_eq!(error(253, templates).as_deref(), Some(what));
        let with_kind = format!("{templates}, kind = \"large\"");
        assert_eq!(error(251, &with_kind), None, "the kind is a property too");
        assert!(error(252, &with_kind).is_some());
    }
}
