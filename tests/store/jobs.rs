//! Jobs over many entities: verify, repair, delete and load.

use futures_util::stream;
use rowkey::patterns::job::{Job, Report, Walk};
use rowkey::{ClientOptions, DynamicEntity, Key, Match, ScanPolicy};
use rowkey_tests::TestResult;

use super::rows::{Order, agreed, order, start, store};

fn many(count: u32) -> Vec<Order> {
    let one = |id: u32| Order {
        tenant: ["contoso", "fabrikam"][usize::from(id % 2 == 1)].into(),
        ..order(id)
    };
    (0..count).map(one).collect()
}

#[tokio::test]
async fn a_load_writes_all_rows_of_its_entities_and_is_repeatable() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let all = many(60);
    for _ in 0..2 {
        let report = orders.load(stream::iter(all.clone())).run().await?;
        assert_eq!((report.total.right, report.is_clean()), (60, true), "{report:?}");
        let verified = orders.verify().run().await?;
        assert!(verified.is_clean(), "{verified:?}");
        assert_eq!(verified.part("by_number").right, 60);
    }
    let taken = Order { number: Some("A7".into()), ..order(100) };
    let other = Order { cents: 7, ..order(2) };
    let report = orders.load(stream::iter([taken, other, order(102)])).run().await?;
    assert_eq!((report.total.failed, report.total.right), (2, 1), "{report:?}");
    assert_eq!(report.part("by_number").failed, 1);
    assert!(orders.verify().run().await?.is_clean());
    drop(server);
    Ok(())
}

#[tokio::test]
async fn a_load_takes_few_transactions() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    // Nothing elsewhere but a partial copy, and two copies beside each.
    let plain =
        |id: u32| Order { courier: None, number: None, tenant: "contoso".into(), ..order(id) };
    let before = server.journal();
    let all = (0..330).map(plain);
    orders.load(stream::iter(all)).run().await?;
    let sent = server.journal().since(&before);
    let transactions = sent.of(rowkey_emulator::Operation::Transaction).len();
    // 99 operations besides the op row hold 33 orders with two copies each.
    // The copies elsewhere are in two partitions, by size. The last one deletes the op rows.
    assert_eq!(transactions, 10 * (1 + 2) + 1, "one for each 33 orders, and for each partition");
    Ok(())
}

#[tokio::test]
async fn deleting_a_partition_deletes_all_its_rows_and_copies() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.load(stream::iter(many(60))).run().await?;
    let report = orders.delete_where(Order::partition("contoso")).run().await?;
    assert_eq!(report.total.right, 30);
    let verified = orders.verify().run().await?;
    assert!(verified.is_clean() && verified.part("by_number").right == 30, "{verified:?}");
    orders.delete_where(Order::partition("fabrikam")).run().await?;
    assert_eq!(server.snapshot().table("orders").unwrap().len(), 0);
    Ok(())
}

#[tokio::test]
async fn inconsistent_rows_are_reported_and_repaired() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.load(stream::iter((0..6).map(order))).run().await?;
    let table = account.table("orders");
    let key = Key::<DynamicEntity>::new;
    // A copy is missing, one is stale, one is without its entity, and so on.
    table.delete(key("contoso", "desk_0000000000"), Match::Any).await?;
    table.delete(key("courier_kim", "contoso_0000000001"), Match::Any).await?;
    table.delete(key("unique_order_by_number_A2", "claim"), Match::Any).await?;
    let mut stale = table.get(key("courier_kim", "contoso_0000000003")).await?.unwrap();
    stale.entity.set("cents", 7_i64);
    table.replace(&stale).await?;
    let copies = [("contoso", "customer_ada_order_0004"), ("unique_order_by_number_A4", "claim")];
    table.delete(key("contoso", "order_0004"), Match::Any).await?;

    let found = orders.verify().run().await?;
    let drifted = |report: &Report| {
        ["by_desk", "by_customer", "by_courier", "by_size", "by_number"].map(|name| {
            let part = report.part(name);
            (part.missing, part.stale, part.orphaned)
        })
    };
    let expected = [(1, 0, 1), (0, 0, 1), (1, 1, 1), (0, 0, 1), (1, 0, 1)];
    assert_eq!(drifted(&found), expected, "{found:?}");
    for (partition, row) in copies {
        assert!(table.get(key(partition, row)).await?.is_some(), "verifying changes nothing");
    }
    let repaired = orders.repair().run().await?;
    assert!(repaired.is_clean() && repaired.total.repaired == 9, "{repaired:?}");
    assert!(orders.verify().run().await?.is_clean());
    assert_eq!(agreed(&server.snapshot(), true).len(), 5);
    Ok(())
}

#[tokio::test]
async fn an_undecodable_row_is_reported_and_the_job_continues() -> TestResult {
    let (_server, account) = start().await?;
    let orders = store(&account)?;
    orders.load(stream::iter((0..3).map(order))).run().await?;
    let mut garbage = DynamicEntity::new("contoso", "order_0009");
    garbage.set("customer", 7);
    account.table("orders").insert(&garbage).await?;
    let report = orders.repair().run().await?;
    assert_eq!((report.total.unreadable, report.problems.len()), (1, 1));
    assert_eq!(report.problems[0].row_key, "order_0009");
    assert_eq!(report.part("by_number").right, 3);
    Ok(())
}

/// A writer that stops before its commit leaves a claim; nothing tells of it once the message is gone.
#[tokio::test]
async fn claims_without_an_announcement_are_swept() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let fault = rowkey_emulator::Fault::on(rowkey_emulator::Operation::Transaction);
    let held = server.inject(fault.hold());
    {
        let one = order(1);
        let insert = orders.insert(&one);
        futures_util::future::select(
            std::pin::pin!(insert),
            std::pin::pin!(held.wait_until_held()),
        )
        .await;
    }
    held.discard();
    let account = rowkey_tests::sweep::account(&server)?;
    let orders = store(&account)?;
    account.queue("orders").clear().await?;
    let found = orders.verify().run().await?;
    assert_eq!(found.part("by_number").orphaned, 1, "{found:?}");
    assert!(orders.repair().run().await?.is_clean());
    orders.insert(&order(1)).await?;
    // A request that is late must still meet the void: it is kept, and no fault.
    server.clock().advance(std::time::Duration::from_secs(1200));
    let soon = rowkey_tests::sweep::account(&server)?;
    let kept = store(&soon)?.repair().run().await?;
    assert_eq!((kept.part("operations").skipped, kept.is_clean()), (1, true), "{kept:?}");
    server.clock().advance(std::time::Duration::from_secs(3600));
    let later = rowkey_tests::sweep::account(&server)?;
    let orders = store(&later)?;
    let swept = orders.repair().run().await?;
    assert_eq!((swept.part("operations").orphaned, swept.is_clean()), (1, true), "{swept:?}");
    assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    Ok(())
}

/// Item 9: a job is deliberate, so a policy against scans stops none.
#[tokio::test]
async fn jobs_ignore_the_scan_policy() -> TestResult {
    let (_server, account) = start().await?;
    let scan_policy = ScanPolicy::Deny;
    let denying = account.with_options(ClientOptions { scan_policy, ..account.options().clone() });
    let orders = store(&denying)?;
    orders.load(stream::iter((0..3).map(order))).run().await?;
    assert!(orders.verify().run().await?.is_clean());
    assert!(orders.repair().run().await?.is_clean());
    let all = || Walk::new(orders.table(), rowkey::Table::scan::<Order>);
    assert_eq!(Job::count(all()).run().await?.total.right, 3);
    assert_eq!(orders.delete_found(all()).run().await?.total.right, 3);
    Ok(())
}
