//! Stubs of whole writes of a store, judged by the emulator: the same rows, property for property, and the same
//! results of reads and writes.

use std::collections::BTreeMap;
use std::fmt::Debug;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::answers::Stubs;
use rowkey::edm::Value;
use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
use rowkey::store::{Store, answers};
use rowkey::{
    Column, DynamicEntity, Entity, ErrorCode, ErrorKind, Key, ManualClock, Outcome, Projection,
};
use rowkey::{Result, StorageAccount, Table, internals};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use wiremock::{Mock, MockServer, matchers};

/// A type with some declaration over `a`.
trait Sample: Entity + Clone + PartialEq + Debug + Send + Sync + 'static {
    /// Whether the store must have keys.
    const KEYS: bool;

    fn new(id: u32, a: &str) -> Self;
    fn set(&mut self, a: &str);
    fn key(id: u32) -> Key<Self>;
    fn column() -> Column<String>;
    /// Finds the entities with this value of `a`.
    fn look_up<'s>(store: &'s Store<Self>, a: &'s str) -> BoxFuture<'s, Result<Vec<Self>>>;
}

/// The largest part of an entity.
trait Text {
    fn new() -> Self;
    fn change(&mut self);
}

impl Text for String {
    fn new() -> Self {
        "a long text".to_owned()
    }

    fn change(&mut self) {
        self.push('!');
    }
}

/// More properties than a row has.
impl Text for BTreeMap<String, f64> {
    fn new() -> Self {
        (0..600).map(|hour| (format!("h{hour:03}"), 0.5)).collect()
    }

    fn change(&mut self) {
        self.insert("h300".to_owned(), 1.5);
    }
}

