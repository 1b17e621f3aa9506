//! Unit tests of a service with a store, on stubs: a page of an index, two conflicts, and an answer that is lost. No
//! test knows a row, a message or a request of the store.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::service::Service;
use rowkey::store::{Store, answers};
use rowkey::{Credential, Entity, ErrorCode, ErrorKind, Result, StorageAccount};
use wiremock::matchers::{method, path, query_param};
use wiremock::{Mock, MockServer};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "user_{id:6}")]
#[entity(index(name = by_team, row = "team_{team}", many))]
#[entity(index(name = by_city, partition = "city_{city}", row = "{tenant}_{id}"))]
#[entity(unique(name = by_email, value = "{email:lower}"))]
struct User {
    tenant: String,
    id: u32,
    team: String,
    city: String,
    email: String,
}

/// The service under test.
struct Users {
    store: Store<User>,
}

#[derive(Debug, PartialEq)]
enum Registration {
    Done,
    EmailTaken,
}

impl Users {
    async fn register(&self, user: &User) -> Result<Registration> {
        match self.store.insert(user).await {
            Ok(_) => Ok(Registration::Done),
            Err(error) if error.details().index == Some("by_email") => Ok(Registration::EmailTaken),
            Err(error) => Err(error),
        }
    }

    async fn relocate(&self, tenant: &str, id: u32, city: &str) -> Result<()> {
        let change = |user: &mut User| city.clone_into(&mut user.city);
        self.store.update(User::key(tenant, id), change).await.map(drop)
    }

    /// The e-mail addresses of a team.
    async fn emails(&self, tenant: &str, team: &str) -> Result<Vec<String>> {
        let members = self.store.query(User::by_team(tenant, team)).all().await?;
        Ok(members.into_iter().map(|member| member.entity.email).collect())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> TestResult {
    a_team_of_two_pages().await?;
    an_address_that_is_taken().await?;
    a_change_that_comes_second().await?;
    an_answer_that_is_lost().await?;
    println!("stubs of a store: a page of an index, two conflicts, a lost answer");
    Ok(())
}

// ANCHOR: service
type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

/// All services of the account are on the stub server.
fn users(server: &MockServer) -> Result<Users> {
    let account = StorageAccount::builder()
        .endpoint(Service::Table, &server.uri())?
        .endpoint(Service::Queue, &server.uri())?
        .credential(Credential::anonymous())
        .build()?;
    let queue = account.queue("users");
    Ok(Users { store: Store::builder(account.table("users")).queue(queue).build()? })
}

fn user(id: u32) -> User {
    let email = format!("user{id}@contoso.com");
    User { tenant: "contoso".into(), id, team: "core".into(), city: "Leeds".into(), email }
}
// ANCHOR_END: service

// ANCHOR: page
/// A page of an index, as a mock that the test writes by hand.
async fn a_team_of_two_pages() -> TestResult {
    let server = MockServer::start().await;
    let users = users(&server)?;
    let page = async |id| answers::copies(&users.store, [&user(id)], "by_team").await;
    let query = || Mock::given(method("GET")).and(path("/users()"));
    // The token is opaque: the client sends it back.
    let first = page(1).await?.continued(("contoso", Some("team_core")));
    query()
        .and(query_param("NextPartitionKey", "1!12!Y29udG9zbw--"))
        .respond_with(page(2).await?)
        .with_priority(1)
        .mount(&server)
        .await;
    query().respond_with(first).expect(1).mount(&server).await;

    let emails = users.emails("contoso", "core").await?;
    assert_eq!(emails, ["user1@contoso.com", "user2@contoso.com"]);
    Ok(())
}
// ANCHOR_END: page

// ANCHOR: conflict
/// Another entity has the unique value: 409 for the claim.
async fn an_address_that_is_taken() -> TestResult {
    let server = MockServer::start().await;
    let users = users(&server)?;
    let other = User { email: "USER1@contoso.com".into(), ..user(2) };
    answers::store(&users.store).holds(&user(1)).inserts(&other).mount(&server).await?;

    assert_eq!(users.register(&other).await?, Registration::EmailTaken);
    // The entity itself exists: the store's error.
    let exists = users.register(&User { email: user(1).email, ..user(1) }).await;
    assert_eq!(exists.err().map(|error| error.kind()), Some(ErrorKind::AlreadyExists));
    Ok(())
}

/// Another program changes the entity between read and commit: 412, once.
async fn a_change_that_comes_second() -> TestResult {
    let server = MockServer::start().await;
    let users = users(&server)?;
    let moved = User { city: "York".into(), ..user(1) };
    answers::store(&users.store)
        .updates(&user(1), &moved)
        .refused(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED)
        .mount(&server)
        .await?;

    users.relocate("contoso", 1, "York").await?;
    let found = users.store.find(User::by_city("York", "contoso", 1_u32)).await?;
    assert_eq!(found.map(|found| found.entity), Some(moved));
    Ok(())
}
// ANCHOR_END: conflict

// ANCHOR: lost
/// The service commits, and the connection dies before the answer: the user is registered once.
async fn an_answer_that_is_lost() -> TestResult {
    let server = MockServer::start().await;
    let users = users(&server)?;
    let stubs =
        answers::store(&users.store).opens().inserts(&user(1)).lost().mount(&server).await?;

    // As the service does when it begins.
    let users = Users { store: users.store.open().await? };
    assert_eq!(users.register(&user(1)).await?, Registration::Done);
    let found = users.store.find(User::by_email("user1@contoso.com")).await?;
    assert_eq!(found.map(|found| found.entity), Some(user(1)));
    assert!(stubs.unanswered().is_empty());
    Ok(())
}
// ANCHOR_END: lost
