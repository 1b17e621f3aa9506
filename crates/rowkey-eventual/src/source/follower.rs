//! Who follows: what an entity demands elsewhere, and how that is made so.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::entity::{DecodeError, RowReader};
use rowkey::{ETag, Entity, Key, Projection, Result, Table};

use crate::worker::Done;

type Targets<E> = dyn Fn(&E) -> Result<Vec<Target>> + Send + Sync;
type Settle<E> = dyn Fn(Primary<E>, String) -> BoxFuture<'static, Result<Done>> + Send + Sync;

/// Something that follows the entities of a [`Source`](super::Source): an index elsewhere, a view, or
/// any other system.
///
/// It says which *targets* an entity has there, and how one of them is *settled*: made to agree with
/// the entity as it is now. It is not told what the change was, and need not be: a target that is
/// settled twice, late, or while another worker settles it, too, ends as the entity demands.
///
/// For that, settling keeps an order:
///
/// 1. read the target, with its ETag,
/// 2. [read the entity](Primary::read),
/// 3. write, insert or delete the target under the condition that it is still as it was read, or find
///    that it is right and write nothing.
///
/// A condition that does not hold is an error like any other; the source settles the target again then.
/// It does so, too, if the entity has changed by the time the target is written.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
///
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_eventual::source::{Follower, Primary, Source, Target};
/// use rowkey_eventual::worker::{Done, Step};
///
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "id_{id:6}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     phone: String,
/// }
///
/// /// The numbers that a telephone exchange knows.
/// type Exchange = Arc<Mutex<BTreeMap<String, u32>>>;
///
/// fn follower(exchange: Exchange) -> Follower<Employee> {
///     Follower::new(
///         "telephones",
///         |employee: &Employee| Ok(vec![Target::new(&employee.phone)]),
///         move |primary: Primary<Employee>, phone| {
///             let exchange = exchange.clone();
///             async move {
///                 let now = primary.read().await?.filter(|now| now.phone == phone);
///                 let mut known = exchange.lock().expect("nobody panics");
///                 match now {
///                     Some(employee) => drop(known.insert(phone, employee.id)),
///                     None => drop(known.remove(&phone)),
///                 }
///                 Ok(Done::Applied)
///             }
///         },
///     )
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_server::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let exchange = Exchange::default();
/// let (table, queue) = (account.table("staff"), account.queue("staff-changes"));
/// let staff = Source::new(table, queue, [follower(exchange.clone())])?;
/// staff.create_if_missing().await?;
/// let ada = Employee { department: "sales".into(), id: 7, phone: "555-0199".into() };
/// staff.insert(&ada).await?;
/// assert_eq!(staff.worker().step().await?, Step::Handled);
/// assert_eq!(exchange.lock().expect("nobody panics").get("555-0199"), Some(&7));
/// # Ok(())
/// # }
/// ```
pub struct Follower<E> {
    pub(super) name: Arc<str>,
    pub(super) targets: Arc<Targets<E>>,
    pub(super) settle: Arc<Settle<E>>,
}

/// What an entity demands of a [`Follower`]: something there that has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(super) address: String,
    pub(super) content: Option<String>,
}

/// The entity that a target belongs to: read while the target is settled, as it is then.
pub struct Primary<E> {
    table: Table,
    key: Key<E>,
    seen: Arc<Mutex<Option<Version>>>,
}

/// The ETag of an entity, `None` if there is none.
pub(super) type Version = Option<ETag>;

impl<E> Follower<E> {
    /// A follower of this name, which stored intents refer to: it must not change while there are some.
    ///
    /// `targets` says which targets an entity has; there is nothing to settle in a change before and
    /// after which they are the same. `settle` is given the entity's place and the address of a target,
    /// and keeps the order above. It says [`Done::AlreadyApplied`] if it wrote nothing.
    pub fn new<F: Future<Output = Result<Done>> + Send + 'static>(
        name: impl Into<String>,
        targets: impl Fn(&E) -> Result<Vec<Target>> + Send + Sync + 'static,
        settle: impl Fn(Primary<E>, String) -> F + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into().into(),
            targets: Arc::new(targets),
            settle: Arc::new(move |primary, address| settle(primary, address).boxed()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Target {
    /// The target at this address, which is text of the follower's own. Every change of an entity may
    /// change what is there.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), content: None }
    }

    /// Says what the entity makes the target be, so that a change of an entity that leaves this as it
    /// was is known to leave the target as it is.
    #[must_use = "the target itself does not change"]
    pub fn content(mut self, content: impl Into<String>) -> Self {
        self.content = Some(content.into());
        self
    }
}

impl<E: Entity + Send + Sync + 'static> Primary<E> {
    pub(super) fn new(table: &Table, key: &Key<E>) -> Self {
        Self { table: table.clone(), key: key.clone(), seen: Arc::default() }
    }

    /// The address of the entity.
    pub fn key(&self) -> &Key<E> {
        &self.key
    }

    /// Reads the entity as it is now; `None` if there is none. Read the target before.
    pub async fn read(&self) -> Result<Option<E>> {
        let read = self.table.get(self.key.clone()).await?;
        let version = read.as_ref().map(|read| read.etag.clone());
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
        Ok(read.map(|read| read.entity))
    }

    /// What was last read, if something was.
    pub(super) fn seen(&self) -> Option<Version> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Which version there is now.
    pub(super) async fn version(table: &Table, key: &Key<E>) -> Result<Version> {
        Ok(table.get_as::<Nothing>(key.clone()).await?.map(|read| read.etag))
    }
}

/// No property of an entity.
struct Nothing;

impl Projection for Nothing {
    const COLUMNS: Option<&'static [&'static str]> = Some(&["Timestamp"]);

    fn decode(_: &RowReader<'_>) -> std::result::Result<Self, DecodeError> {
        Ok(Self)
    }
}

impl<E> Clone for Follower<E> {
    fn clone(&self) -> Self {
        let (targets, settle) = (Arc::clone(&self.targets), Arc::clone(&self.settle));
        Self { name: Arc::clone(&self.name), targets, settle }
    }
}

impl<E> Clone for Primary<E> {
    fn clone(&self) -> Self {
        let (table, key) = (self.table.clone(), self.key.clone());
        Self { table, key, seen: Arc::clone(&self.seen) }
    }
}

impl<E> fmt::Debug for Follower<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<E> fmt::Debug for Primary<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Primary").field("table", &self.table.name()).finish_non_exhaustive()
    }
}
