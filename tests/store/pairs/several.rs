//! Types with several declarations: every two that `pairs` does not run alone meet on one of these.
//!
//! The sweep inserts, updates, patches and deletes, moves a value from the row into a blob and back, replaces an
//! expired entity and removes another one. After each failure all rows agree, each declaration finds the same
//! entities as the partition, no read returns an expired one, and contents are those of one of the writes.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use rowkey::store::{Store, Versioned};
use rowkey::worker::outbox::Outbox as _;
use rowkey::{BlobRef, Column, Entity};
use rowkey_emulator::{Server, Sweep};
use rowkey_tests::sweep::{account, sample};
use rowkey_tests::{TestResult, erased};

use super::extras::{
    Copied, Extras, Tell, assert_agrees, connect, insert_shown, is_real, key, store, tasks,
};

/// A value that stays in the row below the threshold, and one that goes into a blob.
const SHORT: &str = "short";
const LONG: &str = "long enough for a blob, long enough for a blob, long enough for a blob";

/// The number of entries with names that are data, of which wide entities have many.
const NUMBERS: i32 = 6;

/// What a sweep does with a type, by its declarations.
trait Several: Copied + Default {
    /// The reads by a declaration, each for the values of an entity: those that are found.
    const READS: &'static [(&'static str, Read<Self>)];

    const B: Column<String>;

    fn identify(&mut self, id: u32);

    fn id(&self) -> u32;

    fn values(&mut self) -> [&mut String; 2];

    /// A value that is in a blob.
    fn plain(&mut self) -> Option<&mut String> {
        None
    }

    /// The values that may be in blobs.
    fn texts(&mut self) -> Vec<&mut String> {
        Vec::new()
    }

    fn secret(&mut self) -> Option<&mut String> {
        None
    }

    fn numbers(&mut self) -> Option<&mut BTreeMap<String, i32>> {
        None
    }

    fn scan(&mut self) -> Option<&mut Option<BlobRef>> {
        None
    }

    fn until(&mut self) -> Option<&mut Option<DateTime<Utc>>> {
        None
    }

    fn upload(_: &Store<Self>, _: u32) -> BoxFuture<'_, rowkey::Result<Option<BlobRef>>> {
        ready(Ok(None)).boxed()
    }

    /// Reads what the entity refers to; whether it is there.
    fn has_content<'s>(_: &'s Store<Self>, _: &'s Self) -> BoxFuture<'s, rowkey::Result<bool>> {
        ready(Ok(true)).boxed()
    }

    /// Whether the job ended.
    fn delete_expired(_: &Store<Self>) -> BoxFuture<'_, bool> {
        ready(true).boxed()
    }
}

type Read<E> = fn(Store<E>, E) -> BoxFuture<'static, rowkey::Result<Vec<Versioned<E>>>>;

macro_rules! several {
    ($($name:ident: [$($what:ident)*];)*) => {
        $(
            mod $name {
                use super::*;

                declare! { [$($what)*] {} {} {} {} }

                #[tokio::test]
                async fn agree_in_the_end_whatever_fails() -> TestResult {
                    check::<Thing>(Extras::of(&named(&[$(stringify!($what)),*]))).await
                }
            }
        )*

        /// The declarations of each type.
        const ALL: &[&[&str]] = &[$(&[$(stringify!($what)),*]),*];
    };
}

several! {
    wide_with_copies: [buckets other other_list copies threshold compressed reference wide];
    expiring_with_count: [one part buckets apart count threshold compressed expiry];
    parts_with_encryption: [value buckets blob_list task encrypted threshold compressed parts];
    parts_with_lists: [part list apart other other_list count field parts];
    expiring_with_fields: [many far buckets list field threshold compressed expiry];
    expiring_with_other_tables: [one many apart blob_list other other_list encrypted expiry];
    expiring_with_references: [value task copies field reference expiry];
    parts_with_copies: [near copies reference parts];
}

/// The names of declarations on the page.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("one", "index, one entity per value"),
    ("many", "index, many"),
    ("near", "index, partial"),
    ("far", "index elsewhere"),
    ("part", "index elsewhere, partial"),
    ("value", "unique value"),
    ("buckets", "unique value in buckets"),
    ("list", "list"),
    ("apart", "list elsewhere"),
    ("blob_list", "list in blobs"),
    ("other", "index in another table"),
    ("other_list", "list in another table"),
    ("count", "count"),
    ("task", "task"),
    ("copies", "copies elsewhere"),
    ("encrypted", "encrypted field"),
    ("field", "field in a blob"),
    ("threshold", "field in a blob from a length on"),
    ("compressed", "compressed field in a blob"),
    ("reference", "reference to a blob"),
    ("wide", "wide entity"),
    ("parts", "wide entity in parts"),
    ("expiry", "expiring entity"),
];

