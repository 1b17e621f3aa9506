//! Branch keys in a table: reading, verifying, unwrapping, creating and caching them.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::TryStreamExt as _;
use rowkey_client::{
    DynamicEntity, Error, ErrorKind, Filter, Key, Operator, Outcome, Partition, Result, ScanPolicy,
    Table, edm,
};
use rowkey_patterns::job::Keys;
use rowkey_store::{Deciding, Op};
use zeroize::Zeroizing;

use crate::branch::{BranchKey, CurrentBranchKey, HEAD, PARTITION, Record, id_of};
use crate::format::refused;
use crate::key::DataKey;
use crate::random::Random;
use crate::ring::KeyRing;

/// How long a writer uses the newest branch key before it looks for a newer one.
const MAX_CACHED: Duration = Duration::from_secs(60);

/// The first possible RowKey of a record.
const FIRST: &str = "encryption_key_0";

/// The RowKey of a row without content, whose `Timestamp` tells the time of the service. It is before those of
/// records, and in the part of the partition that no entity can be in.
const CLOCK: &str = "encryption_key_-clock";

/// The newest record of a table.
struct Newest {
    /// The name of the branch key. Any program with write access to the table may have chosen it.
    id: String,
    /// When the service stored the record.
    stored: DateTime<Utc>,
}

impl KeyRing {
    /// Creates a new branch key under the current key-encryption key; all programs write with it within a
    /// minute. Then run [`Store::reencrypt`](rowkey_store::Store::reencrypt).
    ///
    /// Programs without this key-encryption key fail to write from then on, with an error that names it.
    /// Costs two requests to the table, and with a key vault two more: one wraps, one signs.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("patients");
    /// # table.create().await?;
    /// # let ring = KeyRing::new("patients", AesKeyWrap::new("2026", [7; 32]), MacKey::new("records", [9; 32]));
    /// use rowkey::{DynamicEntity, Partition};
    ///
    /// ring.rotate(&table).await?;
    /// ring.rotate(&table).await?;
    /// let branch_keys = table.query(Partition::<DynamicEntity>::new("encryption")).all().await?;
    /// assert_eq!(branch_keys.len(), 2);
    /// # Ok(()) }
    /// ```
    pub async fn rotate(&self, table: &Table) -> Result<()> {
        self.rotate_if(table, |_| true).await.map(drop)
    }

    /// Creates a new branch key if the newest one was stored longer ago than `age`, by the `Timestamp` of its
    /// row and the clock of the account, or if there is none; returns whether it did. For a periodic job.
    ///
    /// Entities stay under the branch key that they were written with, until
    /// [`Store::reencrypt`](rowkey_store::Store::reencrypt) or another write; older branch keys stay in the
    /// table for them. So `age` limits how much is written under one key. Two concurrent jobs may create two
    /// keys, which does no harm.
    ///
    /// One request if the newest one is young enough; otherwise the cost of [`rotate`](Self::rotate).
    ///
    /// ```
    /// # use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("patients");
    /// # table.create().await?;
    /// let signer = MacKey::new("records", [9; 32]);
    /// let ring = KeyRing::new("patients", AesKeyWrap::new("2026", [7; 32]), signer);
    /// let month = std::time::Duration::from_secs(30 * 24 * 60 * 60);
    /// assert!(ring.rotate_if_older_than(&table, month).await?);
    /// assert!(!ring.rotate_if_older_than(&table, month).await?);
    /// # Ok(()) }
    /// ```
    pub async fn rotate_if_older_than(&self, table: &Table, age: Duration) -> Result<bool> {
        let now = table.account().clock().now();
        let is_old = |newest: &Newest| (now - newest.stored).to_std().unwrap_or_default() > age;
        self.rotate_if(table, is_old).await
    }

    /// Creates a new branch key if there is none, or if the newest is to be replaced.
    async fn rotate_if(
        &self,
        table: &Table,
        is_due: impl Fn(&Newest) -> bool + Send + Sync,
    ) -> Result<bool> {
        let rotated = async {
            let deciding = Deciding::new(table);
            let table = deciding.table();
            let mut branch_key = self.branch_key.lock().await;
            let newest = newest_record(table).await?;
            if newest.as_ref().is_some_and(|newest| !is_due(newest)) {
                return Ok(false);
            }
            *branch_key = None;
            self.make_branch(table, newest.as_ref()).await.map(|_| true)
        };
        rotated.await.map_err(|error: Error| error.of("Rotate", table.name()))
    }

