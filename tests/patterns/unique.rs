//! Unique values across partitions: one entity at a time has a value, whatever fails or stops, and
//! however many claim it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rowkey::edm::Value;
use rowkey::{
    Clock, Entity, Error, ErrorKind, Key, ManualClock, Match, Outcome, StorageAccount, Table,
};
use rowkey_eventual::unique::{Claimed, Unique};
use rowkey_server::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, once, stopped_at_every_request, sweep};
use rowkey_tests::{Fixture, TestResult};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{country}", row = "user_{id:6}", rename_all = "PascalCase")]
struct User {
    country: String,
    id: u32,
    /// Users without one are not constrained.
    email: Option<String>,
    visits: i32,
}

/// Users are spread over three partitions.
fn country(id: u32) -> String {
    ["de", "uk", "us"][id as usize % 3].into()
}

fn user(id: u32, email: &str) -> User {
    let email = (!email.is_empty()).then(|| email.to_owned());
    User { country: country(id), id, email, visits: 0 }
}

fn key(id: u32) -> Key<User> {
    User::key(country(id), id)
}

/// Less than the minute that passes before a sweep recovers.
const EXPIRY: Duration = Duration::from_secs(60);

fn unique(users: Table, reservations: Table) -> Unique<User> {
    Unique::new(users, reservations, "email", |user: &User| user.email.clone())
        .normalized(|email| email.trim().to_lowercase())
        .expires_after(EXPIRY)
}

fn users(account: &StorageAccount) -> Unique<User> {
    unique(account.table("users"), account.table("reservations"))
}

async fn start() -> Result<(Server, Unique<User>), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    account.table("users").create().await?;
    account.table("reservations").create().await?;
    Ok((server, users(&account)))
}

fn is_written<T>(claimed: &Claimed<T>) -> bool {
    matches!(claimed, Claimed::Written(_))
}

/// The e-mail addresses in the store and whose they are: each has one user, and each user's
/// address is reserved for that user. With `settled`, there is no other reservation, and all are
/// confirmed.
fn assert_unique(snapshot: &Snapshot, settled: bool) -> BTreeMap<String, String> {
    let mut had = BTreeMap::new();
    for user in snapshot.table("users").unwrap().entities() {
        if let Some(Value::String(email)) = user.get("Email") {
            let (email, row) = (email.trim().to_lowercase(), user.row_key().to_owned());
            let other = had.insert(email, row.clone());
            assert_eq!(other, None, "{row} has the address of another");
        }
    }
    let mut reserved = BTreeMap::new();
    for row in snapshot.table("reservations").unwrap().entities() {
        let Some(Value::String(owner)) = row.get("OwnerRow") else { panic!("no owner") };
        let email = row.partition_key().strip_prefix("email_").unwrap();
        reserved.insert(email.to_owned(), owner);
        assert!(!settled || row.get("Expires").is_none(), "{email} is not confirmed");
    }
    for (email, row) in &had {
        assert_eq!(reserved.get(email), Some(row), "{email} is reserved for who has it");
    }
    assert!(!settled || reserved == had, "{reserved:?} and {had:?}");
    had
}

async fn assert_clean(users: &Unique<User>) -> TestResult {
    let report = users.verify().await?;
    assert!(report.is_clean() && report.pending == 0, "{report:?}");
    Ok(())
}

