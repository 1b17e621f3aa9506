//! The manifest of a type: the stage of each declaration, for programs of several versions that write one
//! table at the same time.
//!
//! | stage | writers | reads by the declaration |
//! |---|---|---|
//! | announced | programs that know the declaration write it, others do not | refused |
//! | required | programs that do not know it are refused | refused |
//! | readable | the same | allowed |
//! | retiring | programs that know it write it, others do not | refused |
//! | gone | programs that know it are refused | refused |
//!
//! The manifest is one row of the table, in the partition `manifest`. Its RowKey is `declarations_` and the
//! RowKey prefix of the type. An opened store uses the manifest that it read for at most 60 seconds. A step
//! that requires all programs to have seen the previous one waits for twice that time, plus the time until a
//! late request takes effect.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::{BoxFuture, FutureExt as _};
use rowkey_client::internals::fnv1a;
use rowkey_client::rounds::Rounds;
use rowkey_client::{DynamicEntity, ETag, Entity, Error, ErrorKind, Result, ScanPolicy};
use rowkey_patterns::job;
use serde::{Deserialize, Serialize};

use super::{Inner, Store};
use crate::layer::deciding::{Deciding, is_lost};
use crate::row::declared::prefix;
use crate::row::times::LATEST;
use crate::row::{FORMAT, FORMAT_VERSION, Keys, check_format, text};

/// How long a store uses the manifest that it read.
const HELD: Duration = Duration::from_secs(60);

/// How long a step waits after the previous one.
pub(super) const STEP: Duration = HELD.saturating_mul(2).saturating_add(LATEST);

const PARTITION: &str = "manifest";
const DECLARATIONS: &str = "Declarations";

/// The stage of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// Programs that know the declaration write it. It is not read.
    Announced,
    /// Programs that do not know it are refused. It is not read.
    Required,
    /// All entities have the rows that it demands. It is read.
    Readable,
    /// It is no longer read, and programs need not know it.
    Retiring,
    /// Programs that know it are refused, and [`Store::clean`] deletes its rows. The name cannot be used
    /// again.
    Gone,
}

/// A declaration in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    name: String,
    /// The hash of its templates with their fields, and of its copies. It distinguishes two different
    /// declarations of the same name.
    hash: String,
    stage: Stage,
    /// When it reached the stage, in seconds since 1970.
    since: i64,
}

impl Entry {
    /// How many seconds it has been at the stage.
    fn age(&self, now: DateTime<Utc>) -> u64 {
        u64::try_from(now.timestamp() - self.since).unwrap_or_default()
    }
}

/// The entries of the last read, and its time.
type Held = Option<(DateTime<Utc>, Arc<[Entry]>)>;

/// The manifest of an opened store.
pub(crate) struct Manifest {
    keys: Keys,
    declared: Vec<(String, String)>,
    held: Mutex<Held>,
}

impl Manifest {
    fn check_writer<'a>(&'a self, table: &'a Deciding) -> BoxFuture<'a, Result<()>> {
        async move { self.check(&self.entries(table).await?) }.boxed()
    }

