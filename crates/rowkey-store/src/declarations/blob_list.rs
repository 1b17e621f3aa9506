//! Lists in blobs: one blob per value, with the keys of all entities of any partition that have it.
//!
//! They are updated after the commit, like an index in another partition: the list is read, then the
//! entity, and then the list is written on condition that it is unchanged.
//!
//! A blob is text: one line of JSON that describes the list, then one line per entity, in order, with a
//! tab between the two keys. Keys contain neither tabs nor line breaks.
//!
//! ```text
//! {"v":1,"list":"list_order_by_tag_urgent","count":2}
//! contoso<tab>order_0001
//! fabrikam<tab>order_0007
//! ```

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::blob::Conditions;
use rowkey_client::cost::{Class, Usage};
use rowkey_client::index::{List, ListPlace};
use rowkey_client::{Blob, ETag, Entity, Error, ErrorKind, Outcome, Result};
use serde::{Deserialize, Serialize};

use super::list::{edits, list_keys};
use crate::declaring::settling::{Settled, Settling};
use crate::declaring::{Change, Contribution, Declaration};
use crate::row::Keys;
use crate::row::blobs::Blobs;

/// The version of the format.
const VERSION: u32 = 1;

const CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// One declared list of `E` in blobs.
pub(crate) struct BlobList {
    position: usize,
    list: &'static List,
    blobs: Blobs,
}

/// The keys of the entities in a list.
pub(crate) type Listed = BTreeSet<Keys>;

impl BlobList {
    /// Returns all lists in blobs among those of a type.
    pub(crate) fn all(lists: &'static [List], blobs: &Blobs) -> Vec<Self> {
        let lists = lists.iter().enumerate();
        let in_blobs = lists.filter(|(_, list)| list.place == ListPlace::Blob);
        in_blobs.map(|(position, list)| Self { position, list, blobs: blobs.clone() }).collect()
    }

    async fn settle_at<E: Entity + Send + Sync + 'static>(
        &self,
        settling: &Settling<E>,
        row_key: &str,
    ) -> Result<Settled> {
        let blob = self.blobs.list(row_key);
        let stored = stored(&blob, row_key, self.list).await?;
        let head = settling.head().await?;
        let at = (String::new(), row_key.to_owned());
        let belongs = head.is_some_and(|head| list_keys(&head.entity, self.position).contains(&at));
        let (mut listed, etag) = match stored {
            Some((listed, etag)) => (listed, Some(etag)),
            None => (Listed::new(), None),
        };
        let own = settling.keys();
        let changes = if belongs { listed.insert(own.clone()) } else { listed.remove(own) };
        if !changes {
            return Ok(Settled::Done);
        }
        settling.wrote(write(&blob, row_key, &listed, etag.as_ref()).await)
    }
}

#[async_trait]
impl<E: Entity + Send + Sync + 'static> Declaration<E> for BlobList {
    fn name(&self) -> &str {
        self.list.name
    }

    fn operations(&self) -> usize {
        0
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        // Joined lists come first: a lookup finds the entity in both or in one list, never in none.
        for ((_, row_key), _) in edits(change, self.position)? {
            plan.target(row_key);
        }
        Ok(())
    }

    fn settling_usage(&self, _: &str) -> Usage {
        let reads = Usage::of(Class::BlobRead, 1) + Usage::of(Class::TableRead, 1);
        reads + Usage::of(Class::BlobWrite, 1)
    }

    async fn settle(&self, settling: &Settling<E>, address: &str) -> Result<Settled> {
        self.settle_at(settling, address).await
    }
}

/// The first line of a blob.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    v: u32,
    /// The full RowKey that a row of the list would have, because the name of the blob may be a
    /// hash.
    #[serde(borrow)]
    list: Cow<'a, str>,
    count: usize,
}

/// Reads a list and its ETag; `None` if it does not exist. Costs one request.
pub(crate) fn stored<'a>(
    blob: &'a Blob,
    row_key: &'a str,
    list: &'static List,
) -> BoxFuture<'a, Result<Option<(Listed, ETag)>>> {
    async move {
        // An unanswered read changed nothing.
        let Some(content) =
            blob.get().await.map_err(|error| error.with_outcome(Outcome::Rejected))?
        else {
            return Ok(None);
        };
        let found = parse(&content.bytes, list)?;
        if found.0 != row_key {
            return Err(damaged(list, "holds the list of another value"));
        }
        Ok(Some((found.1, content.properties.etag)))
    }
    .boxed()
}

