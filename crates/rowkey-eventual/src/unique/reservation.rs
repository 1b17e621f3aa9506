//! The row of a value: whose it is, and until when if the entity may not have been written.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use rowkey::edm::{self, Value};
use rowkey::key::{KeyWriter, PartFormat};
use rowkey::{DynamicEntity, ETag, Error, ErrorKind, Key, Result, Stored};
use sha2::{Digest as _, Sha256};

const OWNER_PARTITION: &str = "OwnerPartition";
const OWNER_ROW: &str = "OwnerRow";
/// A confirmed reservation has none.
const EXPIRES: &str = "Expires";

/// The RowKey of a value that stands in the PartitionKey as it is, or escaped.
const PLAIN: &str = "reservation";
/// That of a value of which the PartitionKey has the hash.
const HASHED: &str = "reservation_sha256";

/// A PartitionKey and a RowKey.
pub(super) type Keys = (String, String);

/// Where the reservation of a value lies: in a partition of its own, so that values do not share
/// one's throughput.
pub(super) fn keys(name: &str, value: &str) -> Result<Keys> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let what = "the constraint's name is not made of letters and digits alone";
        return Err(Error::refused(ErrorKind::Invalid, what).of("Unique", ""));
    }
    let mut key = KeyWriter::new();
    key.literal(&head(name));
    key.part(&value.to_owned(), PartFormat::default());
    if let Ok(key) = key.finish() {
        return Ok((key, PLAIN.to_owned()));
    }
    // Too long, or with characters that no key has.
    let mut hashed = head(name);
    for byte in Sha256::digest(value.as_bytes()) {
        let _ = write!(hashed, "{byte:02x}");
    }
    Ok((hashed, HASHED.to_owned()))
}

/// What each PartitionKey of a constraint begins with.
pub(super) fn head(name: &str) -> String {
    format!("{name}_")
}

/// A reservation as it was read.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    pub(super) keys: Keys,
    pub(super) etag: ETag,
    /// The keys of the entity that the value is reserved for.
    pub(super) owner: Keys,
    /// Until when it holds although there is no entity; `None` when it is confirmed.
    pub(super) expires: Option<DateTime<Utc>>,
}

impl Reservation {
    pub(super) fn read(stored: Stored<DynamicEntity>) -> Result<Self> {
        let Stored { entity, etag, .. } = stored;
        let text = |name: &str| match entity.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            _ => Err(Error::refused(ErrorKind::Decode, "a reservation names no owner")),
        };
        let owner = (text(OWNER_PARTITION)?, text(OWNER_ROW)?);
        let expires = match entity.get(EXPIRES) {
            None => None,
            Some(Value::DateTime(at)) => Some(at.to_chrono()),
            Some(_) => {
                let what = "a reservation expires at what is no time";
                return Err(Error::refused(ErrorKind::Decode, what));
            }
        };
        Ok(Self { keys: (entity.partition_key, entity.row_key), etag, owner, expires })
    }

    pub(super) fn owner<E>(&self) -> Key<E> {
        Key::new(&*self.owner.0, &*self.owner.1)
    }
}

/// The row to write.
pub(super) fn row(
    keys: &Keys,
    owner: &Keys,
    expires: Option<DateTime<Utc>>,
) -> Result<DynamicEntity> {
    let mut row = DynamicEntity::new(&*keys.0, &*keys.1);
    row.set(OWNER_PARTITION, &*owner.0);
    row.set(OWNER_ROW, &*owner.1);
    if let Some(expires) = expires {
        let expires = edm::DateTime::try_from(expires).map_err(|error| {
            let what = "the reservation would expire when no date can be stored";
            Error::refused(ErrorKind::Invalid, what).with_source(error)
        })?;
        row.set(EXPIRES, expires);
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_they_are_escaped_or_hashed() {
        let keys = |value: &str| keys("email", value).unwrap();
        assert_eq!(keys("ada@contoso.com"), ("email_ada@contoso.com".into(), PLAIN.into()));
        assert_eq!(keys("a/b#c"), ("email_a.~b\"~c".into(), PLAIN.into()));
        assert_eq!(keys(""), ("email_".into(), PLAIN.into()));
        // SHA-256 of 600 times "x", as sha256sum prints it.
        let long = keys(&"x".repeat(600));
        assert_eq!((long.0.len(), &*long.1), (70, HASHED));
        assert_ne!(long, keys(&"x".repeat(601)));
        assert_eq!(
            keys("\t").0,
            "email_2b4c342f5433ebe591a1da77e013d1b72475562d48578dca8b84bac6651c3cb9",
            "as sha256sum prints it"
        );
        // A value that looks like a hash has another RowKey.
        assert_ne!(keys(long.0.strip_prefix("email_").unwrap()), long);
    }

    #[test]
    fn names_that_could_run_into_values_are_refused() {
        for name in ["", "e_mail", "e/mail", "é"] {
            assert_eq!(keys(name, "x").unwrap_err().kind(), ErrorKind::Invalid, "{name}");
        }
    }
}