#[tokio::test]
async fn a_value_is_had_once_in_all_partitions() -> TestResult {
    let fixture = Fixture::new().await?;
    let users = unique(fixture.table().await?, fixture.table().await?);
    assert!(is_written(&users.insert(&user(1, "Ada@contoso.com")).await?));
    assert_eq!(
        users.insert(&user(2, " ada@CONTOSO.com")).await?,
        Claimed::Taken { until: None },
        "the same by the declared normalisation, in another partition"
    );
    assert_eq!(users.table().get(key(2)).await?, None);
    assert!(is_written(&users.insert(&user(2, "grace@contoso.com")).await?));
    assert!(is_written(&users.insert(&user(3, "")).await?), "no value is no constraint");
    assert!(is_written(&users.insert(&user(4, "")).await?));

    let found = users.find("ADA@contoso.com").await?.ok_or("not found")?;
    assert_eq!(found.entity.id, 1);
    assert_eq!(users.find("nobody@contoso.com").await?, None);

    // A change frees the old value, and so does a deletion.
    let taken = users.update(key(2), |user| user.email = Some("ada@contoso.com".into())).await?;
    assert_eq!(taken, Claimed::Taken { until: None });
    let changed = users.update(key(1), |user| user.email = Some("ada@x.org".into())).await?;
    let Claimed::Written(changed) = changed else { return Err("taken".into()) };
    assert_eq!(users.table().get(key(1)).await?, Some(changed), "what is returned is stored");
    assert_eq!(users.find("ada@contoso.com").await?, None);
    assert!(is_written(&users.insert(&user(5, "ada@contoso.com")).await?));
    assert!(users.delete(key(5)).await?);
    assert!(!users.delete(key(5)).await?);
    assert!(is_written(&users.insert(&user(6, "ada@contoso.com")).await?));
    let none = users.update(key(6), |user| user.email = None).await?;
    assert!(is_written(&none));
    let some = users.update(key(3), |user| user.email = Some("ada@contoso.com".into())).await?;
    assert!(is_written(&some), "from no value to one");
    let visit = users.update(key(3), |user| user.visits += 1).await?;
    assert!(matches!(visit, Claimed::Written(user) if user.entity.visits == 1));
    assert_clean(&users).await
}

#[tokio::test]
async fn rows_are_these() -> TestResult {
    let (server, users) = start().await?;
    let ada = user(1, "Ada@contoso.com");
    let held = server.inject(Fault::on(Operation::InsertEntity).resource("users").hold());
    let watch = async {
        held.wait_until_held().await;
        let rows = rows(&server.snapshot());
        held.release();
        rows
    };
    let (written, during) = tokio::join!(users.insert(&ada), watch);
    assert!(is_written(&written?));
    let owner = |row: &str| {
        vec![
            ("OwnerPartition".to_owned(), Value::from("uk")),
            ("OwnerRow".to_owned(), Value::from(row)),
        ]
    };
    let mut reserved = owner("user_000001");
    let expires: rowkey::edm::DateTime = "2026-01-01T00:01:00Z".parse()?;
    reserved.push(("Expires".to_owned(), Value::from(expires)));
    let at = ("email_ada@contoso.com".to_owned(), "reservation".to_owned());
    assert_eq!(during, [(at.clone(), reserved)]);
    assert_eq!(rows(&server.snapshot()), [(at, owner("user_000001"))], "confirmed");

    // What is no key is hashed, and what no key may show is escaped.
    assert!(is_written(&users.insert(&user(4, &"x".repeat(600))).await?));
    assert!(is_written(&users.insert(&user(7, "a/b")).await?));
    let keys: Vec<_> = rows(&server.snapshot()).into_iter().map(|(keys, _)| keys).collect();
    assert!(keys.contains(&("email_a.~b".into(), "reservation".into())), "{keys:?}");
    let hashed = keys.iter().find(|keys| keys.1 == "reservation_sha256").ok_or("no hash")?;
    assert_eq!(hashed.0.len(), 70);
    assert_eq!(users.insert(&user(8, &"x".repeat(600))).await?, Claimed::Taken { until: None });
    assert_eq!(users.find(&"X".repeat(600)).await?.map(|found| found.entity.id), Some(4));
    assert_clean(&users).await
}

type Row = ((String, String), Vec<(String, Value)>);

fn rows(snapshot: &Snapshot) -> Vec<Row> {
    let rows = snapshot.table("reservations").unwrap();
    rows.entities()
        .map(|row| {
            let keys = (row.partition_key().to_owned(), row.row_key().to_owned());
            (keys, row.properties().map(|(name, value)| (name.to_owned(), value)).collect())
        })
        .collect()
}

