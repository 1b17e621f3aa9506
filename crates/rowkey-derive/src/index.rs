//! `index(..)`: the templates of an entity's indexes, and the code generated for them.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::{Error, Ident, LitInt, LitStr, Path, Result};

use crate::attrs::Index as Declared;
use crate::keys::{
    arguments, declared, distinct, format, from_written, indices, local, local_named, part_type,
    template, write,
};
use crate::model::{KIND, Keys, Model, combine, plain};
use crate::names::did_you_mean;
use crate::role::Role;
use crate::template::{MAX_BUCKETS, Part, Piece, Template};
use crate::types::at;

/// An update writes the entity, and may delete one copy and insert another in each index: 99 of the 100
/// operations of a transaction.
const MAX_IN_PARTITION: usize = 49;

/// The maximum number of properties of an entity besides its keys and its Timestamp.
const MAX_PROPERTIES: usize = 252;

/// The properties that a copy has in addition to those of its entity.
const POINTERS: [&str; 2] = ["PrimaryRowKey", "PrimaryPartitionKey"];

/// An index with resolved templates.
pub(crate) struct Index {
    pub(crate) name: Ident,
    /// `None` if the rows are in the partition of their entities.
    partition: Option<Template>,
    /// The table of its rows; `None` for the table of their entities.
    table: Option<String>,
    row: Template,
    many: bool,
    /// Whether its rows only claim a value.
    pub(crate) claims: bool,
    /// The number of partitions of its claims, if they are spread.
    buckets: Option<u16>,
    /// The property names of copies; `None` for all.
    copy: Option<Vec<String>>,
    when: Option<Path>,
}

