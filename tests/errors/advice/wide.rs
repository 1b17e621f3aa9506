//! Advices about entities of several rows.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::join;
use rowkey::edm::Value;
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, Key, Match, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::TestResult;

use super::{Case, case, refused, reported, start};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 6, partition = "all", row = "year_{name}")]
#[entity(index(name = by_unit, row = "unit_{unit}", many, copy(unit)))]
struct Year {
    name: String,
    unit: String,
    #[entity(rest)]
    hours: BTreeMap<String, Value>,
}

/// The same entity in at most two rows.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 2, partition = "all", row = "year_{name}")]
#[entity(index(name = by_unit, row = "unit_{unit}", many, copy(unit)))]
struct Narrow {
    name: String,
    unit: String,
    #[entity(rest)]
    hours: BTreeMap<String, Value>,
}

/// In parts: a row for names of the same beginning.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 6, parts = 1, partition = "all", row = "year_{name}")]
struct Grouped {
    name: String,
    #[entity(rest)]
    hours: BTreeMap<String, Value>,
}

/// In more parts.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 6, parts, partition = "all", row = "year_{name}")]
struct Spread {
    name: String,
    #[entity(rest)]
    hours: BTreeMap<String, Value>,
}

/// Has its large property in a blob.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 6, partition = "all", row = "scan_{name}")]
struct Scan {
    name: String,
    #[entity(blob)]
    pixels: Vec<u8>,
    #[entity(rest)]
    hours: BTreeMap<String, Value>,
}

fn hours(number: u32, value: &Value) -> BTreeMap<String, Value> {
    (0..number).map(|hour| (format!("H{hour:05}"), value.clone())).collect()
}

/// A year of this many properties, in a row for each 250.
fn year(properties: u32) -> Year {
    Year { name: "a".into(), unit: "C".into(), hours: hours(properties, &1.into()) }
}

fn key() -> Key<Year> {
    Year::key("a")
}

async fn years() -> TestResult<(Server, StorageAccount, Store<Year>)> {
    let (server, account) = start().await?;
    let years = Store::<Year>::builder(account.table("years")).build()?;
    years.create_if_missing().await?;
    Ok((server, account, years))
}

/// The key of a further row.
fn further(number: u32) -> Key<DynamicEntity> {
    Key::new("all", format!("wide_year_a_{number:02}"))
}