fn named(what: &[&str]) -> Vec<&'static str> {
    let name = |one: &&str| NAMES.iter().find(|(short, _)| short == one).unwrap().1;
    what.iter().map(name).collect()
}

/// Pairs of declarations that meet on one of these types.
pub(super) fn pairs() -> Vec<[&'static str; 2]> {
    let mut pairs = Vec::new();
    for what in ALL {
        let names = named(what);
        for (at, first) in names.iter().enumerate() {
            pairs.extend(names[at + 1..].iter().map(|second| [*first, *second]));
        }
    }
    pairs
}

/// An entity with these values.
fn thing<E: Several>(id: u32, values: [&str; 2], text: &str) -> E {
    let mut thing = E::default();
    thing.identify(id);
    set(&mut thing, values, text);
    if let Some(numbers) = thing.numbers() {
        // A wide entity that is no entity in parts has a second row from about 250 properties on.
        let many = if E::DECLARED.wide.parts.is_some() { NUMBERS } else { 255 };
        *numbers = (0..many).map(|number| (format!("N{number}"), number)).collect();
    }
    thing
}

fn set<E: Several>(thing: &mut E, values: [&str; 2], text: &str) {
    for (own, value) in thing.values().into_iter().zip(values) {
        *own = value.into();
    }
    for own in thing.texts() {
        *own = text.into();
    }
    if let Some(plain) = thing.plain() {
        *plain = text.into();
    }
    if let Some(secret) = thing.secret() {
        *secret = "hush".into();
    }
}

fn set_until<E: Several>(thing: &mut E, at: Option<DateTime<Utc>>) {
    if let Some(until) = thing.until() {
        *until = at;
    }
}

async fn refer<E: Several>(things: &Store<E>, id: u32, thing: &mut E) -> rowkey::Result<()> {
    let uploaded = E::upload(things, id).await?;
    if let Some(scan) = thing.scan() {
        *scan = uploaded;
    }
    Ok(())
}

/// Inserts an entity, with its task if there are tasks.
async fn insert<E: Several>(things: &Store<E>, mut thing: E, extras: Extras) -> rowkey::Result<()> {
    let id = thing.id();
    refer(things, id, &mut thing).await?;
    if extras.tasks {
        let transaction = things.transaction().insert(&thing).task(&Tell(id));
        return transaction.submit().await.map(drop);
    }
    things.insert(&thing).await.map(drop)
}

/// What the sweep does. Each step is tried, even if the one before failed.
/// Returns whether all succeeded.
async fn act<E: Several>(things: &Store<E>, extras: Extras) -> bool {
    let later = things.table().account().clock().now() + TimeDelta::days(30);
    let mut new = thing::<E>(2, ["c", "d"], LONG);
    set_until(&mut new, Some(later));
    let inserted = insert(things, new, extras).await;

    let scan = E::upload(things, 1).await;
    let updated = things.update(key(1), |thing: &mut E| {
        set(thing, ["e", "f"], LONG);
        if let (Some(own), Ok(scan)) = (thing.scan(), &scan) {
            own.clone_from(scan);
        }
    });
    let updated = updated.await.map(drop);

    let patch = things.patch(key::<E>(3)).set(E::B, "patched");
    let patch = if E::DECLARED.wide.rows > 1 { patch.set_named("N1", 77) } else { patch };
    let patched = patch.send().await.map(drop);
    let shortened = things.update(key(3), |thing: &mut E| {
        for text in thing.texts() {
            *text = SHORT.into();
        }
    });
    let shortened = shortened.await.map(drop);

    let deleted = things.delete(key(2)).await.map(drop);
    let results = [inserted, scan.map(drop), updated, patched, shortened, deleted];
    let mut is_done = results.iter().all(Result::is_ok);
    if E::DECLARED.expiry.is_some() {
        let mut again = thing::<E>(4, ["i", "j"], SHORT);
        is_done &= refer(things, 4, &mut again).await.is_ok();
        is_done &= things.insert(&again).await.is_ok();
        is_done &= E::delete_expired(things).await;
    }
    is_done
}

