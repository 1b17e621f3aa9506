//! Advices about what happens rarely: contention on a claim, lists that became full while they could not be read, writes
//! of programs that are gone, and uploads of very many blocks.

use std::time::Duration;

use futures_util::{FutureExt as _, stream};
use rowkey::answers::Stubs;
use rowkey::store::{Change, Contribution, Declaration, Settled, Store, Transaction};
use rowkey::{DynamicEntity, Entity, Key, Match, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation};
use rowkey_tests::{TestError, sweep};

use super::{Case, case, refused, reported, start};

/// Its index is in another partition.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "shop_{id:4}")]
#[entity(index(name = by_city, partition = "city_{city}", row = "{tenant}_{id:4}"))]
#[entity(unique(name = by_phone, value = "{phone}"))]
struct Shop {
    tenant: String,
    id: u32,
    city: String,
    phone: String,
}

/// The same of a program without the index.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "shop_{id:4}")]
#[entity(unique(name = by_phone, value = "{phone}"))]
struct WithoutCity {
    tenant: String,
    id: u32,
    phone: String,
}

fn shop(id: u32) -> Shop {
    Shop { tenant: "contoso".into(), id, city: "leeds".into(), phone: format!("0113 {id}") }
}

fn builder<E: Entity + Clone + Send + Sync + 'static>(
    account: &StorageAccount,
) -> rowkey::Result<Store<E>> {
    Store::<E>::builder(account.table("shops")).queue(account.queue("shops")).build()
}

/// A type whose entities have long keys, and a list in another table.
macro_rules! tagged {
    ($name:ident, $partition:literal) => {
        #[derive(Clone, Debug, PartialEq, Entity)]
        #[entity(store, partition = "{tenant}", row = "row_{id}")]
        #[entity(list(name = by_tag, table = "tags", partition = $partition, value = "{tag}"))]
        struct $name {
            tenant: String,
            id: String,
            tag: String,
            kind: u32,
        }
    };
}

tagged!(Tagged, "tags");
tagged!(Divided, "tags_{kind}");

fn tagged(number: u32) -> Tagged {
    let id = format!("i{number:04}_{}", "x".repeat(480));
    Tagged { tenant: "contoso".into(), id, tag: "a".into(), kind: number / 100 }
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "note_{id:4}")]
struct Note {
    tenant: String,
    id: u32,
}

/// Inserts this number of rows with each write, and says that it is one.
struct Rows(usize);

impl Declaration<Note> for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn operations(&self) -> usize {
        1
    }

    fn contribute(&self, _: Change<'_, Note>, plan: &mut Contribution<'_>) -> rowkey::Result<()> {
        (0..self.0)
            .try_for_each(|row| plan.insert(&DynamicEntity::new("contoso", format!("audit_{row}"))))
    }
}

