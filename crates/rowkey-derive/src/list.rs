//! `list(..)`: the templates of an entity's lists, and the code generated for them.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote, quote_spanned};
use syn::{Error, Ident, LitStr, Path, Result};

use crate::attrs::List as Declared;
use crate::index::{declared_table, overlap, partition_text, taken, unambiguous, when_text};
use crate::keys::{
    arguments, declared, distinct, from_written, indices, local, local_named, write,
};
use crate::model::{Keys, Model, combine, plain};
use crate::role::Role;
use crate::template::{Part, Piece, Template};
use crate::types::{at, option_of, vec_of};

/// The operations of a transaction that remain besides the entity and its op row.
const MAX_OPERATIONS: usize = 98;

/// A list with a resolved template.
pub(crate) struct List {
    pub(crate) name: Ident,
    /// `None` if the rows are in the partition of their entities.
    partition: Option<Template>,
    /// The table of its rows; `None` for the table of their entities.
    table: Option<String>,
    /// The template of its RowKeys.
    row: Template,
    /// The maximum number of values of an entity.
    max: usize,
    /// Whether each value has a blob, which lists the entities of all partitions.
    blob: bool,
    when: Option<Path>,
}

impl List {
    /// The parts of its template.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.partition.iter().flat_map(Template::parts).chain(self.row.parts())
    }

    /// The pieces of its PartitionKey.
    fn partition_pieces<'a>(&'a self, keys: &'a Keys) -> &'a [Piece] {
        self.partition.as_ref().map_or(&keys.partition.pieces, |template| &template.pieces)
    }

    /// The number of operations of a change that moves the entity to other lists.
    pub(crate) fn operations(&self) -> usize {
        if self.is_in_partition() { 2 * self.max } else { 0 }
    }

    /// Whether its rows are in the partition of their entities.
    fn is_in_partition(&self) -> bool {
        self.partition.is_none() && !self.blob
    }
}

/// Checks the declared lists, after the indexes.
pub(crate) fn lists(
    model: &Model<'_>,
    keys: &Keys,
    declared: Vec<Declared>,
    fields: &[String],
) -> Result<Vec<List>> {
    let mut errors = None;
    let mut lists: Vec<List> = Vec::new();
    for declared in declared {
        let checked = resolve(model, keys, declared, fields)
            .and_then(|list| fits(model, keys, &lists, &list).map(|()| list));
        match checked {
            Ok(list) => lists.push(list),
            Err(error) => combine(&mut errors, error),
        }
    }
    errors.map_or(Ok(lists), Err)
}

fn resolve(model: &Model<'_>, keys: &Keys, declared: Declared, fields: &[String]) -> Result<List> {
    let Declared { name, partition, table, value, max, blob, when } = declared;
    let table = table.map(|table| table.value());
    let fail = |what: String| Err(Error::new(value.span(), what));
    let text = format!("list_{}{}", unambiguous(keys, &name), value.value());
    let mut row = Template::row(&LitStr::new(&text, value.span()), false)?;
    row.resolve(model.ident, fields)?;
    let mut partition = partition.map(|literal| Template::row(&literal, false)).transpose()?;
    if let Some(partition) = &mut partition {
        partition.resolve(model.ident, fields)?;
    }
    let mut several = Vec::new();
    for part in partition.iter().flat_map(Template::parts).chain(row.parts()) {
        let (field, name) = (&model.fields[part.index], &part.field);
        match field.role {
            Role::Property { encrypt: true, .. } => {
                return fail(format!("`{{{name}}}` is encrypted: a list would expose its values"));
            }
            Role::Property { blob: true, .. } => {
                return fail(format!(
                    "`{{{name}}}` is stored in a blob: a list requires a property"
                ));
            }
            Role::Property { json: true, .. } if vec_of(field.ty).is_some() => {
                if !several.contains(&name) {
                    several.push(name);
                }
            }
            Role::Property { json: true, .. } => {
                return fail(format!(
                    "`{{{name}}}` is stored as JSON and is not a `Vec`: a list requires a \
                     `Vec<T>`, or a field that is stored as one value"
                ));
            }
            Role::Reference(_) => {
                return fail(format!(
                    "`{{{name}}}` is a reference to a blob: a list requires a property"
                ));
            }
            Role::Rest | Role::Flatten(_) | Role::Skipped(_) | Role::System(_) => {
                return fail(format!("`{{{name}}}` is not stored: a list requires a stored field"));
            }
            Role::Property { .. } | Role::Key => {}
        }
    }
    if row.parts().next().is_none() {
        return fail("a list requires at least one field: `{tags}`".to_owned());
    }
    let max = match (&several[..], max) {
        ([], None) => 1,
        ([], Some(max)) => {
            let what = "`max` has no effect: the entity has only one value in the list";
            return Err(Error::new(max.span(), what));
        }
        ([one], None) => {
            return fail(format!(
                "an entity has several values of `{{{one}}}`: set their maximum number, which one \
                 transaction must hold: max = 8"
            ));
        }
        ([_], Some(max)) => {
            let most = MAX_OPERATIONS / 2;
            let number = max.base10_parse().ok().filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| {
                let what = format!(
                    "`max` must be between 1 and {most}: a change may replace all values, which \
                     takes two operations each, and a transaction has 100"
                );
                Error::new(max.span(), what)
            })?
        }
        ([one, other, ..], _) => {
            return fail(format!(
                "`{{{one}}}` and `{{{other}}}` both have several values; use one such field"
            ));
        }
    };
    if let (Some(partition), true) = (&partition, blob) {
        let what = "`partition` has no effect: a list in blobs covers all partitions";
        return Err(Error::new(partition.literal.span(), what));
    }
    Ok(List { name, partition, table, row, max, blob, when })
}

