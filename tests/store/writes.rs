//! Each write once, and its requests.

use rowkey::ErrorKind;
use rowkey::store::Settled;
use rowkey_tests::TestResult;

use super::rows::{Order, agreed, order, start, store};

#[tokio::test]
async fn every_write_updates_all_declarations() -> TestResult {
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
    // Voids stay until nothing that was sent can land any more.
    let snapshot = server.snapshot();
    let rows = snapshot.table("orders").unwrap().entities();
    let left = rows.filter(|row| !row.row_key().starts_with("op_")).count();
    assert_eq!(left, 0, "everything goes with the last entity");
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
async fn a_duplicate_value_error_names_the_declaration() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(1)).await?;
    let number = Order { number: Some("A1".into()), ..order(2) };
    let desk = Order { desk: Some(1), ..order(2) };
    for (taken, index) in [(number, Some("by_number")), (desk, Some("by_desk")), (order(1), None)] {
        let error = orders.insert(&taken).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.details().index),
            (ErrorKind::AlreadyExists, index),
            "{error}"
        );
        assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    }
    orders.insert(&order(2)).await?;
    let error =
        orders.update(Order::key("contoso", 2), |order| order.number = Some("A1".into())).await;
    assert_eq!(error.unwrap_err().details().index, Some("by_number"));
    agreed(&server.snapshot(), true);
    Ok(())
}

#[tokio::test]
async fn each_write_sends_the_documented_requests() -> TestResult {
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
    // Message, transaction, the row of the partial index elsewhere, op row, message.
    assert_eq!(cost(), 5, "an insert with one index elsewhere");
    orders.update(Order::key("contoso", 1), |order| order.courier = Some("kim".into())).await?;
    // The entity first. The row of the partial index stays as it is.
    assert_eq!(cost(), 6, "an entry elsewhere that is new");
    orders.update(Order::key("contoso", 1), |order| order.courier = Some("lee".into())).await?;
    assert_eq!(cost(), 7, "an entry elsewhere that moves");
    orders.update(Order::key("contoso", 1), |order| order.number = Some("A".into())).await?;
    assert_eq!(cost(), 7, "a value that is claimed, and a whole copy elsewhere");
    Ok(())
}

#[tokio::test]
async fn a_failed_or_declined_change_writes_nothing() -> TestResult {
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

/// A type that nothing belongs to but itself.
#[derive(Clone, Debug, PartialEq, rowkey::Entity)]
#[entity(store, partition = "{room}", row = "light_{id}")]
struct Light {
    room: String,
    id: u32,
    level: i32,
    color: Option<String>,
}

#[tokio::test]
async fn a_patch_reads_only_if_a_declaration_needs_it() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    orders.insert(&order(1)).await?;
    let key = || Order::key("contoso", 1);
    orders.patch(key()).set(Order::COURIER, "lee").set(Order::CENTS, 7).send().await?;
    assert_eq!(agreed(&server.snapshot(), true), [("order_0001".into(), 7)]);
    orders.patch(key()).clear(Order::NUMBER).send().await?;
    assert_eq!(orders.get(key()).await?.unwrap().entity.number, None);
    agreed(&server.snapshot(), true);

    let lights = rowkey::store::Store::<Light>::builder(account.table("orders")).build()?;
    let light = Light { room: "hall".into(), id: 1, level: 3, color: Some("red".into()) };
    lights.insert(&light).await?;
    let before = server.journal();
    let version = lights.patch(Light::key("hall", 1)).set(Light::LEVEL, 4).send().await?;
    assert_eq!(server.journal().since(&before).len(), 1);
    lights.replace_if(&Light { level: 5, ..light.clone() }, &version).await?;
    lights.patch(Light::key("hall", 1)).clear(Light::COLOR).send().await?;
    let expected = Light { level: 5, color: None, ..light };
    assert_eq!(lights.get(Light::key("hall", 1)).await?.unwrap().entity, expected);
    let missing = lights.patch(Light::key("hall", 2)).set(Light::LEVEL, 1).send().await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}
