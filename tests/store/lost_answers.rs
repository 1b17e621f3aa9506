//! Item 5: one lost answer and no other writer. Each write of a type whose declarations all lie in its
//! partition, which has no op row, finds its own write by the mark.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::store::{Copies, Store};
use rowkey::{Entity, Key, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

/// A person who is found by name in an index and in a list, and whose name a department shows.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(index(name = by_name, row = "name_{name}"))]
#[entity(list(name = by_city, value = "{city}"))]
struct Person {
    department: String,
    id: u32,
    name: String,
    city: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "department", rename_all = "PascalCase")]
struct Department {
    name: String,
    manager: Option<String>,
}

fn person(name: &str) -> Person {
    Person { department: "sales".into(), id: 7, name: name.into(), city: "Leeds".into() }
}

fn key() -> Key<Person> {
    Person::key("sales", 7)
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Person>> {
    let shown = Copies::new(
        "manager",
        1,
        |person: &Person| Some(Department::key(&person.department)),
        |person| person.name.clone(),
        |department: &mut Department, name| department.manager = name.cloned(),
    );
    Store::builder(account.table("people")).with(shown).build()
}

type Write = fn(Store<Person>) -> BoxFuture<'static, rowkey::Result<()>>;

/// Writes of a new entity.
const NEW: [(&str, Write); 3] = [
    ("insert", |people| async move { people.insert(&person("King")).await.map(drop) }.boxed()),
    ("upsert", |people| async move { people.upsert(&person("King")).await.map(drop) }.boxed()),
    ("transaction", |people| {
        let king = person("King");
        async move { people.transaction().insert(&king).submit().await.map(drop) }.boxed()
    }),
];

/// Writes over an entity.
const OVER: [(&str, Write); 5] = [
    ("upsert", |people| async move { people.upsert(&person("King")).await.map(drop) }.boxed()),
    ("update", |people| {
        let change = |person: &mut Person| {
            person.name = "King".into();
            person.city = "York".into();
        };
        async move { people.update(key(), change).await.map(drop) }.boxed()
    }),
    ("replace_if", |people| {
        async move {
            let read = people.get(key()).await?.expect("it is there");
            people.replace_if(&person("King"), &read.version).await.map(drop)
        }
        .boxed()
    }),
    ("rewrite", |people| async move { people.rewrite(key()).await.map(drop) }.boxed()),
    ("delete", |people| async move { people.delete(key()).await.map(drop) }.boxed()),
];

async fn check(name: &str, over: bool, write: Write) -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let people = store(&account)?;
    people.create_if_missing().await?;
    account.table("people").insert(&Department { name: "sales".into(), manager: None }).await?;
    if over {
        people.insert(&person("Jones")).await?;
    }
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_after_commit());
    let before = server.journal();
    let written = write(people.clone()).await;
    assert_eq!(lost.hits(), 1, "`{name}` sends a transaction");
    assert!(written.is_ok(), "`{name}` fails with one lost answer: {written:?}");
    let sent = server.journal().since(&before).count(Operation::Transaction);
    // A rewrite meets its own copy first, and looks at whose it is; a deletion is sent again by the client.
    let is_sent_again = ["rewrite", "delete"].contains(&name);
    assert!(sent == 1 || is_sent_again, "`{name}` finds its own write: {sent}");
    let report = people.verify().run().await?;
    assert!(report.is_clean(), "{name}: {report:?}");
    let department = account.table("people").get(Department::key("sales")).await?.unwrap();
    let name_now = people.get(key()).await?.map(|person| person.entity.name);
    assert_eq!(department.entity.manager, name_now, "{name}");
    Ok(())
}

#[tokio::test]
async fn one_lost_response_fails_no_write() -> TestResult {
    for (name, write) in NEW {
        check(name, false, write).await?;
    }
    for (name, write) in OVER {
        check(name, true, write).await?;
    }
    Ok(())
}