impl Index {
    /// The parts of its templates.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.partition.iter().flat_map(Template::parts).chain(self.row.parts())
    }

    /// The marker type that tells where the rows of an address are.
    fn scope(&self) -> Ident {
        let scope = match &self.partition {
            _ if self.claims => "Claimed",
            Some(_) => "OtherPartition",
            None => "SamePartition",
        };
        Ident::new(scope, Span::call_site())
    }

    /// The template of the partition of its rows; `None` for the partition of their entities.
    pub(crate) fn partition(&self) -> Option<&Template> {
        self.partition.as_ref()
    }

    /// Whether its copies have all properties of their entities.
    pub(crate) fn copies_all(&self) -> bool {
        self.copy.is_none()
    }

    /// Whether its rows are in the partition of their entities.
    pub(crate) fn is_in_partition(&self) -> bool {
        self.partition.is_none()
    }

    /// The prefix of its RowKeys.
    pub(crate) fn row_head(&self) -> &str {
        self.row.head()
    }

    /// The statement that ends the PartitionKey with the bucket of the RowKey, if claims are spread.
    fn write_bucket(&self, row: &TokenStream) -> Option<TokenStream> {
        let pk = local_named("partition");
        self.buckets.map(|buckets| quote! { #pk.bucket_of_key(#row, #buckets); })
    }

    /// The pieces of its PartitionKey.
    fn partition_pieces<'a>(&'a self, keys: &'a Keys) -> &'a [Piece] {
        self.partition.as_ref().map_or(&keys.partition.pieces, |template| &template.pieces)
    }
}

/// Checks the declared indexes.
pub(crate) fn indexes(
    model: &Model<'_>,
    keys: &Keys,
    declared: Vec<Declared>,
    fields: &[String],
) -> Result<Vec<Index>> {
    let mut errors = None;
    let mut indexes: Vec<Index> = Vec::new();
    for declared in declared {
        let checked = resolve(model, keys, declared, fields)
            .and_then(|index| fits(model, keys, &indexes, &index).map(|()| index));
        match checked {
            Ok(index) => indexes.push(index),
            Err(error) => combine(&mut errors, error),
        }
    }
    if !indexes.is_empty() || errors.is_some() {
        for field in &model.fields {
            for name in field.role.names().iter().filter(|name| POINTERS.contains(&&***name)) {
                let what = format!("the property name `{name}` is reserved for index copies");
                combine(&mut errors, Error::new(field.ident.span(), what));
            }
        }
    }
    errors.map_or(Ok(indexes), Err)
}

fn resolve(model: &Model<'_>, keys: &Keys, declared: Declared, fields: &[String]) -> Result<Index> {
    let Declared { name, partition, table, row, many, claims, buckets, copy, when } = declared;
    let table = table.map(|table| table.value());
    let buckets = buckets.map(|buckets| parse_buckets(&buckets)).transpose()?;
    let partition =
        partition.map(|value| if claims { claim_partition(keys, &name, &value) } else { value });
    let resolved = |mut template: Template| {
        template.resolve(model.ident, fields)?;
        Ok::<_, Error>(template)
    };
    let of_partition = if claims { Template::row } else { Template::index };
    let partition = partition.map(|literal| of_partition(&literal, false).and_then(resolved));
    let partition = partition.transpose()?;
    let row = Template::row(&row, many).and_then(resolved)?;
    let copy = copy.map(|copied| {
        let copied = copied.iter().map(|ident| copied_properties(model, ident));
        copied.collect::<Result<Vec<_>>>().map(|copied| copied.into_iter().flatten().collect())
    });
    let copy = copy.transpose()?;
    let index = Index { name, partition, table, row, many, claims, buckets, copy, when };
    if let Some(part) = index.parts().find(|part| {
        matches!(
            model.fields[part.index].role,
            Role::Rest
                | Role::Reference(_)
                | Role::Flatten(_)
                | Role::Skipped(_)
                | Role::Property { json: true, .. }
                | Role::Property { encrypt: true, .. }
                | Role::Property { blob: true, .. }
        )
    }) {
        let what =
            format!("`{{{}}}` cannot be indexed: it is not stored as a plain value", part.field);
        return Err(Error::new(index.row.literal.span(), what));
    }
    Ok(index)
}

/// The number of partitions over which claims are spread.
fn parse_buckets(buckets: &LitInt) -> Result<u16> {
    let parsed = buckets.base10_parse().ok();
    parsed.filter(|buckets| (2..=MAX_BUCKETS).contains(buckets)).ok_or_else(|| {
        let what =
            format!("the number of buckets must be between 2 and {MAX_BUCKETS}: buckets = 16");
        Error::new(buckets.span(), what)
    })
}

/// The template of the partitions of claims: different types or values in one table never share a partition.
fn claim_partition(keys: &Keys, name: &Ident, value: &LitStr) -> LitStr {
    LitStr::new(&format!("unique_{}{}", unambiguous(keys, name), value.value()), value.span())
}

/// Template text that distinguishes a declaration from those of other types and names.
pub(crate) fn unambiguous(keys: &Keys, name: &Ident) -> String {
    let head = keys.row.head().replace('{', "{{").replace('}', "}}");
    format!("{head}{}_", plain(name))
}

/// The declaration that already has this name, if any.
pub(crate) fn taken<'a>(
    model: &Model<'_>,
    name: &Ident,
    mut others: impl Iterator<Item = &'a Ident>,
) -> Option<&'static str> {
    let text = plain(name);
    let is_taken = matches!(&*text, "key" | "partition" | "partitions" | "parse_key")
        || model.fields.iter().any(|field| text == format!("under_{}", plain(field.ident)));
    if is_taken {
        return Some("a constructor of the entity");
    }
    others.any(|other| other == name).then_some("another index or list")
}

/// The properties of a field named in `copy(..)`.
fn copied_properties(model: &Model<'_>, ident: &Ident) -> Result<Vec<String>> {
    let name = plain(ident);
    let stored = |field: &crate::model::Field<'_>| !field.role.names().is_empty();
    match model.fields.iter().find(|field| plain(field.ident) == name).map(|field| &field.role) {
        Some(Role::Property { encrypt: true, .. }) => Err(Error::new(
            ident.span(),
            format!("`{name}` is encrypted: only full copies contain encrypted properties"),
        )),
        Some(Role::Property { blob: true, .. }) => Err(Error::new(
            ident.span(),
            format!("`{name}` is stored in a blob: copies do not contain blobs"),
        )),
        Some(role @ (Role::Property { .. } | Role::Reference(_))) => Ok(role.names().to_vec()),
        Some(Role::Key) => Err(Error::new(
            ident.span(),
            format!("`{name}` is part of a key: every copy contains the keys"),
        )),
        Some(Role::Rest) => Err(Error::new(
            ident.span(),
            format!("`{name}` is a map of properties whose names are unknown"),
        )),
        Some(_) => Err(Error::new(ident.span(), format!("`{name}` is not stored"))),
        None => {
            let fields: Vec<_> = model.fields.iter().filter(|f| stored(f)).collect();
            let names: Vec<_> = fields.iter().map(|field| plain(field.ident)).collect();
            let hint = did_you_mean(&name, names.iter().map(String::as_str));
            let what = format!("`{}` has no field `{name}`{hint}", model.ident);
            Err(Error::new(ident.span(), what))
        }
    }
}

