//! What a store costs the client: inserting and updating an entity of two indexes, against one transaction
//! of the same three rows; and loading, against plain rows.

use std::time::Instant;

use futures_util::stream;
use rowkey::pace::Targets;
use rowkey::patterns::job::Job;
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, StorageAccount, Table as Remote, Transaction};

use crate::clients::run::Result;
use crate::process::{Server, Service, cpu};
use crate::report::{Goal, Rounds, Table, figure, judged};
use crate::sign::{ACCOUNT, KEY};

const OPERATIONS: u32 = 2_000;
const LOADED: u32 = 20_000;

macro_rules! order {
    ($name:ident, $($store:tt)*) => {
        #[derive(Clone, Debug, Entity)]
        #[entity($($store)* partition = "{tenant}", row = "order_{id}", rename_all = "PascalCase")]
        #[entity(index(name = by_number, row = "number_{number}"))]
        #[entity(index(name = by_customer, row = "customer_{customer}", many))]
        struct $name {
            tenant: String,
            id: u32,
            number: String,
            customer: String,
            cents: i64,
            open: bool,
            notes: String,
        }

        impl $name {
            fn numbered(tenant: &str, id: u32) -> Self {
                Self {
                    tenant: tenant.to_owned(),
                    id,
                    number: format!("A{id:08}"),
                    customer: format!("customer {}", id % 100),
                    cents: i64::from(id),
                    open: true,
                    notes: "to be delivered at the back door, in the afternoon".repeat(4),
                }
            }
        }
    };
}

order!(Order,);
order!(Stored, store,);

/// Compares for `rounds` rounds and returns the tables.
pub async fn compare(rounds: usize) -> Result<String> {
    let server = Server::rowkey(&[])?;
    // The server is not Azure: loading is compared, and not the documented targets.
    let account = StorageAccount::builder()
        .connection_string(&format!(
            "AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint=http://{}/{ACCOUNT}",
            server.host(Service::Table)
        ))?
        .targets(Targets::UNLIMITED)
        .build()?;
    let (mut new, mut plain, mut update) = Default::default();
    let (mut loaded, mut rows) = (Rounds::default(), Rounds::default());
    // The first round is a warm-up, and is not counted.
    for round in 0..=rounds {
        eprintln!("store: round {round}");
        let table = |name: &str| account.table(&format!("{name}{round}"));
        let (by_store, by_hand) = (table("store"), table("plain"));
        for table in [&by_store, &by_hand] {
            table.create().await?;
        }
        let store = Store::<Stored>::builder(by_store).build()?;

        let begun = cpu("self")?;
        for id in 0..OPERATIONS {
            store.insert(&Stored::numbered("contoso", id)).await?;
        }
        push(&mut new, round, begun)?;
        let begun = cpu("self")?;
        for id in 0..OPERATIONS {
            by_hand_insert(&by_hand, id).await?;
        }
        push(&mut plain, round, begun)?;

        let begun = cpu("self")?;
        for id in 0..OPERATIONS {
            store.update(Stored::key("contoso", id), |order| order.number.push('B')).await?;
        }
        push(&mut update, round, begun)?;

        let begun = Instant::now();
        let all = (0..LOADED).map(|id| Stored::numbered(&format!("tenant {}", id % 8), id));
        store.load(stream::iter(all)).run().await?;
        let stored = f64::from(LOADED * 3) / begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let all = (0..LOADED * 3).map(|id| Order::numbered(&format!("tenant {}", id % 8), id));
        if !Job::insert(&by_hand, stream::iter(all)).run().await?.is_clean() {
            return Err("the plain rows were not all written".into());
        }
        if round > 0 {
            loaded.push(stored);
            rows.push(f64::from(LOADED * 3) / begun.elapsed().as_secs_f64());
        }
    }
    let mut out = Table::new(&["2 indexes", "Store", "plain EGT", "Store / plain"]);
    out.row(vec![
        "insert, CPU us".to_owned(),
        figure(new.median()),
        figure(plain.median()),
        judged(&new.over(&plain), Goal::AtMost(1.5)),
    ]);
    out.row(vec!["update, CPU us".to_owned(), figure(update.median()), "-".into(), "-".into()]);
    let mut bulk = Table::new(&["rows per second", "plain", "with their 2 copies", "ratio"]);
    bulk.row(vec![
        "load".to_owned(),
        figure(rows.median()),
        figure(loaded.median()),
        judged(&loaded.over(&rows), Goal::AtLeast(0.7)),
    ]);
    Ok(format!("{}\n{}", out.render(), bulk.render()))
}

fn push(rounds: &mut Rounds, round: usize, begun: std::time::Duration) -> Result<()> {
    if round > 0 {
        let spent = cpu("self")?.saturating_sub(begun);
        rounds.push(spent.as_secs_f64() * 1e6 / f64::from(OPERATIONS));
    }
    Ok(())
}

/// The same three rows by hand.
async fn by_hand_insert(table: &Remote, id: u32) -> Result<()> {
    let order = Order::numbered("contoso", id);
    let copy = |row: String| -> Result<DynamicEntity> {
        let mut copy = DynamicEntity::of(&order)?;
        copy.set("PrimaryRowKey", copy.row_key.clone());
        copy.row_key = row;
        Ok(copy)
    };
    let (number, customer) = (
        copy(format!("number_{}", order.number))?,
        copy(format!("customer_{}_order_{id}", order.customer))?,
    );
    let all = [&number, &customer];
    let transaction = table.transaction().insert(&order);
    all.into_iter().fold(transaction, Transaction::insert).submit().await?;
    Ok(())
}
