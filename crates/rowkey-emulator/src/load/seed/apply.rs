//! Puts seeds into the stores of an account.
//!
//! Tables, queues and containers are created unless they exist; entities and blobs replace those with the same keys and
//! names; messages are added. Everything is done by the operations of the stores, so that what no request could write is
//! refused.

use std::borrow::Cow;
use std::fmt;

use rowkey_wire::blob::BlobType;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::limits::MAX_VISIBILITY_SECONDS;

use super::contents::{Seed, SeedContainer, SeedEntity, SeedError, SeedQueue, SeedTable};
use crate::account::{Account, Changing, Rules};
use crate::op::blob::{Description, Guard};
use crate::op::entity::{self, Entity};
use crate::op::metadata::Metadata;
use crate::op::table::{Address, Change, ChangeKind};
use crate::store::blob::Content;

/// How much a seed put into a server: [`Server::seed`](crate::Server::seed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seeded {
    /// The tables that were created, or existed.
    pub tables: usize,
    /// The entities that were inserted or replaced.
    pub entities: usize,
    /// The queues that were created, or existed.
    pub queues: usize,
    /// The messages that were added.
    pub messages: usize,
    /// The containers that were created, or existed.
    pub containers: usize,
    /// The blobs that were written.
    pub blobs: usize,
}

impl fmt::Display for Seeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tables, entities, queues, messages, containers, blobs } = self;
        write!(
            f,
            "{entities} entities in {tables} tables, {messages} messages in {queues} queues, {blobs} blobs in \
             {containers} containers"
        )
    }
}

/// Puts seeds into the accounts of a server, or nothing on an error. Several seeds need a server that serves no requests
/// yet.
pub(crate) fn apply(
    accounts: &[Account],
    seeds: &[&Seed],
    rules: Rules,
    now: DateTime,
) -> Result<Seeded, SeedError> {
    let mut all = Seeded::default();
    for seed in seeds {
        let name = seed.account.as_deref();
        let known = |name| accounts.iter().any(|account| account.name == name);
        if let Some(name) = name.filter(|name| !known(*name)) {
            let what = format!(
                "the server has no account {name}; add it with --accounts or ServerBuilder::account"
            );
            return Err(SeedError::new("account", what));
        }
    }
    // Seeds of an account, and what they put there.
    let put_all = |at: usize, name: &str, stores: &mut Changing<'_>| {
        let mut seeded = Seeded::default();
        let is_for = |seed: &&&Seed| match &seed.account {
            Some(account) => account == name,
            None => at == 0,
        };
        for seed in seeds.iter().filter(is_for) {
            put(seed, stores, rules, now, &mut seeded)?;
        }
        Ok::<_, SeedError>(seeded)
    };
    // What fails in a later account must not leave anything in an earlier one.
    if seeds.len() > 1 {
        for (at, account) in accounts.iter().enumerate() {
            account.try_change(|stores| put_all(at, &account.name, stores))?;
        }
    }
    for (at, account) in accounts.iter().enumerate() {
        all.add(account.change_all(|stores| put_all(at, &account.name, stores))?);
    }
    Ok(all)
}

impl Seeded {
    fn add(&mut self, other: Self) {
        self.tables += other.tables;
        self.entities += other.entities;
        self.queues += other.queues;
        self.messages += other.messages;
        self.containers += other.containers;
        self.blobs += other.blobs;
    }
}

fn put(
    seed: &Seed,
    stores: &mut Changing<'_>,
    rules: Rules,
    now: DateTime,
    seeded: &mut Seeded,
) -> Result<(), SeedError> {
    for table in &seed.tables {
        put_table(table, stores, rules, now)?;
        seeded.tables += 1;
        seeded.entities += table.entities.len();
    }
    for queue in &seed.queues {
        put_queue(queue, stores, now)?;
        seeded.queues += 1;
        seeded.messages += queue.messages.len();
    }
    for container in &seed.containers {
        put_container(container, stores, now)?;
        seeded.containers += 1;
        seeded.blobs += container.blobs.len();
    }
    Ok(())
}

/// The error for what a store refuses.
fn refused(place: String) -> impl FnOnce(Rejection) -> SeedError {
    move |rejection| {
        SeedError::new(place, format!("{} ({})", rejection.message, rejection.code.as_str()))
    }
}

fn put_table(
    table: &SeedTable,
    stores: &mut Changing<'_>,
    rules: Rules,
    now: DateTime,
) -> Result<(), SeedError> {
    let place = format!("tables.{}", table.name);
    if stores.tables.table(&table.name).is_err() {
        stores.tables.create_table(&table.name, now).map_err(refused(place.clone()))?;
    }
    for (at, entity) in table.entities.iter().enumerate() {
        let put = put_entity(&table.name, entity, stores, rules, now);
        put.map_err(refused(format!("{place}[{at}]")))?;
    }
    Ok(())
}

fn put_entity(
    table: &str,
    entity: &SeedEntity,
    stores: &mut Changing<'_>,
    rules: Rules,
    now: DateTime,
) -> Result<(), Rejection> {
    let SeedEntity { partition_key, row_key, properties } = entity;
    let properties = properties.iter().map(|(name, value)| (name.as_str(), value.as_ref()));
    let entity = Entity {
        partition_key: Some(partition_key),
        row_key: Some(row_key),
        properties: properties.collect(),
    };
    entity::check(&entity, rules.strict)?;
    let is_there = stores.tables.table(table)?.get(partition_key, row_key).is_some();
    let kind =
        if is_there { ChangeKind::Replace(entity, None) } else { ChangeKind::Insert(entity, None) };
    let (partition_key, row_key) = (Cow::Borrowed(&**partition_key), Cow::Borrowed(&**row_key));
    let change = Change { address: Address { table, partition_key, row_key }, kind };
    stores.tables.apply(&change, now, |_| {})
}

fn put_queue(seed: &SeedQueue, stores: &mut Changing<'_>, now: DateTime) -> Result<(), SeedError> {
    let place = format!("queues.{}", seed.name);
    if stores.queues.queue(&seed.name).is_err() {
        let created = stores.queues.create(&seed.name, Metadata::default(), now);
        created.map_err(refused(place.clone()))?;
    }
    for text in &seed.messages {
        let id = stores.queues.message_id();
        let queue = stores.queues.queue_mut(&seed.name).map_err(refused(place.clone()))?;
        queue.put(id, text.as_str().into(), Some(MAX_VISIBILITY_SECONDS), 0, now);
    }
    Ok(())
}

fn put_container(
    seed: &SeedContainer,
    stores: &mut Changing<'_>,
    now: DateTime,
) -> Result<(), SeedError> {
    let place = format!("containers.{}", seed.name);
    if stores.blobs.container(&seed.name).is_err() {
        let created = stores.blobs.create(&seed.name, None, Metadata::default(), now);
        created.map_err(refused(place.clone()))?;
    }
    for blob in &seed.blobs {
        let found = stores.blobs.container_mut(&seed.name, now);
        let (container, version) = found.map_err(refused(place.clone()))?;
        let description = Description {
            headers: blob.headers.clone(),
            metadata: blob.metadata.clone(),
            ..Description::default()
        };
        let content = Content::from(blob.content.clone());
        let put = container.put(
            &blob.name,
            BlobType::Block,
            content,
            description,
            &Guard::default(),
            version,
        );
        put.map_err(refused(format!("{place}.{}", blob.name)))?;
    }
    Ok(())
}