#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn check<E: Several + std::fmt::Debug + PartialEq>(extras: Extras) -> TestResult {
    let server = Server::builder();
    let server = if is_real() { server } else { server.manual_clock() }.start().await?;
    let things = store::<E>(&connect(&server)?, extras)?;
    things.create_if_missing().await?;
    tasks(&connect(&server)?).create_if_missing().await?;
    insert_shown(&connect(&server)?, &["b", "d", "f", "h", "j", "l", "n", "patched"]).await?;
    let now = server.clock().now().to_chrono();
    let stored = [
        (1, ["a", "b"], SHORT),
        (3, ["g", "h"], LONG),
        (4, ["k", "l"], LONG),
        (5, ["m", "n"], LONG),
    ];
    for (at, (id, values, text)) in stored.into_iter().enumerate() {
        let mut one = thing::<E>(id, values, text);
        let until = [Some(now + TimeDelta::days(30)), None, Some(now), Some(now)];
        set_until(&mut one, until[at]);
        refer(&things, id, &mut one).await?;
        things.insert(&one).await?;
    }
    let sweep = Sweep::new(&server).lagging_secondary();
    let sweep = if is_real() {
        sweep.real_time().at_a_time(16)
    } else {
        sample(sweep, std::any::type_name::<E>())
    };
    let swept = erased::run(
        sweep,
        async |server| Ok(store::<E>(&connect(server)?, extras)?),
        async |things| act(things, extras).await,
        async |things| {
            things.drain_backlog().await?;
            assert_eq!(things.work_once().await?.failed, 0);
            Ok(())
        },
        async |server, things, result| {
            let snapshot = assert_agrees(server, things, extras).await?;
            let told = snapshot.queue("tells").unwrap().messages().count();
            let is_done = result == Some(&true);
            assert!(!is_done || (told > 0) == extras.tasks, "{told} tasks");
            // The secondary is behind.
            let things = store::<E>(&account(server)?, extras)?;
            check_reads(&things, is_done).await?;
            // Rows that are written again, unchanged, are as before.
            for id in 1..=5 {
                things.rewrite(key(id)).await?;
            }
            assert_agrees(server, &things, extras).await?;
            check_reads(&things, is_done).await
        },
    );
    let report = swept.await?;
    #[expect(clippy::print_stdout, reason = "the nightly command shows what was swept")]
    {
        println!("{}: {report}", std::any::type_name::<E>());
    }
    Ok(())
}

/// Every declaration finds the same as reads by key, and each entity is as one of the writes made it.
async fn check_reads<E: Several + std::fmt::Debug + PartialEq>(
    things: &Store<E>,
    is_done: bool,
) -> TestResult {
    let mut found = Vec::new();
    for id in 1..=5 {
        found.extend(things.get(key(id)).await?.map(|read| read.entity));
    }
    for one in &found {
        let read: Vec<E> = {
            let all = things.query(rowkey::Partition::<E>::new("all")).all().await?;
            all.into_iter().map(|read| read.entity).collect()
        };
        assert_eq!(read, found);
        for (name, read) in E::READS {
            let read = read(things.clone(), one.clone()).await?;
            let read: Vec<_> = read.into_iter().map(|read| read.entity).collect();
            assert_eq!(read, std::slice::from_ref(one), "{name}");
        }
        assert!(E::has_content(things, one).await?, "{one:?}");
    }
    for mut one in found.clone() {
        let texts: Vec<_> = one.texts().into_iter().map(|text| text.clone()).collect();
        let is_one = |text: &str| texts.iter().all(|own| own == text);
        assert!(is_one(SHORT) || is_one(LONG), "{texts:?}");
        assert!(one.plain().is_none_or(|plain| plain == SHORT || plain == LONG));
        assert!(one.secret().is_none_or(|secret| secret == "hush"));
    }
    // What a read of the expired entity would find.
    for (id, values) in [(4, ["k", "l"]), (5, ["m", "n"])] {
        if E::DECLARED.expiry.is_some() {
            for (name, read) in E::READS {
                let read = read(things.clone(), thing::<E>(id, values, LONG)).await?;
                assert!(read.is_empty(), "{name} returns an expired entity");
            }
        }
    }
    if is_done {
        let expected: &[u32] =
            if E::DECLARED.expiry.is_some() { &[1, 3, 4] } else { &[1, 3, 4, 5] };
        assert_eq!(found.iter().map(E::id).collect::<Vec<_>>(), expected);
        let mut third = found.swap_remove(1);
        assert_eq!(third.both()[1], "patched");
        assert!(third.texts().into_iter().all(|text| text == SHORT));
        assert!(third.numbers().is_none_or(|numbers| numbers["N1"] == 77));
        let mut first = found.swap_remove(0);
        assert_eq!(first.both(), ["e", "f"]);
        assert!(first.texts().into_iter().all(|text| text == LONG));
    }
    Ok(())
}
