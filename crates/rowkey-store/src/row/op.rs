//! Operations: the identity of a write, its op row, and the void that ends it.
//!
//! A write that prepares or settles anything inserts its op row as the first operation of its transaction.
//! A program that presumes the write dead inserts a void at the same key. Only one of the two can be
//! stored: an op row proves that the write was committed, a void that it never will be.

use chrono::{DateTime, Utc};
use rowkey_client::internals::shown;
use rowkey_client::telemetry::TraceParent;
use rowkey_client::{DynamicEntity, Error, ErrorKind, Result, edm};
use serde::{Deserialize, Serialize};

use super::long_text::{set_text, whole_text};
use super::{FORMAT, FORMAT_VERSION, Keys, check_format, text};

/// The prefix of the RowKeys of op rows.
pub(crate) const HEAD: &str = "op_";

const CREATED: &str = "Created";
const VOID: &str = "Void";
const TARGETS: &str = "Targets";
const CLAIMS: &str = "Claims";
const TRACE: &str = "TraceParent";

/// The identity of one write: its mark, its time, and the RowKey of its op row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    mark: String,
    created: DateTime<Utc>,
}

impl Op {
    /// Creates an operation from the time and 8 random bytes.
    ///
    /// ```
    /// use rowkey::store::Op;
    ///
    /// let op = Op::new("2026-11-20T09:00:00Z".parse()?, [0, 0, 0, 0, 0, 0, 0, 255]);
    /// assert_eq!(op.mark(), "00000000000000ff");
    /// assert!(op.row_key()?.ends_with("_00000000000000ff"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(created: DateTime<Utc>, random: [u8; 8]) -> Self {
        Self { mark: format!("{:016x}", u64::from_be_bytes(random)), created }
    }

    /// Creates an operation with random bytes from the operating system.
    pub(crate) fn random(created: DateTime<Utc>) -> Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| {
            let what = "the operating system provides no random bytes for the mark";
            Error::refused(ErrorKind::Unavailable, what).with_source(error)
        })?;
        Ok(Self::new(created, random))
    }

    /// Returns the mark that distinguishes the rows of this write from others: 16 hexadecimal
    /// digits.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Returns the time at which the write began.
    pub fn created(&self) -> DateTime<Utc> {
        self.created
    }

    /// Returns the RowKey of the op row. The op rows of a partition are ordered by time.
    pub fn row_key(&self) -> Result<String> {
        let ticks = edm::DateTime::try_from(self.created).map_err(|error| {
            let what = "the clock shows a time that cannot be stored";
            Error::refused(ErrorKind::Invalid, what).with_source(error)
        })?;
        Ok(format!("{HEAD}{:019}_{}", ticks.ticks(), self.mark))
    }
}

/// Returns the mark in the RowKey of an op row.
pub(crate) fn mark_of(row_key: &str) -> Option<&str> {
    row_key.rsplit_once('_').map(|(_, mark)| mark)
}

/// Returns the start time of the operation from the RowKey of its op row.
pub(crate) fn created_of(row_key: &str) -> Option<DateTime<Utc>> {
    let (ticks, _) = row_key.strip_prefix(HEAD)?.split_once('_')?;
    edm::DateTime::from_ticks(ticks.parse().ok()?).ok().map(edm::DateTime::to_chrono)
}

/// A change in another place that a committed write requires.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The RowKey of the entity.
    pub(crate) row_key: String,
    /// The type of the entity, as the prefix of its RowKeys.
    pub(crate) of: String,
    /// The declaration that settles it.
    pub(crate) declaration: String,
    /// The declaration's name for the target.
    pub(crate) address: String,
}

shown! {
    /// Does not show the keys.
    Target: declaration
}

/// Separates the keys in the address of a target that is a row. No key contains it.
const SEPARATOR: char = '\n';

/// Returns the address of a target that is a row.
pub(crate) fn row_address((partition_key, row_key): &Keys) -> String {
    format!("{partition_key}{SEPARATOR}{row_key}")
}

