//! What a type or a program declares beside the entities, one file or folder for each kind. Each says which rows a
//! change needs, and sends nothing before it settles.
//!
//! | when it is written | declarations |
//! |---|---|
//! | before the commit | `blob_field` (uploads), `unique` |
//! | with the entity, in its transaction | `index`, `list`, `copies`, `history`, `wide` |
//! | after the commit | `remote`, `remote_list`, `remote_copies`, `blob_list`, `blob_ref`, `view` |
//! | what older versions of the type left | `older` |
//!
//! This file is the list of them: which declarations a type has ([`all`]), and which of them have rows for each
//! entity ([`Named`]). Building, verifying, repairing and loading walk it; none of them names the kinds. A constant that
//! holds a function holds it only if the type declares something that needs the function. Otherwise the function is not
//! compiled for the type, which matters to programs with many stores. An `if` is not enough: the compiler also
//! instantiates what branches that are never taken call.

pub(crate) mod blob_field;
pub(crate) mod blob_list;
pub(crate) mod blob_ref;
pub(crate) mod copies;
pub(crate) mod history;
pub(crate) mod index;
pub(crate) mod list;
pub(crate) mod older;
pub(crate) mod remote;
pub(crate) mod remote_copies;
pub(crate) mod remote_list;
pub(crate) mod unique;
pub(crate) mod view;
pub(crate) mod wide;

use std::marker::PhantomData;

use rowkey_client::index::{ListPlace, Scope};
use rowkey_client::{Entity, Result};

use crate::declaring::Declaration;
use crate::layer::place::OtherTables;
use crate::row::blobs::Blobs;
use crate::row::{Keys, index_keys};
use blob_field::Freeing;
use blob_list::BlobList;
use index::LocalIndexes;
use list::{Lists, list_keys};
use older::OlderVersions;
use remote::RemoteIndex;
use remote_list::RemoteList;
use unique::UniqueValues;

/// The names that no declaration of a program can have, even if the type has no such declaration.
pub(crate) const NAMES: [&str; 3] = [index::NAME, list::NAME, unique::NAME];

/// What the declarations of a type need besides the table.
#[derive(Clone, Copy)]
pub(crate) struct Means<'b> {
    /// The type, as the prefix of its RowKeys.
    pub(crate) of: &'static str,
    pub(crate) blobs: Option<&'b Blobs>,
    pub(crate) tables: &'b OtherTables,
}

/// The declarations of one type.
type All<E> = Vec<Box<dyn Declaration<E>>>;

/// Adds the declarations of one kind.
type Add<E> = fn(&mut All<E>, Means<'_>);

/// The kinds that contribute to the writes of `E`.
struct Declaring<E>(PhantomData<E>);

impl<E: Entity + Clone + Send + Sync + 'static> Declaring<E> {
    const ALL: [Option<Add<E>>; 9] = [
        if E::DECLARED.has_index(Scope::SamePartition) {
            Some(|all, _| all.push(Box::new(LocalIndexes)))
        } else {
            None
        },
        if E::DECLARED.has_list(ListPlace::Partition) {
            Some(|all, _| all.push(Box::new(Lists)))
        } else {
            None
        },
        if E::DECLARED.has_index(Scope::Claim) {
            Some(|all, _| all.push(Box::new(UniqueValues)))
        } else {
            None
        },
        if E::DECLARED.older.is_none() {
            None
        } else {
            Some(|all, _| all.push(Box::new(OlderVersions)))
        },
        if E::DECLARED.has_index(Scope::OtherPartition) {
            Some(|all, means| {
                for index in RemoteIndex::all(E::DECLARED.indexes, means.tables) {
                    all.push(Box::new(index));
                }
            })
        } else {
            None
        },
        if E::DECLARED.has_list(ListPlace::Elsewhere) {
            Some(|all, means| {
                for list in RemoteList::all(E::DECLARED.lists, means.of, means.tables) {
                    all.push(Box::new(list));
                }
            })
        } else {
            None
        },
        if E::DECLARED.has_list(ListPlace::Blob) {
            Some(|all, means| {
                let Some(blobs) = means.blobs else { return };
                for list in BlobList::all(E::DECLARED.lists, blobs) {
                    all.push(Box::new(list));
                }
            })
        } else {
            None
        },
        if E::DECLARED.blobs.is_empty() {
            None
        } else {
            Some(|all, means| {
                let Some(blobs) = means.blobs else { return };
                let fields = Some(E::DECLARED.blobs);
                all.push(Box::new(Freeing { blobs: blobs.clone(), fields }));
            })
        },
        if E::DECLARED.references.is_empty() {
            None
        } else {
            Some(|all, means| {
                let Some(blobs) = means.blobs else { return };
                all.push(Box::new(Freeing { blobs: blobs.clone(), fields: None }));
            })
        },
    ];
}

/// Returns the declarations of `E`.
pub(crate) fn all<E: Entity + Clone + Send + Sync + 'static>(means: Means<'_>) -> All<E> {
    let mut all = Vec::new();
    #[expect(clippy::manual_flatten, reason = "`flatten` is compiled for each type")]
    for add in &Declaring::<E>::ALL {
        if let Some(add) = add {
            add(&mut all, means);
        }
    }
    all
}

/// A declaration with a name that has rows for each entity, by its position among those of its kind.
#[derive(Clone, Copy)]
pub(crate) enum Named {
    /// An index or a unique value.
    Index(usize),
    List(usize),
}

impl Named {
    /// Returns those of `E`, in the order in which reports have them.
    pub(crate) fn all<E: Entity>() -> impl Iterator<Item = Self> + Send {
        let indexes = (0..E::DECLARED.indexes.len()).map(Self::Index);
        indexes.chain((0..E::DECLARED.lists.len()).map(Self::List))
    }

    /// The name of the declaration.
    pub(crate) fn name<E: Entity>(self) -> &'static str {
        match self {
            Self::Index(position) => E::DECLARED.indexes[position].name,
            Self::List(position) => E::DECLARED.lists[position].name,
        }
    }

    /// Whether the rows are in the transaction of their entity.
    pub(crate) fn is_beside<E: Entity>(self) -> bool {
        match self {
            Self::Index(position) => E::DECLARED.indexes[position].scope == Scope::SamePartition,
            Self::List(position) => E::DECLARED.lists[position].place == ListPlace::Partition,
        }
    }

    /// Returns the keys of the rows of an entity.
    pub(crate) fn rows<E: Entity>(self, entity: &E) -> Result<Vec<Keys>> {
        match self {
            Self::Index(position) => Ok(index_keys(entity, position)?.into_iter().collect()),
            Self::List(position) => Ok(list_keys(entity, position).into_iter().collect()),
        }
    }
}
