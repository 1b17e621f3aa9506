//! Every pair of declarations that may meet on one type, through the sweep of an insert, an update and a
//! deletion. `docs/src/concepts/composition.md` lists them; a test keeps the list as it is.

use std::collections::BTreeMap;

use futures_util::future::{BoxFuture, FutureExt as _, TryFutureExt as _, ready};
use rowkey::{BlobRef, ClientOptions, Entity, Key, StorageAccount};
use rowkey_emulator::{Server, Sweep};
use rowkey_encryption::{AesKeyWrap, KeyRing, MacKey};
use rowkey_store::{RemoteCopies, Store};
use rowkey_tests::sweep::{account, sample};
use rowkey_tests::{TestResult, erased};
use rowkey_worker::outbox::Outbox as _;
use rowkey_worker::{Task, Tasks};
use serde::{Deserialize, Serialize};

use super::rows::Recounted;

/// A type with two declarations: one over `a`, one over `b`.
trait Pair: Entity + Clone + Send + Sync + 'static {
    fn new(id: u32, a: &str, b: &str) -> Self;
    fn set(&mut self, a: &str, b: &str);

    /// Uploads what the thing with this id refers to; `None` if it refers to nothing.
    fn upload(things: &Store<Self>, id: u32) -> BoxFuture<'_, rowkey::Result<Option<BlobRef>>> {
        let _ = (things, id);
        ready(Ok(None)).boxed()
    }

    fn refer(&mut self, scan: Option<BlobRef>) {
        let _ = scan;
    }

    /// Both values, of types that are combined with copies.
    fn both(&self) -> [&str; 2] {
        ["", ""]
    }
}

