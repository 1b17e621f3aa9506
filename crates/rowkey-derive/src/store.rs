//! `store`: checks that the rows of a type that is written through a store can be distinguished.

use proc_macro2::Span;
use syn::{Error, Result};

use crate::index::{Index, overlap};
use crate::list::List;
use crate::model::{Field, Keys, Model};
use crate::role::Role;
use crate::template::Template;

/// The RowKey prefix of a store's own rows in the partitions of entities.
const OPERATIONS: &str = "op_";

/// The partition of the records of branch keys, and the prefix of their RowKeys.
const BRANCH_KEYS: (&str, &str) = ("encryption", "encryption_key_");

/// The suffix of the property that names the blob of another property.
pub(crate) const POINTER: &str = "_Blob";

/// The properties that a store adds to an entity's own row.
const OWN: [(&str, &str); 3] = [
    ("EntityOp", "the mark of the last write"),
    ("EntityParts", "the parts of a wide entity"),
    ("EntityRows", "the number of rows of a wide entity"),
];

/// The properties of the further rows of a wide entity.
const OF_FURTHER: [&str; 3] = ["PrimaryPartitionKey", "PrimaryRowKey", "RowFormat"];

/// The RowKey prefix of further rows.
const FURTHER: &str = "wide_";

/// The operations of a transaction besides the op row.
const MAX_OPERATIONS: usize = 99;

/// Checks the declarations of a store, or refuses attributes that require a store.
pub(crate) fn check(model: &Model<'_>, keys: &Keys, store: Option<Span>) -> Result<()> {
    if let Some(from) = &model.from
        && (store.is_none() || model.version.is_none_or(|version| version < 2))
    {
        let what = "`from` requires `store` and a `version` of at least 2: #[entity(store, version \
                    = 2, from = V1)]";
        return Err(Error::new_spanned(from, what));
    }
    let Some(store) = store else {
        let unique = keys.indexes.iter().find(|index| index.claims);
        let unique = unique.map(|index| ("a unique value", index.name.span()));
        let list = keys.lists.first().map(|list| ("a list", list.name.span()));
        let sealed = model
            .fields
            .iter()
            .find(|field| matches!(field.role, Role::Property { encrypt: true, .. }));
        let sealed = sealed.map(|field| ("an encrypted field", field.ident.span()));
        let in_blob = |field: &&Field<'_>| matches!(field.role, Role::Property { blob: true, .. });
        let blob = model.fields.iter().find(in_blob);
        let blob = blob.map(|field| ("a field in a blob", field.ident.span()));
        let reference = model.references().next();
        let reference = reference.map(|(field, _)| ("a reference to a blob", field.ident.span()));
        let wide = model.wide.as_ref().map(|wide| ("an entity of several rows", wide.span()));
        let expiry = model.fields.iter().find_map(|field| field.expiry);
        let expiry = expiry.map(|span| ("an expiry", span));
        return match unique.or(list).or(sealed).or(blob).or(reference).or(wide).or(expiry) {
            Some((what, span)) => {
                let what = format!("{what} requires a store: #[entity(store, ..)]");
                Err(Error::new(span, what))
            }
            None => Ok(()),
        };
    };
    let head = keys.row.head();
    if head.is_empty() {
        return Err(Error::new(
            store,
            "the row template must begin with literal text, such as `id_{id}`, to distinguish \
             entities from the other rows of the store",
        ));
    }
    let heads = keys.indexes.iter().filter(|index| index.is_in_partition());
    let heads = [head].into_iter().chain(heads.map(Index::row_head));
    for head in heads {
        if head.starts_with(OPERATIONS) || OPERATIONS.starts_with(head) {
            let what = format!(
                "rows that begin with {head:?} cannot be distinguished from the op rows of a \
                 store, which begin with {OPERATIONS:?}"
            );
            return Err(Error::new(keys.row.literal.span(), what));
        }
    }
    expiry(model)?;
    branch_keys(model, keys)?;
    for blob in model.blobs() {
        let pointer = format!("{blob}{POINTER}");
        if model.properties().any(|name| name == pointer) {
            let what = format!(
                "the property name `{pointer}` is reserved for the reference to the blob of \
                 `{blob}`"
            );
            return Err(Error::new(model.ident.span(), what));
        }
    }
    for field in &model.fields {
        let Role::Property { name, .. } = &field.role else { continue };
        if let Some((_, what)) = OWN.iter().find(|(own, _)| own == name) {
            let what = format!("the property name `{name}` is reserved for {what}");
            return Err(Error::new(field.ident.span(), what));
        }
        if model.wide.is_some() && OF_FURTHER.contains(&&**name) {
            let what = format!(
                "the property name `{name}` is reserved for the further rows of a wide entity"
            );
            return Err(Error::new(field.ident.span(), what));
        }
    }
    model.wide.as_ref().map_or(Ok(()), |number| wide(model, keys, number.span()))
}