pub(super) const CASES: &[Case] = &[
    case("change one of the entities, or move or delete the foreign row", || {
        async {
            let (server, account) = start().await?;
            let shops = builder::<Shop>(&account)?;
            shops.create_if_missing().await?;
            let foreign = DynamicEntity::new("city_leeds", "contoso_0001");
            shops.table().insert(&foreign).await?;
            shops.insert(&shop(1)).await?;
            let report = shops.repair().run().await?;
            let error = reported(&report, "has its key in `by_city`")?;
            shops.table().delete(foreign.key(), Match::Any).await?;
            server.clock().advance(Duration::from_secs(3601));
            let shops = builder::<Shop>(&sweep::account(&server)?)?;
            shops.repair().run().await?;
            let found = shops.find(Shop::by_city("leeds", "contoso", 1)).await?;
            assert_eq!(found.unwrap().entity, shop(1));
            Ok(error)
        }
        .boxed()
    }),
    case("other writers changed the claim in every round: try again later", || {
        async {
            let (server, account) = start().await?;
            let shops = builder::<Shop>(&account)?;
            shops.create_if_missing().await?;
            shops.insert(&shop(1)).await?;
            // Another program deletes the entity and leaves its claim.
            let head = Key::<DynamicEntity>::new("contoso", "shop_0001");
            shops.table().delete(head, Match::Any).await?;
            // Each time another writer is faster.
            let faster = Fault::on(Operation::UpdateEntity)
                .reject(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED);
            let faster = server.inject(faster);
            let other = Shop { phone: shop(1).phone, ..shop(2) };
            let error = refused(shops.insert(&other).await)?;
            drop(faster);
            shops.insert(&other).await?;
            let found = shops.find(Shop::by_phone("0113 1")).await?;
            assert_eq!(found.unwrap().entity, other);
            Ok(error)
        }
        .boxed()
    }),
    case(
        "add a field to a template of the list that divides its entities, and run `repair`",
        || {
            async {
                let (server, account) = start().await?;
                let store = builder::<Tagged>(&account)?;
                store.create_if_missing().await?;
                // The list is full, and cannot be read before the commit of the last ones.
                let mut down = None;
                let (mut number, mut pending) = (0, 0);
                while pending < 4 {
                    let all: Vec<_> = (number..number + 40).map(tagged).collect();
                    let transaction = || all.iter().fold(store.transaction(), Transaction::insert);
                    match transaction().submit().await {
                        Ok(submitted) => {
                            pending += u32::from(submitted.settled == Settled::Pending);
                            number += 40;
                        }
                        Err(error) if error.to_string().contains("is full") && down.is_none() => {
                            let busy = Fault::any().resource("tags").reject(ErrorCode::SERVER_BUSY);
                            down = Some(server.inject(busy));
                        }
                        Err(error) => return Err(error.into()),
                    }
                    assert!(number < 5_000, "the list is never full");
                }
                drop(down);
                // Workers add the entities until the list has no room any more.
                for _ in 0..4 {
                    server.clock().advance(Duration::from_secs(61));
                    builder::<Tagged>(&sweep::account(&server)?)?.work_once().await?;
                }
                let again = sweep::account(&server)?;
                let lookup = builder::<Tagged>(&again)?;
                let error = refused(lookup.query(Tagged::by_tag("a")).all().await)?;

                let divided = builder::<Divided>(&again)?;
                divided.repair().run().await?;
                let found = divided.query(Divided::by_tag((number - 1) / 100, "a")).all().await?;
                assert!(!found.is_empty());
                Ok(error)
            }
            .boxed()
        },
    ),
    case(
        "run a worker of that program; if there is none any more, end it with `Store::clean`, or without a manifest with `Store::repair_without`",
        || {
            async {
                let mut errors = Vec::new();
                for by_worker in [true, false] {
                    let (server, account) = start().await?;
                    let shops = builder::<Shop>(&account)?;
                    shops.create_if_missing().await?;
                    // The program is killed after the commit.
                    let held = server.inject(Fault::any().resource("shops").nth(4).hold());
                    let one = shop(1);
                    tokio::select! {
                        _ = shops.insert(&one) => return Err("it is not held".into()),
                        () = held.wait_until_held() => held.discard(),
                    }
                    server.clock().advance(Duration::from_secs(24 * 3600));
                    let later = sweep::account(&server)?;
                    let other = builder::<WithoutCity>(&later)?;
                    let report = other.verify().run().await?;
                    errors.push(reported(&report, "a write waits for a program")?);
                    if by_worker {
                        builder::<Shop>(&later)?.repair().run().await?;
                    } else {
                        other.repair_without("by_city")?.run().await?;
                    }
                    other.work_once().await?;
                    let report = other.verify().run().await?;
                    assert!(report.problems.is_empty(), "by a worker: {by_worker}, {report:?}");
                }
                Ok::<_, TestError>(errors.remove(0))
            }
            .boxed()
        },
    ),
    case("send larger blocks", || {
        async {
            let (_server, account) = start().await?;
            let texts = account.container("texts");
            texts.create().await?;
            let blob = texts.blob("text");
            let content = || {
                let piece = |_| Ok::<_, std::io::Error>(bytes::Bytes::from_static(b"a"));
                stream::iter((0..50_001).map(piece))
            };
            // In memory: fifty thousand requests to the server would take long.
            let upload = blob.upload(content()).block_size(1).concurrency(1).send();
            let error = refused(Stubs::new().planning(upload).await)?;
            blob.upload(content()).block_size(5_000).send().await?;
            assert_eq!(blob.properties().await?.unwrap().length, 50_001);
            Ok(error)
        }
        .boxed()
    }),
    case("correct the declaration that adds more operations than its `operations` says", || {
        async {
            let (_server, account) = start().await?;
            let notes =
                |rows| Store::<Note>::builder(account.table("notes")).with(Rows(rows)).build();
            notes(1)?.create_if_missing().await?;
            let note = Note { tenant: "contoso".into(), id: 1 };
            let error = refused(notes(100)?.insert(&note).await)?;
            notes(1)?.insert(&note).await?;
            Ok(error)
        }
        .boxed()
    }),
];