macro_rules! pairs {
    ($(
        $name:ident: $first:literal, $second:literal, $(#[$attribute:meta])* $(=> $secret:ident)?;
    )*) => {
        $(
            mod $name {
                use super::*;

                #[derive(Clone, Debug, PartialEq, Entity)]
                #[entity(store, partition = "all", row = "thing_{id}")]
                $(#[$attribute])*
                pub(super) struct Thing {
                    id: u32,
                    a: String,
                    b: String,
                    $(#[entity($secret)])?
                    secret: String,
                }

                impl Pair for Thing {
                    fn new(id: u32, a: &str, b: &str) -> Self {
                        Self { id, a: a.to_owned(), b: b.to_owned(), secret: "hush".to_owned() }
                    }

                    fn set(&mut self, a: &str, b: &str) {
                        (self.a, self.b) = (a.to_owned(), b.to_owned());
                    }

                    fn both(&self) -> [&str; 2] {
                        [&self.a, &self.b]
                    }
                }

                #[tokio::test]
                async fn agree_in_the_end_whatever_fails() -> TestResult {
                    check::<Thing>(Extras::of([$first, $second])).await
                }
            }
        )*

        /// The pairs, as the book lists them.
        const PAIRS: &[[&str; 2]] = &[$([$first, $second]),*];
    };
}

/// The name of a field in a blob.
const FIELD: &str = "field in a blob";

macro_rules! with_a_field_in_a_blob {
    ($($name:ident: $first:literal, [$($of_a:meta)?] $(#[$attribute:meta])*;)*) => {
        $(
            mod $name {
                use super::*;

                #[derive(Clone, Debug, PartialEq, Entity)]
                #[entity(store, partition = "all", row = "thing_{id}")]
                $(#[$attribute])*
                pub(super) struct Thing {
                    id: u32,
                    $(#[$of_a])?
                    a: String,
                    #[entity(blob)]
                    b: String,
                }

                impl Pair for Thing {
                    fn new(id: u32, a: &str, b: &str) -> Self {
                        Self { id, a: a.to_owned(), b: b.to_owned() }
                    }

                    fn set(&mut self, a: &str, b: &str) {
                        (self.a, self.b) = (a.to_owned(), b.to_owned());
                    }
                }

                #[tokio::test]
                async fn agree_in_the_end_whatever_fails() -> TestResult {
                    check::<Thing>(Extras::of([$first, FIELD])).await
                }
            }
        )*

        /// The combinations with a field in a blob, as listed in the book.
        const WITH_A_FIELD: &[&str] = &[$($first),*];
    };
}

with_a_field_in_a_blob! {
    field_and_unique_index: "index, one entity per value", []
        #[entity(index(name = one, row = "one_{a}"))];
    field_and_index: "index, many", []
        #[entity(index(name = many, row = "many_{a}", many))];
    field_and_elsewhere: "index elsewhere", []
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))];
    field_and_partial: "index elsewhere, partial", []
        #[entity(index(name = part, partition = "part_{a}", row = "{id}", copy(a)))];
    field_and_value: "unique value", []
        #[entity(unique(name = value, value = "{a}"))];
    field_and_list: "list", []
        #[entity(list(name = all, value = "{a}"))];
    field_and_blob_list: "list in blobs", []
        #[entity(list(name = all, value = "{a}", blob))];
    field_and_other_table: "index in another table", []
        #[entity(index(name = other, table = "others", partition = "other_{a}", row = "{id}"))];
    field_and_count: "count", [];
    field_and_task: "task", [];
    field_and_encrypted: "encrypted field", [entity(encrypt)];
}

/// The name of a field of type `BlobRef`.
const REFERENCE: &str = "reference to a blob";

macro_rules! with_a_reference {
    ($($name:ident: $first:literal, $numbers:literal, [$($of_a:meta)?] $(#[$attribute:meta])*;)*) => {
        $(
            mod $name {
                use super::*;

                #[derive(Clone, Debug, PartialEq, Entity)]
                #[entity(store, partition = "all", row = "thing_{id}")]
                $(#[$attribute])*
                pub(super) struct Thing {
                    id: u32,
                    #[entity(rest)]
                    numbers: BTreeMap<String, i32>,
                    $(#[$of_a])?
                    a: String,
                    b: String,
                    #[entity(blob)]
                    scan: Option<BlobRef>,
                }

                impl Pair for Thing {
                    fn new(id: u32, a: &str, b: &str) -> Self {
                        let numbers = (0..$numbers).map(|number| (format!("N{number}"), number));
                        let (numbers, a, b) = (numbers.collect(), a.to_owned(), b.to_owned());
                        Self { id, numbers, a, b, scan: None }
                    }

                    fn set(&mut self, a: &str, b: &str) {
                        (self.a, self.b) = (a.to_owned(), b.to_owned());
                    }

                    fn upload(
                        things: &Store<Self>,
                        id: u32,
                    ) -> BoxFuture<'_, rowkey::Result<Option<BlobRef>>> {
                        let upload = things.upload_reader(Thing::key(id), &b"a scan"[..]);
                        upload.send().map_ok(Some).boxed()
                    }

                    fn refer(&mut self, scan: Option<BlobRef>) {
                        self.scan = scan;
                    }
                }

                #[tokio::test]
                async fn agree_in_the_end_whatever_fails() -> TestResult {
                    check::<Thing>(Extras::of([$first, REFERENCE])).await
                }
            }
        )*

        /// The combinations with a reference to a blob, as listed in the book.
        const WITH_A_REFERENCE: &[&str] = &[$($first),*];
    };
}

with_a_reference! {
    reference_and_unique_index: "index, one entity per value", 0, []
        #[entity(index(name = one, row = "one_{a}"))];
    reference_and_index: "index, many", 0, []
        #[entity(index(name = many, row = "many_{a}", many))];
    reference_and_elsewhere: "index elsewhere", 0, []
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))];
    reference_and_partial: "index elsewhere, partial", 0, []
        #[entity(index(name = part, partition = "part_{a}", row = "{id}", copy(scan)))];
    reference_and_value: "unique value", 0, []
        #[entity(unique(name = value, value = "{a}"))];
    reference_and_list: "list", 0, []
        #[entity(list(name = all, value = "{a}"))];
    reference_and_list_elsewhere: "list elsewhere", 0, []
        #[entity(list(name = all, partition = "lists", value = "{a}"))];
    reference_and_blob_list: "list in blobs", 0, []
        #[entity(list(name = all, value = "{a}", blob))];
    reference_and_count: "count", 0, [];
    reference_and_task: "task", 0, [];
    reference_and_encrypted: "encrypted field", 0, [entity(encrypt)];
    reference_and_field: "field in a blob", 0, [entity(blob)];
    reference_and_wide: "wide entity", 255, [] #[entity(wide = 4)];
}

/// The name of a type with several rows.
const WIDE: &str = "wide entity";

/// A wide entity has two rows in these, and its declared fields in the second.
macro_rules! with_a_wide_entity {
    ($($name:ident: $first:literal, [$($of_a:meta)?] $(#[$attribute:meta])*;)*) => {
        $(
            mod $name {
                use super::*;

                #[derive(Clone, Debug, PartialEq, Entity)]
                #[entity(store, wide = 4, partition = "all", row = "thing_{id}")]
                $(#[$attribute])*
                pub(super) struct Thing {
                    id: u32,
                    #[entity(rest)]
                    numbers: BTreeMap<String, i32>,
                    a: String,
                    $(#[$of_a])?
                    b: String,
                }

                impl Pair for Thing {
                    fn new(id: u32, a: &str, b: &str) -> Self {
                        let numbers = (0..255).map(|number| (format!("N{number}"), number));
                        Self { id, numbers: numbers.collect(), a: a.to_owned(), b: b.to_owned() }
                    }

                    fn set(&mut self, a: &str, b: &str) {
                        (self.a, self.b) = (a.to_owned(), b.to_owned());
                    }
                }

                #[tokio::test]
                async fn agree_in_the_end_whatever_fails() -> TestResult {
                    check::<Thing>(Extras::of([$first, WIDE])).await
                }
            }
        )*

        /// The combinations with a wide entity, as listed in the book.
        const WITH_WIDE: &[&str] = &[$($first),*];
    };
}

with_a_wide_entity! {
    wide_and_partial_index: "index, partial", []
        #[entity(index(name = part, row = "part_{a}", many, copy(a, b)))];
    wide_and_partial: "index elsewhere, partial", []
        #[entity(index(name = part, partition = "part_{a}", row = "{id}", copy(a)))];
    wide_and_value: "unique value", []
        #[entity(unique(name = value, value = "{a}"))];
    wide_and_list: "list", []
        #[entity(list(name = all, value = "{a}"))];
    wide_and_list_elsewhere: "list elsewhere", []
        #[entity(list(name = all, partition = "lists", value = "{a}"))];
    wide_and_blob_list: "list in blobs", []
        #[entity(list(name = all, value = "{a}", blob))];
    wide_and_count: "count", [];
    wide_and_task: "task", [];
    wide_and_encrypted: "encrypted field", [entity(encrypt)];
    wide_and_field: "field in a blob", [entity(blob)];
}

pairs! {
    unique_index_and_index: "index, one entity per value", "index, many",
        #[entity(index(name = one, row = "one_{a}"))]
        #[entity(index(name = many, row = "many_{b}", many))];
    unique_index_and_elsewhere: "index, one entity per value", "index elsewhere",
        #[entity(index(name = one, row = "one_{a}"))]
        #[entity(index(name = far, partition = "far_{b}", row = "{id}"))];
    unique_index_and_partial: "index, one entity per value", "index elsewhere, partial",
        #[entity(index(name = one, row = "one_{a}"))]
        #[entity(index(name = part, partition = "part_{b}", row = "{id}", copy(a)))];
    unique_index_and_value: "index, one entity per value", "unique value",
        #[entity(index(name = one, row = "one_{a}"))]
        #[entity(unique(name = value, value = "{b}"))];
    index_and_elsewhere: "index, many", "index elsewhere",
        #[entity(index(name = many, row = "many_{a}", many))]
        #[entity(index(name = far, partition = "far_{b}", row = "{id}"))];
    index_and_partial: "index, many", "index elsewhere, partial",
        #[entity(index(name = many, row = "many_{a}", many))]
        #[entity(index(name = part, partition = "part_{b}", row = "{id}", copy(a)))];
    index_and_value: "index, many", "unique value",
        #[entity(index(name = many, row = "many_{a}", many))]
        #[entity(unique(name = value, value = "{b}"))];
    elsewhere_and_partial: "index elsewhere", "index elsewhere, partial",
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))]
        #[entity(index(name = part, partition = "part_{b}", row = "{id}", copy(a)))];
    elsewhere_and_value: "index elsewhere", "unique value",
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))]
        #[entity(unique(name = value, value = "{b}"))];
    partial_and_value: "index elsewhere, partial", "unique value",
        #[entity(index(name = part, partition = "part_{a}", row = "{id}", copy(b)))]
        #[entity(unique(name = value, value = "{b}"))];
    two_values: "unique value", "unique value",
        #[entity(unique(name = first, value = "{a}"))]
        #[entity(unique(name = second, value = "{b}"))];
    unique_index_and_list: "index, one entity per value", "list",
        #[entity(index(name = one, row = "one_{a}"))]
        #[entity(list(name = all, value = "{b}"))];
    index_and_list: "index, many", "list",
        #[entity(index(name = many, row = "many_{a}", many))]
        #[entity(list(name = all, value = "{b}"))];
    elsewhere_and_list: "index elsewhere", "list",
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))]
        #[entity(list(name = all, value = "{b}"))];
    partial_and_list: "index elsewhere, partial", "list",
        #[entity(index(name = part, partition = "part_{a}", row = "{id}", copy(b)))]
        #[entity(list(name = all, value = "{b}"))];
    value_and_list: "unique value", "list",
        #[entity(unique(name = value, value = "{a}"))]
        #[entity(list(name = all, value = "{b}"))];
    two_lists: "list", "list",
        #[entity(list(name = first, value = "{a}"))]
        #[entity(list(name = second, value = "{b}"))];
    unique_index_and_blob_list: "index, one entity per value", "list in blobs",
        #[entity(index(name = one, row = "one_{a}"))]
        #[entity(list(name = all, value = "{b}", blob))];
    index_and_blob_list: "index, many", "list in blobs",
        #[entity(index(name = many, row = "many_{a}", many))]
        #[entity(list(name = all, value = "{b}", blob))];
    elsewhere_and_blob_list: "index elsewhere", "list in blobs",
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))]
        #[entity(list(name = all, value = "{b}", blob))];
    partial_and_blob_list: "index elsewhere, partial", "list in blobs",
        #[entity(index(name = part, partition = "part_{a}", row = "{id}", copy(b)))]
        #[entity(list(name = all, value = "{b}", blob))];
    value_and_blob_list: "unique value", "list in blobs",
        #[entity(unique(name = value, value = "{a}"))]
        #[entity(list(name = all, value = "{b}", blob))];
    list_and_blob_list: "list", "list in blobs",
        #[entity(list(name = first, value = "{a}"))]
        #[entity(list(name = second, value = "{b}", blob))];
    two_blob_lists: "list in blobs", "list in blobs",
        #[entity(list(name = first, value = "{a}", blob))]
        #[entity(list(name = second, value = "{b}", blob))];
    blob_list_and_count: "list in blobs", "count",
        #[entity(list(name = all, value = "{a}", blob))];
    list_and_count: "list", "count",
        #[entity(list(name = all, value = "{a}"))];
    index_and_count: "index, many", "count",
        #[entity(index(name = many, row = "many_{a}", many))];
    elsewhere_and_count: "index elsewhere", "count",
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))];
    value_and_count: "unique value", "count",
        #[entity(unique(name = value, value = "{a}"))];
    unique_index_and_list_elsewhere: "index, one entity per value", "list elsewhere",
        #[entity(index(name = one, row = "one_{a}"))]
        #[entity(list(name = all, partition = "lists", value = "{b}"))];
    index_and_list_elsewhere: "index, many", "list elsewhere",
        #[entity(index(name = many, row = "many_{a}", many))]
        #[entity(list(name = all, partition = "lists", value = "{b}"))];
    elsewhere_and_list_elsewhere: "index elsewhere", "list elsewhere",
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))]
        #[entity(list(name = all, partition = "lists", value = "{b}"))];
    value_and_list_elsewhere: "unique value", "list elsewhere",
        #[entity(unique(name = value, value = "{a}"))]
        #[entity(list(name = all, partition = "lists", value = "{b}"))];
    list_and_list_elsewhere: "list", "list elsewhere",
        #[entity(list(name = near, value = "{a}"))]
        #[entity(list(name = far, partition = "lists", value = "{b}"))];
    list_elsewhere_and_task: "list elsewhere", "task",
        #[entity(list(name = all, partition = "lists", value = "{b}"))];
    unique_index_and_task: "index, one entity per value", "task",
        #[entity(index(name = one, row = "one_{a}"))];
    index_and_task: "index, many", "task",
        #[entity(index(name = many, row = "many_{a}", many))];
    elsewhere_and_task: "index elsewhere", "task",
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))];
    partial_and_task: "index elsewhere, partial", "task",
        #[entity(index(name = part, partition = "part_{a}", row = "{id}", copy(b)))];
    value_and_task: "unique value", "task",
        #[entity(unique(name = value, value = "{a}"))];
    list_and_task: "list", "task",
        #[entity(list(name = all, value = "{a}"))];
    index_and_other_table: "index, many", "index in another table",
        #[entity(index(name = many, row = "many_{a}", many))]
        #[entity(index(name = other, table = "others", partition = "other_{b}", row = "{id}"))];
    elsewhere_and_other_table: "index elsewhere", "index in another table",
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))]
        #[entity(index(name = other, table = "others", partition = "other_{b}", row = "{id}"))];
    value_and_other_table: "unique value", "index in another table",
        #[entity(unique(name = value, value = "{a}"))]
        #[entity(index(name = other, table = "others", partition = "other_{b}", row = "{id}"))];
    list_and_other_table: "list", "index in another table",
        #[entity(list(name = all, value = "{a}"))]
        #[entity(index(name = other, table = "others", partition = "other_{b}", row = "{id}"))];
    list_elsewhere_and_other_table: "list elsewhere", "index in another table",
        #[entity(list(name = all, partition = "lists", value = "{a}"))]
        #[entity(index(name = other, table = "others", partition = "other_{b}", row = "{id}"))];
    blob_list_and_other_table: "list in blobs", "index in another table",
        #[entity(list(name = all, value = "{a}", blob))]
        #[entity(index(name = other, table = "others", partition = "other_{b}", row = "{id}"))];
    other_table_and_count: "index in another table", "count",
        #[entity(index(name = other, table = "others", partition = "other_{a}", row = "{id}"))];
    other_table_and_task: "index in another table", "task",
        #[entity(index(name = other, table = "others", partition = "other_{a}", row = "{id}"))];
    two_other_tables: "index in another table", "list in another table",
        #[entity(index(name = other, table = "others", partition = "other_{a}", row = "{id}"))]
        #[entity(list(name = apart, table = "lists", partition = "lists", value = "{b}"))];
    elsewhere_and_list_apart: "index elsewhere", "list in another table",
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))]
        #[entity(list(name = apart, table = "lists", partition = "lists", value = "{b}"))];
    value_and_list_apart: "unique value", "list in another table",
        #[entity(unique(name = value, value = "{a}"))]
        #[entity(list(name = apart, table = "lists", partition = "lists", value = "{b}"))];
    list_elsewhere_and_list_apart: "list elsewhere", "list in another table",
        #[entity(list(name = all, partition = "lists", value = "{a}"))]
        #[entity(list(name = apart, table = "lists", partition = "lists", value = "{b}"))];
    list_apart_and_task: "list in another table", "task",
        #[entity(list(name = apart, table = "lists", partition = "lists", value = "{a}"))];
    count_and_task: "count", "task",;
    unique_index_and_copies: "index, one entity per value", "copies elsewhere",
        #[entity(index(name = one, row = "one_{a}"))];
    index_and_copies: "index, many", "copies elsewhere",
        #[entity(index(name = many, row = "many_{a}", many))];
    elsewhere_and_copies: "index elsewhere", "copies elsewhere",
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))];
    partial_and_copies: "index elsewhere, partial", "copies elsewhere",
        #[entity(index(name = part, partition = "part_{a}", row = "{id}", copy(b)))];
    value_and_copies: "unique value", "copies elsewhere",
        #[entity(unique(name = value, value = "{a}"))];
    list_and_copies: "list", "copies elsewhere",
        #[entity(list(name = all, value = "{a}"))];
    list_elsewhere_and_copies: "list elsewhere", "copies elsewhere",
        #[entity(list(name = all, partition = "lists", value = "{a}"))];
    blob_list_and_copies: "list in blobs", "copies elsewhere",
        #[entity(list(name = all, value = "{a}", blob))];
    count_and_copies: "count", "copies elsewhere",;
    task_and_copies: "task", "copies elsewhere",;
    encrypted_and_copies: "encrypted field", "copies elsewhere",
        => encrypt;
    encrypted_and_unique_index: "encrypted field", "index, one entity per value",
        #[entity(index(name = one, row = "one_{a}"))] => encrypt;
    encrypted_and_index: "encrypted field", "index, many",
        #[entity(index(name = many, row = "many_{a}", many))] => encrypt;
    encrypted_and_elsewhere: "encrypted field", "index elsewhere",
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))] => encrypt;
    encrypted_and_partial: "encrypted field", "index elsewhere, partial",
        #[entity(index(name = part, partition = "part_{a}", row = "{id}", copy(b)))] => encrypt;
    encrypted_and_value: "encrypted field", "unique value",
        #[entity(unique(name = value, value = "{a}"))] => encrypt;
    encrypted_and_list: "encrypted field", "list",
        #[entity(list(name = all, value = "{a}"))] => encrypt;
    encrypted_and_other_table: "encrypted field", "index in another table",
        #[entity(index(name = other, table = "others", partition = "other_{a}", row = "{id}"))] => encrypt;
    encrypted_and_count: "encrypted field", "count",
        => encrypt;
}