/// Checks an index against the entity and the indexes before it.
fn fits(model: &Model<'_>, keys: &Keys, before: &[Index], index: &Index) -> Result<()> {
    let fail = |what: String| Err(Error::new(index.row.literal.span(), what));
    let name = plain(&index.name);
    if let Some(what) = taken(model, &index.name, before.iter().map(|other| &other.name)) {
        return Err(Error::new(index.name.span(), format!("`{name}` is already {what}")));
    }
    let is_in_partition = index.claims && index.buckets.is_none();
    let of_value = if is_in_partition { index.partition.as_ref() } else { Some(&index.row) };
    if of_value.is_none_or(|template| template.parts().next().is_none()) {
        return fail("an index requires at least one field: `email_{email}`".to_owned());
    }
    if index.partition.is_none() {
        if before.iter().filter(|other| other.partition.is_none()).count() == MAX_IN_PARTITION {
            return fail(format!(
                "an entity can have at most {MAX_IN_PARTITION} indexes in its partition: a change \
                 may replace the copy in each, and a transaction has 100 operations"
            ));
        }
        let head = keys.row.head();
        if head.is_empty() {
            return Err(Error::new(
                keys.row.literal.span(),
                "the row template must begin with literal text, such as `id_{id}`, to distinguish \
                 entities from the index rows in the same partition",
            ));
        }
        if index.row.head().is_empty() {
            return fail(
                "the template of an index in the entities' partition must begin with literal text \
                 that distinguishes its rows: `email_{email}`"
                    .to_owned(),
            );
        }
        if let Some(what) = overlap(index.row.head(), head, "the entity's own") {
            return fail(what);
        }
    }
    for other in before {
        let whose = format!("those of `{}`", other.name);
        match (&index.partition, &other.partition) {
            (None, None) => {
                if let Some(what) = overlap(index.row.head(), other.row.head(), &whose) {
                    return fail(what);
                }
            }
            (Some(partition), Some(others)) if is_same_table(index, other) => {
                let told = overlap(partition.head(), others.head(), &whose)
                    .and_then(|_| overlap(index.row.head(), other.row.head(), &whose));
                if let Some(what) = told {
                    return fail(what);
                }
            }
            _ => {}
        }
    }
    let pointers = 1 + usize::from(index.partition.is_some());
    let own = model.properties().count() + usize::from(model.kind.is_some());
    if index.copies_all() && model.wide.is_none() && own + pointers > MAX_PROPERTIES {
        return fail(format!(
            "a full copy has {pointers} more properties than the entity and exceeds the limit of \
             {MAX_PROPERTIES}; select properties with `copy(..)`"
        ));
    }
    Ok(())
}

/// Whether the rows of two indexes lie in one table. The service ignores the case of names.
fn is_same_table(index: &Index, other: &Index) -> bool {
    let name = |index: &Index| index.table.as_ref().map(|table| table.to_ascii_lowercase());
    name(index) == name(other)
}

pub(crate) fn overlap(head: &str, other: &str, whose: &str) -> Option<String> {
    (head.starts_with(other) || other.starts_with(head)).then(|| {
        format!("rows that begin with {head:?} overlap with {whose}, which begin with {other:?}")
    })
}

