//! Every pair of declarations that may meet on one type, through the sweep of an insert, an update and a
//! deletion. `docs/src/concepts/composition.md` names the declarations; a test finds every pair here or in `several`.

use std::collections::BTreeMap;

use futures_util::future::{BoxFuture, FutureExt as _, TryFutureExt as _, ready};
use rowkey::store::Store;
use rowkey::worker::outbox::Outbox as _;
use rowkey::{BlobRef, Entity, Key};
use rowkey_emulator::{Server, Sweep};
use rowkey_tests::sweep::sample;
use rowkey_tests::{TestResult, erased};

#[macro_use]
mod declare;
mod extras;
mod several;

use extras::{
    Copied, Extras, Tell, assert_agrees, connect, insert_shown, is_real, key, store, tasks,
};

/// A type with two declarations: one over `a`, one over `b`.
trait Pair: Copied {
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
                }

                impl Copied for Thing {
                    fn both(&self) -> [&str; 2] {
                        [&self.a, &self.b]
                    }
                }

                #[tokio::test]
                async fn agree_in_the_end_whatever_fails() -> TestResult {
                    check::<Thing>(Extras::of(&[$first, $second])).await
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

                impl Copied for Thing {
                    fn both(&self) -> [&str; 2] {
                        [&self.a, &self.b]
                    }
                }

                #[tokio::test]
                async fn agree_in_the_end_whatever_fails() -> TestResult {
                    check::<Thing>(Extras::of(&[$first, FIELD])).await
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

                impl Copied for Thing {
                    fn both(&self) -> [&str; 2] {
                        [&self.a, &self.b]
                    }
                }

                #[tokio::test]
                async fn agree_in_the_end_whatever_fails() -> TestResult {
                    check::<Thing>(Extras::of(&[$first, REFERENCE])).await
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
const PARTS: &str = "wide entity in parts";
const EXPIRY: &str = "expiring entity";

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

                impl Copied for Thing {
                    fn both(&self) -> [&str; 2] {
                        [&self.a, &self.b]
                    }
                }

                #[tokio::test]
                async fn agree_in_the_end_whatever_fails() -> TestResult {
                    check::<Thing>(Extras::of(&[$first, WIDE])).await
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

/// Inserts a thing, with its task if there are tasks.
async fn insert<E: Pair>(things: &Store<E>, mut thing: E, extras: Extras) -> rowkey::Result<()> {
    thing.refer(E::upload(things, 2).await?);
    let transaction = things.transaction().insert(&thing);
    let transaction = if extras.tasks { transaction.task(&Tell(2)) } else { transaction };
    transaction.submit().await.map(drop)
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

#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn check<E: Pair>(extras: Extras) -> TestResult {
    let server = Server::builder();
    let server = if is_real() { server } else { server.manual_clock() }.start().await?;
    let things = store::<E>(&connect(&server)?, extras)?;
    things.create_if_missing().await?;
    tasks(&connect(&server)?).create_if_missing().await?;
    insert_shown(&connect(&server)?, &["b", "d", "f"]).await?;
    let mut first = E::new(1, "a", "b");
    first.refer(E::upload(&things, 1).await?);
    things.insert(&first).await?;
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
                update(things, key(1)).await,
                things.delete(key(2)).await.map(drop),
            ];
            results.into_iter().collect::<Result<(), rowkey::Error>>()
        },
        async |things| {
            things.drain_backlog().await?;
            assert_eq!(things.work_once().await?.failed, 0);
            Ok(())
        },
        async |server, things, result| {
            let snapshot = assert_agrees(server, things, extras).await?;
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

/// Pairs that do not compile: `crates/rowkey-derive/tests/ui/wide.rs` and `expiry.rs` show it.
const REFUSED: [[&str; 2]; 9] = [
    ["index, one entity per value", WIDE],
    ["index, many", WIDE],
    ["index elsewhere", WIDE],
    ["index, one entity per value", PARTS],
    ["index, many", PARTS],
    ["index elsewhere", PARTS],
    [WIDE, EXPIRY],
    [PARTS, EXPIRY],
    [WIDE, PARTS],
];

/// Every two declarations that the page names meet on a type, or are refused, as the page says.
#[test]
fn the_book_names_all_declarations_and_each_pair_is_tested() {
    let page = include_str!("../../docs/src/concepts/composition.md");
    let (_, page) = page.split_once("## Tested pairs").unwrap();
    let rows: Vec<Vec<_>> = page
        .lines()
        .filter(|line| line.starts_with("| ") && line.ends_with(" |"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let named: Vec<_> = rows.iter().filter(|row| row.len() == 2).map(|row| row[0]).collect();
    let names: Vec<_> = several::NAMES.iter().map(|(_, name)| *name).collect();
    for name in &names {
        assert!(named.contains(name), "the page lacks: {name}");
    }
    let refused = rows.iter().filter(|row| row.len() == 3 && row[0] != "one");
    let refused: Vec<_> = refused.map(|row| [row[0], row[1]]).collect();
    assert_eq!(refused, REFUSED);

    let mut tested = several::pairs();
    tested.extend(PAIRS);
    tested.extend(WITH_A_FIELD.iter().map(|first| [*first, FIELD]));
    tested.extend(WITH_A_REFERENCE.iter().map(|first| [*first, REFERENCE]));
    tested.extend(WITH_WIDE.iter().map(|first| [*first, WIDE]));
    let is_in = |pairs: &[[&str; 2]], [one, other]: [&str; 2]| {
        pairs.contains(&[one, other]) || pairs.contains(&[other, one])
    };
    // It is that of wide entities.
    let alike = |name: &str| name == "index, partial";
    for (at, first) in names.iter().enumerate() {
        for second in &names[at + 1..] {
            let pair = [*first, *second];
            let is_wide = pair.iter().any(|name| [WIDE, PARTS].contains(name));
            if is_wide || !pair.iter().any(|name| alike(name)) {
                assert!(is_in(&tested, pair) != is_in(&REFUSED, pair), "{pair:?}");
            }
        }
    }
}
