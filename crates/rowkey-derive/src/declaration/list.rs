//! `list(..)`: the templates of an entity's lists, and the code generated for them.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::{Error, LitInt, LitStr, Path, Result};

use super::Kind;
use super::rows::{
    Head, Rows, check_name, check_table, declared_table, overlap, partition_text, table_name,
    unambiguous, when_text,
};
use crate::attrs::{nested, value};
use crate::keys::{AddressFn, declared, distinct, local, local_named, write};
use crate::model::{Keys, Model, combine, plain};
use crate::role::Role;
use crate::stub::{Constructor, Raw, Stub};
use crate::template::{Part, Piece, Template};
use crate::types::{at, option_of, vec_of};

const WORD: &str = "list";

/// The operations of a transaction that remain besides the entity and its op row.
const MAX_OPERATIONS: usize = 98;

/// The lists of a type.
#[derive(Default)]
pub(crate) struct Lists {
    written: Vec<Written>,
    resolved: Vec<List>,
}

impl Kind for Lists {
    fn words(&self) -> &'static [&'static str] {
        &[WORD]
    }

    fn is_repeated(&self) -> bool {
        true
    }

    fn parse(&mut self, _: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        self.written.push(Written::parse(meta)?);
        Ok(())
    }

    fn resolve(
        &mut self,
        (model, keys): (&Model<'_>, &Keys),
        fields: &[String],
        before: &[Rows],
    ) -> Result<()> {
        let mut errors = None;
        for written in std::mem::take(&mut self.written) {
            let checked = resolve(model, keys, written, fields)
                .and_then(|list| fits(model, keys, (before, &self.rows()), &list).map(|()| list));
            match checked {
                Ok(list) => self.resolved.push(list),
                Err(error) => combine(&mut errors, error),
            }
        }
        errors.map_or(Ok(()), Err)
    }

    fn requires_store(&self, _: &Model<'_>) -> Option<(&'static str, Span)> {
        self.resolved.first().map(|list| ("a list", list.name.span()))
    }

    fn rows(&self) -> Vec<Rows> {
        let rows = self.resolved.iter().map(|list| Rows {
            name: list.name.clone(),
            // A list in blobs has no rows; its names are not beside entities.
            partition: match &list.partition {
                Some(partition) => Some(Head::of(partition)),
                None => list.blob.then(Head::none),
            },
            row_head: list.row.head().to_owned(),
            operations: list.operations(),
            copies_all: false,
        });
        rows.collect()
    }

    fn templates(&self) -> Vec<&Template> {
        let of = self.resolved.iter().flat_map(|list| [list.partition.as_ref(), Some(&list.row)]);
        of.flatten().collect()
    }

    fn constant(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        constant(model, &self.resolved)
    }

    fn texts(&self, model: &Model<'_>) -> Vec<(String, String)> {
        self.resolved.iter().map(|list| (plain(&list.name), list.text(model))).collect()
    }

    fn methods(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        list_keys(model, &self.resolved)
    }

    fn constructors(&self, model: &Model<'_>, keys: &Keys) -> Option<TokenStream> {
        Some(constructors(model, keys, &self.resolved))
    }

    /// The constructor of a list of a type whose derive fails.
    fn stub<'a>(&self, written: &Raw, stub: &Stub<'a>) -> Vec<Constructor<'a>> {
        let Some(name) = &written.name else { return Vec::new() };
        let krate = stub.krate;
        let own = written.text("partition").map(|own| stub.named_in(own));
        let within = if written.has("blob") {
            Vec::new()
        } else {
            own.unwrap_or_else(|| stub.partition.clone())
        };
        let value = stub.named_in(written.text("value").unwrap_or_default());
        let key = quote! { #krate::index::ListKey<Self> };
        vec![Constructor::new(name.clone(), &[&within, &value], key)]
    }
}

/// `list(name = by_tag, value = "{tags}", max = 8)`.
struct Written {
    name: Ident,
    /// The partition of its rows; `None` for the partition of the entities.
    partition: Option<LitStr>,
    /// The table of its rows; `None` for the table of the entities.
    table: Option<LitStr>,
    value: LitStr,
    /// The maximum number of values of an entity.
    max: Option<LitInt>,
    /// Whether each value has a blob instead of a row.
    blob: bool,
    /// A condition that the entity must meet to be in the list.
    when: Option<Path>,
}

