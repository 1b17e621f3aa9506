//! `index(..)` and `unique(..)`: the templates of an entity's indexes, and the code generated for them.

mod constructors;
mod written;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::meta::ParseNestedMeta;
use syn::{Error, LitInt, LitStr, Path, Result};

use super::Kind;
use super::rows::{
    Head, Rows, check_name, declared_table, overlap, partition_text, unambiguous, when_text,
};
use crate::keys::{declared, distinct, local, local_named, part_type, template, write};
use crate::model::{KIND, Keys, Model, combine, plain};
use crate::names::did_you_mean;
use crate::role::Role;
use crate::stub::{Constructor, Raw, Stub};
use crate::template::{MAX_BUCKETS, Part, Piece, Template};
use crate::types::at;
use written::Written;

const INDEX: &str = "index";
const UNIQUE: &str = "unique";

/// An update writes the entity, and may delete one copy and insert another in each index: 99 of the 100
/// operations of a transaction.
const MAX_IN_PARTITION: usize = 49;

/// The maximum number of properties of an entity besides its keys and its Timestamp.
const MAX_PROPERTIES: usize = 252;

/// The properties that a copy has in addition to those of its entity.
const POINTERS: [&str; 2] = ["PrimaryRowKey", "PrimaryPartitionKey"];

/// The indexes and unique values of a type.
#[derive(Default)]
pub(crate) struct Indexes {
    written: Vec<Written>,
    resolved: Vec<Index>,
}

impl Kind for Indexes {
    fn words(&self) -> &'static [&'static str] {
        &[INDEX, UNIQUE]
    }

    fn is_repeated(&self) -> bool {
        true
    }

    fn parse(&mut self, word: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let parse = if word == INDEX { Written::parse } else { Written::parse_unique };
        self.written.push(parse(meta)?);
        Ok(())
    }

    fn resolve(
        &mut self,
        (model, keys): (&Model<'_>, &Keys),
        fields: &[String],
        _: &[Rows],
    ) -> Result<()> {
        self.resolved = indexes(model, keys, std::mem::take(&mut self.written), fields)?;
        Ok(())
    }

    fn requires_store(&self, _: &Model<'_>) -> Option<(&'static str, Span)> {
        let unique = self.resolved.iter().find(|index| index.claims);
        unique.map(|index| ("a unique value", index.name.span()))
    }

    fn rows(&self) -> Vec<Rows> {
        let rows = self.resolved.iter().map(|index| Rows {
            name: index.name.clone(),
            partition: index.partition.as_ref().map(Head::of),
            row_head: index.row.head().to_owned(),
            operations: if index.partition.is_none() { 2 } else { 0 },
            copies_all: !index.claims && index.copies_all(),
        });
        rows.collect()
    }

    fn templates(&self) -> Vec<&Template> {
        let of =
            self.resolved.iter().flat_map(|index| [index.partition.as_ref(), Some(&index.row)]);
        of.flatten().collect()
    }

    fn elsewhere(&self) -> Vec<(&Template, &Template)> {
        let copies = self.resolved.iter().filter(|index| !index.claims);
        copies.filter_map(|index| Some((index.partition.as_ref()?, &index.row))).collect()
    }

    fn constant(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        constant(model, &self.resolved)
    }

    fn texts(&self, model: &Model<'_>) -> Vec<(String, String)> {
        self.resolved.iter().map(|index| (plain(&index.name), index.text(model))).collect()
    }

    fn methods(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        index_key(model, &self.resolved)
    }

    fn constructors(&self, model: &Model<'_>, keys: &Keys) -> Option<TokenStream> {
        Some(constructors::all(model, keys, &self.resolved))
    }

    fn stub<'a>(&self, written: &Raw, stub: &Stub<'a>) -> Vec<Constructor<'a>> {
        stubs(written, stub)
    }
}

/// An index with resolved templates.
struct Index {
    name: Ident,
    /// `None` if the rows are in the partition of their entities.
    partition: Option<Template>,
    /// The table of its rows; `None` for the table of their entities.
    table: Option<String>,
    row: Template,
    many: bool,
    /// Whether its rows only claim a value.
    claims: bool,
    /// The number of partitions of its claims, if they are spread.
    buckets: Option<u16>,
    /// The property names of copies; `None` for all.
    copy: Option<Vec<String>>,
    when: Option<Path>,
}