/// The options of the store besides the declarations of its type.
#[derive(Clone, Copy)]
struct Extras {
    counts: bool,
    tasks: bool,
    copies: bool,
}

impl Extras {
    fn of(pair: [&str; 2]) -> Self {
        let has = |name| pair.contains(&name);
        Self { counts: has("count"), tasks: has("task"), copies: has("copies elsewhere") }
    }
}

/// A row elsewhere that shows the first value of the thing that has it as its second.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{b}", row = "shown")]
struct Shown {
    b: String,
    a: Option<String>,
}

fn copies<E: Pair>(account: &StorageAccount) -> RemoteCopies<E, Shown, String> {
    RemoteCopies::new(
        "shown",
        &account.table("shown"),
        |thing: &E| [Shown::key(thing.both()[1])],
        |thing| thing.both()[0].to_owned(),
        |shown: &mut Shown, a| shown.a = a.cloned(),
    )
}

/// A task for each insert.
#[derive(Serialize, Deserialize)]
struct Tell(u32);

impl Task for Tell {
    const KIND: &'static str = "tell";
}

fn tasks(account: &StorageAccount) -> Tasks<Tell> {
    Tasks::new(account.queue("tells"))
}

fn store<E: Pair>(account: &StorageAccount, extras: Extras) -> Result<Store<E>, rowkey::Error> {
    let builder = Store::<E>::builder(account.table("things"))
        .queue(account.queue("things"))
        .blobs(account.container("things"));
    let builder = if E::ENCRYPTED.is_empty() { builder } else { builder.keys(ring()) };
    let builder = if extras.counts { builder.with(Recounted) } else { builder };
    let builder = if extras.copies { builder.following(copies(account)) } else { builder };
    if extras.tasks { builder.following(tasks(account)).build() } else { builder.build() }
}