impl Written {
    fn parse(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let (mut name, mut template, mut max, mut when) = (None, None, None, None);
        let (mut partition, mut table, mut blob) = (None, None, false);
        nested(
            meta,
            WORD,
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
        check_table(partition.as_ref(), table.as_ref())?;
        Ok(Self { name, partition, table, value, max, blob, when })
    }
}

/// A list with a resolved template.
struct List {
    name: Ident,
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
    /// Its declaration, as programs of other versions compare it.
    fn text(&self, model: &Model<'_>) -> String {
        let kind = if self.blob { "list blob" } else { WORD };
        let partition = partition_text(model, self.partition.as_ref(), self.table.as_ref());
        let (row, max) = (declared(model, &self.row.pieces), self.max);
        format!("{kind}{partition} row {row} max {max}{}", when_text(self.when.as_ref()))
    }

    /// The parts of its templates.
    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.partition.iter().flat_map(Template::parts).chain(self.row.parts())
    }

    /// The pieces of its PartitionKey.
    fn partition_pieces<'a>(&'a self, keys: &'a Keys) -> &'a [Piece] {
        self.partition.as_ref().map_or(&keys.partition.pieces, |template| &template.pieces)
    }

    /// The number of operations of a change that moves the entity to other lists.
    fn operations(&self) -> usize {
        if self.is_in_partition() { 2 * self.max } else { 0 }
    }

    /// Whether its rows are in the partition of their entities.
    fn is_in_partition(&self) -> bool {
        self.partition.is_none() && !self.blob
    }
}

fn resolve(model: &Model<'_>, keys: &Keys, written: Written, fields: &[String]) -> Result<List> {
    let Written { name, partition, table, value, max, blob, when } = written;
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
fn fits(
    model: &Model<'_>,
    keys: &Keys,
    (others, lists): (&[Rows], &[Rows]),
    list: &List,
) -> Result<()> {
    let before = || others.iter().chain(lists);
    let fail = |what: String| Err(Error::new(list.row.literal.span(), what));
    check_name(model, &list.name, before().map(|other| &other.name))?;
    if list.is_in_partition() && keys.row.parts().next().is_none() {
        return fail("this type has only one entity in each partition: nothing to list".into());
    }
    // Lists may have the same partition elsewhere.
    let beside = others.iter().filter(|rows| rows.is_in_partition()).chain(lists);
    let beside = beside.map(|rows| (&*rows.row_head, format!("those of `{}`", rows.name)));
    let rows = [(keys.row.head(), "the entity's own".to_owned())].into_iter().chain(beside);
    for (head, whose) in rows {
        if let Some(what) = overlap(list.row.head(), head, &whose) {
            return fail(what);
        }
    }
    let most = before().map(|rows| rows.operations).sum::<usize>() + list.operations();
    if most > MAX_OPERATIONS {
        return fail(format!(
            "a change of one entity may need {most} operations for its indexes and lists; the \
             maximum is {MAX_OPERATIONS}"
        ));
    }
    Ok(())
}

/// The field `lists` of the declarations, unless there are none.
fn constant(model: &Model<'_>, lists: &[List]) -> Option<TokenStream> {
    let krate = &model.krate;
    let declared = lists.iter().map(|list| {
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
    (!lists.is_empty()).then(|| quote! { lists: &[#(#declared),*] })
}

/// `fn list_keys`, unless there are no lists.
fn list_keys(model: &Model<'_>, lists: &[List]) -> Option<TokenStream> {
    if lists.is_empty() {
        return None;
    }
    let krate = &model.krate;
    let (pk, rk, add) = (local_named("partition"), local_named("row"), local_named("add"));
    let arms = lists.iter().enumerate().map(|(position, list)| {
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
fn constructors(model: &Model<'_>, keys: &Keys, lists: &[List]) -> TokenStream {
    let krate = &model.krate;
    let items = lists.iter().enumerate().map(|(position, list)| {
        // The blob of a value serves all partitions.
        let of_partition: &[_] = if list.blob { &[] } else { list.partition_pieces(keys) };
        let constructor = AddressFn {
            name: &list.name,
            doc: format!("The list of one value: `{}`.", list.row.literal.value()),
            returns: quote! { #krate::index::ListKey<Self> },
            position,
            pieces: (of_partition, &list.row.pieces),
            bucket: None,
            next: None,
        };
        constructor.item(model)
    });
    quote! { #(#items)* }
}
