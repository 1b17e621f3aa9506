//! Where parts of a type meet: the defects that helpers for one part each had, as a store has them mended.
//! The documentation of a test begins with the number of the defect in the list of the write plan's issue.

use futures_util::stream;
use rowkey::edm::Value;
use rowkey::store::{Change, Contribution, Declaration, Settled, Settling, Store};
use rowkey::{ClientOptions, DynamicEntity, Result, async_trait};
use rowkey_emulator::{ErrorCode, Fault, Operation};
use rowkey_tests::TestResult;

use super::rows::{Order, agreed, order, start, store};

/// A row beside each change.
struct Audit;

impl Declaration<Order> for Audit {
    fn name(&self) -> &'static str {
        "audit"
    }

    fn operations(&self) -> usize {
        1
    }

    fn contribute(&self, change: Change<'_, Order>, plan: &mut Contribution<'_>) -> Result<()> {
        let row_key = format!("audit_{}", change.op().mark());
        let mut row = DynamicEntity::new(change.partition_key(), row_key);
        row.set("Order", change.row_key());
        plan.insert(&row)
    }
}

/// What follows elsewhere: a mail for each order that is there.
struct Mail;

#[async_trait]
impl Declaration<Order> for Mail {
    fn name(&self) -> &'static str {
        "mail"
    }

    fn operations(&self) -> usize {
        0
    }

    fn needs_queue(&self) -> bool {
        true
    }

    fn contribute(&self, change: Change<'_, Order>, plan: &mut Contribution<'_>) -> Result<()> {
        plan.target(change.row_key());
        Ok(())
    }

    async fn settle(&self, settling: &Settling<Order>, address: &str) -> Result<Settled> {
        let exists = settling.entity().await?.is_some();
        let mut row = DynamicEntity::new("mails", address);
        row.set("Exists", exists);
        settling.wrote(settling.table().table().upsert(&row).await)
    }
}

/// Item 1: a second part is neither dropped nor does it replace the first.
#[tokio::test]
async fn a_change_writes_the_rows_of_all_parts() -> TestResult {
    let (server, account) = start().await?;
    let build = |account: &rowkey::StorageAccount| {
        Store::<Order>::builder(account.table("orders"))
            .queue(account.queue("orders"))
            .with(Audit)
            .with(Mail)
            .build()
    };
    let orders = build(&account)?;
    let written = orders.insert(&order(1)).await?;
    assert_eq!(written.settled, Settled::Done);
    orders.update(Order::key("contoso", 1), |order| order.cents = 1).await?;
    orders.delete(Order::key("contoso", 1)).await?;
    let snapshot = server.snapshot();
    let rows = snapshot.table("orders").unwrap();
    let audits = rows.entities().filter(|row| row.row_key().starts_with("audit_")).count();
    assert_eq!(audits, 3);
    let mail = rows.entity("mails", "order_0001").unwrap();
    assert_eq!(mail.get("Exists"), Some(Value::Boolean(false)));
    Ok(())
}

/// Item 2: bulk loads and deletions update the indexes, and reject duplicate values.
#[tokio::test]
async fn concurrent_writes_keep_indexes_consistent() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(0)).await?;
    let twice = Order { number: Some("A0".into()), ..order(20) };
    let all = (1..20).map(order).chain([twice]);
    let report = orders.load(stream::iter(all)).run().await?;
    assert_eq!((report.total.right, report.part("by_number").failed), (19, 1), "{report:?}");
    assert_eq!(agreed(&server.snapshot(), true).len(), 20);
    assert!(orders.find(Order::by_number("A7")).await?.is_some());
    orders.delete_where(Order::partition("contoso")).run().await?;
    assert_eq!(server.snapshot().table("orders").unwrap().len(), 0, "no copy is left");
    Ok(())
}

/// Item 4: what decides is read on the primary, with every setting of the options.
#[tokio::test]
async fn decisions_are_based_on_the_primary() -> TestResult {
    let (server, account) = start().await?;
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    let lagging = account.with_options(options);
    let orders = store(&lagging)?;
    let _behind = server.hold_back_secondary();
    orders.insert(&order(1)).await?;
    let busy =
        || server.inject(Fault::on(Operation::GetEntity).times(1).reject(ErrorCode::SERVER_BUSY));
    let one = busy();
    let update = |order: &mut Order| order.courier = Some("lee".into());
    assert_eq!(orders.update(Order::key("contoso", 1), update).await?.entity.cents, 100);
    drop(one);
    agreed(&server.snapshot(), true);
    let one = busy();
    let taken = Order { number: Some("A1".into()), ..order(2) };
    assert_eq!(orders.insert(&taken).await.unwrap_err().details().index, Some("by_number"));
    drop(one);
    let one = busy();
    assert!(orders.repair().run().await?.is_clean());
    drop(one);
    assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    Ok(())
}

/// Item 5: an overtaken update does not leave its value to two.
#[tokio::test]
async fn a_value_that_moves_in_a_cycle_has_one_owner() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    for id in 1..=3 {
        orders.insert(&order(id)).await?;
    }
    let set = |id: u32, number: &'static str| {
        let orders = orders.clone();
        async move {
            let change = |order: &mut Order| order.number = Some(number.into());
            orders.update(Order::key("contoso", id), change).await
        }
    };
    for _ in 0..4 {
        let numbers = [(1, "X"), (2, "X"), (3, "X"), (1, "Y"), (2, "Y"), (3, "A1"), (1, "A1")];
        let all = numbers.map(|(id, number)| set(id, number));
        for updated in futures_util::future::join_all(all).await {
            let error = updated.err().and_then(|error| error.details().index);
            assert!(error.is_none_or(|index| index == "by_number"));
        }
        for _ in 0..2 {
            server.clock().advance(std::time::Duration::from_secs(61));
            orders.work_once().await?;
        }
        agreed(&server.snapshot(), true);
    }
    Ok(())
}

/// Item 12: a caller that goes away after the commit loses nothing, and no scan is needed.
#[tokio::test]
async fn a_dropped_call_is_completed_through_its_message() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(2).hold());
    {
        let one = order(1);
        let insert = std::pin::pin!(orders.insert(&one));
        futures_util::future::select(insert, std::pin::pin!(held.wait_until_held())).await;
    }
    held.discard();
    server.clock().advance(std::time::Duration::from_secs(61));
    let before = server.journal();
    orders.work_once().await?;
    agreed(&server.snapshot(), true);
    let scans = server.journal().since(&before).of(Operation::QueryEntities).len();
    assert_eq!(scans, 0);
    Ok(())
}
