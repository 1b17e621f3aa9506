//! Unique values: one entity of a table has each, through every failure and for any number of writers.

use futures_util::future::join_all;
use rowkey::store::Store;
use rowkey::{ClientOptions, Entity, ErrorKind, ScanPolicy, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{country}", row = "user_{id:6}")]
#[entity(unique(name = by_email, value = "{email:lower}"))]
#[entity(index(name = by_city, partition = "city_{city}", row = "{country}_{id}"))]
struct User {
    country: String,
    id: u32,
    email: Option<String>,
    city: String,
}

fn user(country: &str, id: u32, email: &str) -> User {
    let email = (!email.is_empty()).then(|| email.to_owned());
    User { country: country.into(), id, email, city: "Leeds".into() }
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<User>> {
    Store::builder(account.table("users")).queue(account.queue("users")).build()
}

async fn start() -> TestResult<(Server, StorageAccount, Store<User>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    let users = store(&account)?;
    users.create_if_missing().await?;
    Ok((server, account, users))
}

fn reading_secondary(account: &StorageAccount) -> StorageAccount {
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    account.with_options(options)
}

#[tokio::test]
async fn a_value_has_one_owner_in_all_partitions() -> TestResult {
    let (_server, _, users) = start().await?;
    users.insert(&user("uk", 1, "Ada@contoso.com")).await?;
    let taken = users.insert(&user("us", 1, "ADA@contoso.com")).await.unwrap_err();
    assert_eq!((taken.kind(), taken.details().index), (ErrorKind::AlreadyExists, Some("by_email")));
    assert!(!taken.to_string().contains("contoso"), "{taken}");
    // Those without a value claim none.
    users.insert(&user("us", 2, "")).await?;
    users.insert(&user("us", 3, "")).await?;
    // A value that is given up is free at once.
    users.update(User::key("uk", 1), |user| user.email = None).await?;
    users.insert(&user("us", 1, "ada@contoso.com")).await?;
    let found = users.find(User::by_email("ada@CONTOSO.com")).await?.unwrap();
    assert_eq!(found.entity.country, "us");
    assert!(users.delete(User::key("us", 1)).await?);
    assert!(users.find(User::by_email("ada@contoso.com")).await?.is_none());
    users.update(User::key("us", 2), |user| user.email = Some("ada@contoso.com".into())).await?;
    assert!(users.verify().run().await?.is_clean());
    Ok(())
}

#[tokio::test]
async fn one_of_several_concurrent_claims_of_a_value_succeeds() -> TestResult {
    let (_server, _, users) = start().await?;
    let wanted = (0..12).map(|id| {
        let users = users.clone();
        async move { users.insert(&user("uk", id, "ada@contoso.com")).await }
    });
    let results = join_all(wanted).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(
        results.iter().filter_map(|one| one.as_ref().err()).all(|e| e.details().index.is_some())
    );
    Ok(())
}

/// Item 3: a unique value and an index of one type: a write keeps both.
#[tokio::test]
async fn a_unique_value_and_an_index_are_updated_together() -> TestResult {
    let (_server, _, users) = start().await?;
    users.insert(&user("uk", 7, "ada@contoso.com")).await?;
    let at = |city: &str| users.query(User::by_city_all(city)).page(10, None);
    assert_eq!(at("Leeds").await?.entities.len(), 1);
    users.update(User::key("uk", 7), |user| user.city = "York".into()).await?;
    assert_eq!((at("Leeds").await?.entities.len(), at("York").await?.entities.len()), (0, 1));
    Ok(())
}

/// Item 4: a claimant reads on the primary that the owner of a value has it.
#[tokio::test]
async fn a_duplicate_value_is_checked_on_the_primary() -> TestResult {
    let (server, account, users) = start().await?;
    users.insert(&user("uk", 1, "ada@fabrikam.com")).await?;
    let behind = server.hold_back_secondary();
    let change = |user: &mut User| user.email = Some("ada@contoso.com".into());
    users.update(User::key("uk", 1), change).await?;
    for nth in 1..=3 {
        let reads = Fault::on(Operation::GetEntity).resource("users");
        let busy = server.inject(reads.nth(nth).reject(ErrorCode::SERVER_BUSY));
        let lagging = store(&reading_secondary(&account))?;
        let taken = lagging.insert(&user("uk", 2, "ada@contoso.com")).await.unwrap_err();
        assert_eq!(taken.details().index, Some("by_email"), "{nth}");
        drop(busy);
    }
    drop(behind);
    assert!(users.get(User::key("uk", 2)).await?.is_none());
    Ok(())
}

/// Item 9: no job is stopped by a policy that is meant for queries of a program.
#[tokio::test]
async fn jobs_ignore_the_scan_policy() -> TestResult {
    let (_server, account, users) = start().await?;
    users.insert(&user("uk", 1, "ada@contoso.com")).await?;
    let scan_policy = ScanPolicy::Deny;
    let denying = account.with_options(ClientOptions { scan_policy, ..account.options().clone() });
    let users = store(&denying)?;
    assert!(users.verify().run().await?.is_clean());
    assert!(users.repair().run().await?.is_clean());
    users.drain_backlog().await?;
    users.delete_where(User::partition("uk")).run().await?;
    assert!(users.get(User::key("uk", 1)).await?.is_none());
    Ok(())
}