#[tokio::test]
async fn what_each_operation_costs() -> TestResult {
    let (server, users) = start().await?;
    let mut before = server.journal();
    let mut cost = || {
        let journal = server.journal().since(&before);
        before = server.journal();
        journal.len()
    };
    assert!(is_written(&users.insert(&user(1, "ada@x.org")).await?));
    assert_eq!(cost(), 3, "insert");
    assert!(!is_written(&users.insert(&user(2, "ada@x.org")).await?));
    assert_eq!(cost(), 3, "a value that is taken");
    assert!(is_written(&users.update(key(1), |user| user.visits = 1).await?));
    assert_eq!(cost(), 2, "update of something else");
    assert!(is_written(&users.update(key(1), |user| user.email = Some("a@x".into())).await?));
    assert_eq!(cost(), 7, "update of the value");
    assert!(users.find("a@x").await?.is_some());
    assert_eq!(cost(), 2, "find");
    assert!(users.delete(key(1)).await?);
    assert_eq!(cost(), 5, "delete");
    Ok(())
}

#[tokio::test]
async fn the_sweep_leaves_each_value_with_one_user() -> TestResult {
    let (server, prepared) = start().await?;
    assert!(is_written(&prepared.insert(&user(1, "ada@x.org")).await?));
    let mut total = 0;
    for repeats in [true, false] {
        let connect = |account: &StorageAccount| {
            if repeats { users(account) } else { users(&once(account)) }
        };
        let runs = sweep(
            &server,
            async |account| connect(account).insert(&user(2, "grace@x.org")).await,
            async |account, result| {
                // Called again, it finds what was done.
                if result.is_err() {
                    assert!(is_written(&users(account).insert(&user(2, "grace@x.org")).await?));
                }
                users(account).repair().await?;
                assert_clean(&users(account)).await
            },
            |snapshot, _| {
                let had = assert_unique(snapshot, true);
                assert_eq!(had["grace@x.org"], "user_000002");
            },
        )
        .await?;
        total += runs.failures;

        let change = |user: &mut User| user.email = Some("lovelace@x.org".into());
        let runs = sweep(
            &server,
            async |account| connect(account).update(key(1), change).await,
            async |account, _| {
                assert!(is_written(&users(account).update(key(1), change).await?));
                users(account).repair().await?;
                assert_clean(&users(account)).await
            },
            |snapshot, _| {
                let had = assert_unique(snapshot, true);
                assert_eq!(had["lovelace@x.org"], "user_000001");
            },
        )
        .await?;
        total += runs.failures;

        let runs = sweep(
            &server,
            async |account| connect(account).delete(key(1)).await,
            async |account, _| {
                users(account).delete(key(1)).await?;
                // The value is to be had, whether or not it was freed.
                assert!(is_written(&users(account).insert(&user(2, "ada@x.org")).await?));
                assert_clean(&users(account)).await
            },
            |snapshot, _| {
                assert_eq!(assert_unique(snapshot, true)["ada@x.org"], "user_000002");
            },
        )
        .await?;
        total += runs.failures;
    }
    assert_eq!(total, 2 * 4 * (3 + 7 + 5));
    Ok(())
}

#[tokio::test]
async fn a_value_is_not_lost_with_whoever_stops() -> TestResult {
    let (server, prepared) = start().await?;
    assert!(is_written(&prepared.insert(&user(1, "ada@x.org")).await?));
    // Another user wants what the one who stopped had, or was about to get.
    let recover = async |account: &StorageAccount| {
        let users = users(account);
        for email in ["ada@x.org", "grace@x.org"] {
            if users.find(email).await?.is_none() {
                let id = if email.starts_with("ada") { 5 } else { 6 };
                assert!(is_written(&users.insert(&user(id, email)).await?), "{email} is free");
            }
        }
        users.repair().await?;
        assert_clean(&users).await
    };
    let invariants = |snapshot: &Snapshot| {
        let had = assert_unique(snapshot, true);
        assert!(had.contains_key("ada@x.org") && had.contains_key("grace@x.org"), "{had:?}");
    };
    let insert = async |account: &StorageAccount| {
        users(account).insert(&user(2, "grace@x.org")).await.map(drop)
    };
    let update = async |account: &StorageAccount| {
        let change = |user: &mut User| user.email = Some("grace@x.org".into());
        users(account).update(key(1), change).await.map(drop)
    };
    let delete = async |account: &StorageAccount| users(account).delete(key(1)).await.map(drop);
    let runs = stopped_at_every_request(&server, insert, recover, invariants).await?;
    assert_eq!(runs.requests, 3);
    let runs = stopped_at_every_request(&server, update, recover, invariants).await?;
    assert_eq!(runs.requests, 7);
    let runs = stopped_at_every_request(&server, delete, recover, invariants).await?;
    assert_eq!(runs.requests, 5);
    Ok(())
}