    /// The newest branch key of a table, which writers use; creates the first one.
    pub(crate) async fn newest(&self, table: &Table) -> Result<BranchKey> {
        let deciding = Deciding::new(table);
        let table = deciding.table();
        let now = table.account().clock().elapsed();
        // Locked while reading, so that writers that start together send one request.
        let mut branch_key = self.branch_key.lock().await;
        if let Some(branch_key) = &*branch_key
            && branch_key.is_of(table)
            && now.saturating_sub(branch_key.read) < MAX_CACHED
        {
            return Ok(branch_key.branch.clone());
        }
        let branch = match newest_record(table).await? {
            Some(newest) => self.usable(table, &newest).await?,
            None => self.make_branch(table, None).await?,
        };
        *branch_key = Some(CurrentBranchKey::new(table, now, branch.clone()));
        Ok(branch)
    }

    /// The branch key that writers must use. If no signer of the ring signed its record, names the record,
    /// because it stops all writers until it is deleted.
    async fn usable(&self, table: &Table, newest: &Newest) -> Result<BranchKey> {
        self.branch(table, &newest.id).await.map_err(|error| {
            if error.to_string() == refused().to_string() {
                return newest.forged("no key of the ring signed it");
            }
            error
        })
    }

    /// Creates a new branch key unless the current key-encryption key wraps the newest one.
    pub(crate) async fn renewed(&self, table: &Table) -> Result<()> {
        let newest = self.newest(table).await?;
        if newest.key_id() != self.current()?.key_id() {
            self.rotate(table).await?;
        }
        Ok(())
    }

    /// For how long the newest branch key has been in the table. The clocks of programs may differ, so the
    /// service tells the time: by the `Timestamp` of a row that is written now.
    pub(crate) async fn age_of_newest(&self, table: &Table) -> Result<Duration> {
        let deciding = Deciding::new(table);
        let table = deciding.table();
        let now = table.account().clock().elapsed();
        let mut branch_key = self.branch_key.lock().await;
        let Some(newest) = newest_record(table).await? else { return Ok(Duration::ZERO) };
        let branch = self.usable(table, &newest).await?;
        // The rows are compared with this one, and not with one that was read a minute ago.
        *branch_key = Some(CurrentBranchKey::new(table, now, branch));
        let marker = DynamicEntity::new(PARTITION, CLOCK);
        let rejected = |error: Error| error.with_outcome(Outcome::Rejected);
        table.upsert(&marker).await.map_err(rejected)?;
        let written = deciding.get(marker.key()).await.map_err(rejected)?;
        let age = written.map(|written| written.timestamp.to_chrono() - newest.stored);
        Ok(age.and_then(|age| age.to_std().ok()).unwrap_or_default())
    }

    /// The branch key of this name, from memory or from its record. A record costs one request to the table,
    /// and with a key vault two more.
    pub(crate) async fn branch(&self, table: &Table, id: &str) -> Result<BranchKey> {
        let cell = self.branches.cell(id.as_bytes().to_vec());
        let read = || async {
            let deciding = Deciding::new(table);
            let key = Key::<DynamicEntity>::new(PARTITION, format!("{HEAD}{id}"));
            // A failed read has changed nothing.
            let stored = deciding.get(key).await;
            let stored = stored.map_err(|error| error.with_outcome(Outcome::Rejected))?;
            let stored = stored.ok_or_else(refused)?;
            self.open_record(&Record::read(&stored.entity)?).await
        };
        cell.get_or_try_init(read).await.cloned()
    }

    /// Opens a record. Verifies its signature first, so that a forged key is never unwrapped.
    pub(crate) async fn open_record(&self, record: &Record) -> Result<BranchKey> {
        record.verify(&self.table, &self.signers).await?;
        let wrapper = self.find(&record.key_id)?;
        let unwrapped = wrapper.unwrap_key(&record.algorithm, &record.wrapped).await;
        let key = unwrapped.map_err(one_text)?;
        Ok(BranchKey::new(record.id.clone(), record.key_id.clone(), key))
    }

