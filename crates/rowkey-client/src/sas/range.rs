//! The range of keys of a table signature. Both ends are inclusive and optional.

use std::fmt;
use std::ops::{Bound, RangeBounds};

use rowkey_entity::internals::is_in_order;
use rowkey_entity::key::KeyError;
use rowkey_entity::{Entity, Key, Partition};
use rowkey_wire::auth::Sas;

use crate::error::{Error, Result};

/// The first and the last PartitionKey, each with an optional RowKey.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Range {
    from: Option<Boundary>,
    to: Option<Boundary>,
}

type Boundary = (String, Option<String>);

impl Range {
    pub(super) fn of_partition<E: Entity>(partition: Partition<E>) -> Result<Self> {
        let span = partition.into_span().map_err(|error| invalid(&error))?;
        if span.rows.stretches().is_empty() {
            return Err(nothing());
        }
        let (from, to) = span.rows.exactly().cloned().ok_or_else(several)?;
        let partition_key = span.partition_key;
        let from = match from {
            Bound::Unbounded => None,
            Bound::Included(row) => Some(row),
            Bound::Excluded(row) => Some(after(row)),
        };
        let to = match to {
            Bound::Unbounded => None,
            Bound::Included(row) => Some(row),
            Bound::Excluded(row) => Some(before(row).ok_or_else(nothing)?),
        };
        Ok(Self { from: Some((partition_key.clone(), from)), to: Some((partition_key, to)) })
    }

    pub(super) fn of_keys<E: Entity>(range: &impl RangeBounds<Key<E>>) -> Result<Self> {
        if !is_in_order(E::ROW_TEMPLATE) {
            return Self::of_values(range);
        }
        let parts = |key: &Key<E>| -> Result<(String, String)> {
            let (partition_key, row_key) = key.parts().map_err(invalid)?;
            Ok((partition_key.to_owned(), row_key.to_owned()))
        };
        let from = match range.start_bound() {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(parts(key).map(|(pk, rk)| (pk, Some(rk)))?),
            Bound::Excluded(key) => Some(parts(key).map(|(pk, rk)| (pk, Some(after(rk))))?),
        };
        let to = match range.end_bound() {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(parts(key).map(|(pk, rk)| (pk, Some(rk)))?),
            Bound::Excluded(key) => {
                let (partition_key, row_key) = parts(key)?;
                Some(match before(row_key) {
                    Some(row_key) => (partition_key, Some(row_key)),
                    // The range ends before the first row of a partition, so it ends in the
                    // partitions before it.
                    None => (before(partition_key).ok_or_else(nothing)?, None),
                })
            }
        };
        Ok(Self { from, to })
    }

    /// The keys between two values in one partition, for a type whose RowKeys are not in the order of values.
    fn of_values<E: Entity>(range: &impl RangeBounds<Key<E>>) -> Result<Self> {
        let ends = (range.start_bound(), range.end_bound());
        let (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(_) | Bound::Excluded(_),
        ) = ends
        else {
            return Err(several());
        };
        let (partition_key, _) = from.parts().map_err(invalid)?;
        let partition = Partition::<E>::new(partition_key);
        let partition = partition.range((ends.0.cloned(), ends.1.cloned()));
        match partition.partition_key() {
            Err(KeyError::OtherPartition) => Err(several()),
            _ => Self::of_partition(partition),
        }
    }

    pub(super) fn of_partitions<'a>(range: &impl RangeBounds<&'a str>) -> Result<Self> {
        for bound in [range.start_bound(), range.end_bound()] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound {
                rowkey_wire::key::check(key).map_err(|error| invalid(&KeyError::Invalid(error)))?;
            }
        }
        let from = match range.start_bound() {
            Bound::Unbounded => None,
            Bound::Included(key) => Some((*key).to_owned()),
            Bound::Excluded(key) => Some(after((*key).to_owned())),
        };
        let to = match range.end_bound() {
            Bound::Unbounded => None,
            Bound::Included(key) => Some((*key).to_owned()),
            Bound::Excluded(key) => Some(before((*key).to_owned()).ok_or_else(nothing)?),
        };
        Ok(Self { from: from.map(|key| (key, None)), to: to.map(|key| (key, None)) })
    }

    /// Whether the range is the whole table.
    pub(super) fn is_everything(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    pub(super) fn write(&self, sas: &mut Sas) {
        if let Some((partition_key, row_key)) = self.from.clone() {
            (sas.start_partition_key, sas.start_row_key) = (Some(partition_key), row_key);
        }
        if let Some((partition_key, row_key)) = self.to.clone() {
            (sas.end_partition_key, sas.end_row_key) = (Some(partition_key), row_key);
        }
    }
}

impl fmt::Debug for Range {
    /// Shows which ends are set, not the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |end: &Option<Boundary>| match end {
            None => "..",
            Some((_, None)) => "PartitionKey",
            Some((_, Some(_))) => "PartitionKey and RowKey",
        };
        let (from, to) = (end(&self.from), end(&self.to));
        f.debug_struct("Range").field("from", &from).field("to", &to).finish()
    }
}

/// The first key after `key`. No character of a key sorts before the space.
fn after(mut key: String) -> String {
    key.push(' ');
    key
}

/// The last practical key before `key`. Between any two keys there are always more, so this
/// excludes keys that continue with U+FFFF, which is not a character, and never includes `key`
/// itself. There is no key before the empty one.
fn before(mut key: String) -> Option<String> {
    // The order of UTF-16: U+0000 to U+D7FF, U+10000 and up, U+E000 to U+FFFF.
    let previous = match key.pop()? {
        '\u{10000}' => Some('\u{D7FF}'),
        '\u{E000}' => Some('\u{10FFFF}'),
        // Only control characters sort before the space; keys cannot contain them, and they are not
        // signed.
        ' ' => None,
        '\u{A0}' => Some('~'),
        other => u32::from(other).checked_sub(1).and_then(char::from_u32),
    };
    if let Some(previous) = previous {
        key.push(previous);
        key.push('\u{FFFF}');
    }
    Some(key)
}

fn invalid(error: &KeyError) -> Error {
    Error::invalid(format!("in the range: {error}")).advise("give keys that entities can have")
}

fn several() -> Error {
    Error::invalid(
        "the entities in the range do not lie side by side, and a signature opens one range",
    )
    .advise("open whole partitions, or ends that differ in the last part of the key alone")
}

fn nothing() -> Error {
    Error::invalid("there are no keys in the range")
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use rowkey_wire::key::compare;

    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_above_every_key_with_that_prefix() {
        for (head, next) in [
            ("order_", "order`"),
            ("a\u{D7FF}", "a\u{10000}"),
            ("a\u{10FFFF}", "a\u{E000}"),
            (".", "/"),
            ("a~", "a\u{A0}"),
        ] {
            let last = before(next.to_owned()).unwrap();
            assert_eq!(compare(&last, next), Ordering::Less, "{head}");
            for row in [head.to_owned(), format!("{head}z"), format!("{head}\u{10FFFF}x")] {
                assert_eq!(compare(&row, &last), Ordering::Less, "{row}");
            }
        }
        assert_eq!(before(String::new()), None);
        // Only a control character could replace the space.
        assert_eq!(before("a ".to_owned()).as_deref(), Some("a"));
        assert_eq!(compare(&after("a".into()), "a"), Ordering::Greater);
        assert_eq!(compare(&after("a".into()), "a!"), Ordering::Less);
    }
}
