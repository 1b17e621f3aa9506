//! Sources and what follows them: entities whose changes are carried on elsewhere.
//!
//! Indexes in other partitions, lists of keys and views have the same need: whatever changes an entity has
//! to be carried on to rows that no transaction reaches. A [`Source`] writes entities as
//! [`LocalIndex`] does, and an intent with every change; its worker then *settles* what the change may
//! have touched at each [`Follower`]. [`remote_index`](crate::remote_index) gives such a follower, and a
//! program makes one of its own for any other system.
//!
//! - [`Source`]: the entities
//! - [`follower`]: [`Follower`], what is settled and how
//! - `change`: the task that an intent holds

mod change;
pub mod follower;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use rowkey::{Entity, Error, ErrorKind, Queue, Result, Rows, Table};
use rowkey_patterns::local_index::LocalIndex;

use crate::outbox::intent::HEAD;
use crate::outbox::{Delivery, Drain, Notice, Outbox};
use crate::worker::Worker;
pub use change::Change;
pub use follower::{Follower, Primary, Target};

/// Entities of type `E` whose changes are carried on to [`Follower`]s.
///
/// It is read and written as the [`LocalIndex`] that it derefs to. Each change writes one row more in
/// its transaction, the intent, if it has to be carried on, and sends a message; the
/// [`worker`](Self::worker) does the rest. [`drain`](Self::drain) finds changes whose message was lost.
///
/// Followers lag behind: for a while they show what was before.
///
/// Whoever writes to the table by other means leaves followers out of step.
///
/// A source needs to know its own rows from intents, so `E`'s row template begins with text:
///
/// ```compile_fail,E0080
/// # use rowkey::{Entity, StorageAccount};
/// # use rowkey_eventual::source::Source;
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "{id:6}")] // `id_{id:6}` would do
/// struct Employee {
///     department: String,
///     id: u32,
/// }
///
/// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
/// let staff = Source::<Employee>::new(account.table("staff"), account.queue("changes"), []);
/// ```
pub struct Source<E> {
    index: LocalIndex<E>,
    outbox: Outbox<Change>,
    followers: Arc<[Follower<E>]>,
}

impl<E: Entity + Send + Sync + 'static> Source<E> {
    /// The entities in this table, and messages about changes in this queue, which has no other
    /// messages. Sends nothing.
    ///
    /// Fails with [`ErrorKind::Invalid`] if two followers have the same name.
    pub fn new(
        table: Table,
        queue: Queue,
        followers: impl IntoIterator<Item = Follower<E>>,
    ) -> Result<Self> {
        const {
            assert!(
                LocalIndex::<E>::OPERATIONS < 100,
                "changing an entity of so many indexes leaves no operation for the intent"
            );
        }
        let head = const { head::<E>() };
        let followers: Arc<[_]> = followers.into_iter().collect();
        for (at, follower) in followers.iter().enumerate() {
            if followers[..at].iter().any(|other| other.name == follower.name) {
                let what = format!("two followers have the name `{}`", follower.name);
                return Err(Error::refused(ErrorKind::Invalid, what).of("Source", table.name()));
            }
        }
        // Two types in one table have the same kind of task; the head tells whose it is.
        let outbox = Outbox::new(table.clone(), queue).of_kind(format!("changed:{head}"));
        let (noting, telling, noted) = (outbox.clone(), outbox.clone(), Arc::clone(&followers));
        let index = LocalIndex::new(table).alongside(
            move |before: Option<&E>, after| {
                let Some(change) = Change::of(&noted, before, after)? else { return Ok(None) };
                noting.intent(change.partition_key(), &change).map(Some)
            },
            move |intents| {
                let telling = telling.clone();
                async move { telling.tell(&intents).await }
            },
        );
        Ok(Self { index, outbox, followers })
    }

    /// The queue and its poison queue, to be [told](crate::task::Tasks::redrive) to try again.
    pub fn outbox(&self) -> &Outbox<Change> {
        &self.outbox
    }

    /// Creates the table, the queue and its poison queue, those that are missing.
    pub async fn create_if_missing(&self) -> Result<()> {
        self.index.table().create_if_missing().await?;
        self.outbox.tasks().create_if_missing().await
    }

    /// A worker that settles what changes have touched. There may be several, in several programs.
    pub fn worker(&self) -> Worker<Notice<Change>, Delivery<Change, Self>> {
        self.outbox.worker(self.clone())
    }

    /// Settles the changes that are older than this: those whose message was not sent, or was lost, or
    /// went to the poison queue. See [`Outbox::drain`].
    pub fn drain(&self, older_than: Duration) -> Drain<Change, Self> {
        self.outbox.drain(older_than, self.clone())
    }
}

/// The text that the RowKey of an entity begins with, if it tells it from an intent.
const fn head<E: Entity>() -> &'static str {
    let head = match E::ROWS {
        Rows::All => "",
        Rows::Head(head) => head,
        Rows::One(row_key) => row_key,
    };
    assert!(!head.is_empty(), "the row template of a source's entities begins with text");
    let (ours, theirs) = (HEAD.as_bytes(), head.as_bytes());
    let mut at = 0;
    while at < ours.len() && at < theirs.len() && ours[at] == theirs[at] {
        at += 1;
    }
    let is_apart = at < ours.len() && at < theirs.len();
    assert!(is_apart, "rows that begin with `outbox_` are the intents of a source");
    head
}

/// Reading and writing: each change is carried on.
impl<E> Deref for Source<E> {
    type Target = LocalIndex<E>;

    fn deref(&self) -> &LocalIndex<E> {
        &self.index
    }
}

impl<E> Clone for Source<E> {
    fn clone(&self) -> Self {
        let (index, outbox) = (self.index.clone(), self.outbox.clone());
        Self { index, outbox, followers: Arc::clone(&self.followers) }
    }
}

impl<E> fmt::Debug for Source<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("outbox", &self.outbox)
            .field("followers", &self.followers)
            .finish_non_exhaustive()
    }
}