macro_rules! samples {
    ($(
        $name:ident [$text:ty $(; $($of_type:tt)*)?] $(#[$attribute:meta])* $(=> #[$of_field:meta])?,
        |$store:ident, $a:ident| $look_up:expr;
    )*) => {
        $(
            mod $name {
                use super::*;

                #[derive(Clone, Debug, PartialEq, Entity)]
                #[entity(store, partition = "all", row = "thing_{id:4}" $(, $($of_type)*)?)]
                $(#[$attribute])*
                pub(super) struct Thing {
                    id: u32,
                    a: String,
                    b: Option<String>,
                    at: rowkey::edm::DateTime,
                    weight: f64,
                    count: i64,
                    $(#[$of_field])?
                    text: $text,
                }

                impl Sample for Thing {
                    const KEYS: bool = !Self::DECLARED.encrypted.is_empty();

                    fn new(id: u32, a: &str) -> Self {
                        let (text, at) = (Text::new(), crate::WHEN.parse().unwrap());
                        let a = a.to_owned();
                        Self { id, a, b: None, at, weight: 0.5, count: 1 << 40, text }
                    }

                    fn set(&mut self, a: &str) {
                        a.clone_into(&mut self.a);
                        self.b = Some(String::new());
                        self.text.change();
                    }

                    fn key(id: u32) -> Key<Self> {
                        Self::key(id)
                    }

                    fn column() -> Column<String> {
                        Self::A
                    }

                    fn look_up<'s>(
                        $store: &'s Store<Self>,
                        $a: &'s str,
                    ) -> BoxFuture<'s, Result<Vec<Self>>> {
                        async move {
                            let found = $look_up;
                            Ok(found.into_iter().map(|found| found.entity).collect())
                        }
                        .boxed()
                    }
                }

                #[tokio::test]
                async fn rows_are_those_of_the_emulator() -> TestResult {
                    rows::<Thing>().await
                }

                #[tokio::test]
                async fn whole_writes_pass() -> TestResult {
                    writes::<Thing>().await
                }
            }
        )*
    };
}

/// An older version of a type.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "all", row = "thing_{id:4}")]
struct Older {
    id: u32,
    a: String,
}

impl From<Older> for versions::Thing {
    fn from(old: Older) -> Self {
        Self::new(old.id, &old.a)
    }
}

samples! {
    plain [String], |store, _a| store.get(Self::key(1)).await?;
    local [String] #[entity(index(name = one, row = "one_{a}"))],
        |store, a| store.find(Self::one(a)).await?;
    many [String] #[entity(index(name = one, row = "one_{a}", many))],
        |store, a| store.query(Self::one(a)).all().await?;
    elsewhere [String] #[entity(index(name = one, partition = "one_{a}", row = "{id}"))],
        |store, a| store.find(Self::one(a, 1_u32)).await?;
    many_elsewhere [String] #[entity(index(name = one, partition = "one_{a}", row = "{id}", many))],
        |store, a| store.query(Self::one(a, 1_u32)).all().await?;
    partial [String] #[entity(index(name = one, partition = "one_{a}", row = "{id}", copy(a)))],
        |store, a| store.find(Self::one(a, 1_u32)).await?;
    unique [String] #[entity(unique(name = one, value = "{a}"))],
        |store, a| store.find(Self::one(a)).await?;
    list [String] #[entity(list(name = one, value = "{a}"))],
        |store, a| store.query(Self::one(a)).all().await?;
    list_elsewhere [String] #[entity(list(name = one, partition = "lists", value = "{a}"))],
        |store, a| store.query(Self::one(a)).all().await?;
    list_in_blobs [String] #[entity(list(name = one, value = "{a}", blob))],
        |store, a| store.query(Self::one(a)).all().await?;
    wide [BTreeMap<String, f64>; wide = 4]
        #[entity(index(name = one, partition = "one_{a}", row = "{id}", copy(a)))]
        => #[entity(rest)],
        |store, a| store.find(Self::one(a, 1_u32)).await?;
    field_in_a_blob [String] #[entity(index(name = one, row = "one_{a}"))] => #[entity(blob)],
        |store, a| store.find(Self::one(a)).await?;
    encrypted [String] #[entity(index(name = one, partition = "one_{a}", row = "{id}"))]
        => #[entity(encrypt)],
        |store, a| store.find(Self::one(a, 1_u32)).await?;
    encrypted_in_a_blob [String] #[entity(unique(name = one, value = "{a}"))]
        => #[entity(encrypt, blob)],
        |store, a| store.find(Self::one(a)).await?;
    versions [String; version = 2, from = Older] #[entity(index(name = one, row = "one_{a}"))],
        |store, a| store.find(Self::one(a)).await?;
    everything [String]
        #[entity(index(name = local, row = "local_{a}"))]
        #[entity(index(name = far, partition = "far_{a}", row = "{id}"))]
        #[entity(unique(name = one, value = "{a}"))]
        #[entity(list(name = all, value = "{a}"))]
        #[entity(list(name = listed, value = "{a}", blob))]
        => #[entity(encrypt, blob)],
        |store, a| {
            let mut found = store.query(Self::listed(a)).all().await?;
            found.extend(store.find(Self::far(a, 1_u32)).await?);
            found.extend(store.find(Self::one(a)).await?);
            found.dedup_by(|one, other| one.entity == other.entity);
            found
        };
}

fn store<E: Sample>(account: &StorageAccount) -> Result<Store<E>> {
    let builder = Store::builder(account.table("things"))
        .queue(account.queue("things"))
        .blobs(account.container("things"));
    if E::KEYS {
        let key = AesKeyWrap::new("2026", [7; 32]);
        return builder.keys(KeyRing::new("things", key, MacKey::new("records", [9; 32]))).build();
    }
    builder.build()
}

/// A stub server, and a store on it.
async fn stubbed<E: Sample>() -> Result<(MockServer, Store<E>)> {
    let server = MockServer::start().await;
    let clock = ManualClock::auto_advancing(crate::WHEN.parse().unwrap());
    let account = crate::account_at(&server.uri()).clock(clock).build()?;
    let store = store(&account)?;
    Ok((server, store))
}

/// An emulator, and a store on it.
async fn emulated<E: Sample>() -> TestResult<(Server, Store<E>)> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let store = store(&account)?;
    store.create_if_missing().await?;
    Ok((server, store))
}

/// Rows by their keys.
type Rows = BTreeMap<(String, String), BTreeMap<String, Value>>;

/// The properties whose values differ in each write.
const RANDOM: &[&str] = &["EntityOp", "OpRow", "text_Blob", "_RowkeyEncryption"];

