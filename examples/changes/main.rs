//! Copies what changes in a table into a search service: a reader of changes whose position is stored.

use std::collections::HashMap;

use rowkey::table::Watermark;
use rowkey::{Entity, Match, Result, ScanPolicy, StorageAccount, Table};
use rowkey_emulator::{Operation, Server};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{tenant}", row = "order_{id:6}", rename_all = "PascalCase")]
struct Order {
    tenant: String,
    id: u32,
    text: String,
    is_deleted: bool,
}

/// How far a reader came.
#[derive(Entity)]
#[entity(partition = "position", row = "{reader}", rename_all = "PascalCase")]
struct Position {
    reader: String,
    text: String,
}

/// Stands for a search service.
type Search = HashMap<(String, u32), String>;

/// Copies everything that changed since the last call. A program calls it once a minute, for example.
async fn copy_changes(orders: &Table, positions: &Table, search: &mut Search) -> Result<()> {
    let stored = positions.get(Position::key("search")).await?;
    let from = match stored {
        Some(stored) => stored.entity.text.parse()?,
        None => Watermark::beginning(),
    };
    // Each pass is a table scan.
    let mut changes = orders.scan::<Order>().scan_policy(ScanPolicy::Allow).changes(from);
    while let Some(changed) = changes.next().await? {
        // An order may come twice, so the copy is written or removed without a condition.
        let Order { tenant, id, text, is_deleted } = changed.entity;
        if is_deleted {
            search.remove(&(tenant, id));
        } else {
            search.insert((tenant, id), text);
        }
    }
    let text = changes.position().to_string();
    positions.upsert(&Position { reader: "search".into(), text }).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let (orders, positions) = (account.table("orders"), account.table("positions"));
    tokio::try_join!(orders.create(), positions.create())?;
    let order = |id: u32, text: &str| Order {
        tenant: "contoso".into(),
        id,
        text: text.into(),
        is_deleted: false,
    };
    let mut search = Search::new();

    for id in 1..=3 {
        orders.insert(&order(id, "lamp")).await?;
    }
    copy_changes(&orders, &positions, &mut search).await?;
    assert_eq!(search.len(), 3);

    // An order changes, and one is marked as deleted: the service does not tell of deleted rows.
    orders.update(Order::key("contoso", 2), |order: &mut Order| order.text = "desk".into()).await?;
    orders.update(Order::key("contoso", 3), |order: &mut Order| order.is_deleted = true).await?;
    let before = server.journal();
    copy_changes(&orders, &positions, &mut search).await?;
    assert_eq!(search[&("contoso".to_owned(), 2)], "desk");
    assert_eq!(search.len(), 2);
    let scans = server.journal().since(&before).count(Operation::QueryEntities);
    assert_eq!(scans, 1, "a pass of a small table");

    // The reader has seen the mark, so the row may go.
    orders.delete(Order::key("contoso", 3), Match::Any).await?;
    copy_changes(&orders, &positions, &mut search).await?;
    assert_eq!(search.len(), 2);
    Ok(())
}
