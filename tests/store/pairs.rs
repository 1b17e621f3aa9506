//! Every pair of declarations that may meet on one type, through the sweep of an insert, an update and a
//! deletion. `docs/src/concepts/composition.md` lists them; a test keeps the list as it is.

use rowkey::{Entity, Key, StorageAccount};
use rowkey_server::Server;
use rowkey_store::Store;
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, stopped_at_every_request, sweep};

use super::rows::Recounted;

/// A type with two declarations: one over `a`, one over `b`.
trait Pair: Entity + Clone + Send + Sync + 'static {
    fn new(id: u32, a: &str, b: &str) -> Self;
    fn set(&mut self, a: &str, b: &str);
}

macro_rules! pairs {
    ($($name:ident: $first:literal, $second:literal, $(#[$attribute:meta])*;)*) => {
        $(
            mod $name {
                use super::*;

                #[derive(Clone, Debug, PartialEq, Entity)]
                #[entity(store, partition = "all", row = "thing_{id}")]
                $(#[$attribute])*
                pub(super) struct Thing { id: u32, a: String, b: String }

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
                    check::<Thing>([$first, $second].contains(&"count")).await
                }
            }
        )*

        /// The pairs, as the book lists them.
        const PAIRS: &[[&str; 2]] = &[$([$first, $second]),*];
    };
}

pairs! {
    unique_index_and_index: "index, one entity a value", "index, many",
        #[entity(index(name = one, row = "one_{a}"))]
        #[entity(index(name = many, row = "many_{b}", many))];
    unique_index_and_elsewhere: "index, one entity a value", "index elsewhere",
        #[entity(index(name = one, row = "one_{a}"))]
        #[entity(index(name = far, partition = "far_{b}", row = "{id}"))];
    unique_index_and_partial: "index, one entity a value", "index elsewhere, partial",
        #[entity(index(name = one, row = "one_{a}"))]
        #[entity(index(name = part, partition = "part_{b}", row = "{id}", copy(a)))];
    unique_index_and_value: "index, one entity a value", "unique value",
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
    unique_index_and_list: "index, one entity a value", "list",
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
    unique_index_and_blob_list: "index, one entity a value", "list in blobs",
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
}

fn store<E: Pair>(account: &StorageAccount, counts: bool) -> Result<Store<E>, rowkey::Error> {
    let builder = Store::<E>::builder(account.table("things"))
        .queue(account.queue("things"))
        .blobs(account.container("things"));
    if counts { builder.with(Recounted).build() } else { builder.build() }
}

async fn check<E: Pair>(counts: bool) -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let things = store::<E>(&account(&server)?, counts)?;
    things.create_if_missing().await?;
    things.insert(&E::new(1, "a", "b")).await?;
    let key = || Key::<E>::new("all", "thing_0000000001");
    let scenario = async |account: &StorageAccount| {
        let things = store::<E>(account, counts)?;
        // Each is tried, even if the one before failed.
        let results = [
            things.insert(&E::new(2, "c", "d")).await.map(drop),
            things.update(key(), |thing| thing.set("e", "f")).await.map(drop),
            things.delete(Key::<E>::new("all", "thing_0000000002")).await.map(drop),
        ];
        results.into_iter().collect::<Result<(), rowkey::Error>>()
    };
    let recover = async |account: &StorageAccount| {
        let things = store::<E>(account, counts)?;
        things.drain_backlog().await?;
        assert_eq!(things.work_once().await?.failed, 0);
        for report in [things.verify().run().await?, things.sweep().run().await?] {
            assert!(report.is_clean(), "{report:?}");
        }
        Ok(())
    };
    let count = |snapshot: &rowkey_server::Snapshot| {
        if counts {
            Recounted::check(snapshot);
        }
    };
    sweep(&server, scenario, async |account, _| recover(account).await, |s, _| count(s)).await?;
    stopped_at_every_request(&server, scenario, recover, count).await?;
    Ok(())
}

#[test]
fn the_book_lists_the_pairs() {
    let page = include_str!("../../docs/src/concepts/composition.md");
    for [first, second] in PAIRS {
        let row = format!("| {first} | {second} | agree |");
        assert!(page.contains(&row), "the page lacks: {row}");
    }
    let rows = page.lines().filter(|line| line.ends_with("| agree |")).count();
    assert_eq!(rows, PAIRS.len(), "the page lists pairs that are not tested");
}