/// The field `indexes` of the declarations, unless there are none.
pub(crate) fn declarations(model: &Model<'_>, keys: &Keys) -> Option<TokenStream> {
    let krate = &model.krate;
    let indexes = keys.indexes.iter().map(|index| {
        let name = plain(&index.name);
        let scope = match &index.partition {
            _ if index.claims => quote! { Claim },
            Some(_) => quote! { OtherPartition },
            None => quote! { SamePartition },
        };
        let unique = !index.many;
        let table = declared_table(index.table.as_ref());
        let partition_head = index.partition.as_ref().map_or("", Template::head);
        let row_head = index.row.head();
        let row_template = template(model, &index.row.pieces);
        let copy = index.copy.as_ref().map_or_else(
            || quote! { All },
            |names| {
                // Copies have it, like `EntityType`.
                let own = Some(&model.discriminator).filter(|_| model.kind.is_some());
                let own = own.filter(|name| *name != KIND).into_iter();
                quote! { Only(&[#(#names,)* #(#own),*]) }
            },
        );
        quote! {
            #krate::index::Index {
                name: #name,
                scope: #krate::index::Scope::#scope,
                table: #table,
                unique: #unique,
                partition_head: #partition_head,
                row_head: #row_head,
                row_template: #row_template,
                copy: #krate::index::Copied::#copy,
            }
        }
    });
    (!keys.indexes.is_empty()).then(|| quote! { indexes: &[#(#indexes),*] })
}

/// The name of each index, and the text of its declaration.
pub(crate) fn texts(model: &Model<'_>, keys: &Keys) -> Vec<(String, String)> {
    let text = |index: &Index| {
        let kind = if index.claims { "unique" } else { "index" };
        let partition = partition_text(model, index.partition.as_ref(), index.table.as_ref());
        let row = declared(model, &index.row.pieces);
        let many = if index.many { " many" } else { "" };
        let copy = index.copy.as_ref().map(|copy| format!(" copy {}", copy.join(", ")));
        let copy = copy.unwrap_or_default();
        let buckets = index.buckets.map(|buckets| format!(" buckets {buckets}"));
        let buckets = buckets.unwrap_or_default();
        let when = when_text(index.when.as_ref());
        format!("{kind}{partition} row {row}{many}{copy}{buckets}{when}")
    };
    keys.indexes.iter().map(|index| (plain(&index.name), text(index))).collect()
}

/// The value of the field `table` of a declaration.
pub(crate) fn declared_table(table: Option<&String>) -> TokenStream {
    let none = || quote! { ::core::option::Option::None };
    table.map_or_else(none, |table| quote! { ::core::option::Option::Some(#table) })
}

pub(crate) fn partition_text(
    model: &Model<'_>,
    template: Option<&Template>,
    table: Option<&String>,
) -> String {
    let text = template.map(|template| declared(model, &template.pieces));
    let partition = text.map(|text| format!(" partition {text}")).unwrap_or_default();
    let table = table.map(|table| format!(" table {table}")).unwrap_or_default();
    format!("{table}{partition}")
}

pub(crate) fn when_text(when: Option<&Path>) -> String {
    when.map(|when| format!(" when {}", quote! { #when })).unwrap_or_default()
}

/// `fn index_key`, unless there are no indexes.
pub(crate) fn index_key(model: &Model<'_>, keys: &Keys) -> Option<TokenStream> {
    if keys.indexes.is_empty() {
        return None;
    }
    let krate = &model.krate;
    let (pk, rk) = (local_named("partition"), local_named("row"));
    let entity = quote! { #krate::Entity };
    let arms = keys.indexes.iter().enumerate().map(|(position, index)| {
        let when = index.when.as_ref().map(|when| quote! { if !#when(self) { return false; } });
        // An entity whose field is `None` is not in the index.
        let bind = distinct(index.parts().map(|part| part.index)).map(|i| {
            let (field, local, ty) = (model.fields[i].ident, local(i), model.fields[i].ty);
            if std::ptr::eq(part_type(model, i), ty) {
                quote! { let #local = &self.#field; }
            } else {
                quote_spanned! { at(ty) =>
                    let ::core::option::Option::Some(#local) = &self.#field else { return false };
                }
            }
        });
        let value = |i: usize| {
            let local = local(i);
            quote! { *#local }
        };
        let write_partition = index.partition.as_ref().map_or_else(
            || quote! { #entity::partition_key(self, #pk); },
            |template| write(model, &template.pieces, &pk, value),
        );
        let write_row = write(model, &index.row.pieces, &rk, value);
        let write_bucket = index.write_bucket(&quote! { #rk });
        let tie_breaker = index.many.then(|| {
            let other = local_named("other");
            let partition = index.partition.as_ref().map(|_| {
                quote! {
                    let mut #other = #krate::key::KeyWriter::new();
                    #entity::partition_key(self, &mut #other);
                    #rk.key(#other, '_');
                    #rk.literal("_");
                }
            });
            quote! { #partition #entity::row_key(self, #rk); }
        });
        quote! {
            #position => {
                #when
                #(#bind)*
                #write_partition
                #write_row
                #write_bucket
                #tie_breaker
                true
            }
        }
    });
    Some(quote! {
        fn index_key(
            &self,
            __position: usize,
            #pk: &mut #krate::key::KeyWriter,
            #rk: &mut #krate::key::KeyWriter,
        ) -> bool {
            match __position {
                #(#arms)*
                _ => false,
            }
        }
    })
}

/// The constructors of the addresses in each index.
pub(crate) fn items(model: &Model<'_>, keys: &Keys) -> TokenStream {
    let items = keys.indexes.iter().enumerate().map(|(position, index)| {
        let Index { name, row, many, .. } = index;
        let constructors = Constructors { model, keys, index, position };
        if index.claims {
            return constructors.key();
        }
        let parts: Vec<&Part> = row.parts().collect();
        // The end of the pieces that a constructor uses: the text after a part belongs to it.
        let end = |part: &Part| {
            let is =
                |piece: &Piece| matches!(piece, Piece::Part(other) if other.index == part.index);
            let at = row.pieces.iter().position(is).map_or(0, |at| at + 2);
            at.min(row.pieces.len())
        };
        let whole = if *many {
            let doc = "The rows of all entities with these values, in RowKey order.";
            constructors.range(name, row.pieces.len(), doc)
        } else {
            constructors.key()
        };
        let all = constructors.range(
            &format_ident!("{}_all", name.unraw(), span = name.span()),
            usize::from(!row.head().is_empty()),
            "All rows of the index in a partition, in index order.",
        );
        let under = parts.iter().take(parts.len().saturating_sub(1)).map(|last| {
            let field = model.fields[last.index].ident.unraw();
            let under = format_ident!("{}_under_{field}", name.unraw(), span = name.span());
            let doc = format!("The rows with these values, up to `{field}`, in index order.");
            constructors.range(&under, end(last), &doc)
        });
        quote! { #whole #all #(#under)* }
    });
    quote! { #(#items)* }
}

/// The common input of the constructors of one index.
struct Constructors<'a> {
    model: &'a Model<'a>,
    keys: &'a Keys,
    index: &'a Index,
    position: usize,
}

impl Constructors<'_> {
    /// The constructor of the address of one row.
    fn key(&self) -> TokenStream {
        let Self { model, index, position, .. } = self;
        let Model { krate, vis, .. } = model;
        let (pk, rk) = (local_named("partition"), local_named("row"));
        let name = &index.name;
        let doc = format!("The row of one entity in the index `{}`.", index.row.literal.value());
        let scope = self.scope();
        let (arguments, body) = self.written(&index.row.pieces);
        let made = from_written(krate, *position, &pk, &rk.to_token_stream(), None);
        quote! {
            #[doc = #doc]
            #vis fn #name(#arguments) -> #krate::index::IndexKey<Self, #scope> {
                #body
                #made
            }
        }
    }

    /// A constructor of all rows that begin with the first `end` pieces of the template.
    fn range(&self, name: &Ident, end: usize, doc: &str) -> TokenStream {
        let Self { model, index, position, .. } = self;
        let Model { krate, vis, .. } = model;
        let (pk, rk) = (local_named("partition"), local_named("row"));
        let doc = format!("{doc} The index is `{}`.", index.row.literal.value());
        let scope = self.scope();
        let (given, open) = index.row.pieces.split_at(end);
        let (arguments, body) = self.written(given);
        let next = open.iter().find_map(|piece| match piece {
            Piece::Part(part) => Some(format(model, part)),
            Piece::Literal(_) => None,
        });
        let made = from_written(krate, *position, &pk, &rk.to_token_stream(), next);
        quote! {
            #[doc = #doc]
            #vis fn #name(#arguments) -> #krate::index::IndexRange<Self, #scope> {
                #body
                #made
            }
        }
    }

    /// Parameters for the parts of the PartitionKey and of these pieces, and the code that writes both.
    fn written(&self, row: &[Piece]) -> (TokenStream, TokenStream) {
        let Self { model, keys, index, .. } = self;
        let krate = &model.krate;
        let (pk, rk) = (local_named("partition"), local_named("row"));
        let partition = index.partition_pieces(keys);
        let (arguments, bind) = arguments(model, distinct(indices(partition).chain(indices(row))));
        let write_partition = write(model, partition, &pk, local);
        let write_row = write(model, row, &rk, local);
        let write_bucket = index.write_bucket(&quote! { &#rk });
        let body = quote! {
            #bind
            let mut #pk = #krate::key::KeyWriter::new();
            #write_partition
            let mut #rk = #krate::key::KeyWriter::new();
            #write_row
            #write_bucket
        };
        (arguments, body)
    }

    fn scope(&self) -> TokenStream {
        let krate = &self.model.krate;
        let scope = self.index.scope();
        quote! { #krate::index::#scope }
    }
}
