//! Encrypts and decrypts whole rows: selects the properties and the key, and refuses invalid rows.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::edm::Value;
use rowkey_client::{DynamicEntity, Error, ErrorKind, Result, Table};
use rowkey_store::{Op, Sealer};
use zeroize::Zeroizing;

use crate::branch::BranchKey;
#[cfg(any(test, feature = "test-util"))]
use crate::branch::Record;
use crate::format::{self, Address, content, is_plain as is_plain_text, refused, two};
use crate::index;
use crate::legacy;
use crate::records::one_text;
use crate::ring::KeyRing;

/// Properties that a store adds to a row; they are never signed.
const OF_STORE: [&str; 4] = ["EntityOp", "IndexName", "PrimaryPartitionKey", "PrimaryRowKey"];

/// What a stored row has sealed, and what of it the next version of the row must seal again.
#[derive(Default)]
pub(crate) struct Before {
    /// The sealed properties.
    names: Vec<String>,
    /// The values of those that the type does not open, with their blind indexes.
    kept: Vec<(String, Value, String)>,
    signed: bool,
}

impl Sealer for KeyRing {
    fn seal<'a>(
        &'a self,
        op: &'a Op,
        table: &'a Table,
        names: &'a [&'static str],
        before: Option<(&'a DynamicEntity, &'a [&'static str])>,
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<()>> {
        let sealed = async move {
            let before = match before {
                Some((stored, opened)) => self.before(table, stored, opened).await?,
                None => Before::default(),
            };
            self.check(row, names, &before)?;
            let branch = self.newest(table).await?;
            self.seal_with(&branch, op, names, &before, row)
        };
        sealed.map(move |sealed| sealed.map_err(|error| error.of("Encrypt", table.name()))).boxed()
    }

    fn open<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        let opened = async move {
            let opened = self.open_row(table, row).await?;
            let is_plain =
                |name: &str| row.get(name).is_some() && !opened.iter().any(|one| one == name);
            if names.iter().any(|name| is_plain(name)) && !self.accepts.plaintext {
                return Err(refused());
            }
            let stays = |name: &String| !names.contains(&&**name) && !self.stopped.contains(name);
            let sealed: Vec<_> = opened.into_iter().filter(stays).collect();
            for name in &sealed {
                row.remove(name);
            }
            Ok(sealed)
        };
        opened.map(move |opened| opened.map_err(|error| error.of("Decrypt", table.name()))).boxed()
    }

    fn renew<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Result<()>> {
        async move { self.renewed(table).await.map_err(|error| error.of("Rotate", table.name())) }
            .boxed()
    }

    fn age<'a>(&'a self, table: &'a Table) -> BoxFuture<'a, Result<Duration>> {
        async move { self.age_of_newest(table).await.map_err(|error| error.of("Rotate", table.name())) }
            .boxed()
    }

    fn is_current<'a>(
        &'a self,
        table: &'a Table,
        names: &'a [&'static str],
        row: &'a DynamicEntity,
    ) -> BoxFuture<'a, Result<bool>> {
        async move {
            let newest = self.newest(table).await?;
            let Some(Value::String(metadata)) = row.get(format::METADATA) else {
                return Ok(false);
            };
            let Ok(envelope) = two::Envelope::parse(metadata) else { return Ok(false) };
            let is_sealed = |name: &str| envelope.names.iter().any(|sealed| sealed == name);
            Ok(envelope.branch == newest.id()
                // A row that another program signed stays signed.
                && (envelope.signed || !self.signs)
                && names.iter().all(|name| row.get(name).is_none() || is_sealed(name))
                && envelope.names.iter().all(|name| {
                    let has_index = row.get(&index::property(name)).is_some();
                    // The blind indexes of another program's fields are kept.
                    let is_own = names.contains(&&**name);
                    !self.stopped.contains(name) && (!is_own || has_index == self.indexes(name))
                }))
        }
        .boxed()
    }

    fn stopped(&self) -> &[String] {
        &self.stopped
    }

    fn accepts_plaintext(&self) -> bool {
        self.accepts.plaintext
    }

    fn seal_content(
        &self,
        row: &DynamicEntity,
        property: &str,
        value: &Value,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut key = Zeroizing::new([0; 32]);
        self.random.fill(&mut *key)?;
        content::seal(key, &self.random.bytes()?, self.address(row), property, value)
    }

    fn open_content(
        &self,
        row: &DynamicEntity,
        property: &str,
        key: &[u8],
        stored: &[u8],
    ) -> Result<Value> {
        let key = content::ContentKey::parse(key);
        let opened = key.and_then(|key| key.open(self.address(row), property, stored));
        opened.ok_or_else(refused)
    }

    fn is_content(&self, key: &[u8], value: &Value) -> bool {
        content::ContentKey::parse(key).is_some_and(|key| key.is_of(value))
    }
}