pub(super) const CASES: &[Case] = &[
    case("raise the number in #[entity(wide = ..)], or keep a part in another entity", || {
        async {
            let (_server, account, years) = years().await?;
            let narrow = Store::<Narrow>::builder(account.table("years")).build()?;
            let of = |name: &str, number| {
                let hours = hours(number, &1.into());
                Narrow { name: name.into(), unit: "C".into(), hours }
            };
            let error = refused(narrow.insert(&of("a", 600)).await)?;
            narrow.insert(&of("b", 300)).await?;
            narrow.insert(&of("c", 300)).await?;
            years.insert(&year(600)).await?;
            Ok(error)
        }
        .boxed()
    }),
    case(
        "raise the number in #[entity(wide = ..)], so that fewer names share a part, or let more characters of a name choose it in #[entity(parts = ..)]",
        || {
            async {
                let (_server, account, _) = years().await?;
                let hours = hours(300, &1.into());
                let grouped = Store::<Grouped>::builder(account.table("years")).build()?;
                let year = Grouped { name: "a".into(), hours: hours.clone() };
                let error = refused(grouped.insert(&year).await)?;
                let spread = Store::<Spread>::builder(account.table("years")).build()?;
                spread.insert(&Spread { name: "a".into(), hours }).await?;
                Ok(error)
            }
            .boxed()
        },
    ),
    case("keep large properties in blobs: #[entity(blob)]", || {
        async {
            let (_server, account, years) = years().await?;
            // Longer as JSON than in a row.
            let bytes = Value::from(vec![7_u8; 65_000]);
            let large = Year { hours: hours(70, &bytes), ..year(0) };
            let error = refused(years.insert(&large).await)?;
            let scans = Store::<Scan>::builder(account.table("years"))
                .queue(account.queue("scans"))
                .blobs(account.container("scans"))
                .build()?;
            scans.create_if_missing().await?;
            let pixels = vec![7; 70 * 65_000];
            scans.insert(&Scan { name: "a".into(), pixels, hours: BTreeMap::new() }).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("it is in a further row of the entity, whose RowKey is {longer} longer", || {
        async {
            let (_server, _, years) = years().await?;
            // The index has the RowKey as well, so the name is short enough for its copies.
            let named = |length| Year { name: "x".repeat(length), ..year(300) };
            let mut length = 520;
            let error = loop {
                match years.insert(&named(length)).await {
                    Err(error) if error.to_string().contains("8 longer") => break error,
                    Err(_) => length -= 1,
                    Ok(_) => return Err("no length is refused for its further row".into()),
                }
            };
            years.insert(&named(100)).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("move that row: RowKeys that begin with `wide_` are reserved for further rows", || {
        async {
            let (_server, _, years) = years().await?;
            let row = DynamicEntity::new("all", "wide_year_a_01");
            years.table().insert(&row).await?;
            let error = refused(years.insert(&year(300)).await)?;
            years.table().insert(&DynamicEntity::new("all", "moved")).await?;
            years.table().delete(row.key(), Match::Any).await?;
            years.insert(&year(300)).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("query an index with this property, or compare the entities in the program", || {
        async {
            let (_server, _, years) = years().await?;
            years.insert(&year(300)).await?;
            let all = || years.query(Year::partition());
            let error = refused(all().filter(Year::UNIT.is("C")).all().await)?;
            let of_index = years.query(Year::by_unit("C")).filter(Year::UNIT.is("C"));
            assert_eq!(of_index.all().await?.len(), 1);
            let found = all().all().await?;
            assert_eq!(found.iter().filter(|found| found.entity.unit == "C").count(), 1);
            Ok(error)
        }
        .boxed()
    }),
    case("read the entity again", || {
        async {
            let (server, _, years) = years().await?;
            let read = years.insert(&year(300)).await?.version;
            let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
            // Another program changes a further row, and not the head.
            let other = async {
                held.wait_until_held().await;
                let row = years.table().get(further(1)).await?.unwrap();
                let changed = years.table().replace(&row).await;
                held.release();
                changed
            };
            let (replaced, other) = join(years.replace_if(&year(301), &read), other).await;
            other?;
            drop(held);
            let error = refused(replaced)?;
            let again = years.get(key()).await?.unwrap();
            years.replace_if(&year(301), &again.version).await?;
            Ok(error)
        }
        .boxed()
    }),
    case(
        "restore them; or delete what is left with `Store::delete_remains`, and run `Store::repair`, which removes its rows in indexes",
        || {
            async {
                let (_server, _, years) = years().await?;
                years.insert(&year(600)).await?;
                let table = years.table();
                let row = table.get(further(2)).await?.unwrap().entity;
                table.delete(further(2), Match::Any).await?;
                let error = refused(years.get(key()).await)?;
                table.insert(&row).await?;
                assert!(years.get(key()).await?.is_some());

                table.delete(further(2), Match::Any).await?;
                assert!(years.delete_remains(key()).await?);
                assert!(years.repair().run().await?.is_clean());
                assert!(years.query(Year::by_unit("C")).all().await?.is_empty());
                Ok(error)
            }
            .boxed()
        },
    ),
    case(
        "restore them from a backup; or delete what is left with `Store::delete_remains`, then run `Store::repair` and write the entity again",
        || {
            async {
                let (_server, _, years) = years().await?;
                years.insert(&year(600)).await?;
                let table = years.table();
                let row = table.get(further(2)).await?.unwrap().entity;
                table.delete(further(2), Match::Any).await?;
                let report = years.verify().run().await?;
                let error = reported(&report, "of 2 further rows")?;
                table.insert(&row).await?;
                assert!(years.verify().run().await?.is_clean());

                table.delete(further(2), Match::Any).await?;
                assert!(years.delete_remains(key()).await?);
                years.repair().run().await?;
                years.insert(&year(600)).await?;
                assert!(years.verify().run().await?.is_clean());
                Ok(error)
            }
            .boxed()
        },
    ),
    case("use `Store::delete`", || {
        async {
            let (_server, _, years) = years().await?;
            years.insert(&year(600)).await?;
            let error = refused(years.delete_remains(key()).await)?;
            assert!(years.delete(key()).await?);
            Ok(error)
        }
        .boxed()
    }),
];
