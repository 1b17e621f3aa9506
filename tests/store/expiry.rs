//! Entities that expire: reads of every kind leave them out, inserts replace them, and a job removes them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::{join, select};
use rowkey::patterns::lease_lock::LeaseLock;
use rowkey::store::{Change, History, IfMatch, Store};
use rowkey::worker::janitor::{Chore, Janitor};
use rowkey::{
    Clock as _, DynamicEntity, Entity, ErrorKind, Key, ManualClock, Match, Projection,
    StorageAccount, edm,
};
use rowkey_emulator::{Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{self, sweep_every_way};
use tokio::sync::Notify;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "session_{id:4}")]
#[entity(index(name = by_badge, row = "badge_{badge}"))]
#[entity(index(name = by_user, row = "user_{user}", many))]
#[entity(index(name = by_place, row = "place_{place}", many, copy(user)))]
#[entity(index(name = by_device, partition = "device_{place}", row = "{tenant}_{id:4}"))]
#[entity(unique(name = by_token, value = "{token}"))]
#[entity(list(name = by_tag, value = "{user}"))]
struct Session {
    tenant: String,
    id: u32,
    user: String,
    badge: u32,
    place: String,
    token: String,
    #[entity(expiry, rename = "ExpiresAt")]
    until: Option<DateTime<Utc>>,
}

fn session(id: u32, until: impl Into<Option<DateTime<Utc>>>) -> Session {
    Session {
        tenant: "contoso".into(),
        id,
        user: "ada".into(),
        badge: id,
        place: "leeds".into(),
        token: format!("token{id}"),
        until: until.into(),
    }
}

fn key(id: u32) -> Key<Session> {
    Session::key("contoso", id)
}

fn store<E: Entity + Clone + Send + Sync + 'static>(
    account: &StorageAccount,
) -> rowkey::Result<Store<E>> {
    Store::builder(account.table("sessions")).queue(account.queue("sessions")).build()
}

struct Setup {
    server: Server,
    account: StorageAccount,
    clock: ManualClock,
    sessions: Store<Session>,
}

impl Setup {
    async fn start() -> TestResult<Self> {
        let server = Server::builder().manual_clock().start().await?;
        let (account, clock) = sweep::waiting(&server)?;
        let sessions = store(&account)?;
        sessions.create_if_missing().await?;
        Ok(Self { server, account, clock, sessions })
    }

    fn after(&self, seconds: i64) -> DateTime<Utc> {
        self.clock.now() + TimeDelta::seconds(seconds)
    }

