//! From a directory to the accounts of a server.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tracing::{info, warn};

use super::contents::Stored;
use super::directory::Directory;
use super::disk::Disk;
use super::held::Records;
use super::journal::{Journal, Keep, Space, Unit, Writer};
use super::names::{self, Desk, Kind, Known};
use super::policy::SyncPolicy;
use super::progress::Progress;
use super::{Durable, blobs, queues, tables, tail};
use crate::state::{Holdings, State};
use crate::store::Key;

/// Fills a server's accounts with what a directory holds, and keeps there what will change.
pub(crate) fn attach(state: &mut State, location: &Path, policy: SyncPolicy) -> io::Result<()> {
    let directory = Directory::take(location)?;
    let within = |error: io::Error| {
        let message = format!("cannot read what is kept in {}: {error}", location.display());
        io::Error::new(error.kind(), message)
    };
    let store = directory.store(|path| Disk::open(path).map(drop)).map_err(within)?;
    tail::mend(&store).map_err(within)?;
    let disk = Disk::open(&store).map_err(within)?;
    let mut load = Load::new(state);
    load.read(&disk).map_err(within)?;
    let Load { accounts, unserved, next_owner, swept, entities, .. } = load;
    for name in unserved {
        warn!("account {name} is kept in {} and not served", location.display());
    }
    info!("{entities} entities read from {}", location.display());

    let progress = Arc::new(Progress::new());
    let journal = Arc::new(Journal::new(Arc::clone(&progress)));
    let next_owner = Arc::new(AtomicU64::new(next_owner));
    for (account, loaded) in state.accounts.iter_mut().zip(accounts) {
        let desk = Desk::new(&account.name, &journal, &next_owner);
        let tables = tables::Tables::new(desk.clone(), loaded.tables);
        let queues = queues::Queues::new(desk.clone(), loaded.queues);
        let blobs = blobs::Blobs::new(desk, loaded.blobs);
        account.replace(loaded.holdings);
        account.keep(Records {
            tables: Box::new(tables),
            queues: Box::new(queues),
            blobs: Box::new(blobs),
        });
    }
    journal.append(Unit { changes: Vec::new(), swept });
    let disk: Arc<dyn Keep> = Arc::new(disk);
    let writer = Writer::start(&journal, &disk, policy)?;
    state.durable = Some(Durable { progress, writer, _directory: directory });
    Ok(())
}

/// What is being read.
struct Load {
    accounts: Vec<Loaded>,
    names: Vec<String>,
    /// Accounts that have rows, and that this server does not have.
    unserved: BTreeSet<String>,
    owners: HashMap<u64, Owner>,
    next_owner: u64,
    /// Rows that nobody owns.
    swept: Vec<(Space, u64)>,
    contents: Stored,
    entities: u64,
}

/// An account that is being read.
struct Loaded {
    holdings: Holdings,
    tables: Known,
    queues: Known,
    blobs: blobs::KnownBlobs,
}

/// Whose rows are read.
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
    /// Something of an account that this server does not have, and whether it is a container.
    Unserved {
        has_contents: bool,
    },
}

impl Load {
    fn new(state: &State) -> Self {
        let loaded = |_: &_| {
            let mut holdings = Holdings::new(state.strict, state.names, state.now());
            // By a clock that stands, ids that follow from the time would come again.
            holdings.queues.reseed(RandomState::new().hash_one(()));
            Loaded {
                holdings,
                tables: Known::default(),
                queues: Known::default(),
                blobs: blobs::KnownBlobs::default(),
            }
        };
        Self {
            accounts: state.accounts.iter().map(loaded).collect(),
            names: state.accounts.iter().map(|account| account.name.clone()).collect(),
            unserved: BTreeSet::new(),
            owners: HashMap::new(),
            next_owner: 1,
            swept: Vec::new(),
            contents: Stored::default(),
            entities: 0,
        }
    }

