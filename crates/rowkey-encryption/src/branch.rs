//! Branch keys, from which row keys are derived, and the signed records that store them.
//!
//! A record is a row in the same table as the entities that it serves, in the partition `encryption`. It has
//! the branch key, wrapped by a key-encryption key, and a signature over all its fields. It is never changed:
//! a new branch key is a new record, and all programs write with the newest one.
//!
//! Requests for records are in `records`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rowkey_client::edm::Value;
use rowkey_client::{DynamicEntity, Result, Table};
use rowkey_store::Op;

use crate::format::{append, refused};
use crate::key::{DataKey, KeySigner};

/// The PartitionKey of records.
pub(crate) const PARTITION: &str = "encryption";

/// The prefix of the RowKeys of records.
pub(crate) const HEAD: &str = "encryption_key_";

const FORMAT: &str = "RowFormat";
const FORMAT_VERSION: i32 = 2;
const KEY_ID: &str = "KeyId";
const ALGORITHM: &str = "Algorithm";
const WRAPPED: &str = "Wrapped";
const SIGNER: &str = "Signer";
const SIGNATURE_ALGORITHM: &str = "SignatureAlgorithm";
const SIGNATURE: &str = "Signature";

/// An unwrapped branch key.
#[derive(Clone)]
pub(crate) struct BranchKey(Arc<Opened>);

struct Opened {
    id: String,
    key_id: String,
    key: DataKey,
}

impl BranchKey {
    pub(crate) fn new(id: String, key_id: String, key: DataKey) -> Self {
        Self(Arc::new(Opened { id, key_id, key }))
    }

    /// The name of the key: the ticks and the id of the operation that created it.
    pub(crate) fn id(&self) -> &str {
        &self.0.id
    }

    /// The name of the key-encryption key that wraps it.
    pub(crate) fn key_id(&self) -> &str {
        &self.0.key_id
    }

    pub(crate) fn key(&self) -> &DataKey {
        &self.0.key
    }
}

impl fmt::Debug for BranchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BranchKey").field("id", &self.0.id).finish_non_exhaustive()
    }
}

/// The branch key that a ring writes with.
pub(crate) struct CurrentBranchKey {
    /// The account and the table.
    of: (String, String),
    /// When it was read, taken before the request, by [`Clock::elapsed`](rowkey_client::Clock::elapsed), which no
    /// change of the date moves.
    pub(crate) read: Duration,
    pub(crate) branch: BranchKey,
}

impl CurrentBranchKey {
    pub(crate) fn new(table: &Table, read: Duration, branch: BranchKey) -> Self {
        let of = (table.account().name().to_owned(), table.name().to_owned());
        Self { of, read, branch }
    }

    pub(crate) fn is_of(&self, table: &Table) -> bool {
        (&*self.of.0, &*self.of.1) == (table.account().name(), table.name())
    }
}

/// The name of the branch key that an operation creates. Names sort by time.
pub(crate) fn id_of(op: &Op) -> Result<String> {
    let row_key = op.row_key()?;
    Ok(row_key.trim_start_matches("op_").to_owned())
}

/// A branch key as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: String,
    /// The name of the key-encryption key; the wrapping algorithm follows.
    pub(crate) key_id: String,
    pub(crate) algorithm: String,
    pub(crate) wrapped: Vec<u8>,
    pub(crate) signer: String,
    pub(crate) signature_algorithm: String,
    pub(crate) signature: Vec<u8>,
}

impl Record {
    /// The signed message: all fields of the record, and the table that it is for.
    fn message(&self, table: &str) -> Vec<u8> {
        let mut message = b"rowkey-branch-key".to_vec();
        message.push(2);
        for part in [&self.id, table, &self.key_id, &self.algorithm] {
            append(&mut message, part.as_bytes());
        }
        append(&mut message, &self.wrapped);
        for part in [&self.signer, &self.signature_algorithm] {
            append(&mut message, part.as_bytes());
        }
        message
    }

    /// Signs the record.
    pub(crate) async fn sign(mut self, table: &str, signer: &dyn KeySigner) -> Result<Self> {
        self.signer = signer.key_id().to_owned();
        self.signature_algorithm = signer.algorithm().to_owned();
        self.signature = signer.sign(&self.message(table)).await?;
        Ok(self)
    }

    /// Refuses a record that none of these signers signed for the table.
    pub(crate) async fn verify(&self, table: &str, signers: &[Arc<dyn KeySigner>]) -> Result<()> {
        let pinned = |signer: &&Arc<dyn KeySigner>| {
            signer.key_id() == self.signer && signer.algorithm() == self.signature_algorithm
        };
        let signer = signers.iter().find(pinned).ok_or_else(refused)?;
        if signer.verify(&self.message(table), &self.signature).await? {
            return Ok(());
        }
        Err(refused())
    }

    pub(crate) fn row(&self) -> DynamicEntity {
        let mut row = DynamicEntity::new(PARTITION, format!("{HEAD}{}", self.id));
        row.set(FORMAT, FORMAT_VERSION);
        for (name, text) in [
            (KEY_ID, &self.key_id),
            (ALGORITHM, &self.algorithm),
            (SIGNER, &self.signer),
            (SIGNATURE_ALGORITHM, &self.signature_algorithm),
        ] {
            row.set(name, text.as_str());
        }
        row.set(WRAPPED, self.wrapped.clone());
        row.set(SIGNATURE, self.signature.clone());
        row
    }

    pub(crate) fn read(row: &DynamicEntity) -> Result<Self> {
        let text = |name| match row.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            _ => None,
        };
        let binary = |name| match row.get(name) {
            Some(Value::Binary(bytes)) => Some(bytes.clone()),
            _ => None,
        };
        let read = || {
            if row.get(FORMAT) != Some(&Value::Int32(FORMAT_VERSION)) {
                return None;
            }
            Some(Self {
                id: row.row_key.strip_prefix(HEAD)?.to_owned(),
                key_id: text(KEY_ID)?,
                algorithm: text(ALGORITHM)?,
                wrapped: binary(WRAPPED)?,
                signer: text(SIGNER)?,
                signature_algorithm: text(SIGNATURE_ALGORITHM)?,
                signature: binary(SIGNATURE)?,
            })
        };
        read().ok_or_else(refused)
    }
}