#[tokio::test]
async fn of_twelve_claimants_one_wins() -> TestResult {
    let fixture = Fixture::new().await?;
    let users = unique(fixture.table().await?, fixture.table().await?);
    for round in 0..3 {
        let email = format!("{round}@x.org");
        let claims = (0..12).map(|n| {
            let (users, claim) = (users.clone(), user(100 * round + n, &email));
            async move { users.insert(&claim).await }
        });
        let claims = futures_util::future::try_join_all(claims).await?;
        assert_eq!(claims.iter().filter(|claim| is_written(claim)).count(), 1, "{claims:?}");
        let all = users.table().scan::<User>().all().await?;
        let have_it = all.iter().filter(|user| user.entity.email.as_ref() == Some(&email));
        assert_eq!(have_it.count(), 1);
    }
    assert_clean(&users).await
}

/// The time of a test: all clients have it, and it moves on when the test says so.
#[derive(Clone, Debug)]
struct TestClock {
    start: ManualClock,
    seconds: Arc<AtomicI64>,
}

impl TestClock {
    fn advance(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> chrono::DateTime<chrono::Utc> {
        self.start.now() + chrono::TimeDelta::seconds(self.seconds.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

async fn with_clock() -> Result<(Server, TestClock, Unique<User>), Box<dyn std::error::Error>> {
    let (server, _) = start().await?;
    let clock = TestClock {
        start: ManualClock::new(server.clock().now().to_chrono()),
        seconds: Arc::default(),
    };
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    Ok((server, clock, users(&once(&account))))
}

#[tokio::test]
async fn a_claim_that_was_broken_off_expires_and_a_confirmed_one_never() -> TestResult {
    let (server, clock, users) = with_clock().await?;
    // Reserved, and never written; and nobody calls again.
    let lost = server
        .inject(Fault::on(Operation::InsertEntity).resource("users").nth(1).close_before_commit());
    let error = users.insert(&user(1, "ada@x.org")).await.unwrap_err();
    assert_eq!((lost.hits(), error.outcome()), (1, Outcome::Unknown));
    let start = clock.now();
    let Claimed::Taken { until: Some(until) } = users.insert(&user(2, "ada@x.org")).await? else {
        return Err("it is reserved".into());
    };
    assert_eq!(until, start + chrono::TimeDelta::seconds(60));
    clock.advance(59);
    assert!(!is_written(&users.insert(&user(2, "ada@x.org")).await?), "a second before");
    clock.advance(1);
    assert!(is_written(&users.insert(&user(2, "ada@x.org")).await?), "it has expired");

    clock.advance(10 * 60);
    assert_eq!(users.insert(&user(3, "ada@x.org")).await?, Claimed::Taken { until: None });
    assert_unique(&server.snapshot(), true);
    Ok(())
}

#[tokio::test]
async fn the_same_user_need_not_wait() -> TestResult {
    let (server, users) = start().await?;
    let lost = server.inject(Fault::on(Operation::InsertEntity).nth(1).close_after_commit());
    let error = users.insert(&user(1, "ada@x.org")).await.unwrap_err();
    assert_eq!((lost.hits(), error.outcome()), (1, Outcome::Unknown));
    assert!(is_written(&users.insert(&user(1, "ada@x.org")).await?));
    assert!(is_written(&users.insert(&user(1, "ada@x.org")).await?), "and once more");
    assert_unique(&server.snapshot(), true);
    Ok(())
}

#[tokio::test]
async fn a_slow_claimant_that_was_overtaken_fails_to_confirm_and_undoes_its_write() -> TestResult {
    for update in [false, true] {
        let (server, clock, users) = with_clock().await?;
        let email = "ada@x.org";
        if update {
            assert!(is_written(&users.insert(&user(1, "old@x.org")).await?));
        }
        // The first claimant has reserved, and its write is on the way for longer than it may be.
        let operation = if update { Operation::UpdateEntity } else { Operation::InsertEntity };
        let held = server.inject(Fault::on(operation).resource("users").nth(1).hold());
        let slow = async {
            if update {
                let claimed = users.update(key(1), |user| user.email = Some(email.into())).await?;
                Ok::<_, Error>(is_written(&claimed))
            } else {
                Ok(is_written(&users.insert(&user(1, email)).await?))
            }
        };
        let fast = async {
            held.wait_until_held().await;
            clock.advance(60);
            let fast = users.insert(&user(2, email)).await;
            held.release();
            fast
        };
        let (slow, fast) = tokio::join!(slow, fast);
        assert!(is_written(&fast?));
        assert!(!slow?, "it was overtaken");
        let had = assert_unique(&server.snapshot(), false);
        assert_eq!(had[email], "user_000002");
        if update {
            assert_eq!(had["old@x.org"], "user_000001", "the user is as before");
        } else {
            assert_eq!(users.table().get(key(1)).await?, None);
        }
        assert_clean(&users).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_claim_is_not_used_in_the_second_half_of_its_time() -> TestResult {
    let (server, clock, users) = with_clock().await?;
    let held = server.inject(Fault::on(Operation::InsertEntity).nth(1).hold());
    let late = async {
        held.wait_until_held().await;
        clock.advance(31);
        held.release();
    };
    let claim = user(1, "ada@x.org");
    let (claimed, ()) = tokio::join!(users.insert(&claim), late);
    let error = claimed.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotSent));
    assert_eq!(users.table().get(key(1)).await?, None);
    assert_eq!(server.snapshot().table("reservations").unwrap().len(), 0, "it is given up");
    assert!(is_written(&users.insert(&user(2, "ada@x.org")).await?));
    Ok(())
}

#[tokio::test]
async fn refusals_leave_no_reservation_behind() -> TestResult {
    let (server, users) = start().await?;
    assert!(is_written(&users.insert(&user(1, "ada@x.org")).await?));
    let error = users.insert(&user(1, "grace@x.org")).await.unwrap_err();
    assert!(error.is_already_exists(), "{error}");
    let other = User { visits: 7, ..user(1, "ada@x.org") };
    let error = users.insert(&other).await.unwrap_err();
    assert!(error.is_already_exists(), "{error}");
    let error = users.update(key(1), |user| user.id = 4).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = users.update(key(9), |_| ()).await.unwrap_err();
    assert!(error.is_not_found());
    assert!(error.to_string().starts_with("Unique on users"), "{error}");
    let had = assert_unique(&server.snapshot(), true);
    assert_eq!(had.len(), 1);

    let account = users.table().account();
    let named = Unique::new(
        account.table("users"),
        account.table("reservations"),
        "e_mail",
        |user: &User| user.email.clone(),
    );
    let error = named.insert(&user(2, "x")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(!format!("{users:?} {error:?}").contains("ada@"), "no content is shown");
    Ok(())
}

#[tokio::test]
async fn what_was_written_past_the_constraint_is_found_and_mended() -> TestResult {
    let (server, users) = start().await?;
    for (id, email) in [(1, "ada@x.org"), (2, "grace@x.org"), (3, "ADA@x.org"), (4, "")] {
        users.table().insert(&user(id, email)).await?;
    }
    let report = users.verify().await?;
    assert_eq!((report.entities, report.unreserved, report.duplicated), (3, 3, 0));
    assert!(!report.is_clean());
    let report = users.repair().await?;
    assert_eq!((report.unreserved, report.duplicated), (2, 1));
    // Which of the two got it is by their order in the table.
    assert_eq!(report.duplicates, [key(1)]);
    assert!(!format!("{report:?}").contains("user_"), "{report:?}");
    assert!(is_written(&users.update(key(1), |u| u.email = Some("a@x.org".into())).await?));
    assert_clean(&users).await?;

    // Deleted and changed past it: nobody is kept from the values.
    users.table().delete(key(2), Match::Any).await?;
    users.table().update(key(3), |user| user.email = None).await?;
    assert_eq!(users.verify().await?.abandoned, 2);
    assert!(is_written(&users.insert(&user(5, "grace@x.org")).await?));
    assert_eq!(users.repair().await?.abandoned, 1);
    assert_clean(&users).await?;
    assert_unique(&server.snapshot(), true);
    Ok(())
}

/// Random operations of four users on three addresses, compared with a map.
#[tokio::test]
async fn random_operations_agree_with_a_map() -> TestResult {
    let (server, users) = start().await?;
    let empty = server.snapshot();
    for seed in seeds(120) {
        let _seed = Seed(seed);
        server.restore(&empty);
        let mut random = Random(seed);
        let mut model: BTreeMap<u32, String> = BTreeMap::new();
        for _ in 0..12 {
            let id = random.below(4);
            let email = random.pick(&["", "a@x", "B@x", "b@X", "c/d@x"]);
            let lower = email.to_lowercase();
            let is_free = |model: &BTreeMap<u32, String>| {
                lower.is_empty() || model.iter().all(|(other, had)| *other == id || *had != lower)
            };
            match random.below(4) {
                0 => assert_eq!(users.delete(key(id)).await?, model.remove(&id).is_some()),
                1 if model.contains_key(&id) => {
                    let change = |user: &mut User| user.email = user_email(email);
                    let written = is_written(&users.update(key(id), change).await?);
                    assert_eq!(written, is_free(&model), "{id} wants {email}");
                    if written {
                        model.insert(id, lower);
                    }
                }
                1 => {
                    let change = |user: &mut User| user.email = user_email(email);
                    assert!(users.update(key(id), change).await.unwrap_err().is_not_found());
                }
                _ if model.contains_key(&id) => {}
                _ => {
                    let written = is_written(&users.insert(&user(id, email)).await?);
                    assert_eq!(written, is_free(&model), "{id} wants {email}");
                    if written {
                        model.insert(id, lower);
                    }
                }
            }
        }
        for (id, email) in &model {
            let found = users.find(email).await?.map(|found| found.entity.id);
            assert_eq!(found, (!email.is_empty()).then_some(*id));
        }
        assert_clean(&users).await?;
    }
    Ok(())
}

fn user_email(email: &str) -> Option<String> {
    (!email.is_empty()).then(|| email.to_owned())
}

/// Several clients at once, each with its faults; afterwards each value has one owner at most.
#[tokio::test]
async fn random_clients_at_once_never_share_a_value() -> TestResult {
    let (first, _) = start().await?;
    let mut had_by_somebody = BTreeSet::new();
    for seed in seeds(60) {
        let _seed = Seed(seed);
        let server = first.fork().await?;
        let account = account(&server)?;
        let mut random = Random(seed);
        let faults: Vec<_> = (0..6)
            .map(|_| {
                let fault = Fault::any().nth(random.within(60) + 1);
                server.inject(match random.below(3) {
                    0 => fault.close_before_commit(),
                    1 => fault.close_after_commit(),
                    _ => fault.reject(ErrorCode::SERVER_BUSY),
                })
            })
            .collect();
        let clients = (0..8_u32).map(|client| {
            let mut random = Random(seed * 8 + u64::from(client));
            let users = if random.one_in(2) { users(&account) } else { users(&once(&account)) };
            async move {
                for _ in 0..3 {
                    let email = random.pick(&["a@x", "b@x", "c@x"]);
                    // What became of it is found out by the end.
                    let _ = match random.below(4) {
                        0 => users.delete(key(client)).await.map(drop),
                        1 => {
                            let change = |user: &mut User| user.email = Some(email.into());
                            users.update(key(client), change).await.map(drop)
                        }
                        _ => users.insert(&user(client, email)).await.map(drop),
                    };
                }
            }
        });
        futures_util::future::join_all(clients).await;
        drop(faults);
        assert_unique(&server.snapshot(), false);
        // The clients' clock has moved on, too, while they waited.
        server.clock().advance(10 * EXPIRY);
        let users = users(&self::account(&server)?);
        users.repair().await?;
        assert_clean(&users).await?;
        had_by_somebody.extend(assert_unique(&server.snapshot(), true).into_values());
    }
    assert!(had_by_somebody.len() > 4, "different clients win: {had_by_somebody:?}");
    Ok(())
}