/// Checks that an entity has one expiry, which the service can compare.
fn expiry(model: &Model<'_>) -> Result<()> {
    let mut fields = model.fields.iter().filter_map(|field| Some((field, field.expiry?)));
    let Some((first, span)) = fields.next() else { return Ok(()) };
    if let Some((_, span)) = fields.next() {
        let what = format!("duplicate `expiry`: `{}` is the expiry already", first.ident);
        return Err(Error::new(span, what));
    }
    let unfit = [
        (model.wide.is_some(), "`wide`: its property may be in a further row"),
        (model.compat.is_some(), "`compat`, which may store it as another type"),
    ];
    match unfit.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, why)) => Err(Error::new(span, format!("`expiry` cannot be combined with {why}"))),
        None => Ok(()),
    }
}

/// Refuses a type with encrypted fields whose rows may have the keys of branch key records.
fn branch_keys(model: &Model<'_>, keys: &Keys) -> Result<()> {
    let is_encrypted =
        |field: &Field<'_>| matches!(field.role, Role::Property { encrypt: true, .. });
    if !model.fields.iter().any(is_encrypted) {
        return Ok(());
    }
    let (partition, record) = BRANCH_KEYS;
    let may_be_theirs = |template: &Template| {
        let head = template.head();
        head == partition || (template.parts().next().is_some() && partition.starts_with(head))
    };
    let copies = keys.indexes.iter().filter(|index| !index.claims);
    let copies = copies.map(|index| {
        let partition = index.partition().unwrap_or(&keys.partition);
        (partition, index.row_head(), index.name.span())
    });
    let own = (&keys.partition, keys.row.head(), keys.row.literal.span());
    for (partition, head, span) in [own].into_iter().chain(copies) {
        if may_be_theirs(partition)
            && !head.is_empty()
            && let Some(what) = overlap(head, record, "the records of branch keys")
        {
            return Err(Error::new(span, what));
        }
    }
    Ok(())
}

/// Checks an entity of several rows against its other declarations.
fn wide(model: &Model<'_>, keys: &Keys, span: Span) -> Result<()> {
    let whole = keys.indexes.iter().find(|index| !index.claims && index.copies_all());
    if let Some(index) = whole {
        let what = format!(
            "a full copy in `{}` does not fit into one row: select properties of the wide entity \
             with copy(..)",
            index.name
        );
        return Err(Error::new(index.name.span(), what));
    }
    let local = || keys.indexes.iter().filter(|index| index.is_in_partition());
    for head in [keys.row.head()].into_iter().chain(local().map(Index::row_head)) {
        if let Some(what) = overlap(head, FURTHER, "the further rows of wide entities") {
            return Err(Error::new(keys.row.literal.span(), what));
        }
    }
    let of_lists = keys.lists.iter().map(List::operations).sum::<usize>();
    let most = model.rows() + 2 * local().count() + of_lists;
    if most > MAX_OPERATIONS {
        let what = format!(
            "a change of one entity may need {most} operations for its rows, indexes and lists; \
             the maximum is {MAX_OPERATIONS}"
        );
        return Err(Error::new(span, what));
    }
    Ok(())
}