/// Checks a list against the entity, its indexes and the lists before it.
fn fits(model: &Model<'_>, keys: &Keys, before: &[List], list: &List) -> Result<()> {
    let fail = |what: String| Err(Error::new(list.row.literal.span(), what));
    let name = plain(&list.name);
    let others = before.iter().map(|other| &other.name);
    if let Some(what) = taken(model, &list.name, others.chain(keys.indexes.iter().map(|i| &i.name)))
    {
        return Err(Error::new(list.name.span(), format!("`{name}` is already {what}")));
    }
    if list.is_in_partition() && keys.row.parts().next().is_none() {
        return fail("this type has only one entity in each partition: nothing to list".into());
    }
    let indexes = keys.indexes.iter().filter(|index| index.is_in_partition());
    let rows = [(keys.row.head(), "the entity's own".to_owned())].into_iter();
    let rows = rows.chain(indexes.map(|i| (i.row_head(), format!("those of `{}`", i.name))));
    let rows = rows.chain(before.iter().map(|l| (l.row.head(), format!("those of `{}`", l.name))));
    for (head, whose) in rows {
        if let Some(what) = overlap(list.row.head(), head, &whose) {
            return fail(what);
        }
    }
    let of_indexes = keys.indexes.iter().filter(|index| index.is_in_partition()).count();
    let of_lists = before.iter().chain([list]).map(List::operations).sum::<usize>();
    let most = 2 * of_indexes + of_lists;
    if most > MAX_OPERATIONS {
        return fail(format!(
            "a change of one entity may need {most} operations for its indexes and lists; the \
             maximum is {MAX_OPERATIONS}"
        ));
    }
    Ok(())
}