/// Returns the keys in the address of a target that is a row. `declaration` names the target in
/// errors.
pub(crate) fn keys_at(address: &str, declaration: &str) -> Result<Keys> {
    let keys = address.split_once(SEPARATOR);
    keys.map(|(partition_key, row_key)| (partition_key.to_owned(), row_key.to_owned())).ok_or_else(
        || {
            let what = format!("a target of `{declaration}` has no keys");
            Error::refused(ErrorKind::Decode, what)
        },
    )
}

/// A claim that a write makes or releases.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimRef {
    pub(crate) keys: Keys,
    /// The RowKey of the entity.
    pub(crate) row_key: String,
    /// The type of the entity.
    pub(crate) of: String,
    /// The name of the unique value.
    pub(crate) name: String,
    /// The RowKey of the op row that the claim named before its release, as it was read or is remembered; `None`
    /// for a claim that the write made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<String>,
    /// The mark of the head that the write replaced, if it releases the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<String>,
}

/// The content of an op row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpRow {
    /// The write was committed; these changes remain to be settled.
    Committed {
        created: DateTime<Utc>,
        targets: Vec<Target>,
        claims: Vec<ClaimRef>,
        /// The trace of the write.
        trace: Option<TraceParent>,
    },
    /// The write will never be committed.
    Void { created: DateTime<Utc> },
}

impl OpRow {
    /// Returns the row at the key of an operation, in the partition of its entities.
    pub(crate) fn row(&self, partition_key: &str, row_key: &str) -> Result<DynamicEntity> {
        let mut row = DynamicEntity::new(partition_key, row_key);
        row.set(FORMAT, FORMAT_VERSION);
        let created = match self {
            Self::Committed { created, .. } | Self::Void { created } => *created,
        };
        if let Ok(created) = edm::DateTime::try_from(created) {
            row.set(CREATED, created);
        }
        match self {
            Self::Void { .. } => drop(row.set(VOID, true)),
            Self::Committed { targets, claims, trace, .. } => {
                set_json(&mut row, TARGETS, targets)?;
                set_json(&mut row, CLAIMS, claims)?;
                if let Some(trace) = trace {
                    row.set(TRACE, trace.to_string());
                }
            }
        }
        Ok(row)
    }

    pub(crate) fn read(row: &DynamicEntity) -> Result<Self> {
        check_format(row, "an op row")?;
        let created = match row.get(CREATED) {
            Some(edm::Value::DateTime(created)) => created.to_chrono(),
            _ => return Err(damaged()),
        };
        if row.get(VOID).is_some() {
            return Ok(Self::Void { created });
        }
        let (targets, claims) = (json(row, TARGETS)?, json(row, CLAIMS)?);
        // An invalid trace does not prevent settling.
        let trace = text(row, TRACE).and_then(|trace| trace.parse().ok());
        Ok(Self::Committed { created, targets, claims, trace })
    }
}

/// Removes targets from a stored op row.
pub(crate) fn remove_targets(row: &mut DynamicEntity, finished: &[Target]) -> Result<()> {
    let mut targets: Vec<Target> = json(row, TARGETS)?;
    targets.retain(|target| !finished.contains(target));
    set_text(row, TARGETS, "");
    row.remove(TARGETS);
    set_json(row, TARGETS, &targets)
}

/// Gives targets of a stored op row new addresses.
pub(crate) fn move_targets<'m>(
    row: &mut DynamicEntity,
    moves: impl Iterator<Item = (&'m Target, &'m str)>,
) -> Result<()> {
    let mut targets: Vec<Target> = json(row, TARGETS)?;
    for (target, address) in moves {
        for found in targets.iter_mut().filter(|found| *found == target) {
            address.clone_into(&mut found.address);
        }
    }
    set_text(row, TARGETS, "");
    row.remove(TARGETS);
    set_json(row, TARGETS, &targets)
}

