//! Unique values: an e-mail address that belongs to only one user, across all partitions.
//!
//! A table guarantees only unique keys. Users are stored by country; a row for each address, which names its
//! owner, ensures that no two users in any country have the same address.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::store::Store;
use rowkey::{Entity, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};

// ANCHOR: declare
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{country}", row = "user_{id:6}")]
#[entity(unique(name = by_email, value = "{email:lower}"))]
struct User {
    country: String,
    id: u32,
    email: String,
}
// ANCHOR_END: declare

fn user(country: &str, id: u32, email: &str) -> User {
    User { country: country.into(), id, email: email.into() }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;

    // ANCHOR: constraint
    let users =
        Store::<User>::builder(account.table("users")).queue(account.queue("users")).build()?;
    users.create_if_missing().await?;

    let ada = user("uk", 1, "Ada@contoso.com");
    users.insert(&ada).await?;
    let taken = users.insert(&user("us", 2, "ada@contoso.com")).await;
    assert_eq!(taken.err().and_then(|error| error.details().index), Some("by_email"));
    println!("ada@contoso.com is taken, in every country");

    let found = users.find(User::by_email("ADA@contoso.com")).await?.ok_or("not found")?;
    assert_eq!(found.entity, ada);
    // ANCHOR_END: constraint

    // Many users claim the same address concurrently: one succeeds.
    let claims = (10..20).map(|id| {
        let (users, claim) = (users.clone(), user("fr", id, "grace@contoso.com"));
        async move { users.insert(&claim).await }
    });
    let claims = futures_util::future::join_all(claims).await;
    assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1);
    println!("of ten claims for grace@contoso.com one won");

    // ANCHOR: change
    // A change releases the old address after it has claimed the new one.
    users.update(User::key("uk", 1), |user| user.email = "ada@example.org".into()).await?;
    users.insert(&user("us", 2, "ada@contoso.com")).await?;
    assert!(users.delete(User::key("us", 2)).await?);
    // ANCHOR_END: change

    // The connection breaks while the address is claimed: the store determines the outcome.
    let claim = Fault::on(Operation::InsertEntity).nth(1).close_after_commit();
    let lost = server.inject(claim);
    users.insert(&user("de", 3, "konrad@contoso.com")).await?;
    assert_eq!(lost.hits(), 1);

    let report = users.verify().run().await?;
    assert!(report.is_clean());
    println!("{} users, all addresses agree", report.total.right);
    Ok(())
}