/// The field `lists` of the declarations, unless there are none.
pub(crate) fn declarations(model: &Model<'_>, keys: &Keys) -> Option<TokenStream> {
    let krate = &model.krate;
    let lists = keys.lists.iter().map(|list| {
        let (name, row_head, max) = (plain(&list.name), list.row.head(), list.max);
        let table = declared_table(list.table.as_ref());
        let place = if list.blob {
            quote! { Blob }
        } else if list.partition.is_some() {
            quote! { Elsewhere }
        } else {
            quote! { Partition }
        };
        quote! {
            #krate::index::List {
                name: #name,
                row_head: #row_head,
                max: #max,
                place: #krate::index::ListPlace::#place,
                table: #table,
            }
        }
    });
    (!keys.lists.is_empty()).then(|| quote! { lists: &[#(#lists),*] })
}

/// The name of each list, and the text of its declaration.
pub(crate) fn texts(model: &Model<'_>, keys: &Keys) -> Vec<(String, String)> {
    let text = |list: &List| {
        let kind = if list.blob { "list blob" } else { "list" };
        let partition = partition_text(model, list.partition.as_ref(), list.table.as_ref());
        let (row, max) = (declared(model, &list.row.pieces), list.max);
        format!("{kind}{partition} row {row} max {max}{}", when_text(list.when.as_ref()))
    };
    keys.lists.iter().map(|list| (plain(&list.name), text(list))).collect()
}

/// `fn list_keys`, unless there are no lists.
pub(crate) fn list_keys(model: &Model<'_>, keys: &Keys) -> Option<TokenStream> {
    if keys.lists.is_empty() {
        return None;
    }
    let krate = &model.krate;
    let (pk, rk, add) = (local_named("partition"), local_named("row"), local_named("add"));
    let arms = keys.lists.iter().enumerate().map(|(position, list)| {
        let when = list.when.as_ref().map(|when| quote! { if !#when(self) { return; } });
        let value = |i: usize| {
            let local = local(i);
            quote! { *#local }
        };
        let write_partition = list.partition.as_ref().map_or_else(
            || quote! { #krate::Entity::partition_key(self, &mut #pk); },
            |template| write(model, &template.pieces, &pk, value),
        );
        let write_partition = if list.blob {
            quote! { let #pk = #krate::key::KeyWriter::new(); }
        } else {
            quote! {
                let mut #pk = #krate::key::KeyWriter::new();
                #write_partition
            }
        };
        let write_row = write(model, &list.row.pieces, &rk, value);
        let mut body = quote! {
            #write_partition
            let mut #rk = #krate::key::KeyWriter::new();
            #write_row
            #add(#pk, #rk);
        };
        let mut bind = TokenStream::new();
        for i in distinct(list.parts().map(|part| part.index)) {
            let (field, local) = (&model.fields[i], local(i));
            let (ident, span) = (field.ident, at(field.ty));
            let is_key = matches!(field.role, Role::Key);
            bind.extend(if !is_key && option_of(field.ty).is_some() {
                // An entity without the value is in no list.
                quote_spanned! { span =>
                    let ::core::option::Option::Some(#local) = &self.#ident else { return };
                }
            } else {
                quote! { let #local = &self.#ident; }
            });
            if matches!(field.role, Role::Property { json: true, .. }) {
                body = quote_spanned! { span => for #local in #local { #body } };
            }
        }
        quote! { #position => { #when #bind #body } }
    });
    Some(quote! {
        fn list_keys(
            &self,
            __position: usize,
            #add: &mut dyn ::core::ops::FnMut(
                #krate::key::KeyWriter,
                #krate::key::KeyWriter,
            ),
        ) {
            match __position {
                #(#arms)*
                _ => {}
            }
        }
    })
}

/// The constructors of the addresses of lists.
pub(crate) fn items(model: &Model<'_>, keys: &Keys) -> TokenStream {
    let Model { krate, vis, .. } = model;
    let (pk, rk) = (local_named("partition"), local_named("row"));
    let items = keys.lists.iter().enumerate().map(|(position, list)| {
        let name = &list.name;
        // The blob of a value serves all partitions.
        let of_partition: &[_] = if list.blob { &[] } else { list.partition_pieces(keys) };
        let pieces = (of_partition, &list.row.pieces[..]);
        let given = distinct(indices(pieces.0).chain(indices(pieces.1)));
        let (arguments, bind) = arguments(model, given);
        let (write_partition, write_row) =
            (write(model, pieces.0, &pk, local), write(model, pieces.1, &rk, local));
        let doc = format!("The list of one value: `{}`.", list.row.literal.value());
        let made = from_written(krate, position, &pk, &rk.to_token_stream(), None);
        quote! {
            #[doc = #doc]
            #vis fn #name(#arguments) -> #krate::index::ListKey<Self> {
                #bind
                let mut #pk = #krate::key::KeyWriter::new();
                #write_partition
                let mut #rk = #krate::key::KeyWriter::new();
                #write_row
                #made
            }
        }
    });
    quote! { #(#items)* }
}