/// The properties of a row that are neither encrypted nor added by the store.
fn others<'r>(row: &'r DynamicEntity, sealed: &[impl AsRef<str>]) -> Vec<(&'r str, &'r Value)> {
    let is_other =
        |name: &str| !OF_STORE.contains(&name) && !sealed.iter().any(|one| one.as_ref() == name);
    row.iter().filter(|(name, _)| is_other(name)).collect()
}

impl KeyRing {
    /// Reads what a stored row has sealed. `opened` are the names with which the store opened it.
    async fn before(
        &self,
        table: &Table,
        stored: &DynamicEntity,
        opened: &[&'static str],
    ) -> Result<Before> {
        let stays =
            |name: &str| !opened.contains(&name) && !self.stopped.iter().any(|one| one == name);
        let (names, signed) = match stored.get(format::METADATA) {
            Some(Value::String(metadata)) => {
                let envelope = two::Envelope::parse(metadata)?;
                (envelope.names, envelope.signed)
            }
            // V1 does not show the names, and every encrypted value is a Binary.
            _ if legacy::is_legacy(stored) => {
                let binary = stored.iter().filter(|(_, value)| matches!(value, Value::Binary(_)));
                let names = binary.map(|(name, _)| name.to_owned());
                (names.filter(|name| name != legacy::NAMES).collect(), false)
            }
            _ => return Ok(Before::default()),
        };
        if !names.iter().any(|name| stays(name)) {
            return Ok(Before { names, kept: Vec::new(), signed });
        }
        let mut row = stored.clone();
        let names = self.open_row(table, &mut row).await?;
        let kept = names.iter().filter(|name| stays(name)).filter_map(|name| {
            let index = match stored.get(&index::property(name)) {
                Some(Value::String(index)) => index.clone(),
                _ => String::new(),
            };
            Some((name.clone(), row.remove(name)?, index))
        });
        Ok(Before { kept: kept.collect(), names, signed })
    }

    /// Refuses a row that cannot be encrypted.
    fn check(&self, row: &DynamicEntity, names: &[&'static str], before: &Before) -> Result<()> {
        let is_sealed =
            |name: &str| names.contains(&name) || before.kept.iter().any(|(kept, ..)| kept == name);
        let reserved = |name: &str| {
            [format::METADATA, legacy::METADATA, legacy::NAMES].contains(&name)
                || name.strip_suffix(format::INDEX_SUFFIX).is_some_and(is_sealed)
        };
        if let Some((name, _)) = row.iter().find(|(name, _)| reserved(name)) {
            let what =
                format!("the entity has a property `{name}`, which is reserved for encryption");
            return Err(Error::refused(ErrorKind::Invalid, what).advise("rename it"));
        }
        let is_plain = |name: &str| {
            before.names.iter().any(|sealed| sealed == name)
                && !names.contains(&name)
                && !self.stopped.iter().any(|stopped| stopped == name)
        };
        if let Some((name, _)) = row.iter().find(|(name, _)| is_plain(name)) {
            let what = format!(
                "property `{name}` is encrypted in the stored entity, and this program would store \
                 it in plaintext"
            );
            return Err(Error::refused(ErrorKind::Invalid, what).advise(
                "mark the field #[entity(encrypt)], or name it in `KeyRing::stop_encrypting`",
            ));
        }
        if let Some(name) = names.iter().find(|name| !name.chars().all(is_plain_text)) {
            let what =
                format!("property `{name}` has white space or a control character in its name");
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        Ok(())
    }

    /// Encrypts a row under a branch key.
    pub(crate) fn seal_with(
        &self,
        branch: &BranchKey,
        op: &Op,
        names: &[&'static str],
        before: &Before,
        row: &mut DynamicEntity,
    ) -> Result<()> {
        let keys = DynamicEntity::new(&*row.partition_key, &*row.row_key);
        let key = two::Row::new(branch.id(), branch.key(), op.mark(), self.address(&keys))?;
        let mut sealed = Vec::new();
        for name in names {
            let Some(value) = row.get(name) else { continue };
            let index = match self.index.as_ref().filter(|_| self.indexes(name)) {
                Some(of) => of.key.of(&self.table, name, value)?,
                None => String::new(),
            };
            let stored = key.encrypt(&self.random.bytes()?, name, value)?;
            row.set(*name, stored.clone());
            sealed.push((*name, index, stored));
        }
        let own = sealed.len();
        for (name, value, index) in &before.kept {
            // The conversion from an older version, whose type lacks it, made another value.
            if sealed[..own].iter().any(|(of_type, ..)| of_type == name) {
                continue;
            }
            let stored = key.encrypt(&self.random.bytes()?, name, value)?;
            row.set(name, stored.clone());
            sealed.push((name, index.clone(), stored));
        }
        let signs = self.signs || before.signed;
        let sealed_names: Vec<_> = sealed.iter().map(|(name, ..)| *name).collect();
        let parts = sealed.iter().map(|(name, index, stored)| (*name, &**index, &**stored));
        let covered = two::Covered {
            sealed: parts.collect(),
            signed: signs.then(|| others(row, &sealed_names)),
        };
        let seal = key.seal(&self.random.bytes()?, &covered)?;
        let envelope = two::Envelope {
            branch: branch.id().to_owned(),
            op: op.mark().to_owned(),
            seal,
            names: sealed_names.iter().map(|name| (*name).to_owned()).collect(),
            signed: signs,
        };
        for (name, index, _) in sealed.iter().filter(|(_, index, _)| !index.is_empty()) {
            row.set(index::property(name), index.as_str());
        }
        row.set(format::METADATA, envelope.print());
        Ok(())
    }

    fn address<'a>(&'a self, row: &'a DynamicEntity) -> Address<'a> {
        Address { table: &self.table, partition_key: &row.partition_key, row_key: &row.row_key }
    }

    /// Decrypts a row that any program may have written, or returns why it must be refused. Returns the names
    /// of the encrypted properties.
    async fn open_row(&self, table: &Table, row: &mut DynamicEntity) -> Result<Vec<String>> {
        match row.remove(format::METADATA) {
            Some(Value::String(metadata)) => self.open_sealed(table, row, &metadata).await,
            None if legacy::is_legacy(row) => {
                if !self.accepts.legacy {
                    let what = "the entity is encrypted in the format of the retired SDKs, V1, \
                                which authenticates nothing";
                    return Err(Error::refused(ErrorKind::Decode, what)
                        .advise("read it with `KeyRing::accept_legacy`"));
                }
                legacy::decrypt(row, self).await.map_err(one_text)
            }
            None if self.accepts.plaintext => Ok(Vec::new()),
            Some(_) | None => Err(refused()),
        }
    }

    /// Returns the names of the encrypted properties.
    async fn open_sealed(
        &self,
        table: &Table,
        row: &mut DynamicEntity,
        metadata: &str,
    ) -> Result<Vec<String>> {
        let envelope = two::Envelope::parse(metadata)?;
        if self.signs && !envelope.signed && !self.accepts.plaintext {
            return Err(refused());
        }
        let branch = self.branch(table, &envelope.branch).await?;
        self.open_with(&branch, envelope, row)
    }

    /// Decrypts a row under its branch key; returns the names of the encrypted properties.
    pub(crate) fn open_with(
        &self,
        branch: &BranchKey,
        envelope: two::Envelope,
        row: &mut DynamicEntity,
    ) -> Result<Vec<String>> {
        let two::Envelope { op, seal, names, signed, .. } = envelope;
        let keys = DynamicEntity::new(&*row.partition_key, &*row.row_key);
        let key = two::Row::new(branch.id(), branch.key(), &op, self.address(&keys))?;
        let mut indexes = Vec::with_capacity(names.len());
        for name in &names {
            indexes.push(match row.remove(&index::property(name)) {
                Some(Value::String(index)) => index,
                Some(_) => return Err(refused()),
                None => String::new(),
            });
        }
        let mut sealed = Vec::with_capacity(names.len());
        for (name, index) in names.iter().zip(&indexes) {
            let Some(Value::Binary(stored)) = row.get(name) else { return Err(refused()) };
            sealed.push((name.as_str(), index.as_str(), stored.as_slice()));
        }
        let signed = signed.then(|| others(row, &names));
        let covered = two::Covered { sealed, signed };
        if !key.is_sealed(&seal, &covered) {
            return Err(refused());
        }
        let opened = covered.sealed.iter().map(|(name, _, stored)| key.decrypt(name, stored));
        let opened = opened.collect::<Option<Vec<_>>>().ok_or_else(refused)?;
        for (name, value) in names.iter().zip(opened) {
            row.set(name.as_str(), value);
        }
        Ok(names)
    }

    pub(crate) fn indexes(&self, name: &str) -> bool {
        self.index.as_ref().is_some_and(|index| index.names.iter().any(|indexed| indexed == name))
    }
}

/// Encryption and decryption without a table, for tests and fuzz targets.
#[cfg(any(test, feature = "test-util"))]
impl KeyRing {
    /// Creates a branch key in one operation and encrypts a row in another; returns the record.
    #[doc(hidden)]
    pub async fn seal_offline(
        &self,
        ops: [Op; 2],
        names: &[&'static str],
        row: &mut DynamicEntity,
    ) -> Result<DynamicEntity> {
        let (record, branch) = self.new_record(&ops[0]).await?;
        self.seal_with(&branch, &ops[1], names, &Before::default(), row)?;
        Ok(record.row())
    }

    /// Decrypts a row with the record that it names.
    #[doc(hidden)]
    pub async fn open_offline(
        &self,
        record: &DynamicEntity,
        row: &mut DynamicEntity,
    ) -> Result<()> {
        let Some(Value::String(metadata)) = row.remove(format::METADATA) else {
            return Err(refused());
        };
        let envelope = two::Envelope::parse(&metadata)?;
        let record = Record::read(record)?;
        if record.id != envelope.branch {
            return Err(refused());
        }
        let branch = self.open_record(&record).await?;
        self.open_with(&branch, envelope, row).map(drop)
    }
}
