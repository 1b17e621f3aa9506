//! Fills the accounts of a server from a directory.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::{info, warn};

use super::blobs::BlobRows;
use super::check::{self, Damage, Left};
use super::contents::Stored;
use super::directory::Directory;
use super::disk::Disk;
use super::disk_storage::DiskStorage;
use super::journal::{Journal, RowStorage, Space, Unit, Writer};
use super::mark::Mark;
use super::names::{self, AccountJournal, Kind};
use super::policy::SyncPolicy;
use super::progress::{Phase, Progress};
use super::queues::QueueRows;
use super::recording::Recording;
use super::tables::TableRows;
use super::{Durable, blobs, queues, tables};
use crate::account::{Account, AccountData, Records, Rules};
use crate::store::Key;

/// Fills a server's accounts from a directory, and keeps later changes there.
pub(crate) fn attach(
    accounts: &mut [Account],
    rules: Rules,
    location: &Path,
    beside: &[PathBuf],
    policy: SyncPolicy,
) -> io::Result<Durable> {
    let directory = Directory::take(location, beside)?;
    let within = |error: io::Error| {
        let message = format!("cannot read the data in {}: {error}", location.display());
        io::Error::new(error.kind(), message)
    };
    let store = directory.store(|path| Disk::open(path).map(drop)).map_err(within)?;
    let mark = Mark::read(location).map_err(within)?;
    let found = check::check(&store, mark.as_ref()).map_err(within)?;
    if !found.damages.is_empty() {
        return Err(damaged(location, &found.damages));
    }
    if let Some(torn) = &found.torn {
        torn.cut().map_err(within)?;
    }
    let storage = DiskStorage::open(location, store, found.extents).map_err(within)?;
    let load = Load::of(accounts, rules, &storage).map_err(within)?;
    for name in &load.unserved {
        warn!("account {name} is kept in {} and not served", location.display());
    }
    info!("{} entities read from {}", load.entities, location.display());

    let is_new = load.is_new;
    let progress = Arc::new(Progress::new());
    let journal = Arc::new(Journal::new(Arc::clone(&progress)));
    let next_owner = Arc::new(AtomicU64::new(load.next_owner));
    let mut recorders = Vec::with_capacity(accounts.len());
    for (account, loaded) in accounts.iter_mut().zip(load.accounts) {
        let account_journal = AccountJournal::new(&account.name, &journal, &next_owner);
        let tables = Arc::new(Recording::new(account_journal.clone(), loaded.tables));
        let queues = Arc::new(Recording::new(account_journal.clone(), loaded.queues));
        let blobs = Arc::new(Recording::new(account_journal, loaded.blobs));
        account.replace(loaded.data);
        account.keep(Records {
            tables: Arc::clone(&tables) as _,
            queues: Arc::clone(&queues) as _,
            blobs: Arc::clone(&blobs) as _,
        });
        recorders.push(Recorders { tables, queues, blobs });
    }
    journal.append(Unit { changes: Vec::new(), swept: load.swept });
    let storage = Arc::new(storage);
    let rows: Arc<dyn RowStorage> = Arc::<DiskStorage>::clone(&storage);
    let writer = Writer::start(&journal, &rows, policy)?;
    let recovery =
        Recovery { journal, storage, rules, accounts: recorders, repaired: Mutex::new(()) };
    Ok(Durable { progress, writer, recovery, is_new, _directory: directory })
}