/// Writes a list if it is unchanged since it was read: `etag` is `None` if it did not exist. An empty
/// list is deleted.
pub(crate) async fn write(
    blob: &Blob,
    row_key: &str,
    listed: &Listed,
    etag: Option<&ETag>,
) -> Result<()> {
    let condition = etag.map_or_else(Conditions::missing, Conditions::from);
    let blob = blob.with_conditions(condition);
    if listed.is_empty() {
        return blob.delete().await;
    }
    blob.put(print(row_key, listed)?).content_type(CONTENT_TYPE).send().await.map(drop)
}

fn print(row_key: &str, listed: &Listed) -> Result<String> {
    let head = Head { v: VERSION, list: row_key.into(), count: listed.len() };
    let mut text = serde_json::to_string(&head)
        .map_err(|_| Error::refused(ErrorKind::Invalid, "the list cannot be written as JSON"))?;
    text.push('\n');
    for (partition_key, row_key) in listed {
        // Writing to memory does not fail.
        let _ = writeln!(text, "{partition_key}\t{row_key}");
    }
    Ok(text)
}

/// Returns the RowKey of a stored list and its entities. Fails if the text is not a complete list.
pub(crate) fn parse(text: &[u8], list: &'static List) -> Result<(String, Listed)> {
    let read = || {
        let text = std::str::from_utf8(text).ok()?;
        let (head, lines) = text.split_once('\n')?;
        let head: Head<'_> = serde_json::from_str(head).ok()?;
        Some((head, lines))
    };
    let Some((head, lines)) = read() else {
        return Err(damaged(list, "cannot be read"));
    };
    if head.v != VERSION {
        let what = format!(
            "a blob of the list `{}` has format {}, and this program supports {VERSION}",
            list.name, head.v
        );
        let error = Error::refused(ErrorKind::Decode, what).advise("use a newer program");
        return Err(error.in_index(list.name));
    }
    // A line without its end was cut off.
    let is_whole = lines.is_empty() || lines.ends_with('\n');
    let entry = |line: &str| {
        let (partition_key, row_key) = line.split_once('\t')?;
        Some((partition_key.to_owned(), row_key.to_owned()))
    };
    let listed: Option<Listed> = lines.lines().map(entry).collect();
    match listed.filter(|listed| is_whole && listed.len() == head.count) {
        Some(listed) => Ok((head.list.into_owned(), listed)),
        None => Err(damaged(list, "does not contain the declared number of keys")),
    }
}

fn damaged(list: &'static List, what: &str) -> Error {
    let what = format!("a blob of the list `{}` {what}", list.name);
    Error::refused(ErrorKind::Decode, what)
        .advise("delete the blob and run `Store::repair`, which lists its entities again")
        .in_index(list.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: List = List { place: ListPlace::Blob, ..super::super::list::tests::LIST };

    fn listed() -> Listed {
        let keys = [("", "order_1"), ("a b", "order_2")];
        keys.map(|(partition, row)| (partition.to_owned(), row.to_owned())).into()
    }

    #[test]
    fn lists_stored_by_this_version_must_stay_readable() {
        let text = "{\"v\":1,\"list\":\"list_order_by_tag_O'Neil\",\"count\":2}\n\
                    \torder_1\na b\torder_2\n";
        assert_eq!(print("list_order_by_tag_O'Neil", &listed()).unwrap(), text);
        let (row_key, read) = parse(text.as_bytes(), &LIST).unwrap();
        assert_eq!((&*row_key, read), ("list_order_by_tag_O'Neil", listed()));
    }

    #[test]
    fn truncated_and_newer_lists_are_rejected_without_being_shown() {
        let text = print("list_order_by_tag_secret", &listed()).unwrap();
        for end in 0..text.len() {
            let error = parse(&text.as_bytes()[..end], &LIST).unwrap_err();
            assert_eq!((error.kind(), error.details().index), (ErrorKind::Decode, Some("by_tag")));
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let newer = text.replace("\"v\":1", "\"v\":2");
        let error = parse(newer.as_bytes(), &LIST).unwrap_err();
        assert!(error.to_string().contains("format 2"), "{error}");
        let twice = text.replace("a b\torder_2", "\torder_1");
        assert!(parse(twice.as_bytes(), &LIST).is_err(), "an entity is in a list once");
    }
}
