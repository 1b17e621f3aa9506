//! What one declaration could break in another: values in blobs under patches by name, expired entities under
//! encryption and jobs, and copies beside them.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream;
use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
use rowkey::store::{RemoteCopies, Store};
use rowkey::{
    BlobRef, Clock as _, DynamicEntity, Entity, ErrorKind, Key, ManualClock, Match, StorageAccount,
};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::sweep;

const LONG: &str = "long enough for a blob, long enough for a blob, long enough for a blob";

struct Setup {
    server: Server,
    account: StorageAccount,
    clock: ManualClock,
}

impl Setup {
    async fn start() -> TestResult<Self> {
        let server = Server::builder().manual_clock().start().await?;
        let (account, clock) = sweep::waiting(&server)?;
        Ok(Self { server, account, clock })
    }

    async fn store<E: Entity + Clone + Send + Sync + 'static>(
        &self,
    ) -> Result<Store<E>, rowkey::Error> {
        let builder = Store::<E>::builder(self.account.table("things"))
            .queue(self.account.queue("things"))
            .blobs(self.account.container("things"));
        let builder = if E::DECLARED.encrypted.is_empty() { builder } else { builder.keys(ring()) };
        let store = builder.build()?;
        store.create_if_missing().await?;
        Ok(store)
    }

    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    fn pass(&self, seconds: u64) {
        self.server.clock().advance(Duration::from_secs(seconds));
        self.clock.advance(Duration::from_secs(seconds));
    }

    fn blobs(&self) -> usize {
        self.server.snapshot().blobs("things").count()
    }

    /// The names of the properties of a thing.
    async fn properties(&self, id: u32) -> TestResult<Vec<String>> {
        let stored = self.account.table("things").get(row(id)).await?.ok_or("not found")?;
        Ok(stored.entity.iter().map(|(name, _)| name.to_owned()).collect())
    }
}

fn ring() -> KeyRing {
    KeyRing::new("things", AesKeyWrap::new("2026", [26; 32]), MacKey::new("records", [1; 32]))
}

fn row(id: u32) -> Key<DynamicEntity> {
    Key::new("all", format!("thing_{id:04}"))
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "all", row = "thing_{id:4}")]
struct Mail {
    id: u32,
    day: i32,
    #[entity(blob, threshold = 32, compress)]
    text: String,
    #[entity(blob)]
    scan: Option<BlobRef>,
}

/// A field in a blob has no column, but a name: a patch of it moves the value as an update does.
#[tokio::test]
async fn a_patch_by_name_of_a_value_in_a_blob_is_an_update() -> TestResult {
    let setup = Setup::start().await?;
    let mails = setup.store::<Mail>().await?;
    mails.insert(&Mail { id: 1, day: 1, text: LONG.into(), scan: None }).await?;
    let patch = || mails.patch(Mail::key(1));
    assert!(patch().set_named("text", "short".to_owned()).reads());
    patch().set_named("text", "short".to_owned()).send().await?;
    let read =
        async || Ok::<_, rowkey::Error>(mails.get(Mail::key(1)).await?.map(|read| read.entity));
    assert_eq!(read().await?.map(|mail| mail.text), Some("short".into()));
    assert_eq!(setup.blobs(), 0);
    patch().set_named("text", LONG.to_owned()).send().await?;
    assert_eq!(read().await?.map(|mail| mail.text), Some(LONG.into()));
    assert_eq!(setup.blobs(), 1);
    // Another property is still one request.
    assert!(!patch().set_named("note", 7).reads() && !patch().set(Mail::DAY, 7).reads());

    // The pointer is not data, and would free a blob of another entity.
    let pointer = setup.properties(1).await?.into_iter().find(|name| name.ends_with("_Blob"));
    let pointer = pointer.ok_or("no pointer")?;
    let refused = patch().set_named(&*pointer, "{}".to_owned()).send().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(mails.verify().run().await?.is_clean());
    Ok(())
}

