//! Several entities, of several types, in one transaction.

use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, ErrorKind, Key};
use rowkey_tests::TestResult;

use super::rows::{Order, agreed, order, start, store};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "desk-{id:4}")]
#[entity(unique(name = by_label, value = "{label}"))]
struct Desk {
    tenant: String,
    id: u32,
    label: String,
}

#[tokio::test]
async fn a_transaction_of_two_types_and_a_row_is_atomic() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let desks =
        Store::<Desk>::builder(account.table("orders")).queue(account.queue("orders")).build()?;
    let desk = Desk { tenant: "contoso".into(), id: 1, label: "window".into() };
    let audit = DynamicEntity::new("contoso", "audit_1");
    let (one, two) = (order(1), order(2));

    let transaction =
        orders.transaction().insert(&one).insert(&two).with(&desks, &desk).row(&audit);
    let plan = transaction.explain().await?;
    assert_eq!(plan.operations(), 1 + 3 + 3 + 1 + 1, "{plan}");
    let submitted = transaction.submit().await?;
    assert_eq!(submitted.versions.len(), 3);
    assert_eq!(agreed_orders(&server).len(), 2);
    assert_eq!(desks.find(Desk::by_label("window")).await?.unwrap().entity, desk);
    assert!(
        account
            .table("orders")
            .get(Key::<DynamicEntity>::new("contoso", "audit_1"))
            .await?
            .is_some()
    );

    let (three, other) = (order(3), Desk { id: 2, ..desk.clone() });
    let error =
        orders.transaction().insert(&three).with(&desks, &other).submit().await.unwrap_err();
    assert_eq!((error.kind(), error.details().index), (ErrorKind::AlreadyExists, Some("by_label")));
    assert_eq!(agreed_orders(&server).len(), 2);
    assert_eq!(orders.find(Order::by_number("A3")).await?, None, "its claim was given back");
    orders.insert(&three).await?;
    Ok(())
}

#[tokio::test]
async fn two_entities_swap_unique_values_in_one_transaction() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let (one, two) = (order(1), order(2));
    let versions = orders.transaction().insert(&one).insert(&two).submit().await?.versions;
    let [Some(first), Some(second)] = &versions[..] else { panic!("{versions:?}") };
    let (at_two, at_one) =
        (Order { desk: Some(2), ..one.clone() }, Order { desk: Some(1), ..two.clone() });
    let swap =
        orders.transaction().replace_if(&at_two, first.clone()).replace_if(&at_one, second.clone());
    swap.submit().await?;
    agreed(&server.snapshot(), true);
    let found = orders.find(Order::by_desk("contoso", 1_u32)).await?.unwrap();
    assert_eq!(found.entity.id, 2);

    let error = orders.transaction().replace_if(&one, first.clone()).submit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let elsewhere = Order { tenant: "fabrikam".into(), ..order(3) };
    let error =
        orders.transaction().insert(&order(4)).insert(&elsewhere).submit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(agreed(&server.snapshot(), true).len(), 2);
    Ok(())
}

/// What [`agreed`] finds without the rows of desks.
fn agreed_orders(server: &rowkey_emulator::Server) -> Vec<String> {
    let snapshot = server.snapshot();
    let rows = snapshot.table("orders").unwrap();
    let heads = rows.entities().filter(|row| row.row_key().starts_with("order_"));
    heads.map(|row| row.row_key().to_owned()).collect()
}
