//! Advices about fields and lists in blobs, and about lists.

use futures_util::FutureExt as _;
use rowkey::store::{Store, StoreBuilder, Transaction};
use rowkey::{Entity, Key, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;

use super::{Case, case, refused, start};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "scan_{id}")]
#[entity(list(name = by_city, value = "{city}", blob))]
struct Scan {
    tenant: String,
    id: String,
    city: String,
    #[entity(blob)]
    pixels: Vec<u8>,
}

/// Its field in a blob is a number.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "count_{id}")]
struct Count {
    tenant: String,
    id: u32,
    #[entity(blob)]
    number: i64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "count_{id}")]
struct CountInRow {
    tenant: String,
    id: u32,
    number: i64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "count_{id}")]
struct CountAsText {
    tenant: String,
    id: u32,
    #[entity(json, blob)]
    number: i64,
}

/// A type whose entities have long keys, which soon fill a list.
macro_rules! listed {
    ($name:ident, $($list:tt)*) => {
        #[derive(Clone, Debug, PartialEq, Entity)]
        #[entity(store, partition = "{tenant}", row = "row_{id}")]
        #[entity($($list)*)]
        struct $name {
            tenant: String,
            id: String,
            tag: String,
            kind: u32,
        }

        impl $name {
            fn of(number: u32) -> Self {
                let id = format!("i{number:04}_{}", "x".repeat(480));
                Self { tenant: "contoso".into(), id, tag: "a".into(), kind: number }
            }
        }
    };
}

listed!(Near, list(name = by_tag, value = "{tag}"));
listed!(NearSplit, list(name = by_tag, value = "{tag}_{kind}"));
listed!(NearMany, index(name = by_tag, row = "tag_{tag}", many));

fn builder<E: Entity + Clone + Send + Sync + 'static>(account: &StorageAccount) -> StoreBuilder<E> {
    Store::builder(account.table("scans"))
        .queue(account.queue("scans"))
        .blobs(account.container("scans"))
}

async fn scans() -> TestResult<(Server, StorageAccount, Store<Scan>)> {
    let (server, account) = start().await?;
    let scans = builder::<Scan>(&account).build()?;
    scans.create_if_missing().await?;
    Ok((server, account, scans))
}

fn scan(id: &str) -> Scan {
    Scan { tenant: "contoso".into(), id: id.into(), city: "leeds".into(), pixels: vec![7; 100_000] }
}

fn key() -> Key<Scan> {
    Scan::key("contoso", "a")
}

/// The names of the blobs of the field, or else of the lists.
async fn blobs(account: &StorageAccount, of_field: bool) -> TestResult<Vec<String>> {
    let all = account.container("scans").blobs().all().await?;
    let names = all.into_iter().map(|blob| blob.name);
    let is_list = |name: &String| name.contains("by_city");
    Ok(names.filter(|name| is_list(name) != of_field).collect())
}

pub(super) const CASES: &[Case] = &[
    case("remove `blob` from the field, or add `json`", || {
        async {
            let (_server, account, _) = scans().await?;
            let counts = builder::<Count>(&account).build()?;
            let tenant = || "contoso".to_owned();
            let error =
                refused(counts.insert(&Count { tenant: tenant(), id: 1, number: 5 }).await)?;
            let counts = builder::<CountInRow>(&account).build()?;
            counts.insert(&CountInRow { tenant: tenant(), id: 1, number: 5 }).await?;
            let counts = builder::<CountAsText>(&account).build()?;
            counts.insert(&CountAsText { tenant: tenant(), id: 2, number: 5 }).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("restore the blob, or delete the entity and insert it again", || {
        async {
            let (_server, account, scans) = scans().await?;
            scans.insert(&scan("a")).await?;
            let [name] = &blobs(&account, true).await?[..] else { return Err("one blob".into()) };
            let blob = account.container("scans").blob(name.as_str());
            let bytes = blob.read().bytes().await?.unwrap();
            blob.delete().await?;
            let error = refused(scans.get(key()).await)?;
            blob.put(bytes.bytes).send().await?;
            assert_eq!(scans.get(key()).await?.unwrap().entity, scan("a"));
            blob.delete().await?;
            scans.upsert(&scan("a")).await?;
            assert!(scans.get(key()).await.is_err(), "the same content is not written again");
            assert!(scans.delete(key()).await?);
            scans.insert(&scan("a")).await?;
            assert_eq!(scans.get(key()).await?.unwrap().entity, scan("a"));
            Ok(error)
        }
        .boxed()
    }),
    case(
        "read it again; if that does not help, another program wrote to the blob: restore it, or delete the entity and insert it again",
        || {
            async {
                let (_server, account, scans) = scans().await?;
                scans.insert(&scan("a")).await?;
                let names = blobs(&account, true).await?;
                let blob = account.container("scans").blob(names[0].as_str());
                let bytes = blob.read().bytes().await?.unwrap();
                blob.put("other").send().await?;
                let error = refused(scans.get(key()).await)?;
                assert!(scans.get(key()).await.is_err(), "reading again does not help");
                blob.put(bytes.bytes).send().await?;
                assert_eq!(scans.get(key()).await?.unwrap().entity, scan("a"));
                blob.put("other").send().await?;
                assert!(scans.delete(key()).await?);
                scans.insert(&scan("a")).await?;
                assert_eq!(scans.get(key()).await?.unwrap().entity, scan("a"));
                Ok(error)
            }
            .boxed()
        },
    ),
    case("delete the blob and run `Store::repair`, which lists its entities again", || {
        async {
            let (_server, account, scans) = scans().await?;
            scans.insert(&scan("a")).await?;
            let names = blobs(&account, false).await?;
            let blob = account.container("scans").blob(names[0].as_str());
            blob.put("other").send().await?;
            let all = async || scans.query(Scan::by_city("leeds")).all().await;
            let error = refused(all().await)?;
            blob.delete().await?;
            scans.repair().run().await?;
            assert_eq!(all().await?.len(), 1);
            Ok(error)
        }
        .boxed()
    }),
    case("read the entities, and filter them", || {
        async {
            let (_server, _, scans) = scans().await?;
            scans.insert(&scan("a")).await?;
            let all = || scans.query(Scan::by_city("leeds"));
            let error = refused(all().filter(Scan::CITY.is("leeds")).page(1, None).await)?;
            let found = all().all().await?;
            assert_eq!(found.iter().filter(|found| found.entity.city == "leeds").count(), 1);
            Ok(error)
        }
        .boxed()
    }),
    case(
        "add a field to the template of the list to split it, or declare an index with `many` instead, which has no limit",
        || {
            async {
                let (_server, account, _) = scans().await?;
                let full = builder::<Near>(&account).build()?;
                let error = loop {
                    // Each transaction writes the list once.
                    let begun = full.count(Near::partition("contoso")).await?;
                    let begun = u32::try_from(begun)?;
                    let all: Vec<_> = (begun..begun + 90).map(Near::of).collect();
                    let written = all.iter().fold(full.transaction(), Transaction::insert);
                    match written.submit().await {
                        Err(error) if error.to_string().contains("is full") => break error,
                        written => drop(written?),
                    }
                    assert!(begun < 5_000, "the list is never full");
                };
                let one = 9_000;
                builder::<NearSplit>(&account).build()?.insert(&NearSplit::of(one)).await?;
                builder::<NearMany>(&account).build()?.insert(&NearMany::of(one + 1)).await?;
                Ok(error)
            }
            .boxed()
        },
    ),
];