impl Index {
    /// The parts of its templates.
    fn parts(&self) -> impl Iterator<Item = &Part> {
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

    /// Whether its copies have all properties of their entities.
    fn copies_all(&self) -> bool {
        self.copy.is_none()
    }

    /// The statement that ends the PartitionKey with the bucket of the RowKey, if claims are spread.
    fn write_bucket(&self, row: &TokenStream) -> Option<TokenStream> {
        let pk = local_named("partition");
        self.buckets.map(|buckets| quote! { #pk.bucket_of_key(#row, #buckets); })
    }

    /// Its declaration, as programs of other versions compare it.
    fn text(&self, model: &Model<'_>) -> String {
        let kind = if self.claims { UNIQUE } else { INDEX };
        let partition = partition_text(model, self.partition.as_ref(), self.table.as_ref());
        let row = declared(model, &self.row.pieces);
        let many = if self.many { " many" } else { "" };
        let copy = self.copy.as_ref().map(|copy| format!(" copy {}", copy.join(", ")));
        let copy = copy.unwrap_or_default();
        let buckets = self.buckets.map(|buckets| format!(" buckets {buckets}"));
        let buckets = buckets.unwrap_or_default();
        let when = when_text(self.when.as_ref());
        format!("{kind}{partition} row {row}{many}{copy}{buckets}{when}")
    }

    /// The pieces of its PartitionKey.
    fn partition_pieces<'a>(&'a self, keys: &'a Keys) -> &'a [Piece] {
        self.partition.as_ref().map_or(&keys.partition.pieces, |template| &template.pieces)
    }
}

/// Checks the declared indexes.
fn indexes(
    model: &Model<'_>,
    keys: &Keys,
    written: Vec<Written>,
    fields: &[String],
) -> Result<Vec<Index>> {
    let mut errors = None;
    let mut indexes: Vec<Index> = Vec::new();
    for written in written {
        let checked = resolve(model, keys, written, fields)
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

fn resolve(model: &Model<'_>, keys: &Keys, written: Written, fields: &[String]) -> Result<Index> {
    let Written { name, partition, table, row, many, claims, buckets, copy, when } = written;
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
    check_name(model, &index.name, before.iter().map(|other| &other.name))?;
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
    if let Some(partition) =
        index.partition.as_ref().filter(|_| index.table.is_none() && !index.claims)
        && may_be_an_entity(partition, &index.row, keys)
    {
        return fail(
            "a copy in this index may have the keys of an entity and replace it: begin its PartitionKeys with another \
             literal than those of entities, `email_{email}`"
                .to_owned(),
        );
    }
    let pointers = 1 + usize::from(index.partition.is_some());
    let own = model.properties().count() + usize::from(model.kind.is_some());
    if index.copies_all() && model.rows == 1 && own + pointers > MAX_PROPERTIES {
        return fail(format!(
            "a full copy has {pointers} more properties than the entity and exceeds the limit of \
             {MAX_PROPERTIES}; select properties with `copy(..)`"
        ));
    }
    Ok(())
}

/// Whether both keys of a copy have the form of those of an entity: the same literals around values.
fn may_be_an_entity(partition: &Template, row: &Template, keys: &Keys) -> bool {
    let same = |one: &Piece, own: &Piece| match (one, own) {
        (Piece::Literal(one), Piece::Literal(own)) => one == own,
        (Piece::Part(_), Piece::Part(_)) => true,
        _ => false,
    };
    let same = |one: &Template, own: &Template| {
        one.pieces.len() == own.pieces.len()
            && one.pieces.iter().zip(&own.pieces).all(|(one, own)| same(one, own))
    };
    same(partition, &keys.partition) && same(row, &keys.row)
}

/// Whether the rows of two indexes lie in one table. The service ignores the case of names.
fn is_same_table(index: &Index, other: &Index) -> bool {
    let name = |index: &Index| index.table.as_ref().map(|table| table.to_ascii_lowercase());
    name(index) == name(other)
}

/// The field `indexes` of the declarations, unless there are none.
fn constant(model: &Model<'_>, indexes: &[Index]) -> Option<TokenStream> {
    let krate = &model.krate;
    let declared = indexes.iter().map(|index| {
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
    (!indexes.is_empty()).then(|| quote! { indexes: &[#(#declared),*] })
}

/// `fn index_key`, unless there are no indexes.
fn index_key(model: &Model<'_>, indexes: &[Index]) -> Option<TokenStream> {
    if indexes.is_empty() {
        return None;
    }
    let krate = &model.krate;
    let (pk, rk) = (local_named("partition"), local_named("row"));
    let entity = quote! { #krate::Entity };
    let arms = indexes.iter().enumerate().map(|(position, index)| {
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

/// The constructors of an index of a type whose derive fails.
fn stubs<'a>(written: &Raw, stub: &Stub<'a>) -> Vec<Constructor<'a>> {
    let Some(name) = &written.name else { return Vec::new() };
    let krate = stub.krate;
    let claims = written.word == UNIQUE;
    let own = written.text(if claims { "value" } else { "partition" });
    let scope = match own {
        _ if claims => quote! { #krate::index::Claimed },
        Some(_) => quote! { #krate::index::OtherPartition },
        None => quote! { #krate::index::SamePartition },
    };
    let within = own.map_or_else(|| stub.partition.clone(), |own| stub.named_in(own));
    let row = stub.named_in(written.text("row").unwrap_or_default());
    let range = quote! { #krate::index::IndexRange<Self, #scope> };
    let one = quote! { #krate::index::IndexKey<Self, #scope> };
    let whole = if written.has("many") { range.clone() } else { one };
    let mut made = vec![Constructor::new(name.clone(), &[&within, &row], whole)];
    if claims {
        return made;
    }
    let all = format_ident!("{}_all", name.unraw());
    made.push(Constructor::new(all, &[&within], range.clone()));
    for (at, last) in row.iter().enumerate().take(row.len().saturating_sub(1)) {
        let Some(last) = &last.ident else { continue };
        let under = format_ident!("{}_under_{}", name.unraw(), last.unraw());
        made.push(Constructor::new(under, &[&within, &row[..=at]], range.clone()));
    }
    made
}
