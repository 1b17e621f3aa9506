//! The blobs of a store: in one container, with names that begin with the name of its table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rowkey_client::{Blob, ClientOptions, Container, RetryOptions};
use sha2::{Digest as _, Sha256};

use super::Keys;

/// Longer names are replaced by hashes, because a blob name has at most 1,024 characters.
const MAX_NAME: usize = 400;

/// The metadata of a field's blob. Keys are stored as the hexadecimal digits of their UTF-8 text.
const PARTITION_KEY: &str = "partitionkey";
const ROW_KEY: &str = "rowkey";
const OP: &str = "op";

/// The container of a store's blobs.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    /// For reads that decide nothing.
    container: Container,
    /// Reads the primary, and does not repeat an insert whose response is lost.
    deciding: Container,
    /// The prefix of the name of each blob.
    table: String,
}

impl Blobs {
    pub(crate) fn new(container: Container, table: &str) -> Self {
        let options = container.account().options();
        let retry = RetryOptions { repeat_inserts: false, ..options.retry.clone() };
        let options = ClientOptions { read_from_secondary: false, retry, ..options.clone() };
        let deciding = container.with_options(options);
        // Table names are case-insensitive.
        Self { container, deciding, table: table.to_ascii_lowercase() }
    }

    /// Returns the container for reads that decide nothing.
    pub(crate) fn container(&self) -> &Container {
        &self.container
    }

    /// Returns the container for writes and for reads that decide.
    pub(crate) fn deciding(&self) -> &Container {
        &self.deciding
    }

    /// Returns the blob of a list, for writes and for reads that decide.
    pub(crate) fn list(&self, row_key: &str) -> Blob {
        self.deciding.blob(&self.list_name(row_key))
    }

    /// Returns the name of a list's blob: the table, and the RowKey that a row of the list would
    /// have.
    pub(crate) fn list_name(&self, row_key: &str) -> String {
        self.name(&escaped(row_key).unwrap_or_else(|| {
            // Keep the prefix of the list, so that its blobs can be listed.
            let head: String = row_key.chars().take_while(char::is_ascii).take(100).collect();
            let hash = hexadecimal(&Sha256::digest(row_key));
            format!("{}=sha256={hash}", escaped(&head).unwrap_or_default())
        }))
    }

    /// Returns the common prefix of the names of all blobs whose names begin with `head`.
    pub(crate) fn prefix(&self, head: &str) -> String {
        self.name(&escaped(head).unwrap_or_default())
    }

    /// Returns the name of a field's blob. No other operation uses it.
    pub(crate) fn field_name(&self, of: &str, mark: &str, row_key: &str, property: &str) -> String {
        let entity = hexadecimal(&Sha256::digest(row_key)[..8]);
        let property = escaped(property).unwrap_or_else(|| hexadecimal(&Sha256::digest(property)));
        self.name(&format!("{}{mark}_{entity}_{property}", Self::field_head(of)))
    }

    /// Returns the prefix of the blob names of a type's fields, without the table.
    pub(crate) fn field_head(of: &str) -> String {
        format!("blob_{}", escaped(of).unwrap_or_default())
    }

    /// Returns the name of a blob that is uploaded for a reference; `unique` was never used before.
    pub(crate) fn reference_name(&self, of: &str, unique: &str, row_key: &str) -> String {
        let entity = hexadecimal(&Sha256::digest(row_key)[..8]);
        self.name(&format!("{}{unique}_{entity}", Self::reference_head(of)))
    }

    /// Returns the prefix of the names of blobs that entities of a type refer to, without the table.
    pub(crate) fn reference_head(of: &str) -> String {
        format!("ref_{}", escaped(of).unwrap_or_default())
    }

    /// Whether this store uploaded the blob at a path, so that it may delete it.
    pub(crate) fn is_reference(&self, of: &str, path: &str) -> bool {
        let head = self.name(&Self::reference_head(of));
        self.below(path).is_some_and(|name| name.starts_with(&head))
    }

    /// Returns the blob at a path in the container of the store.
    pub(crate) fn at_path(&self, path: &str) -> Option<Blob> {
        self.below(path).map(|name| self.deciding.blob(name))
    }

