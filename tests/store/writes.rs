//! Each write once, and what it costs.

use rowkey::ErrorKind;
use rowkey_store::Settled;
use rowkey_tests::TestResult;

use super::rows::{Order, agreed, order, start, store};

#[tokio::test]
async fn every_write_keeps_all_declarations_in_step() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let written = orders.insert(&order(1)).await?;
    assert_eq!(written.settled, Settled::Done);
    assert_eq!(agreed(&server.snapshot(), true), [("order_0001".into(), 100)]);

    let key = || Order::key("contoso", 1);
    let found = orders.update(key(), |order| order.cents = 200).await?;
    agreed(&server.snapshot(), true);
    let moved = Order {
        desk: None,
        customer: "bob".into(),
        courier: Some("lee".into()),
        number: Some("B".into()),
        ..found.entity
    };
    orders.replace_if(&moved, &found.version).await?;
    assert_eq!(agreed(&server.snapshot(), true), [("order_0001".into(), 200)]);

    orders.upsert(&Order { number: None, courier: None, ..moved.clone() }).await?;
    agreed(&server.snapshot(), true);
    orders.upsert(&order(2)).await?;
    assert_eq!(agreed(&server.snapshot(), true).len(), 2);

    assert!(orders.delete(key()).await? && !orders.delete(key()).await?);
    assert_eq!(agreed(&server.snapshot(), true), [("order_0002".into(), 100)]);
    orders.delete(Order::key("contoso", 2)).await?;
    let rows = server.snapshot().table("orders").unwrap().entities().count();
    assert_eq!(rows, 0, "everything goes with the last entity");
    Ok(())
}

#[tokio::test]
async fn an_entity_is_found_by_each_of_its_declarations() -> TestResult {
    let (_server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(7)).await?;
    let found = [
        orders.find(Order::by_desk("contoso", 7_u32)).await?,
        orders.find(Order::by_courier("kim", "contoso", 7_u32)).await?,
        orders.find(Order::by_number("A7")).await?,
        orders.get(Order::key("contoso", 7)).await?,
    ];
    for found in found {
        assert_eq!(found.map(|found| found.entity), Some(order(7)));
    }
    assert_eq!(orders.find(Order::by_number("A8")).await?, None);
    assert!(orders.exists(Order::key("contoso", 7)).await?);
    let many = orders.get_many([7, 8].map(|id| Order::key("contoso", id))).await?;
    assert_eq!(many.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
    Ok(())
}

#[tokio::test]
async fn the_error_names_the_declaration_whose_value_is_taken() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(1)).await?;
    let number = Order { number: Some("A1".into()), ..order(2) };
    let desk = Order { desk: Some(1), ..order(2) };
    for (taken, index) in [(number, Some("by_number")), (desk, Some("by_desk")), (order(1), None)] {
        let error = orders.insert(&taken).await.unwrap_err();
        assert_eq!((error.kind(), error.index()), (ErrorKind::AlreadyExists, index), "{error}");
        assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    }
    orders.insert(&order(2)).await?;
    let error =
        orders.update(Order::key("contoso", 2), |order| order.number = Some("A1".into())).await;
    assert_eq!(error.unwrap_err().index(), Some("by_number"));
    agreed(&server.snapshot(), true);
    Ok(())
}

#[tokio::test]
async fn what_each_write_costs() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let mut before = server.journal();
    let mut cost = || {
        let requests = server.journal().since(&before).len();
        before = server.journal();
        requests
    };
    let plain = |id| Order { courier: None, number: None, ..order(id) };
    orders.insert(&plain(1)).await?;
    // Message, transaction, three for the partial index elsewhere, the entity again, op row, message.
    assert_eq!(cost(), 8, "an insert with one index elsewhere");
    orders.update(Order::key("contoso", 1), |order| order.courier = Some("kim".into())).await?;
    let with_two = cost();
    assert!(with_two <= 14, "an update with two indexes elsewhere: {with_two}");
    orders.update(Order::key("contoso", 1), |order| order.courier = Some("lee".into())).await?;
    let moved = cost();
    assert!(moved <= 14, "an entry elsewhere that moves: {moved}");
    orders.update(Order::key("contoso", 1), |order| order.number = Some("A".into())).await?;
    let claimed = cost();
    assert!(claimed <= 14, "a value that is claimed: {claimed}");
    Ok(())
}

#[tokio::test]
async fn a_change_may_refuse_or_fail_and_then_nothing_is_written() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(1)).await?;
    let before = server.snapshot();
    let refused = orders.try_update(Order::key("contoso", 1), |_| Err("closed")).await?;
    assert_eq!(refused.unwrap_err(), "closed");
    let error = orders.update(Order::key("contoso", 1), |order| order.id = 2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = orders.update(Order::key("contoso", 2), |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(agreed(&before, true), agreed(&server.snapshot(), true));
    Ok(())
}