/// The keys of a row; those of a key record have a time and a random part.
fn keys(partition: &str, row: &str) -> (String, String) {
    let record = row.starts_with("encryption_key_");
    (partition.to_owned(), if record { "encryption_key" } else { row }.to_owned())
}

/// Leaves out what is random: the values of these properties, and encrypted ones.
fn comparable(properties: impl Iterator<Item = (String, Value)>) -> BTreeMap<String, Value> {
    let comparable = properties.map(|(name, value)| match value {
        Value::Binary(_) => (name, Value::Binary(Vec::new())),
        Value::String(_) if RANDOM.contains(&&*name) => (name, Value::String("random".into())),
        value => (name, value),
    });
    comparable.collect()
}

fn rows_of_emulator(server: &Server) -> Rows {
    let snapshot = server.snapshot();
    let rows = snapshot.table("things").unwrap();
    let rows = rows.entities().map(|row| {
        let keys = keys(row.partition_key(), row.row_key());
        let properties = row.properties().map(|(name, value)| (name.to_owned(), value));
        (keys, comparable(properties))
    });
    rows.collect()
}

fn decoded(row: &DynamicEntity) -> ((String, String), BTreeMap<String, Value>) {
    let properties = row.iter().map(|(name, value)| (name.to_owned(), value.clone()));
    let properties = comparable(properties);
    (keys(&row.partition_key, &row.row_key), properties)
}

fn rows_of_list(body: &[u8]) -> Rows {
    let rows = internals::decode_page::<DynamicEntity>(body).unwrap();
    rows.into_iter().map(|row| decoded(&row.entity)).collect()
}

fn rows_of_stubs(stubs: &Stubs, table: &Table) -> Rows {
    rows_of_list(&stubs.rows(table, |_, _| true).body)
}

/// Compares the rows of the answers with those that the emulator stores.
async fn rows<E: Sample>() -> TestResult {
    let (server, real) = emulated::<E>().await?;
    let (_stub, store) = stubbed::<E>().await?;
    let thing = E::new(1, "x");
    real.insert(&thing).await?;
    let stored = rows_of_emulator(&server);

    let held = answers::store(&store).holds(&thing).stubs().await?;
    assert_eq!(rows_of_stubs(&held, store.table()), stored);
    let row = answers::row(&store, &thing).await?;
    let (keys, head) = decoded(&internals::decode::<DynamicEntity>(&row.body)?.entity);
    assert_eq!(stored.get(&keys), Some(&head));
    let rows = rows_of_list(&answers::rows(&store, [&thing]).await?.body);
    assert!(rows.contains_key(&keys) && rows.iter().all(|(keys, row)| stored[keys] == *row));
    assert_eq!(rows.len() > 1, E::DECLARED.wide.rows > 1);
    for index in E::DECLARED.indexes {
        let copy = answers::copy(&store, &thing, index.name).await?;
        let (keys, row) = decoded(&internals::decode::<DynamicEntity>(&copy.body)?.entity);
        assert_eq!(stored.get(&keys), Some(&row), "{}", index.name);
        let page = answers::copies(&store, [&thing], index.name).await?;
        assert_eq!(rows_of_list(&page.body), Rows::from([(keys, row)]));
    }
    let none = answers::copy(&store, &thing, "by_none").await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Invalid);
    Ok(())
}