/// A reference cannot be given by a patch: the blob belongs to the entity for which it was uploaded.
#[tokio::test]
async fn a_patch_by_name_does_not_take_the_blob_of_another_entity() -> TestResult {
    let setup = Setup::start().await?;
    let mails = setup.store::<Mail>().await?;
    let scan = mails.upload_reader(Mail::key(1), &b"a scan"[..]).send().await?;
    let path = scan.path().to_owned();
    mails.insert(&Mail { id: 1, day: 1, text: "short".into(), scan: Some(scan) }).await?;
    mails.insert(&Mail { id: 2, day: 1, text: "short".into(), scan: None }).await?;
    let names = setup.properties(1).await?;
    let before = mails.get(Mail::key(2)).await?.map(|read| read.entity);
    for name in names.iter().filter(|name| name.starts_with("scan")) {
        let patch = mails.patch(Mail::key(2)).set_named(name, path.clone());
        assert!(patch.send().await.is_err(), "{name}");
    }
    assert_eq!(mails.get(Mail::key(2)).await?.map(|read| read.entity), before);
    assert!(mails.delete(Mail::key(2)).await?);
    let scan = mails.get(Mail::key(1)).await?.ok_or("not found")?.entity.scan.ok_or("no scan")?;
    assert_eq!(mails.download(&scan).bytes().await?, b"a scan"[..]);
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "all", row = "thing_{id:4}")]
struct Session {
    id: u32,
    #[entity(encrypt)]
    note: String,
    #[entity(expiry)]
    until: Option<DateTime<Utc>>,
}

/// The same with another encrypted field, of a newer program.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "all", row = "thing_{id:4}")]
struct NewSession {
    id: u32,
    #[entity(encrypt)]
    note: String,
    #[entity(encrypt)]
    secret: Option<String>,
    #[entity(expiry)]
    until: Option<DateTime<Utc>>,
}

/// Everything that writes over an expired entity, by a program that does not know all of its properties.
#[tokio::test]
async fn nothing_of_an_expired_entity_comes_into_the_one_that_replaces_it() -> TestResult {
    let setup = Setup::start().await?;
    let (older, newer) = (setup.store::<Session>().await?, setup.store::<NewSession>().await?);
    let session = |id| Session { id, note: "of grace".into(), until: None };
    for id in 1..=5 {
        let (note, secret) = ("of ada".to_owned(), Some("of ada".to_owned()));
        newer.insert(&NewSession { id, note, secret, until: Some(setup.now()) }).await?;
        let mut other = DynamicEntity::new("all", format!("thing_{id:04}"));
        other.set("other", "of ada");
        setup.account.table("things").merge((&other, Match::Any)).await?;
    }
    older.insert(&session(1)).await?;
    older.upsert(&session(2)).await?;
    older.transaction().upsert(&session(3)).submit().await?;
    let loaded = older.load(stream::iter([session(4)])).run().await?;
    assert!(loaded.is_clean() && loaded.total.right == 1, "{loaded:?}");
    let loaded = older.load_over(stream::iter([session(5)])).run().await?;
    assert!(loaded.is_clean() && loaded.total.right == 1, "{loaded:?}");
    for id in 1..=5 {
        let read = newer.get(NewSession::key(id)).await?.ok_or("not found")?.entity;
        assert_eq!((&*read.note, read.secret), ("of grace", None), "{id}");
        let left = setup.properties(id).await?;
        assert!(!left.iter().any(|name| name == "other"), "{id}: {left:?}");
    }
    Ok(())
}

/// A member whose room has its name.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "all", row = "member_{id:4}")]
struct Member {
    id: u32,
    room: u32,
    #[entity(blob, threshold = 32, compress)]
    name: String,
    #[entity(expiry)]
    until: Option<DateTime<Utc>>,
}

/// A room that expires itself.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "rooms", row = "room_{id:4}")]
#[entity(index(name = by_name, row = "name_{name}", many))]
struct Room {
    id: u32,
    name: Option<String>,
    #[entity(expiry)]
    until: Option<DateTime<Utc>>,
}