/// The error when a directory is damaged, with the ways to continue.
fn damaged(location: &Path, damages: &[Damage]) -> io::Error {
    let Some(damage) = damages.first() else { return io::ErrorKind::InvalidData.into() };
    let path = damage.path.display();
    let at = damage.at.map_or_else(String::new, |at| format!(" at byte {at}"));
    let more = match damages.len() {
        1 => String::new(),
        count => format!(" ({} more files or places are damaged)", count - 1),
    };
    // Sorted files are checked first, so they are whole if a journal is the first that is not.
    let without = match &damage.left {
        Left::All(command) => {
            format!("without one, no data is lost: write the file again, with `{command}`")
        }
        Left::Before(whole) => format!(
            "to start with the changes before it and lose the later ones, copy the directory, \
             `truncate -s {whole} {}`, and delete the journals with higher numbers and the \
             file `synced`",
            check::in_shell(&damage.path)
        ),
        Left::Nothing => {
            "without one all data is lost: delete the directory, or name another one".to_owned()
        }
    };
    let message = format!(
        "the data in {} is damaged: {path}{at}: {}{more}; nothing was changed; use a backup; \
         {without}",
        location.display(),
        damage.what,
    );
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Restores memory from disk after a failed write.
#[derive(Debug)]
pub(super) struct Recovery {
    journal: Arc<Journal>,
    storage: Arc<DiskStorage>,
    rules: Rules,
    accounts: Vec<Recorders>,
    /// Locked during the restoration.
    repaired: Mutex<()>,
}

/// The recorders of an account.
#[derive(Debug)]
struct Recorders {
    tables: Arc<Recording<TableRows>>,
    queues: Arc<Recording<QueueRows>>,
    blobs: Arc<Recording<BlobRows>>,
}

impl Recovery {
    /// After a failed write: removes data from memory that is not on disk.
    pub(super) fn take_back(&self, accounts: &[Account], progress: &Progress) -> io::Result<()> {
        let _alone = self.repaired.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.phase() != Phase::Failed {
            return Ok(());
        }
        let _pause = self.journal.pause();
        self.storage.reopen()?;
        let load = Load::of(accounts, self.rules, &self.storage)?;
        // Until everything is restored, no request can read or change anything.
        let mut held: Vec<_> = accounts.iter().map(Account::lock_all).collect();
        for ((stores, recorders), loaded) in held.iter_mut().zip(&self.accounts).zip(load.accounts)
        {
            stores.put_back(loaded.data);
            recorders.tables.put_back(loaded.tables);
            recorders.queues.put_back(loaded.queues);
            recorders.blobs.put_back(loaded.blobs);
        }
        self.journal.take_back(load.swept);
        Ok(())
    }

    /// Resumes accepting changes if there is room for `bytes`.
    pub(super) fn try_open(&self, progress: &Progress, bytes: usize) -> bool {
        let _alone = self.repaired.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.phase() != Phase::Full {
            return progress.phase() == Phase::Open;
        }
        let _pause = self.journal.pause();
        let has_room = self.storage.has_room(bytes);
        if has_room {
            self.journal.open();
            info!("the disk takes changes again");
        }
        has_room
    }
}

/// Reads rows like a start does, space by space. Returns the contents of each account.
pub(super) fn read_rows(
    accounts: &[String],
    rules: Rules,
    rows: &[(Space, &[u8], &[u8])],
) -> io::Result<Vec<AccountData>> {
    let mut load = Load::new(accounts.to_vec(), rules);
    for space in [Space::Names, Space::Bytes, Space::Rows] {
        for (_, key, value) in rows.iter().filter(|(of, ..)| *of == space) {
            match space {
                Space::Names => load.name(key, value)?,
                Space::Bytes => load.contents.read(key, value)?,
                Space::Rows => load.row(key, value)?,
            }
        }
    }
    Ok(load.accounts.into_iter().map(|account| account.data).collect())
}

/// The state of reading a directory.
struct Load {
    accounts: Vec<Loaded>,
    names: Vec<String>,
    /// Accounts that have rows, but that this server does not have.
    unserved: BTreeSet<String>,
    owners: HashMap<u64, Owner>,
    next_owner: u64,
    /// Rows without an owner.
    swept: Vec<(Space, u64)>,
    contents: Stored,
    entities: u64,
    /// Whether nothing was ever written.
    is_new: bool,
}

/// An account while it is read.
struct Loaded {
    data: AccountData,
    tables: TableRows,
    queues: QueueRows,
    blobs: BlobRows,
}

/// The owner of rows.
#[derive(Clone, Debug)]
enum Owner {
    Container {
        account: usize,
        name: String,
    },
    Queue {
        account: usize,
        name: String,
    },
    Table {
        account: usize,
        name: Key,
    },
    /// A resource of an account that this server does not have, and whether it is a container.
    Unserved {
        has_contents: bool,
    },
}

impl Load {
    /// Reads everything in the directory.
    fn of(accounts: &[Account], rules: Rules, storage: &DiskStorage) -> io::Result<Self> {
        let names = accounts.iter().map(|account| account.name.clone()).collect();
        let mut load = Self::new(names, rules);
        storage.read(|disk| load.read(disk))?;
        Ok(load)
    }

    fn new(names: Vec<String>, rules: Rules) -> Self {
        let loaded = |_: &_| {
            // With a manual clock, ids derived from the time would repeat.
            let seed = RandomState::new().hash_one(());
            Loaded {
                data: AccountData::new(rules, seed),
                tables: TableRows::default(),
                queues: QueueRows::default(),
                blobs: BlobRows::default(),
            }
        };
        Self {
            accounts: names.iter().map(loaded).collect(),
            names,
            unserved: BTreeSet::new(),
            owners: HashMap::new(),
            next_owner: 1,
            swept: Vec::new(),
            contents: Stored::default(),
            entities: 0,
            is_new: true,
        }
    }

    fn read(&mut self, disk: &Disk) -> io::Result<()> {
        disk.read(Space::Names, |key, value| self.name(key, &value))?;
        disk.read(Space::Bytes, |key, value| self.contents.read(key, &value))?;
        disk.read(Space::Rows, |key, value| self.row(key, &value))?;
        for content in self.contents.unused() {
            self.swept.push((Space::Bytes, content));
        }
        self.next_owner = self.next_owner.max(self.contents.last().saturating_add(1));
        Ok(())
    }

    fn name(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let (account, kind, name) = names::read_key(key)?;
        self.is_new = false;
        let Some(index) = self.names.iter().position(|known| known == account) else {
            self.unserved.insert(account.to_owned());
            if kind.is_owner() {
                let has_contents = kind == Kind::Container;
                self.own(names::read_owner(value)?, Owner::Unserved { has_contents });
            }
            return Ok(());
        };
        let Loaded { data, tables, queues, blobs } = &mut self.accounts[index];
        let store = &mut data.tables;
        match kind {
            Kind::Queue => {
                let owner = queues::read_queue(&mut data.queues, name, value)?;
                queues.0.set_owner(name, owner);
                self.own(owner, Owner::Queue { account: index, name: name.to_owned() });
            }
            Kind::QueueBlocked => {
                data.queues.restore_blocked(name, names::read_instant(value)?);
                queues.0.read_blocked(name);
            }
            Kind::QueueProperties => {
                *data.queues.properties_mut() = names::read_properties(value)?;
            }
            Kind::BlobProperties => {
                *data.blobs.properties_mut() = names::read_properties(value)?;
            }
            Kind::Container => {
                let owner = blobs::read_container(&mut data.blobs, name, value)?;
                blobs.containers.set_owner(name, owner);
                self.own(owner, Owner::Container { account: index, name: name.to_owned() });
            }
            Kind::ContainerBlocked => {
                data.blobs.restore_blocked(name, names::read_instant(value)?);
                blobs.containers.read_blocked(name);
            }
            Kind::LastTag => data.blobs.resume_after(names::read_owner(value)?),
            Kind::LastTimestamp => store.resume_after(names::read_instant(value)?),
            Kind::Table => {
                let owner = tables::read_table(store, value)?;
                tables.0.set_owner(name, owner);
                self.own(owner, Owner::Table { account: index, name: Key::from(name) });
            }
            Kind::TableBlocked => {
                store.restore_blocked(name, names::read_instant(value)?);
                tables.0.read_blocked(name);
            }
            Kind::TableProperties => *store.properties_mut() = names::read_properties(value)?,
        }
        Ok(())
    }

    fn own(&mut self, number: u64, owner: Owner) {
        self.next_owner = self.next_owner.max(number.saturating_add(1));
        self.owners.insert(number, owner);
    }

    fn row(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let (number, rest) = names::split_owner(key)?;
        match self.owners.get(&number) {
            Some(Owner::Table { account, name }) => {
                let store = &mut self.accounts[*account].data.tables;
                let timestamp = tables::read_entity(store, name, rest, value)?;
                store.resume_after(timestamp);
                self.entities += 1;
            }
            Some(Owner::Container { account, name }) => {
                let Loaded { data, blobs, .. } = &mut self.accounts[*account];
                let store = &mut data.blobs;
                blobs::read_row(store, blobs, name, (key, rest), value, &mut self.contents)?;
            }
            Some(Owner::Queue { account, name }) => {
                queues::read_message(&mut self.accounts[*account].data.queues, name, rest, value)?;
            }
            Some(Owner::Unserved { has_contents: false }) => {}
            Some(Owner::Unserved { has_contents: true }) => {
                self.contents.spare(&blobs::read_segments(value)?);
            }
            None => {
                self.next_owner = self.next_owner.max(number.saturating_add(1));
                if self.swept.last() != Some(&(Space::Rows, number)) {
                    self.swept.push((Space::Rows, number));
                }
            }
        }
        Ok(())
    }
}