/// Runs every write on stubs and on the emulator, and compares what they store and return.
async fn writes<E: Sample>() -> TestResult {
    let (before, mut after) = (E::new(1, "x"), E::new(1, "x"));
    after.set("y");
    let mut patched = before.clone();
    let (server, real) = emulated::<E>().await?;

    let (stub, store) = stubbed::<E>().await?;
    let stubs = answers::store(&store).inserts(&before).mount(&stub).await?;
    real.insert(&before).await?;
    store.insert(&before).await?;
    assert_eq!(store.get(E::key(1)).await?.unwrap().entity, before);
    assert_eq!(E::look_up(&store, "x").await?, E::look_up(&real, "x").await?);
    assert_eq!(
        rows_of_stubs(&stubs, store.table()),
        rows_of_emulator(&server),
        "{:?}",
        stubs.plan()
    );
    let again = store.insert(&before).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);

    let (stub, store) = stubbed::<E>().await?;
    let stubs = answers::store(&store).updates(&before, &after).mount(&stub).await?;
    assert_eq!(E::look_up(&store, "x").await?, std::slice::from_ref(&before));
    real.update(E::key(1), |thing| thing.set("y")).await?;
    store.update(E::key(1), |thing| thing.set("y")).await?;
    assert_eq!(store.get(E::key(1)).await?.unwrap().entity, after);
    assert_eq!(E::look_up(&store, "y").await?, std::slice::from_ref(&after));
    assert_eq!(
        rows_of_stubs(&stubs, store.table()),
        rows_of_emulator(&server),
        "{:?}",
        stubs.plan()
    );

    let (stub, store) = stubbed::<E>().await?;
    patched.clone_from(&after);
    patched.set("z");
    let stubs = answers::store(&store).updates(&after, &patched).mount(&stub).await?;
    real.patch(E::key(1)).set(E::column(), "z").send().await?;
    store.patch(E::key(1)).set(E::column(), "z").send().await?;
    assert_eq!(
        rows_of_stubs(&stubs, store.table()),
        rows_of_emulator(&server),
        "{:?}",
        stubs.plan()
    );
    let read = store.get(E::key(1)).await?.unwrap();
    store.replace_if(&read.entity, &read.version).await?;
    let stale = store.replace_if(&read.entity, &read.version).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Conflict);

    let (stub, store) = stubbed::<E>().await?;
    let stubs = answers::store(&store).deletes(&patched).mount(&stub).await?;
    assert!(real.delete(E::key(1)).await?);
    assert!(store.delete(E::key(1)).await?);
    assert!(store.get(E::key(1)).await?.is_none());
    assert_eq!(
        rows_of_stubs(&stubs, store.table()),
        rows_of_emulator(&server),
        "{:?}",
        stubs.plan()
    );

    let (stub, store) = stubbed::<E>().await?;
    answers::store(&store).upserts(&before).mount(&stub).await?;
    store.upsert(&before).await?;
    assert_eq!(E::look_up(&store, "x").await?, std::slice::from_ref(&before));
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_is_decided_by_what_is_stored() -> TestResult {
    let (stub, store) = stubbed::<everything::Thing>().await?;
    let thing = everything::Thing::new(1, "x");
    let stubs = answers::store(&store).inserts(&thing).lost().mount(&stub).await?;
    store.insert(&thing).await?;
    assert_eq!(everything::Thing::look_up(&store, "x").await?, [thing]);
    let ops =
        rows_of_stubs(&stubs, store.table()).into_keys().filter(|(_, row)| row.starts_with("op_"));
    assert!(ops.count() <= 1);
    assert!(stubs.unanswered().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_refused_commit_is_the_error_of_the_store() -> TestResult {
    let thing = elsewhere::Thing::new(1, "x");
    let (stub, store) = stubbed::<elsewhere::Thing>().await?;
    let exists = ErrorCode::ENTITY_ALREADY_EXISTS;
    answers::store(&store).inserts(&thing).refused(exists).mount(&stub).await?;
    let error = store.insert(&thing).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::AlreadyExists, Outcome::Rejected));
    assert!(store.get(elsewhere::Thing::key(1)).await?.is_none());

    // A store repeats an update, and the second commit is not refused.
    let (stub, store) = stubbed::<elsewhere::Thing>().await?;
    let mut after = thing.clone();
    after.set("y");
    let changed = ErrorCode::UPDATE_CONDITION_NOT_SATISFIED;
    answers::store(&store).updates(&thing, &after).refused(changed).mount(&stub).await?;
    let key = || elsewhere::Thing::key(1);
    let mut calls = 0;
    let update = |thing: &mut elsewhere::Thing| {
        calls += 1;
        thing.set("y");
    };
    assert_eq!(store.update(key(), update).await?.entity, after);
    assert_eq!(calls, 2);
    Ok(())
}

#[tokio::test]
async fn a_unique_value_of_another_entity_is_taken() -> TestResult {
    let (stub, store) = stubbed::<unique::Thing>().await?;
    let (one, other) = (unique::Thing::new(1, "x"), unique::Thing::new(2, "x"));
    answers::store(&store).holds(&one).inserts(&other).mount(&stub).await?;
    let taken = store.insert(&other).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    assert_eq!(taken.details().index, Some("one"));
    Ok(())
}