fn ring() -> KeyRing {
    KeyRing::new("things", AesKeyWrap::new("2026", [26; 32]), MacKey::new("records", [1; 32]))
}

/// Inserts a thing, with its task if there are tasks.
async fn insert<E: Pair>(things: &Store<E>, mut thing: E, extras: Extras) -> rowkey::Result<()> {
    thing.refer(E::upload(things, 2).await?);
    let transaction = things.transaction().insert(&thing);
    let transaction = if extras.tasks { transaction.task(&Tell(2)) } else { transaction };
    transaction.submit().await.map(drop)
}

/// Whether time really passes: `ROWKEY_REAL_CLOCK` is set by the nightly command.
fn is_real() -> bool {
    std::env::var_os("ROWKEY_REAL_CLOCK").is_some()
}

/// Changes all of the first thing.
async fn update<E: Pair>(things: &Store<E>, key: Key<E>) -> rowkey::Result<()> {
    let scan = E::upload(things, 1).await?;
    let change = |thing: &mut E| {
        thing.set("e", "f");
        thing.refer(scan.clone());
    };
    things.update(key, change).await.map(drop)
}

/// The account of a program that starts. It reads from the secondary where it may.
fn connect(server: &Server) -> Result<StorageAccount, rowkey::Error> {
    let account = if is_real() {
        StorageAccount::from_connection_string(server.connection_string())?
    } else {
        account(server)?
    };
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    Ok(account.with_options(options))
}