/// Copies of a value in a blob into entities that expire, from an entity that expires.
#[tokio::test]
async fn copies_follow_into_expired_entities_and_go_with_an_expired_source() -> TestResult {
    let setup = Setup::start().await?;
    let rooms = Store::<Room>::builder(setup.account.table("rooms"));
    let rooms = rooms.queue(setup.account.queue("rooms")).build()?;
    rooms.create_if_missing().await?;
    let names = RemoteCopies::through(
        "names",
        &rooms,
        |member: &Member| [Room::key(member.room)],
        |member| member.name.clone(),
        |room: &mut Room, name| room.name = name.cloned(),
    );
    let members = Store::<Member>::builder(setup.account.table("things"))
        .queue(setup.account.queue("things"))
        .blobs(setup.account.container("things"))
        .with(names)
        .build()?;
    members.create_if_missing().await?;
    let in_a_minute = Some(setup.now() + TimeDelta::seconds(60));
    for (id, until) in [(1, None), (2, in_a_minute)] {
        rooms.insert(&Room { id, name: None, until }).await?;
        let until = if id == 1 { in_a_minute } else { None };
        members.insert(&Member { id, room: id, name: LONG.into(), until }).await?;
    }
    setup.pass(60);
    // The room of the second member is expired, and is kept in step until it is removed or extended.
    members.update(Member::key(2), |member| member.name = "short".into()).await?;
    let verified = members.verify_in(rooms.table()).run().await?;
    assert!(verified.is_clean(), "{verified:?}");
    assert!(members.verify().run().await?.is_clean() && rooms.verify().run().await?.is_clean());
    assert!(rooms.get(Room::key(2)).await?.is_none());
    assert_eq!(rooms.count(Room::by_name("short")).await?, 0);
    // The first member is expired; its copy goes with it.
    assert_eq!(rooms.count(Room::by_name(LONG)).await?, 1);
    assert_eq!(members.delete_expired().run().await?.total.right, 1);
    assert_eq!(rooms.count(Room::by_name(LONG)).await?, 0);
    assert_eq!(setup.blobs(), 0);
    assert_eq!(rooms.delete_expired().run().await?.total.right, 1);
    // A room that is inserted over an expired one has no copy until its source is written.
    members.update(Member::key(2), |member| member.name = LONG.into()).await?;
    let verified = members.verify_in(rooms.table()).run().await?;
    assert!(verified.is_clean(), "{verified:?}");
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
// `elsewhere` gets a few copies.
#[entity(store, append_ok, partition = "all", row = "thing_{id:4}")]
#[entity(index(name = by_day, row = "day_{day}", many))]
#[entity(index(name = elsewhere, partition = "day_{day}", row = "{id:4}"))]
struct OldNote {
    id: u32,
    day: i32,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
// `elsewhere` gets a few copies.
#[entity(store, append_ok, partition = "all", row = "thing_{id:4}")]
#[entity(index(name = by_day, row = "day_{day}", many))]
#[entity(index(name = elsewhere, partition = "day_{day}", row = "{id:4}"))]
struct Note {
    id: u32,
    day: i32,
    #[entity(blob, threshold = 32)]
    text: String,
}

/// Rows of a program whose field was not in a blob, and whose copies have its value: a write or a repair takes it away.
#[tokio::test]
async fn copies_from_before_a_threshold_are_found_and_repaired() -> TestResult {
    let setup = Setup::start().await?;
    let (older, newer) = (setup.store::<OldNote>().await?, setup.store::<Note>().await?);
    for id in 1..=3 {
        older.insert(&OldNote { id, day: 1, text: "short".into() }).await?;
    }
    let read = newer.query(Note::by_day(1)).all().await?;
    assert!(read.len() == 3 && read.iter().all(|read| read.entity.text == "short"));
    assert_eq!(newer.verify().run().await?.total.stale, 6);
    newer.update(Note::key(1), |note| note.text = LONG.into()).await?;
    newer.update(Note::key(2), |note| note.day = 2).await?;
    newer.patch(Note::key(3)).set(Note::DAY, 3).send().await?;
    let verified = newer.verify().run().await?;
    assert!(verified.is_clean(), "{verified:?}");
    older.insert(&OldNote { id: 4, day: 1, text: "short".into() }).await?;
    assert_eq!(newer.repair().run().await?.total.repaired, 2);
    assert!(newer.verify().run().await?.is_clean());
    assert_eq!(newer.query(Note::elsewhere_all(3)).all().await?.len(), 1);
    Ok(())
}
