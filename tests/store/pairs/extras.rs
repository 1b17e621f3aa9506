//! What a store of these tests has besides the declarations of its type: one that counts, tasks, copies
//! in other entities, and keys.

use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
use rowkey::store::{RemoteCopies, Store};
use rowkey::worker::{Task, Tasks};
use rowkey::{ClientOptions, Entity, Key, StorageAccount};
use rowkey_emulator::{Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;
use serde::{Deserialize, Serialize};

use super::super::rows::Recounted;

/// The options of a store besides the declarations of its type.
#[derive(Clone, Copy)]
pub(super) struct Extras {
    pub(super) counts: bool,
    pub(super) tasks: bool,
    pub(super) copies: bool,
}

impl Extras {
    /// By the names of the declarations on the page.
    pub(super) fn of(names: &[&str]) -> Self {
        let has = |name| names.contains(&name);
        Self { counts: has("count"), tasks: has("task"), copies: has("copies elsewhere") }
    }
}

/// A type that may be combined with copies.
pub(super) trait Copied: Entity + Clone + Send + Sync + 'static {
    /// The value that is copied, and the key of its target.
    fn both(&self) -> [&str; 2];
}

/// A row elsewhere that shows the first value of the thing that has it as its second.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{b}", row = "shown")]
pub(super) struct Shown {
    b: String,
    a: Option<String>,
}

fn copies<E: Copied>(account: &StorageAccount) -> RemoteCopies<E, Shown, String> {
    RemoteCopies::new(
        "shown",
        &account.table("shown"),
        |thing: &E| [Shown::key(thing.both()[1])],
        |thing| thing.both()[0].to_owned(),
        |shown: &mut Shown, a| shown.a = a.cloned(),
    )
}

/// Inserts the targets of copies.
pub(super) async fn insert_shown(account: &StorageAccount, all: &[&str]) -> TestResult {
    let shown = account.table("shown");
    shown.create_if_missing().await?;
    for b in all {
        shown.insert(&Shown { b: (*b).into(), a: None }).await?;
    }
    Ok(())
}

/// A task for each insert.
#[derive(Serialize, Deserialize)]
pub(super) struct Tell(pub(super) u32);

impl Task for Tell {
    const KIND: &'static str = "tell";
}

pub(super) fn tasks(account: &StorageAccount) -> Tasks<Tell> {
    Tasks::new(account.queue("tells"))
}

pub(super) fn store<E: Copied>(
    account: &StorageAccount,
    extras: Extras,
) -> Result<Store<E>, rowkey::Error> {
    let builder = Store::<E>::builder(account.table("things"))
        .queue(account.queue("things"))
        .blobs(account.container("things"));
    let builder = if E::DECLARED.encrypted.is_empty() { builder } else { builder.keys(ring()) };
    let builder = if extras.counts { builder.with(Recounted) } else { builder };
    let builder = if extras.copies { builder.with(copies(account)) } else { builder };
    if extras.tasks { builder.with(tasks(account)).build() } else { builder.build() }
}

fn ring() -> KeyRing {
    KeyRing::new("things", AesKeyWrap::new("2026", [26; 32]), MacKey::new("records", [1; 32]))
}

/// Whether time really passes: `ROWKEY_REAL_CLOCK` is set by the nightly command.
pub(super) fn is_real() -> bool {
    std::env::var_os("ROWKEY_REAL_CLOCK").is_some()
}

/// The account of a program that starts. It reads from the secondary where it may.
pub(super) fn connect(server: &Server) -> Result<StorageAccount, rowkey::Error> {
    let account = if is_real() {
        StorageAccount::from_connection_string(server.connection_string())?
    } else {
        account(server)?
    };
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    Ok(account.with_options(options))
}

/// The key of a thing.
pub(super) fn key<E>(id: u32) -> Key<E> {
    Key::new("all", format!("thing_{id:010}"))
}

/// All rows agree, in all tables of the store, and no blob is left over.
pub(super) async fn assert_agrees<E: Copied>(
    server: &Server,
    things: &Store<E>,
    extras: Extras,
) -> TestResult<Snapshot> {
    let report = things.verify().run().await?;
    assert!(report.is_clean(), "{report:?}");
    let names = E::DECLARED.indexes.iter().map(|index| (index.name, index.table));
    let names = names.chain(E::DECLARED.lists.iter().map(|list| (list.name, list.table)));
    for (name, _) in names.filter(|(_, table)| table.is_some()) {
        let table = things.index_table(name).unwrap();
        let report = things.verify_in(table).run().await?;
        assert!(report.is_clean(), "{report:?}");
    }
    if extras.copies {
        let report = things.verify_in(&connect(server)?.table("shown")).run().await?;
        assert!(report.is_clean(), "{report:?}");
    }
    // A blob of a write that was just given up is left alone for now.
    let report = things.sweep().run().await?;
    assert_eq!(report.total.orphaned, 0, "{report:?}");
    let snapshot = server.snapshot();
    let is_plain = {
        let mut rows = snapshot.table("things").unwrap().entities();
        rows.any(|row| row.get("secret") == Some("hush".into()))
    };
    assert!(!is_plain || E::DECLARED.encrypted.is_empty(), "it is encrypted");
    if extras.counts {
        Recounted::check(&snapshot);
    }
    Ok(snapshot)
}