    fn check_reader<'a>(
        &'a self,
        table: &'a Deciding,
        name: &'static str,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            let entries = self.entries(table).await?;
            let entry = entries.iter().find(|entry| entry.name == name);
            match entry.map(|entry| entry.stage) {
                Some(Stage::Readable) => Ok(()),
                stage => {
                    let stage = stage.unwrap_or(Stage::Gone);
                    let what = format!("`{name}` is not readable: it is {stage:?}").to_lowercase();
                    Err(Error::refused(ErrorKind::Invalid, what)
                        .advise("take its next step with `Store::advance`")
                        .in_index(name))
                }
            }
        }
        .boxed()
    }

    /// Reads the stored entries. One request.
    async fn read(&self, table: &Deciding) -> Result<Option<(Vec<Entry>, ETag)>> {
        let Some(stored) = table.row(&self.keys).await? else { return Ok(None) };
        check_format(&stored.entity, "the manifest")?;
        let entries = text(&stored.entity, DECLARATIONS).unwrap_or("[]");
        let entries = serde_json::from_str(entries)
            .map_err(|_| Error::refused(ErrorKind::Decode, "the manifest cannot be read"))?;
        Ok(Some((entries, stored.etag)))
    }

    /// Writes the entries if the manifest is unchanged; returns whether it was.
    async fn write(&self, table: &Deciding, entries: &[Entry], etag: Option<ETag>) -> Result<bool> {
        let json = serde_json::to_string(entries).map_err(|_| {
            Error::refused(ErrorKind::Invalid, "the manifest cannot be written as JSON")
        })?;
        let mut row = DynamicEntity::new(&*self.keys.0, &*self.keys.1);
        row.set(FORMAT, FORMAT_VERSION);
        row.set(DECLARATIONS, json);
        let written = match etag {
            Some(etag) => table.table().replace((&row, etag)).await,
            None => table.table().insert(&row).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(error) if is_lost(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the entries, and reads them again if they are too old.
    async fn entries(&self, table: &Deciding) -> Result<Arc<[Entry]>> {
        let now = table.clock().now();
        if let Some((read, entries)) = &*self.held()
            && (now - *read).to_std().is_ok_and(|age| age < HELD)
        {
            return Ok(Arc::clone(entries));
        }
        let Some((entries, _)) = self.read(table).await? else {
            let what = "the manifest of the type is gone";
            return Err(Error::refused(ErrorKind::Invalid, what).advise("open the store again"));
        };
        let entries: Arc<[Entry]> = entries.into();
        // Use the time before the read, so that entries are never older than recorded.
        *self.held() = Some((now, Arc::clone(&entries)));
        Ok(entries)
    }

    fn hash(&self, name: &str) -> Option<&str> {
        let found = self.declared.iter().find(|(declared, _)| declared == name);
        found.map(|(_, hash)| &**hash)
    }

    /// Refuses a program whose declarations do not match the entries.
    fn check(&self, entries: &[Entry]) -> Result<()> {
        for entry in entries {
            let what = match (self.hash(&entry.name), entry.stage) {
                (Some(_), Stage::Gone) => {
                    format!("`{}` was retired, and this program declares it", entry.name)
                }
                (Some(hash), _) if hash == entry.hash => continue,
                (Some(_), _) => format!("`{}` is declared with another template", entry.name),
                (None, Stage::Required | Stage::Readable) => {
                    format!("`{}` is required, and this program does not declare it", entry.name)
                }
                (None, _) => continue,
            };
            return Err(Error::refused(ErrorKind::Invalid, what)
                .advise("run a program with that declaration, or give yours another name"));
        }
        Ok(())
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Entity> Inner<E> {
    /// Returns the declarations of this program, by name and template.
    pub(super) fn declared(&self) -> Vec<(String, String)> {
        let own = E::DECLARED.texts.iter().copied();
        let given = self.declarations.iter().skip(self.declarations.len() - self.added);
        // A declaration of the program has no template: only its code defines its rows.
        let given = given.map(|one| (one.name(), ""));
        own.chain(given).map(|(name, text)| (name.to_owned(), hash(text))).collect()
    }

    /// Refuses a write if the manifest requires a declaration that this program does not know.
    pub(super) async fn check_writer(&self) -> Result<()> {
        let Some(manifest) = self.manifest.get() else { return Ok(()) };
        manifest.check_writer(&self.deciding).await
    }

    /// Refuses a read by a declaration that is not readable.
    pub(super) async fn check_reader(&self, name: &'static str) -> Result<()> {
        let Some(manifest) = self.manifest.get() else { return Ok(()) };
        manifest.check_reader(&self.deciding, name).await
    }
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Reads the manifest of the type, through which programs of several versions agree on its
    /// declarations.
    ///
    /// The first store that is opened on an empty table makes all its declarations readable. Later stores
    /// announce declarations that the manifest does not have yet. From then on, a write is refused if a
    /// declaration is required that this program does not know, and a read is refused if its declaration is
    /// not readable. Both errors name the declaration. The manifest is read again when it is 60 seconds
    /// old: one request per minute.
    ///
    /// A store that was built but not opened ignores the manifest. This is safe only if all programs that
    /// write the table have the same declarations.
    ///
    /// Fails with [`ErrorKind::Invalid`] if the program is refused already. Two requests.
    pub async fn open(self) -> Result<Self> {
        let manifest = self.announce_declarations().await?;
        // A store that was already open keeps its manifest.
        let _ = self.inner.manifest.set(manifest);
        Ok(self)
    }

    /// Adds the declarations of this program to the manifest of the table, and returns the manifest.
    pub(crate) async fn announce_declarations(&self) -> Result<Manifest> {
        let open = async {
            let deciding = &self.inner.deciding;
            let keys = (PARTITION.to_owned(), format!("declarations_{}", prefix::<E>()));
            let declared = self.inner.declared();
            let manifest = Manifest { keys: keys.clone(), declared, held: Mutex::default() };
            let mut rounds = Rounds::new(&self.inner.table, &keys);
            loop {
                let stored = manifest.read(deciding).await?;
                let stage = match &stored {
                    None if self.is_empty().await? => Stage::Readable,
                    _ => Stage::Announced,
                };
                let (mut entries, etag) = stored.map(|(e, tag)| (e, Some(tag))).unwrap_or_default();
                manifest.check(&entries)?;
                let before = entries.len();
                for (name, hash) in &manifest.declared {
                    if !entries.iter().any(|entry| entry.name == *name) {
                        let (name, hash) = (name.clone(), hash.clone());
                        let since = deciding.clock().now().timestamp();
                        entries.push(Entry { name, hash, stage, since });
                    }
                }
                let is_new = entries.len() > before || etag.is_none();
                if !is_new || manifest.write(deciding, &entries, etag).await? {
                    break;
                }
                if !rounds.again().await {
                    let what = "other programs keep changing the manifest";
                    return Err(Error::refused(ErrorKind::Conflict, what));
                }
            }
            Ok(manifest)
        };
        open.await.map_err(|error| self.named("Open", error))
    }

    /// Advances a declaration to its next stage, and returns the stage.
    ///
    /// | from | what happens | to |
    /// |---|---|---|
    /// | announced | nothing | required |
    /// | required | 12 minutes later: [`repair`](Self::repair) runs over the table | readable |
    /// | readable | nothing | readable |
    /// | retiring | 12 minutes later: programs that declare it are refused | gone |
    /// | gone | nothing; [`clean`](Self::clean) deletes its rows | gone |
    ///
    /// Call it from a program that has the declaration, and call all steps of one declaration from
    /// machines with synchronized clocks. Fails with [`ErrorKind::Unavailable`] if it is too early, and
    /// with [`ErrorKind::Invalid`] if errors remain after the repair, or if the store was not opened.
    ///
    /// ```
    /// # use rowkey::{Entity, ErrorKind, StorageAccount};
    /// use rowkey::store::{Stage, Store};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{team}", row = "task_{id:4}")]
    /// # struct Task { team: String, id: u32, tag: String }
    /// # mod new {
    /// # #[derive(Clone, Debug, PartialEq, rowkey::Entity)]
    /// # #[entity(store, partition = "{team}", row = "task_{id:4}")]
    /// # #[entity(index(name = by_tag, row = "tag_{tag}", many))]
    /// # pub struct Task { pub team: String, pub id: u32, pub tag: String }
    /// # }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let old = Store::<Task>::builder(account.table("tasks")).build()?;
    /// # old.create_if_missing().await?;
    /// # old.open().await?.insert(&Task { team: "core".into(), id: 1, tag: "a".into() }).await?;
    /// // This version of the program declares `by_tag`; the one before did not.
    /// let tasks = Store::<new::Task>::builder(account.table("tasks")).build()?.open().await?;
    /// assert!(tasks.count(new::Task::by_tag("core", "a")).await.is_err(), "it is announced");
    /// assert_eq!(tasks.advance("by_tag").await?, Stage::Required);
    ///
    /// let early = tasks.advance("by_tag").await.unwrap_err();
    /// assert_eq!(early.kind(), ErrorKind::Unavailable);
    /// assert_eq!(tasks.retire("by_tag").await?, Stage::Retiring);
    /// # Ok(()) }
    /// ```
    pub async fn advance(&self, name: &str) -> Result<Stage> {
        self.step(name, false).await.map_err(|error| self.named("Advance", error))
    }

    /// Stops the reads by a declaration, so that programs without it may write. From then on its rows are not
    /// kept up to date; [`clean`](Self::clean) deletes them when the declaration is gone. Two requests.
    pub async fn retire(&self, name: &str) -> Result<Stage> {
        self.step(name, true).await.map_err(|error| self.named("Retire", error))
    }

    /// Returns the stored manifest and the position of a declaration in it.
    async fn entry(&self, name: &str) -> Result<(&Manifest, Vec<Entry>, ETag, usize)> {
        let Some(manifest) = self.inner.manifest.get() else {
            return Err(
                invalid("the store has no manifest".to_owned()).advise("call `Store::open`")
            );
        };
        let missing = || invalid(format!("`{name}` is not in the manifest"));
        let (entries, etag) = manifest.read(&self.inner.deciding).await?.ok_or_else(missing)?;
        let at = entries.iter().position(|entry| entry.name == name).ok_or_else(missing)?;
        Ok((manifest, entries, etag, at))
    }

    /// Refuses to clean up a declaration while a program may still write its rows.
    pub(super) async fn check_gone(&self, name: &str) -> Result<()> {
        let (manifest, entries, _, at) = self.entry(name).await?;
        if entries[at].stage != Stage::Gone {
            let what = format!("`{name}` is {:?}", entries[at].stage).to_lowercase();
            return Err(invalid(what).advise("take it out of use with `retire` and `advance`"));
        }
        if manifest.hash(name).is_some() {
            return Err(invalid(format!("this program declares `{name}`"))
                .advise("clean up from a program that does not"));
        }
        let age = entries[at].age(self.inner.deciding.clock().now());
        if age < STEP.as_secs() { Err(too_early(age)) } else { Ok(()) }
    }

    async fn step(&self, name: &str, retires: bool) -> Result<Stage> {
        let deciding = &self.inner.deciding;
        let (manifest, mut entries, etag, at) = self.entry(name).await?;
        let now = deciding.clock().now();
        let age = entries[at].age(now);
        let stage = match entries[at].stage {
            stage @ (Stage::Retiring | Stage::Gone) if retires => return Ok(stage),
            _ if retires => Stage::Retiring,
            Stage::Announced => Stage::Required,
            Stage::Required | Stage::Retiring if age < STEP.as_secs() => {
                return Err(too_early(age));
            }
            Stage::Required => {
                if manifest.hash(name).is_none() {
                    return Err(invalid(format!("this program does not declare `{name}`"))
                        .advise("run the step from one that does: it builds what is missing"));
                }
                let report = self.repair().run().await.map_err(|interrupted| interrupted.error)?;
                if !report.is_clean() {
                    let what = format!("rows are still missing or wrong: {:?}", report.total);
                    return Err(invalid(what).advise("see `Store::verify`, and try again"));
                }
                Stage::Readable
            }
            Stage::Retiring => Stage::Gone,
            stage @ (Stage::Readable | Stage::Gone) => return Ok(stage),
        };
        entries[at].stage = stage;
        entries[at].since = now.timestamp();
        if !manifest.write(deciding, &entries, Some(etag)).await? {
            let what = "another program changed the manifest";
            return Err(Error::refused(ErrorKind::Conflict, what).advise("try again"));
        }
        *manifest.held() = None;
        Ok(stage)
    }

    async fn is_empty(&self) -> Result<bool> {
        let table = self.inner.deciding.table();
        let rows = table.scan::<DynamicEntity>().scan_policy(ScanPolicy::Allow);
        Ok(rows.project::<job::Keys>().page(1, None).await?.entities.is_empty())
    }
}

fn invalid(what: String) -> Error {
    Error::refused(ErrorKind::Invalid, what)
}

fn too_early(age: u64) -> Error {
    let left = STEP.as_secs().saturating_sub(age);
    let what = format!("programs may still use the previous stage: {left} s are left");
    Error::refused(ErrorKind::Unavailable, what).advise("try again then")
}

/// A hash that is the same in all programs.
fn hash(template: &str) -> String {
    format!("{:016x}", fnv1a(template.bytes()))
}