    /// Creates a branch key, newer than the newest one so far, and stores its record.
    async fn make_branch(&self, table: &Table, newest: Option<&Newest>) -> Result<BranchKey> {
        let mut random = [0; 8];
        // Not the bytes that a test chose: two records must not have the same name.
        Random::default().fill(&mut random)?;
        let now = table.account().clock().now();
        // Even if the clock is behind, the new key must sort after the one that it replaces.
        let after = newest.and_then(|newest| made_at(&newest.id));
        let after = after.and_then(|made| made.checked_add_signed(TimeDelta::microseconds(1)));
        let op = Op::new(after.map_or(now, |after| after.max(now)), random);
        if let Some(newest) = newest
            && id_of(&op).map_or(true, |id| id <= newest.id)
        {
            return Err(newest.forged("no program makes such a name, and no other sorts after it"));
        }
        let (record, branch) = self.new_record(&op).await?;
        match table.insert(&record.row()).await {
            Ok(_) => {}
            // An earlier attempt of this insert succeeded: no other operation uses this key.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // No data of an entity was sent. If the insert still succeeds later, there is one more record.
            Err(error) => return Err(error.with_outcome(Outcome::Rejected)),
        }
        let kept = self.branches.cell(record.id.into_bytes());
        Ok(kept.get_or_init(|| async { branch }).await.clone())
    }

    /// Creates a branch key and its record.
    pub(crate) async fn new_record(&self, op: &Op) -> Result<(Record, BranchKey)> {
        let (current, signer) = (self.current()?, self.signer()?);
        let mut bytes = Zeroizing::new([0; 32]);
        self.random.fill(&mut *bytes)?;
        let key = DataKey::new(&*bytes)?;
        let record = Record {
            id: id_of(op)?,
            key_id: current.key_id().to_owned(),
            algorithm: current.algorithm().to_owned(),
            wrapped: current.wrap_key(&key).await?,
            signer: String::new(),
            signature_algorithm: String::new(),
            signature: Vec::new(),
        };
        let record = record.sign(&self.table, signer).await?;
        let branch = BranchKey::new(record.id.clone(), record.key_id.clone(), key);
        Ok((record, branch))
    }
}

impl Newest {
    /// The error of a record that another program made.
    fn forged(&self, why: &str) -> Error {
        // Enough to find it.
        let id: String = self.id.chars().take(100).collect();
        let what = format!(
            "the record `{HEAD}{}` in the partition `{PARTITION}` stops all writers: {why}",
            id.escape_debug()
        );
        Error::refused(ErrorKind::Decode, what)
            .advise("find out who wrote it, and delete it; or add the signer that signed it")
    }
}

/// The newest record. One request; there are few records.
async fn newest_record(table: &Table) -> Result<Option<Newest>> {
    let row_key = |operator, key: &str| Filter::dynamic("RowKey", operator, key);
    let records = table
        .query(Partition::<DynamicEntity>::new(PARTITION))
        .scan_policy(ScanPolicy::Allow)
        .filter(row_key(Operator::GreaterOrEqual, FIRST))
        // The character after `_`.
        .filter(row_key(Operator::Less, "encryption_key`"))
        .project::<Keys>();
    let records = records.stream().map_ok(|row| (row.entity.row_key, row.timestamp));
    let records = records.try_collect::<Vec<_>>().await;
    let newest = records.map_err(|error| error.with_outcome(Outcome::Rejected))?.into_iter().max();
    Ok(newest.and_then(|(row_key, stored)| {
        let id = row_key.strip_prefix(HEAD)?.to_owned();
        Some(Newest { id, stored: stored.to_chrono() })
    }))
}

/// When the branch key of this name was created.
fn made_at(id: &str) -> Option<DateTime<Utc>> {
    let (ticks, _) = id.split_once('_')?;
    edm::DateTime::from_ticks(ticks.parse().ok()?).ok().map(edm::DateTime::to_chrono)
}

/// Replaces an error that reveals which part does not fit by the uniform error. Others may be transient and
/// are kept.
pub(crate) fn one_text(error: Error) -> Error {
    if error.kind() == ErrorKind::Decode { refused() } else { error }
}