    fn pass(&self, seconds: u64) {
        self.server.clock().advance(Duration::from_secs(seconds));
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// The ids of the sessions by each kind of read.
    async fn read(&self) -> rowkey::Result<Vec<(&'static str, Vec<u32>)>> {
        let sessions = &self.sessions;
        let (mut got, mut exist) = (Vec::new(), Vec::new());
        let mut found = [const { Vec::new() }; 2];
        for id in 1..=4 {
            got.extend(sessions.get(key(id)).await?.map(|read| read.entity.id));
            exist.extend(sessions.exists(key(id)).await?.then_some(id));
            let by_badge = sessions.find(Session::by_badge("contoso", id)).await?;
            found[0].extend(by_badge.map(|read| read.entity.id));
            let by_token = sessions.find(Session::by_token(format!("token{id}"))).await?;
            found[1].extend(by_token.map(|read| read.entity.id));
        }
        let [by_badge, by_token] = found;
        let many = sessions.get_many((1..=4).map(key)).await?;
        let many = many.into_iter().flatten().map(|read| read.entity.id).collect();
        let mut all = vec![
            ("get", got),
            ("get_many", many),
            ("exists", exist),
            ("by_badge", by_badge),
            ("by_token", by_token),
        ];
        let queries = [
            ("partition", sessions.query(Session::partition("contoso"))),
            ("by_user", sessions.query(Session::by_user("contoso", "ada"))),
            ("by_badge_all", sessions.query(Session::by_badge_all("contoso"))),
            ("by_place", sessions.query(Session::by_place("contoso", "leeds"))),
            ("by_device", sessions.query(Session::by_device_all("leeds"))),
            ("by_tag", sessions.query(Session::by_tag("contoso", "ada"))),
        ];
        for (name, query) in queries {
            let read = query.all().await?;
            all.push((name, read.into_iter().map(|read| read.entity.id).collect()));
        }
        let counts = [
            sessions.count(Session::partition("contoso")).await?,
            sessions.count(Session::by_user("contoso", "ada")).await?,
            sessions.count(Session::by_device_all("leeds")).await?,
            sessions.count(Session::by_tag("contoso", "ada")).await?,
        ];
        let last = all.last().map_or(0, |(_, ids)| ids.len() as u64);
        assert_eq!(counts, [last; 4]);
        Ok(all)
    }
}

#[tokio::test]
async fn reads_of_every_kind_leave_out_expired_entities() -> TestResult {
    let setup = Setup::start().await?;
    let [soon, later] = [60, 120].map(|seconds| Some(setup.after(seconds)));
    let until = [soon, None, later, soon];
    for (id, until) in (1..).zip(until) {
        setup.sessions.insert(&session(id, until)).await?;
    }
    for (seconds, expected) in [(0, vec![1, 2, 3, 4]), (60, vec![2, 3]), (60, vec![2])] {
        setup.pass(seconds);
        for (read, ids) in setup.read().await? {
            assert_eq!(ids, expected, "{read}");
        }
    }
    // A century later.
    setup.pass(100 * 365 * 86_400);
    assert!(setup.sessions.exists(key(2)).await?, "without an expiry it never expires");
    // A list names an entity until it is removed.
    let listed = setup.sessions.list_keys(&Session::by_tag("contoso", "ada")).await?;
    assert_eq!(listed.len(), 4);
    assert!(setup.sessions.verify().run().await?.is_clean());
    Ok(())
}

/// A page has as many entities as are asked for, although expired ones are among the rows.
#[tokio::test]
async fn pages_are_full_and_reads_cost_the_same() -> TestResult {
    let setup = Setup::start().await?;
    for id in 1..=6 {
        let until = (id % 2 != 0).then(|| setup.after(0));
        setup.sessions.insert(&session(id, until)).await?;
    }
    let of_ada = || setup.sessions.query(Session::by_user("contoso", "ada"));
    let page = of_ada().page(2, None).await?;
    let ids = |page: &rowkey::store::Page<Session>| {
        page.entities.iter().map(|read| read.entity.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&page), [2, 4]);
    assert_eq!(ids(&of_ada().page(2, page.continuation).await?), [6]);

    let before = setup.server.journal();
    assert!(setup.sessions.get(key(1)).await?.is_none());
    assert!(!setup.sessions.exists(key(1)).await?);
    assert_eq!(of_ada().all().await?.len(), 3);
    assert_eq!(setup.server.journal().since(&before).len(), 3);
    Ok(())
}

#[derive(Debug, Projection)]
struct Tenant {
    #[entity(partition_key)]
    _tenant: String,
}

/// Reads of single properties cannot know whether an entity is expired.
#[tokio::test]
async fn single_properties_are_not_read() -> TestResult {
    let setup = Setup::start().await?;
    let before = setup.server.journal();
    let found = setup.sessions.find_as::<Tenant, _>(Session::by_badge("contoso", 1)).await;
    assert_eq!(found.unwrap_err().kind(), ErrorKind::Invalid);
    let page = setup.sessions.query(Session::partition("contoso")).page_as::<Tenant>(1, None);
    assert_eq!(page.await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(setup.server.journal().since(&before).len(), 0);
    Ok(())
}

#[tokio::test]
async fn changes_do_not_find_an_expired_entity() -> TestResult {
    let setup = Setup::start().await?;
    let sessions = &setup.sessions;
    sessions.insert(&session(1, setup.after(60))).await?;
    let version = sessions.get(key(1)).await?.ok_or("not found")?.version;
    setup.pass(60);
    let updated = sessions.update(key(1), |session| session.until = None).await;
    assert_eq!(updated.unwrap_err().kind(), ErrorKind::NotFound);
    let patch = || sessions.patch(key(1)).set(Session::PLACE, "york".to_owned());
    assert_eq!(patch().send().await.unwrap_err().kind(), ErrorKind::NotFound);
    let patched = patch().if_version(&version).send().await;
    assert_eq!(patched.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(sessions.get(key(1)).await?.is_none());

    // `If-Match: *` requires an entity.
    let any = sessions.replace_if(&session(1, None), IfMatch::Any).await;
    assert_eq!(any.unwrap_err().kind(), ErrorKind::Conflict);
    let any = sessions.transaction().replace_if(&session(1, None), IfMatch::Any).submit().await;
    assert_eq!(any.unwrap_err().kind(), ErrorKind::Conflict);
    let any = sessions.delete_if(key(1), IfMatch::Any).await;
    assert_eq!(any.unwrap_err().kind(), ErrorKind::Conflict);

    // A condition on the version that was read, an upsert and a deletion are for the stored row.
    sessions.replace_if(&session(1, None), &version).await?;
    assert!(sessions.exists(key(1)).await?);
    sessions.upsert(&session(1, setup.after(0))).await?;
    assert!(!sessions.exists(key(1)).await?);
    sessions.upsert(&session(1, None)).await?;
    assert!(sessions.exists(key(1)).await?);
    sessions.upsert(&session(1, setup.after(0))).await?;
    assert!(sessions.delete(key(1)).await?);
    assert_eq!(rows(&setup.server.snapshot()), 0);
    Ok(())
}

/// The rows of the table.
fn rows(snapshot: &Snapshot) -> usize {
    snapshot.table("sessions").map_or(0, |table| table.entities().count())
}

#[tokio::test]
async fn an_insert_replaces_an_expired_entity() -> TestResult {
    let setup = Setup::start().await?;
    let sessions = &setup.sessions;
    sessions.insert(&session(1, setup.after(60))).await?;
    // Another program adds a property.
    let mut note = DynamicEntity::new("contoso", "session_0001");
    note.set("Note", "of the old session");
    sessions.table().merge((&note, Match::Any)).await?;
    let exists = sessions.insert(&session(1, None)).await.unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    setup.pass(60);

    let next = Session { user: "grace".into(), badge: 7, ..session(1, setup.after(60)) };
    sessions.insert(&next).await?;
    assert_eq!(sessions.get(key(1)).await?.map(|read| read.entity), Some(next.clone()));
    let stored = sessions.table().get(Key::<DynamicEntity>::new("contoso", "session_0001")).await?;
    assert!(stored.ok_or("not found")?.entity.get("Note").is_none(), "it is of another entity");
    assert_eq!(sessions.count(Session::by_user("contoso", "ada")).await?, 0);
    assert_eq!(sessions.count(Session::by_user("contoso", "grace")).await?, 1);
    assert!(sessions.verify().run().await?.is_clean());

    let exists = sessions.insert(&next).await.unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists, "it is replaced once");
    Ok(())
}

/// What happened to a session.
#[derive(Debug, Entity)]
#[entity(partition = "{tenant}", row = "event_{session:4}_{at}_{operation}")]
struct Event {
    tenant: String,
    session: u32,
    at: DateTime<Utc>,
    operation: String,
    what: String,
}

fn event(change: Change<'_, Session>) -> Option<Event> {
    let user = |session: Option<&Session>| session.map_or("-", |session| &*session.user).to_owned();
    let (before, after) = (user(change.before), user(change.after));
    let Session { tenant, id, .. } = change.after.or(change.before)?.clone();
    let (at, operation) = (change.op().created(), change.op().mark().to_owned());
    let what = format!("{before} to {after}");
    (before != after).then_some(Event { tenant, session: id, at, operation, what })
}

/// Whether the job removed an expired entity first makes no difference to the history of the next one.
#[tokio::test]
async fn an_entity_that_replaces_an_expired_one_is_new_in_its_history() -> TestResult {
    let setup = Setup::start().await?;
    let sessions = Store::<Session>::builder(setup.account.table("sessions"))
        .queue(setup.account.queue("sessions"))
        .with(History::new("events", event))
        .build()?;
    for id in 1..=4 {
        sessions.insert(&session(id, setup.after(60))).await?;
    }
    setup.pass(60);
    let until = setup.after(60);
    sessions.insert(&session(1, until)).await?;
    sessions.upsert(&session(2, until)).await?;
    sessions.load_over(futures_util::stream::iter([session(3, until)])).run().await?;
    assert_eq!(sessions.delete_expired().run().await?.total.right, 1);
    setup.pass(1);
    sessions.insert(&session(4, until)).await?;
    sessions.upsert(&session(4, until)).await?;
    for id in 1..=4 {
        let events = sessions.table().query(Event::under_session("contoso", id)).all().await?;
        let what: Vec<_> = events.iter().map(|event| &*event.entity.what).collect();
        let removed = (id == 4).then_some("ada to -");
        let expected: Vec<_> =
            ["- to ada"].into_iter().chain(removed).chain(["- to ada"]).collect();
        assert_eq!(what, expected, "session {id}");
    }
    assert!(sessions.verify().run().await?.is_clean());
    Ok(())
}

/// Of several inserts over one expired entity, one succeeds.
#[tokio::test]
async fn one_of_two_inserts_over_an_expired_entity_succeeds() -> TestResult {
    let setup = Setup::start().await?;
    setup.sessions.insert(&session(1, setup.after(0))).await?;
    let [one, other] =
        ["grace", "alan"].map(|user| Session { user: user.into(), ..session(1, None) });
    let results = join(setup.sessions.insert(&one), setup.sessions.insert(&other)).await;
    let kinds = [results.0, results.1].map(|result| result.err().map(|error| error.kind()));
    assert_eq!(kinds.iter().filter(|kind| kind.is_none()).count(), 1, "{kinds:?}");
    assert!(kinds.contains(&Some(ErrorKind::AlreadyExists)), "{kinds:?}");
    assert!(setup.sessions.verify().run().await?.is_clean());
    Ok(())
}

/// A unique value is taken until the entity is removed; the index without `many` likewise.
#[tokio::test]
async fn values_of_an_expired_entity_stay_taken_until_it_is_removed() -> TestResult {
    let setup = Setup::start().await?;
    let sessions = &setup.sessions;
    sessions.insert(&session(1, setup.after(0))).await?;
    let other = Session { token: "token1".into(), ..session(2, None) };
    let taken = sessions.insert(&other).await.unwrap_err();
    assert_eq!((taken.kind(), taken.details().index), (ErrorKind::AlreadyExists, Some("by_token")));
    let badge = Session { badge: 1, ..session(2, None) };
    let taken = sessions.insert(&badge).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);

    assert_eq!(sessions.delete_expired().run().await?.total.right, 1);
    sessions.insert(&Session { badge: 1, ..other }).await?;
    assert!(sessions.verify().run().await?.is_clean());
    Ok(())
}

#[tokio::test]
async fn a_job_removes_expired_entities_with_all_their_rows() -> TestResult {
    let setup = Setup::start().await?;
    let sessions = &setup.sessions;
    for id in 1..=30 {
        let until = [None, Some(setup.after(60)), Some(setup.after(61))][id as usize % 3];
        sessions.insert(&session(id, until)).await?;
    }
    assert_eq!(sessions.delete_expired().run().await?.total.examined, 0);
    setup.pass(60);
    let before = setup.server.journal();
    let report = sessions.delete_expired().run().await?;
    assert_eq!((report.total.right, report.total.examined), (10, 10), "{report:?}");
    let journal = setup.server.journal().since(&before);
    assert_eq!(journal.count(Operation::QueryEntities), 1, "the service selects them");
    assert_eq!(sessions.list_keys(&Session::by_tag("contoso", "ada")).await?.len(), 20);
    assert_eq!(sessions.delete_expired().run().await?.total.examined, 0);
    let verified = sessions.verify().run().await?;
    assert!(verified.is_clean() && verified.part("by_token").right == 20, "{verified:?}");
    Ok(())
}

/// While the deletion is on its way, the expiry of one of two entities is moved to a later time.
#[tokio::test]
async fn an_entity_whose_expiry_is_moved_meanwhile_is_not_removed() -> TestResult {
    let setup = Setup::start().await?;
    let sessions = &setup.sessions;
    sessions.insert(&session(1, setup.after(0))).await?;
    sessions.insert(&session(2, setup.after(0))).await?;
    let held = setup.server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let mut deletion = pin!(sessions.delete_expired().run());
    select(deletion.as_mut(), pin!(held.wait_until_held())).await;
    sessions.upsert(&session(2, setup.after(60))).await?;
    held.release();
    let report = deletion.await?;
    assert_eq!((report.total.right, report.total.skipped), (1, 1), "{report:?}");
    assert!(sessions.exists(key(2)).await?);
    assert_eq!(sessions.list_keys(&Session::by_tag("contoso", "ada")).await?.len(), 1);
    assert!(sessions.verify().run().await?.is_clean());
    Ok(())
}

/// The program of before, which knows no expiry.
mod older {
    use rowkey::{DynamicEntity, Entity, edm};

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{tenant}", row = "ticket_{id:4}")]
    pub(super) struct Ticket {
        pub(super) tenant: String,
        pub(super) id: u32,
        #[entity(rename = "Until")]
        pub(super) sold: edm::DateTime,
    }