#[tokio::test]
async fn mocks_of_a_test_take_precedence() -> TestResult {
    let (stub, store) = stubbed::<elsewhere::Thing>().await?;
    let thing = elsewhere::Thing::new(1, "x");
    let stubs = answers::store(&store).inserts(&thing).mount(&stub).await?;
    let busy = rowkey::answers::error(ErrorCode::SERVER_BUSY);
    Mock::given(matchers::path("/things/messages")).respond_with(busy).mount(&stub).await;
    // The queue takes no message, so a row takes its place.
    store.insert(&thing).await?;
    assert_eq!(elsewhere::Thing::look_up(&store, "x").await?, [thing]);
    assert!(stubs.unanswered().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_request_that_nothing_answers_is_named() -> TestResult {
    let (stub, store) = stubbed::<elsewhere::Thing>().await?;
    let thing = elsewhere::Thing::new(1, "x");
    let stubs = answers::store(&store).inserts(&thing).mount(&stub).await?;
    let error = store.insert(&elsewhere::Thing::new(2, "x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.to_string();
    assert!(text.contains("NoStubAnswers") && text.contains("(request POST $batch ["), "{text}");
    assert!(text.contains("POST things(PartitionKey='all',RowKey='thing_0002')"), "{text}");
    let plan = error.details().service_message.as_deref().unwrap_or_default();
    assert!(plan.contains("the planned requests are: POST /things/messages"), "{plan}");
    assert_eq!(stubs.unanswered().len(), 1);
    // The server fails the test, too.
    let verified = std::panic::AssertUnwindSafe(stub.verify()).catch_unwind().await;
    assert!(verified.is_err());
    stub.reset().await;

    // Reads of other tables are not answered, either.
    let other = stub.uri();
    let other = crate::account_at(&other).build()?.table("others");
    stubs.mount(&stub).await;
    let error = other.get(Key::<DynamicEntity>::new("a", "b")).await.unwrap_err();
    assert!(error.to_string().contains("(request GET others("), "{error}");
    stub.reset().await;
    Ok(())
}

#[tokio::test]
async fn stubs_of_two_stores_answer_side_by_side() -> TestResult {
    let (stub, store) = stubbed::<local::Thing>().await?;
    let account = store.table().account().clone();
    let others = Store::<unique::Thing>::builder(account.table("others"))
        .queue(account.queue("others"))
        .build()?;
    let (thing, other) = (local::Thing::new(1, "x"), unique::Thing::new(1, "x"));
    answers::store(&store).inserts(&thing).mount(&stub).await?;
    answers::store(&others).inserts(&other).mount(&stub).await?;
    store.insert(&thing).await?;
    others.insert(&other).await?;
    assert_eq!(others.find(unique::Thing::one("x")).await?.unwrap().entity, other);
    assert_eq!(store.find(local::Thing::one("x")).await?.unwrap().entity, thing);

    // In one table, they are one.
    stub.reset().await;
    let (bob, eve) = (local::Thing::new(2, "y"), local::Thing::new(3, "z"));
    let both = answers::store(&store).holds(&bob).stubs().await?;
    let both = both.and(answers::store(&store).inserts(&eve).stubs().await?);
    both.mount(&stub).await;
    store.insert(&eve).await?;
    assert!(store.exists(local::Thing::key(2)).await? && store.exists(local::Thing::key(3)).await?);
    Ok(())
}

#[tokio::test]
async fn an_entity_of_an_older_version_is_converted() -> TestResult {
    let (stub, store) = stubbed::<versions::Thing>().await?;
    let older = Store::<Older>::builder(store.table().clone()).build()?;
    let old = Older { id: 1, a: "x".into() };
    let stubs = Stubs::new()
        .holding(older.insert(&old))
        .await?
        .planning(store.update(versions::Thing::key(1), |thing| thing.set("y")))
        .await?;
    stubs.mount(&stub).await;
    let read = store.get(versions::Thing::key(1)).await?.unwrap().entity;
    assert_eq!(read, versions::Thing::from(old));
    store.update(versions::Thing::key(1), |thing| thing.set("y")).await?;
    assert_eq!(versions::Thing::look_up(&store, "y").await?.len(), 1);
    Ok(())
}