#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn check<E: Pair>(extras: Extras) -> TestResult {
    let server = Server::builder();
    let server = if is_real() { server } else { server.manual_clock() }.start().await?;
    let things = store::<E>(&connect(&server)?, extras)?;
    things.create_if_missing().await?;
    tasks(&connect(&server)?).create_if_missing().await?;
    let shown = connect(&server)?.table("shown");
    shown.create().await?;
    for b in ["b", "d", "f"] {
        shown.insert(&Shown { b: b.into(), a: None }).await?;
    }
    let mut first = E::new(1, "a", "b");
    first.refer(E::upload(&things, 1).await?);
    things.insert(&first).await?;
    let key = || Key::<E>::new("all", "thing_0000000001");
    let sweep = Sweep::new(&server).lagging_secondary();
    let sweep = if is_real() {
        sweep.real_time().at_a_time(16)
    } else {
        sample(sweep, std::any::type_name::<E>())
    };
    let swept = erased::run(
        sweep,
        async |server| Ok(store::<E>(&connect(server)?, extras)?),
        async |things| {
            // Each is tried, even if the one before failed.
            let results = [
                insert(things, E::new(2, "c", "d"), extras).await,
                update(things, key()).await,
                things.delete(Key::<E>::new("all", "thing_0000000002")).await.map(drop),
            ];
            results.into_iter().collect::<Result<(), rowkey::Error>>()
        },
        async |things| {
            things.drain_backlog().await?;
            assert_eq!(things.work_once().await?.failed, 0);
            Ok(())
        },
        async |server, things, result| {
            let report = things.verify().run().await?;
            assert!(report.is_clean(), "{report:?}");
            let names = E::INDEXES.iter().map(|index| (index.name, index.table));
            let names = names.chain(E::LISTS.iter().map(|list| (list.name, list.table)));
            for (name, _) in names.filter(|(_, table)| table.is_some()) {
                let table = things.index_table(name).unwrap();
                let report = things.verify_in(table).run().await?;
                assert!(report.is_clean(), "{report:?}");
            }
            if extras.copies {
                let report = things.verify_in(&connect(server)?.table("shown")).run().await?;
                assert!(report.is_clean(), "{report:?}");
            }
            // A blob of a write that was just given up is left alone for now.
            let report = things.sweep().run().await?;
            assert_eq!(report.total.orphaned, 0, "{report:?}");
            let snapshot = server.snapshot();
            let mut rows = snapshot.table("things").unwrap().entities();
            let is_plain = rows.any(|row| row.get("secret") == Some("hush".into()));
            assert!(!is_plain || E::ENCRYPTED.is_empty(), "it is encrypted");
            if extras.counts {
                Recounted::check(&snapshot);
            }
            // (The inserted entity is deleted again, so the responses show whether a task exists.)
            let told = snapshot.queue("tells").unwrap().messages().count();
            let is_known = matches!(result, Some(Ok(())));
            assert!(!is_known || (told > 0) == extras.tasks, "{told} tasks");
            Ok(())
        },
    );
    let report = swept.await?;
    #[expect(clippy::print_stdout, reason = "the nightly command shows what was swept")]
    {
        println!("{}: {report}", std::any::type_name::<E>());
    }
    Ok(())
}

#[test]
fn the_book_lists_the_pairs() {
    let page = include_str!("../../docs/src/concepts/composition.md");
    for [first, second] in PAIRS {
        let row = format!("| {first} | {second} | agree |");
        assert!(page.contains(&row), "the page lacks: {row}");
    }
    for first in WITH_A_FIELD {
        let row = format!("| {first} | {FIELD} | agree |");
        assert!(page.contains(&row), "the page lacks: {row}");
    }
    let rows = page.lines().filter(|line| line.ends_with("| agree |")).count();
    for first in WITH_WIDE {
        let row = format!("| {first} | {WIDE} | agree |");
        assert!(page.contains(&row), "the page lacks: {row}");
    }
    for first in WITH_A_REFERENCE {
        let row = format!("| {first} | {REFERENCE} | agree |");
        assert!(page.contains(&row), "the page lacks: {row}");
    }
    let tested = PAIRS.len() + WITH_A_FIELD.len() + WITH_A_REFERENCE.len() + WITH_WIDE.len();
    assert_eq!(rows, tested, "the page lists pairs that are not tested");
}