    /// Whether the row is still stored.
    pub(super) fn is_stored(row: Option<&DynamicEntity>) -> bool {
        row.is_some_and(|row| row.get("Until").is_some())
    }
}

mod newer {
    use rowkey::{Entity, edm};

    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{tenant}", row = "ticket_{id:4}")]
    pub(super) struct Ticket {
        pub(super) tenant: String,
        pub(super) id: u32,
        #[entity(expiry, rename = "Until")]
        pub(super) until: edm::DateTime,
    }
}

/// A version in which the property has another meaning.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "ticket_{id:4}", version = 2, from = older::Ticket)]
struct Converted {
    tenant: String,
    id: u32,
    #[entity(expiry, rename = "Until")]
    until: Option<edm::DateTime>,
}

impl From<older::Ticket> for Converted {
    fn from(older::Ticket { tenant, id, .. }: older::Ticket) -> Self {
        Self { tenant, id, until: None }
    }
}

#[tokio::test]
async fn a_program_without_the_declaration_reads_expired_entities() -> TestResult {
    let setup = Setup::start().await?;
    let now = edm::DateTime::try_from(setup.clock.now())?;
    let newer = store::<newer::Ticket>(&setup.account)?;
    newer.insert(&newer::Ticket { tenant: "contoso".into(), id: 1, until: now }).await?;
    assert!(newer.get(newer::Ticket::key("contoso", 1)).await?.is_none());
    let older = store::<older::Ticket>(&setup.account)?;
    let read = older.get(older::Ticket::key("contoso", 1)).await?.ok_or("not found")?;
    assert_eq!(read.entity.sold, now);
    Ok(())
}

/// The service finds the property of the older version, which is not the expiry of the newer one.
#[tokio::test]
async fn the_property_of_an_older_version_removes_nothing() -> TestResult {
    let setup = Setup::start().await?;
    let sold = edm::DateTime::try_from(setup.clock.now())?;
    let older = store::<older::Ticket>(&setup.account)?;
    older.insert(&older::Ticket { tenant: "contoso".into(), id: 1, sold }).await?;
    let converted = store::<Converted>(&setup.account)?;
    assert!(converted.exists(Converted::key("contoso", 1)).await?);
    let report = converted.delete_expired().run().await?;
    assert_eq!((report.total.right, report.total.skipped), (0, 1), "{report:?}");
    let row = older.table().get(Key::<DynamicEntity>::new("contoso", "ticket_0001")).await?;
    assert!(older::is_stored(row.map(|row| row.entity).as_ref()));
    Ok(())
}

/// The costs on the page, of a type without declarations elsewhere.
#[tokio::test]
async fn inserts_and_patches_cost_what_the_page_says() -> TestResult {
    let setup = Setup::start().await?;
    let now = edm::DateTime::try_from(setup.clock.now())?;
    let later = edm::DateTime::try_from(setup.clock.now() + TimeDelta::seconds(60))?;
    let tickets = store::<newer::Ticket>(&setup.account)?;
    let ticket = |until| newer::Ticket { tenant: "contoso".into(), id: 1, until };
    let mut costs = Vec::new();
    for until in [now, later] {
        let before = setup.server.journal();
        tickets.insert(&ticket(until)).await?;
        costs.push(setup.server.journal().since(&before).len());
    }
    let before = setup.server.journal();
    let key = newer::Ticket::key("contoso", 1);
    tickets.patch(key).set(newer::Ticket::UNTIL, now).send().await?;
    costs.push(setup.server.journal().since(&before).len());
    assert_eq!(costs, [1, 3, 2]);
    Ok(())
}

/// A server with two expired sessions and one that is not.
async fn expired() -> TestResult<(Server, DateTime<Utc>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    let sessions = store(&account)?;
    sessions.create_if_missing().await?;
    let now = account.clock().now();
    for (id, until) in [(1, Some(now)), (2, Some(now)), (3, None)] {
        sessions.insert(&session(id, until)).await?;
    }
    Ok((server, now))
}

/// The chore of a janitor removes them, and counts what it examined.
#[tokio::test]
async fn a_janitor_removes_expired_entities() -> TestResult {
    let (server, _) = expired().await?;
    let account = sweep::account(&server)?;
    account.container("locks").create().await?;
    let sessions = store::<Session>(&account)?;
    let ended = Arc::new(Notify::new());
    let observed = Arc::clone(&ended);
    let janitor = Janitor::new(LeaseLock::new(account.container("locks").blob("janitor")))
        .chore(Chore::delete_expired(&sessions).jitter(Duration::ZERO))
        .observe(move |_| observed.notify_one());
    janitor.run_until(ended.notified()).await?;
    let reports = janitor.reports().await?;
    let report = reports.last().ok_or("no report")?;
    assert!(report.is_done() && report.counts.get("examined") == Some(&2), "{report:?}");
    assert_eq!(sessions.list_keys(&Session::by_tag("contoso", "ada")).await?.len(), 1);
    Ok(())
}

/// Settles what an interrupted write left, as a worker does a minute later.
async fn settle(account: &StorageAccount) -> TestResult<Store<Session>> {
    let sessions = store::<Session>(account)?;
    for _ in 0..3 {
        sessions.drain_backlog().await?;
        let worked = sessions.work_once().await?;
        assert_eq!(worked.failed, 0, "{worked:?}");
    }
    Ok(sessions)
}

/// The deletion is repeated after each fault at each request; nothing of the expired sessions is left.
#[tokio::test]
async fn a_removal_that_fails_anywhere_is_finished_by_the_next() -> TestResult {
    let (server, _) = expired().await?;
    sweep_every_way(
        &server,
        async |account| store::<Session>(account).unwrap().delete_expired().run().await.is_ok(),
        async |account| {
            let sessions = settle(account).await?;
            assert!(sessions.delete_expired().run().await?.is_clean());
            assert!(sessions.verify().run().await?.is_clean());
            assert!(sessions.exists(key(3)).await?);
            Ok(())
        },
        |snapshot| {
            let table = snapshot.table("sessions").unwrap();
            let of = |id: &str| table.entities().filter(|row| row.row_key().ends_with(id)).count();
            assert_eq!((of("_0001"), of("_0002")), (0, 0));
            assert!(of("_0003") > 0);
        },
    )
    .await
}

/// The insert is repeated after each fault at each request: in the end one session has the keys, the new one.
#[tokio::test]
async fn an_insert_over_an_expired_entity_that_fails_anywhere_can_be_repeated() -> TestResult {
    let (server, _) = expired().await?;
    let next = || Session { user: "grace".into(), token: "new".into(), ..session(1, None) };
    sweep_every_way(
        &server,
        async |account| store::<Session>(account).unwrap().insert(&next()).await.is_ok(),
        async |account| {
            let sessions = settle(account).await?;
            if let Err(error) = sessions.insert(&next()).await {
                assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            }
            assert_eq!(sessions.get(key(1)).await?.map(|read| read.entity), Some(next()));
            assert_eq!(sessions.count(Session::by_user("contoso", "grace")).await?, 1);
            assert!(sessions.find(Session::by_token("new")).await?.is_some());
            assert!(sessions.verify().run().await?.is_clean());
            Ok(())
        },
        |snapshot| assert!(rows(snapshot) > 0),
    )
    .await
}