    fn read(&mut self, disk: &Disk) -> io::Result<()> {
        disk.read(Space::Names, |key, value| self.name(key, &value))?;
        disk.read(Space::Bytes, |key, value| self.contents.read(key, &value))?;
        disk.read(Space::Rows, |key, value| self.row(key, &value))?;
        for content in self.contents.unused() {
            self.swept.push((Space::Bytes, content));
        }
        self.next_owner = self.next_owner.max(self.contents.last() + 1);
        Ok(())
    }

    fn name(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let (account, kind, name) = names::read_key(key)?;
        let Some(index) = self.names.iter().position(|known| known == account) else {
            self.unserved.insert(account.to_owned());
            if kind.is_owner() {
                let has_contents = kind == Kind::Container;
                self.own(names::read_owner(value)?, Owner::Unserved { has_contents });
            }
            return Ok(());
        };
        let Loaded { holdings, tables, queues, blobs } = &mut self.accounts[index];
        let store = &mut holdings.tables;
        match kind {
            Kind::Queue => {
                let owner = queues::read_queue(&mut holdings.queues, name, value)?;
                queues.set_owner(name, owner);
                self.own(owner, Owner::Queue { account: index, name: name.to_owned() });
            }
            Kind::QueueBlocked => {
                holdings.queues.restore_blocked(name, names::read_instant(value)?);
                queues.read_blocked(name);
            }
            Kind::QueueProperties => {
                *holdings.queues.properties_mut() = names::read_properties(value)?;
            }
            Kind::BlobProperties => {
                *holdings.blobs.properties_mut() = names::read_properties(value)?;
            }
            Kind::Container => {
                let owner = blobs::read_container(&mut holdings.blobs, name, value)?;
                blobs.containers.set_owner(name, owner);
                self.own(owner, Owner::Container { account: index, name: name.to_owned() });
            }
            Kind::ContainerBlocked => {
                holdings.blobs.restore_blocked(name, names::read_instant(value)?);
                blobs.containers.read_blocked(name);
            }
            Kind::LastTag => holdings.blobs.resume_after(names::read_owner(value)?),
            Kind::LastTimestamp => store.resume_after(names::read_instant(value)?),
            Kind::Table => {
                let owner = tables::read_table(store, value)?;
                tables.set_owner(name, owner);
                self.own(owner, Owner::Table { account: index, name: Key::from(name) });
            }
            Kind::TableBlocked => {
                store.restore_blocked(name, names::read_instant(value)?);
                tables.read_blocked(name);
            }
            Kind::TableProperties => *store.properties_mut() = names::read_properties(value)?,
        }
        Ok(())
    }

    fn own(&mut self, number: u64, owner: Owner) {
        self.next_owner = self.next_owner.max(number + 1);
        self.owners.insert(number, owner);
    }

    fn row(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let (number, rest) = names::split_owner(key)?;
        match self.owners.get(&number) {
            Some(Owner::Table { account, name }) => {
                let store = &mut self.accounts[*account].holdings.tables;
                let timestamp = tables::read_entity(store, name, rest, value)?;
                store.resume_after(timestamp);
                self.entities += 1;
            }
            Some(Owner::Container { account, name }) => {
                let Loaded { holdings, blobs, .. } = &mut self.accounts[*account];
                let store = &mut holdings.blobs;
                blobs::read_row(store, blobs, name, (key, rest), value, &mut self.contents)?;
            }
            Some(Owner::Queue { account, name }) => {
                queues::read_message(
                    &mut self.accounts[*account].holdings.queues,
                    name,
                    rest,
                    value,
                )?;
            }
            Some(Owner::Unserved { has_contents: false }) => {}
            Some(Owner::Unserved { has_contents: true }) => {
                self.contents.spare(&blobs::read_segments(value)?);
            }
            None => {
                self.next_owner = self.next_owner.max(number + 1);
                if self.swept.last() != Some(&(Space::Rows, number)) {
                    self.swept.push((Space::Rows, number));
                }
            }
        }
        Ok(())
    }
}
