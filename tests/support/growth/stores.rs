//! What a store keeps in step: lists, indexes, views, wide entities; verify, and the backlog of a queue that failed.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream;
use rowkey::store::{Store, View};
use rowkey::{Entity, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Service};

use super::{Cost, Error, Machine, Running};

/// In a list by tag.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{shop}", row = "listed_{id:6}")]
#[entity(list(name = by_tag, value = "{tag}"))]
struct Listed {
    shop: String,
    id: u32,
    tag: String,
}

/// In an index by tag.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{shop}", row = "indexed_{id:6}")]
#[entity(index(name = by_tag, row = "tag_{tag}", many))]
struct Indexed {
    shop: String,
    id: u32,
    tag: String,
}

/// With a copy in another table.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{shop}", row = "copied_{id:6}")]
#[entity(index(name = by_code, table = "codes", partition = "code_{code}", row = "{shop}_{id}"))]
struct Copied {
    shop: String,
    id: u32,
    code: String,
}

/// In groups of a view.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{shop}", row = "sold_{id:6}")]
struct Sold {
    shop: String,
    id: u32,
    group: u32,
    cents: i64,
}

/// The figures of a group.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{number:6}", row = "summary")]
struct Group {
    number: u32,
    sold: i64,
    cents: i64,
    least: Option<i64>,
}

/// Of several rows.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 98, partition = "{shop}", row = "year_{id:4}")]
struct Wide {
    shop: String,
    id: u32,
    #[entity(rest)]
    numbers: BTreeMap<String, f64>,
}

/// The properties of a further row of a wide entity.
const IN_A_ROW: usize = 249;

fn shop() -> String {
    "contoso".to_owned()
}

fn ids(elements: usize) -> std::ops::Range<u32> {
    0..u32::try_from(elements).unwrap_or(u32::MAX)
}

async fn store<E: Entity + Clone + Send + Sync + 'static>(
    account: &StorageAccount,
) -> Result<Store<E>, Error> {
    let store = Store::builder(account.table("items")).queue(account.queue("items")).build()?;
    store.create_if_missing().await?;
    Ok(store)
}

fn listed(id: u32) -> Listed {
    Listed { shop: shop(), id, tag: "new".to_owned() }
}

/// Inserts one entity after the other.
fn inserts<E: Entity + Clone + Send + Sync + 'static>(
    machine: &Machine,
    elements: usize,
    entity: fn(u32) -> E,
) -> Running<'_> {
    Box::pin(async move {
        let store = store::<E>(&machine.account).await?;
        let insert = async {
            for id in ids(elements) {
                store.insert(&entity(id)).await?;
            }
            Ok(())
        };
        machine.cost(insert).await
    })
}

pub(super) fn list_inserts(machine: &Machine, elements: usize) -> Running<'_> {
    inserts(machine, elements, listed)
}

pub(super) fn list_keys(machine: &Machine, elements: usize) -> Running<'_> {
    Box::pin(async move {
        let store = store::<Listed>(&machine.account).await?;
        store.load(stream::iter(ids(elements).map(listed))).run().await?;
        let read = async {
            let keys = store.list_keys(&Listed::by_tag("contoso", "new")).await?;
            if keys.len() == elements { Ok(()) } else { Err("keys are missing".into()) }
        };
        machine.cost(read).await
    })
}

fn indexed(id: u32) -> Indexed {
    Indexed { shop: shop(), id, tag: "new".to_owned() }
}

pub(super) fn index_inserts(machine: &Machine, elements: usize) -> Running<'_> {
    inserts(machine, elements, indexed)
}

pub(super) fn index_read(machine: &Machine, elements: usize) -> Running<'_> {
    Box::pin(async move {
        let store = store::<Indexed>(&machine.account).await?;
        store.load(stream::iter(ids(elements).map(indexed))).run().await?;
        let read = async {
            let found = store.query(Indexed::by_tag("contoso", "new")).all().await?;
            if found.len() == elements { Ok(()) } else { Err("entities are missing".into()) }
        };
        machine.cost(read).await
    })
}

fn sold(id: u32, group: u32) -> Sold {
    Sold { shop: shop(), id, group, cents: i64::from(id) }
}

async fn store_with_view(account: &StorageAccount) -> Result<Store<Sold>, Error> {
    let groups = account.table("groups");
    groups.create().await?;
    let view = View::new("groups", &groups, |sold: &Sold| Some(Group::key(sold.group)))
        .count(Group::SOLD)
        .sum(Group::CENTS, |sold| sold.cents)
        .min(Group::LEAST, |sold| sold.cents);
    let store = Store::builder(account.table("items")).queue(account.queue("items"));
    let store = store.with(view).build()?;
    store.create_if_missing().await?;
    Ok(store)
}

