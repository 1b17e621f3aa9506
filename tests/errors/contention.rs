//! Many writers of the same entities, each of which reads and changes them in a transaction, as the page about stores
//! shows it.

use std::sync::Arc;

use futures_util::future::try_join_all;
use rowkey::Entity;
use rowkey::store::Store;
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;
use tokio::sync::Barrier;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{bank}", row = "account_{id:6}")]
struct Account {
    bank: String,
    id: u32,
    cents: i64,
}

const WRITERS: u32 = 40;

fn holder(id: u32, cents: i64) -> Account {
    Account { bank: "north".into(), id, cents }
}

/// Moves a cent from one account to the other, in one transaction.
async fn pay(accounts: &Store<Account>, begin: &Barrier) -> Result<(), String> {
    begin.wait().await;
    let paid = accounts
        .transaction()
        .update(Account::key("north", 1), |from| from.cents -= 1)
        .update(Account::key("north", 2), |to| to.cents += 1)
        .submit()
        .await;
    paid.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn forty_writers_of_the_same_entities_all_get_their_turn() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let accounts = Store::<Account>::builder(account(&server)?.table("accounts")).build()?;
    accounts.create_if_missing().await?;
    let (one, two) = (holder(1, 100), holder(2, 0));
    accounts.transaction().insert(&one).insert(&two).submit().await?;
    // All begin together. A writer loses a round only if another one was committed since its read, which can
    // happen 39 times: fewer than the rounds.
    let begin = Arc::new(Barrier::new(WRITERS as usize));
    let writers = (0..WRITERS).map(|_| {
        let (accounts, begin) = (accounts.clone(), Arc::clone(&begin));
        async move { pay(&accounts, &begin).await }
    });
    try_join_all(writers).await?;
    let left = accounts.get(Account::key("north", 1)).await?.ok_or("missing")?.entity.cents;
    let received = accounts.get(Account::key("north", 2)).await?.ok_or("missing")?.entity.cents;
    assert_eq!((left, received), (60, 40));
    Ok(())
}