    /// Returns the path of a blob in the container of the store.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.container.name())
    }

    fn below<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.strip_prefix(self.container.name())?.strip_prefix('/')
    }

    /// Returns the metadata of a blob that an entity will refer to: the keys of the entity.
    pub(crate) fn owner_metadata(keys: &Keys) -> [(&'static str, String); 2] {
        let hex = |text: &str| hexadecimal(text.as_bytes());
        [(PARTITION_KEY, hex(&keys.0)), (ROW_KEY, hex(&keys.1))]
    }

    /// Returns the keys of the entity from such metadata.
    pub(crate) fn owner(metadata: &BTreeMap<String, String>) -> Option<Keys> {
        let value = |name: &str| {
            let found = metadata.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str())
        };
        Some((unhexed(value(PARTITION_KEY)?)?, unhexed(value(ROW_KEY)?)?))
    }

    /// Returns the metadata of a field's blob: the keys of its entity and the RowKey of its op row.
    pub(crate) fn metadata(
        partition_key: &str,
        row_key: &str,
        op: &str,
    ) -> [(&'static str, String); 3] {
        let hex = |text: &str| hexadecimal(text.as_bytes());
        [(PARTITION_KEY, hex(partition_key)), (ROW_KEY, hex(row_key)), (OP, op.to_owned())]
    }

    /// Returns the keys of the entity and of the op row from such metadata.
    pub(crate) fn origin(metadata: &BTreeMap<String, String>) -> Option<(Keys, Keys)> {
        let value = |name: &str| {
            let found = metadata.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str())
        };
        let owner = Self::owner(metadata)?;
        let op = (owner.0.clone(), value(OP)?.to_owned());
        Some((owner, op))
    }

    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}/{rest}", self.table)
    }
}

/// Escapes every byte except letters, digits, `-` and `_`, in the form `=2F`; `None` if the result is too
/// long.
pub(crate) fn escaped(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            name.push(char::from(byte));
        } else {
            // Writing to memory does not fail.
            let _ = write!(name, "={byte:02X}");
        }
        if name.len() > MAX_NAME {
            return None;
        }
    }
    Some(name)
}

/// Formats bytes in lower-case hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhexed(text: &str) -> Option<String> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(pairs.map(byte).collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rowkey_client::StorageAccount;

    use super::*;

    #[test]
    fn different_values_have_different_valid_names() {
        let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
        let blobs = Blobs::new(account.container("blobs"), "Orders");
        let long = "x".repeat(900);
        let values = [
            "",
            "=",
            "..",
            "a=2Eb",
            "a b",
            "a_b",
            "é",
            "E",
            "e",
            "=sha256=",
            "日本",
            &long,
            &format!("{long}y"),
            &"é".repeat(500),
        ];
        let head = "list_order_by_name_";
        let prefix = blobs.prefix(head);
        let names: BTreeSet<_> =
            values.iter().map(|value| blobs.list_name(&format!("{head}{value}"))).collect();
        assert_eq!(names.len(), values.len());
        for name in names {
            assert!(name.starts_with(&prefix) && name.len() < 1000, "{name}");
            assert!(name.matches('/').count() == 1 && !name.ends_with('.'), "{name}");
        }
        assert_eq!(blobs.list_name("list_o_O'Neil"), "orders/list_o_O=27Neil");
    }

    #[test]
    fn the_blob_name_of_a_field_contains_entity_and_operation() {
        let metadata = Blobs::metadata("Größe", "order_7", "op_1").map(|(n, v)| (n.to_owned(), v));
        let owner = ("Größe".to_owned(), "order_7".to_owned());
        let op = ("Größe".to_owned(), "op_1".to_owned());
        assert_eq!(Blobs::origin(&metadata.into()), Some((owner, op)));
        assert_eq!(Blobs::origin(&BTreeMap::new()), None);
        let longest = "\u{ffee}".repeat(512);
        let metadata = Blobs::metadata(&longest, &longest, "op_1");
        let size: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(size < 8 * 1024, "{size}");
    }
}