async fn insert_sold(
    machine: &Machine,
    elements: usize,
    group: fn(u32) -> u32,
) -> Result<Cost, Error> {
    let store = store_with_view(&machine.account).await?;
    let insert = async {
        for id in ids(elements) {
            store.insert(&sold(id, group(id))).await?;
        }
        Ok(())
    };
    machine.cost(insert).await
}

pub(super) fn view_groups(machine: &Machine, elements: usize) -> Running<'_> {
    Box::pin(insert_sold(machine, elements, |id| id))
}

pub(super) fn view_of_one_group(machine: &Machine, elements: usize) -> Running<'_> {
    Box::pin(insert_sold(machine, elements, |_| 1))
}

pub(super) fn view_minimum(machine: &Machine, elements: usize) -> Running<'_> {
    Box::pin(async move {
        let store = store_with_view(&machine.account).await?;
        store.load(stream::iter(ids(elements).map(|id| sold(id, 1)))).run().await?;
        machine.cost(async { Ok(store.delete(Sold::key("contoso", 0_u32)).await.map(drop)?) }).await
    })
}

/// An entity of this number of rows.
fn wide(rows: usize) -> Wide {
    let numbers = (0..(rows - 1) * IN_A_ROW + 100).map(|number| (format!("N{number:05}"), 0.5));
    Wide { shop: shop(), id: 1, numbers: numbers.collect() }
}

pub(super) fn wide_insert(machine: &Machine, rows: usize) -> Running<'_> {
    Box::pin(async move {
        let store = store::<Wide>(&machine.account).await?;
        let entity = wide(rows);
        let cost = machine.cost(async { Ok(store.insert(&entity).await.map(drop)?) }).await?;
        let stored = machine.server.snapshot();
        let stored = stored.table("items").map_or(0, |table| table.partition("contoso").count());
        if stored == rows { Ok(cost) } else { Err(format!("{stored} rows").into()) }
    })
}

pub(super) fn wide_get(machine: &Machine, rows: usize) -> Running<'_> {
    Box::pin(async move {
        let store = store::<Wide>(&machine.account).await?;
        store.insert(&wide(rows)).await?;
        let get = async { Ok(store.get(Wide::key("contoso", 1_u32)).await.map(drop)?) };
        machine.cost(get).await
    })
}

pub(super) fn wide_update(machine: &Machine, rows: usize) -> Running<'_> {
    Box::pin(async move {
        let store = store::<Wide>(&machine.account).await?;
        store.insert(&wide(rows)).await?;
        let update = async {
            let change = |wide: &mut Wide| {
                wide.numbers.insert("N00000".to_owned(), 1.5);
            };
            store.update(Wide::key("contoso", 1_u32), change).await?;
            Ok(())
        };
        machine.cost(update).await
    })
}

fn copied(id: u32) -> Copied {
    Copied { shop: shop(), id, code: format!("C{id}") }
}

pub(super) fn verify(machine: &Machine, elements: usize) -> Running<'_> {
    Box::pin(async move {
        let store = store::<Copied>(&machine.account).await?;
        store.load(stream::iter(ids(elements).map(copied))).run().await?;
        let verify = async {
            let report = store.verify().run().await?;
            if report.is_clean() { Ok(()) } else { Err(format!("{report:?}").into()) }
        };
        machine.cost(verify).await
    })
}

/// Writes while the queue and the table of the copies fail, so that each leaves a row in the backlog.
pub(super) fn backlog(machine: &Machine, elements: usize) -> Running<'_> {
    Box::pin(async move {
        let store = store::<Copied>(&machine.account).await?;
        let busy = ErrorCode::SERVER_BUSY;
        let queue = Fault::service(Service::Queue).times(u64::MAX).reject(busy.clone());
        let queue = machine.server.inject(queue);
        let codes = Fault::service(Service::Table).resource("codes").times(u64::MAX).reject(busy);
        let codes = machine.server.inject(codes);
        for id in ids(elements) {
            store.insert(&copied(id)).await?;
        }
        drop((queue, codes));
        let settle = async {
            let mut settled = 0;
            // The second time deletes the op rows, after the longest time that a request may be under way.
            for _ in 0..3 {
                machine.wait(Duration::from_secs(46 * 60));
                settled += store.drain_backlog().await?.settled;
            }
            if usize::try_from(settled)? < elements {
                Err("writes are left".into())
            } else {
                Ok(())
            }
        };
        machine.cost(settle).await
    })
}
