//! Unique values: an e-mail address that one user alone has, in whatever partition users are.
//!
//! A table keeps its keys unique and nothing else. Users are stored by country; that no two of them,
//! in any country, have the same address is kept by a row for each address, which says whose it is.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::{Entity, StorageAccount};
use rowkey_eventual::unique::{Claimed, Unique};
use rowkey_server::{Fault, Operation, Server};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{country}", row = "user_{id:6}")]
struct User {
    country: String,
    id: u32,
    email: String,
}

fn user(country: &str, id: u32, email: &str) -> User {
    User { country: country.into(), id, email: email.into() }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    account.table("users").create().await?;
    account.table("reservations").create().await?;

    // ANCHOR: constraint
    let users = Unique::new(
        account.table("users"),
        account.table("reservations"),
        "email",
        |user: &User| Some(user.email.clone()),
    )
    // What counts as the same address is yours to say.
    .normalized(|email| email.trim().to_lowercase());

    let ada = user("uk", 1, "Ada@contoso.com");
    assert!(matches!(users.insert(&ada).await?, Claimed::Written(_)));
    let other = user("us", 2, "ada@contoso.com");
    assert_eq!(users.insert(&other).await?, Claimed::Taken { until: None });
    println!("ada@contoso.com is taken, in every country");

    let found = users.find("ADA@contoso.com").await?.ok_or("not found")?;
    assert_eq!(found.entity, ada);
    // ANCHOR_END: constraint

    // Many at once want the same address: one gets it.
    let claims = (10..20).map(|id| {
        let (users, claim) = (users.clone(), user("fr", id, "grace@contoso.com"));
        async move { users.insert(&claim).await }
    });
    let claims = futures_util::future::try_join_all(claims).await?;
    let winners = claims.iter().filter(|claim| matches!(claim, Claimed::Written(_)));
    assert_eq!(winners.count(), 1);
    println!("of ten claims for grace@contoso.com one won");

    // ANCHOR: change
    // A change frees the old address, once the new one is had.
    let change = |user: &mut User| user.email = "ada@example.org".into();
    let changed = users.update(User::key("uk", 1), change).await?;
    assert!(matches!(changed, Claimed::Written(_)));
    assert!(matches!(users.insert(&other).await?, Claimed::Written(_)));
    assert!(users.delete(User::key("us", 2)).await?);
    // ANCHOR_END: change

    // The connection breaks when the address is reserved: nobody knows what became of it.
    let reservation = Fault::on(Operation::InsertEntity).resource("reservations").nth(1);
    let _lost = server.inject(reservation.close_after_commit());
    let unsure = user("de", 3, "konrad@contoso.com");
    let error = users.insert(&unsure).await.err().ok_or("the answer was lost")?;
    println!("in doubt: {error}");
    // Until its reservation expires, nobody else gets the address..
    let rival = users.insert(&user("de", 4, "konrad@contoso.com")).await?;
    assert!(matches!(rival, Claimed::Taken { until: Some(_) }));
    // .. and the same call again settles it.
    assert!(matches!(users.insert(&unsure).await?, Claimed::Written(_)));

    let report = users.verify().await?;
    assert!(report.is_clean());
    println!("{} users, {} reservations, all agree", report.entities, report.reservations);
    Ok(())
}