/// Removes the targets and claims of a declaration of the type `of` from a stored op row; returns whether
/// there were any. `is_it` tells whether a name is that of the declaration.
pub(crate) fn remove_declaration(
    row: &mut DynamicEntity,
    of: &str,
    name: &str,
    is_it: impl Fn(&str) -> bool,
) -> Result<bool> {
    let mut targets: Vec<Target> = json(row, TARGETS)?;
    let mut claims: Vec<ClaimRef> = json(row, CLAIMS)?;
    let before = targets.len() + claims.len();
    targets.retain(|target| target.of != of || !is_it(&target.declaration));
    claims.retain(|claim| claim.of != of || claim.name != name);
    for list in [TARGETS, CLAIMS] {
        set_text(row, list, "");
        row.remove(list);
    }
    set_json(row, TARGETS, &targets)?;
    set_json(row, CLAIMS, &claims)?;
    Ok(targets.len() + claims.len() < before)
}

/// Writes a list as JSON into as many properties as needed; an empty list into none.
fn set_json<T: Serialize>(row: &mut DynamicEntity, name: &str, list: &[T]) -> Result<()> {
    if list.is_empty() {
        return Ok(());
    }
    let text = serde_json::to_string(list).map_err(|_| {
        Error::refused(ErrorKind::Invalid, "the targets of the write cannot be written as JSON")
    })?;
    set_text(row, name, &text);
    Ok(())
}

fn json<T: for<'de> Deserialize<'de>>(row: &DynamicEntity, name: &str) -> Result<Vec<T>> {
    let json = whole_text(row, name);
    if json.is_empty() {
        return Ok(Vec::new());
    }
    // The error of the parser quotes the row.
    serde_json::from_str(&json).map_err(|_| damaged())
}

fn damaged() -> Error {
    Error::refused(ErrorKind::Decode, "an op row cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn target(address: &str) -> Target {
        Target {
            row_key: "order_7".into(),
            of: "order_".into(),
            declaration: "by_courier".into(),
            address: address.into(),
        }
    }

    #[test]
    fn op_row_keys_are_unique_and_ordered_by_time() {
        let key = |seconds, random| Op::new(at(seconds), [random; 8]).row_key().unwrap();
        assert_eq!(key(0, 0), "op_0621355968000000000_0000000000000000");
        assert!(key(1, 255) < key(2, 0));
        assert_ne!(key(1, 1), key(1, 2));
    }

    #[test]
    fn op_rows_round_trip() {
        let claims = vec![ClaimRef {
            keys: ("unique_order_by_number_A".into(), "claim".into()),
            row_key: "order_7".into(),
            of: "order_".into(),
            name: "by_number".into(),
            before: Some("op_1".into()),
            head: Some("00000000000000ff".into()),
        }];
        for targets in [vec![], vec![target("a\nb")], vec![target(&"\u{1F600}".repeat(40_000))]] {
            let trace = "00-00000000000000000000000000000001-0000000000000002-01".parse().ok();
            let row = OpRow::Committed { created: at(5), targets, claims: claims.clone(), trace };
            let stored = row.row("p", "op_1").unwrap();
            assert_eq!(OpRow::read(&stored).unwrap(), row);
        }
        let void = OpRow::Void { created: at(5) };
        assert_eq!(OpRow::read(&void.row("p", "op_1").unwrap()).unwrap(), void);
    }

    #[test]
    fn claims_without_the_mark_of_the_head_stay_readable() {
        let json = r#"[{"keys":["c","claim"],"rowKey":"order_7","of":"order_","name":"by_number","before":"op_1"}]"#;
        let claims: Vec<ClaimRef> = serde_json::from_str(json).unwrap();
        assert_eq!(claims[0].head, None);
        assert_eq!(serde_json::to_string(&claims).unwrap(), json);
    }

    #[test]
    fn a_row_of_a_newer_format_is_rejected_without_being_quoted() {
        let mut row = OpRow::Void { created: at(5) }.row("p", "op_1").unwrap();
        row.set(FORMAT, 2);
        let error = OpRow::read(&row).unwrap_err();
        assert!(error.to_string().contains("format 2"), "{error}");
        row.remove(FORMAT);
        assert_eq!(OpRow::read(&row).unwrap_err().kind(), ErrorKind::Decode);
    }
}
