//! Patches: changes of single properties, without reading the entity if no declaration needs it.

use std::borrow::Cow;
use std::fmt;

use rowkey_client::edm::{Value, ValueRef};
use rowkey_client::index::{COPIED_FROM, PRIMARY_PARTITION_KEY, PRIMARY_ROW_KEY};
use rowkey_client::{
    Arg, Column, DynamicEntity, Entity, Error, ErrorCode, ErrorKind, Key, Match, Outcome,
    Properties, Property, Result,
};

use super::if_match::IfMatch;
use super::version::Version;
use super::writing::conflict;
use super::{Store, parts};
use crate::declarations;
use crate::declarations::Named;
use crate::execute::Ran;
use crate::layer::wide::Layout;
use crate::plan::Plan;
use crate::plan::explain::Explanation;
use crate::row::envelope::other_version;
use crate::row::op::Op;
use crate::row::{FORMAT, INDEX, Keys, MARK, Marked, beside};

/// A change of single properties, from [`Store::patch`]. Nothing is sent before [`send`](Self::send).
///
/// ```
/// # use rowkey::store::Store;
/// # use rowkey::{Entity, StorageAccount};
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
/// #[entity(index(name = by_courier, row = "courier_{courier}", many))]
/// struct Order { tenant: String, id: u32, courier: Option<String>, open: bool }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
/// # orders.create_if_missing().await?;
/// orders.insert(&Order { tenant: "contoso".into(), id: 1, courier: None, open: true }).await?;
/// let key = || Order::key("contoso", 1);
/// orders.patch(key()).set(Order::COURIER, "kim").set(Order::OPEN, false).send().await?;
/// let page = orders.query(Order::by_courier("contoso", "kim")).page(1, None).await?;
/// assert!(!page.entities[0].entity.open);
///
/// let clears = || orders.patch(key()).clear(Order::COURIER);
/// assert!(clears().reads(), "a merge cannot remove a property");
/// println!("{}", clears().explain().await?);
/// clears().send().await?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is changed before `send`"]
pub struct Patch<'s, E> {
    store: &'s Store<E>,
    key: Key<E>,
    changes: Changes,
    condition: Option<IfMatch>,
    error: Option<Error>,
}

/// Properties and their new values; `None` removes a property.
type Changes = Vec<(Cow<'static, str>, Option<Value>)>;

/// The properties that are not data of an entity. (A type may have a discriminator in addition.)
const NOT_DATA: [&str; 11] = [
    "PartitionKey",
    "RowKey",
    "Timestamp",
    "EntityVersion",
    MARK,
    beside::ROWS,
    beside::PARTS,
    INDEX,
    FORMAT,
    PRIMARY_ROW_KEY,
    PRIMARY_PARTITION_KEY,
];

/// Whether a property is data of an entity.
pub(super) fn is_data(name: &str) -> bool {
    !NOT_DATA.contains(&name) && !name.starts_with(COPIED_FROM)
}

/// The suffixes of the other properties of a reference to a blob; its first property, which has the address, has none.
const OF_REFERENCE: [&str; 4] = ["", "_Length", "_Sha256", "_ContentType"];

/// Whether a property names a blob: that of a field, or one that the entity refers to. A patch that set it could give
/// the entity the blob of another one, which would be deleted with it.
fn names_a_blob<E: Entity>(name: &str) -> bool {
    E::DECLARED.blobs.iter().any(|field| field.pointer == name)
        || E::DECLARED.references.iter().any(|property| {
            name.strip_prefix(property).is_some_and(|rest| OF_REFERENCE.contains(&rest))
        })
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Begins a change of single properties of the entity at a key.
    pub fn patch(&self, key: Key<E>) -> Patch<'_, E> {
        Patch { store: self, key, changes: Vec::new(), condition: None, error: None }
    }
}

/// The change of an entity that is read.
type Change<E> = Box<dyn FnMut(&mut E, &mut Properties, &[String]) -> Result<()> + Send>;

/// What a patch does, for a transaction: the condition, and the change of the entity.
type Parts<'s, E> = (&'s Store<E>, Key<E>, Option<IfMatch>, Change<E>);

impl<'s, E: Entity + Clone + Send + Sync + 'static> Patch<'s, E> {
    pub(super) fn store(&self) -> &'s Store<E> {
        self.store
    }

    /// The parts of the patch, to change an entity that is read.
    pub(super) fn into_parts(self) -> Result<Parts<'s, E>> {
        let Self { store, key, changes, condition, error } = self;
        let change = move |entity: &mut E, unknown: &mut Properties, sealed: &[String]| {
            patch(entity, unknown, sealed, &changes)
        };
        match error {
            Some(error) => Err(error),
            None => Ok((store, key, condition, Box::new(change))),
        }
    }

    /// Sets a property.
    pub fn set<P: Property>(mut self, column: Column<P>, value: impl Arg<P>) -> Self {
        match column.to_value(&value.into_arg()) {
            Ok(value) => self.changes.push((column.name().into(), value)),
            Err(error) => {
                let what = format!("property `{}`: {error}", column.name());
                self.error.get_or_insert_with(|| Error::refused(ErrorKind::Invalid, what));
            }
        }
        self
    }

    /// Removes a property, which makes an `Option` field `None`. A property that the type does not have,
    /// such as a column of another type for the same row, is removed as well.
    ///
    /// [`send`](Self::send) fails with [`ErrorKind::Invalid`] if the type would write the property again
    /// because its field has a default.
    pub fn clear<P>(mut self, column: Column<P>) -> Self {
        self.changes.push((column.name().into(), None));
        self
    }

    /// Sets a property whose name is data, such as an entry of a map with `#[entity(rest)]`.
    ///
    /// The value must have the type of the map's values. If the entity is not [read](Self::reads), this is not
    /// checked, and reading an entity with a property of another type fails with [`ErrorKind::Decode`].
    ///
    /// In a type with `#[entity(wide = .., parts)]`, the name determines the row of the property, so that no
    /// other row is read or written: one request for all properties of the patch.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # use std::collections::BTreeMap;
    /// #[derive(Clone, Debug, Entity)]
    /// #[entity(store, wide = 9, parts, partition = "{city}", row = "year_{year:4}")]
    /// struct Year { city: String, year: u16, #[entity(rest)] hours: BTreeMap<String, f64> }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let years = Store::<Year>::builder(account.table("years")).build()?;
    /// # years.create_if_missing().await?;
    /// let hours = (0..600).map(|hour| (format!("H{hour:04}"), 1.5)).collect();
    /// years.insert(&Year { city: "leeds".into(), year: 2026, hours }).await?;
    /// let key = || Year::key("leeds", 2026);
    /// let correction = years.patch(key()).set_named("H0012", 61.5);
    /// assert!(!correction.reads());
    /// correction.send().await?;
    /// let read = years.get_properties(key(), ["H0012"]).await?.ok_or("not found")?;
    /// assert_eq!(read.get_as::<f64>("H0012")?, 61.5);
    /// # Ok(()) }
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "values are given as to `set`")]
    pub fn set_named(mut self, name: impl Into<String>, value: impl Property) -> Self {
        let name = name.into();
        let value = match value.to_value() {
            _ if !is_data(&name) || name == E::DISCRIMINATOR => {
                Err(format!("property `{name}` is not data of the entity"))
            }
            _ if names_a_blob::<E>(&name) => {
                Err(format!("property `{name}` names a blob, which `Store::update` changes"))
            }
            Ok(value) => Ok(value.map(ValueRef::into_owned)),
            Err(error) => Err(format!("property `{name}`: {error}")),
        };
        match value {
            Ok(value) => self.changes.push((name.into(), value)),
            Err(what) => {
                self.error.get_or_insert_with(|| Error::refused(ErrorKind::Invalid, what));
            }
        }
        self
    }

    /// Removes a property whose name is data. Otherwise like [`clear`](Self::clear).
    pub fn clear_named(mut self, name: impl Into<String>) -> Self {
        self.changes.push((name.into().into(), None));
        self
    }

    /// Changes the entity only if it has this version, or meets this [condition](IfMatch), for example that of an
    /// `If-Match` header. A later call replaces the condition of an earlier one.
    ///
    /// [`send`](Self::send) then fails with [`ErrorKind::Conflict`] if the entity has another version or does not
    /// exist. Without declarations, a version that was read by key or written is compared by the service, in the
    /// same request. A list of versions, a version that was read through an index, and one that was returned by a
    /// write whose response was lost cost a read and a write.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # #[derive(Clone, Debug, PartialEq, Entity)]
    /// # #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// # struct Order { tenant: String, id: u32, open: bool }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let orders = Store::<Order>::builder(account.table("orders")).build()?;
    /// # orders.create_if_missing().await?;
    /// # let order = |id| Order { tenant: "contoso".into(), id, open: true };
    /// use rowkey::ErrorKind;
    /// use rowkey::store::IfMatch;
    ///
    /// let read = orders.insert(&order(1)).await?.version;
    /// let close = || orders.patch(Order::key("contoso", 1)).set(Order::OPEN, false);
    /// close().if_version(&read).send().await?;
    /// let stale = close().if_version(&read).send().await.unwrap_err();
    /// assert_eq!(stale.kind(), ErrorKind::Conflict);
    /// // Of a request: `if_version(IfMatch::of(headers.get_all(IF_MATCH))?)`.
    /// close().if_version(IfMatch::of(["*"])?).send().await?;
    /// # Ok(()) }
    /// ```
    pub fn if_version(mut self, version: impl Into<IfMatch>) -> Self {
        self.condition = Some(version.into());
        self
    }

    /// Whether the entity has to be read: because it has declarations or may have several rows that are not
    /// [parts](Self::set_named), because a property may be in a blob, because a type with parts refers to blobs, because the
    /// store has keys and only the stored entity tells which properties are encrypted, because a property is
    /// removed, which a merge cannot do, or because the service cannot compare the
    /// [condition](Self::if_version).
    pub fn reads(&self) -> bool {
        let is_wide = E::DECLARED.wide.rows > 1
            && (Self::layout().is_none() || !E::DECLARED.references.is_empty());
        // An entity of an older version is converted. Parts of another version have other RowKeys.
        let is_converted = E::VERSION > 1 && Self::layout().is_none();
        let declares = is_wide || is_converted || Named::all::<E>().next().is_some();
        // An expired entity is not changed, as if it did not exist.
        let declares = declares || self.store.inner.has_given() || E::DECLARED.expiry.is_some();
        declares
            || self.is_in_blob()
            || self.store.inner.sealer.is_some()
            || self.changes.iter().any(|(_, value)| value.is_none())
            || self.condition.as_ref().is_some_and(|condition| condition.by_service().is_none())
    }

    /// How the properties of the type are distributed to parts.
    fn layout() -> Option<Layout> {
        Layout::of::<E>()
    }

    /// Whether a property is, or may be, in a blob.
    fn is_in_blob(&self) -> bool {
        let mut of_fields =
            E::DECLARED.blobs.iter().flat_map(|field| [field.property, field.pointer]);
        of_fields.any(|one| self.changes.iter().any(|(name, _)| name == one))
    }

    /// The plan of a patch that reads nothing, of an entity in parts.
    fn plan(&self, layout: Layout) -> Result<Plan> {
        let keys = parts(&self.key)?;
        let op = Op::random(self.store.inner.deciding.clock().now())?;
        let mut plan = Plan::new(keys.0.clone(), op);
        let condition = self.condition.as_ref().and_then(IfMatch::by_service);
        let changes = self.changes.iter();
        let changes = changes.filter_map(|(name, value)| Some((&**name, value.clone()?)));
        declarations::wide::add_patch(
            &mut plan,
            &keys,
            condition.unwrap_or(Match::Any),
            layout,
            changes,
        )?;
        Ok(plan)
    }

    /// Patches an entity in parts. Returns `None` if it does not have the parts that the properties need:
    /// no write gave it one, or a program with another layout wrote it.
    async fn send_parts(&self, layout: Layout) -> Result<Option<Version>> {
        self.store.inner.check_writer().await?;
        let plan = self.plan(layout)?;
        let mark = plan.op.mark().to_owned();
        match self.store.executor().run(plan).await? {
            Ran::Done { etags, .. } => {
                let etag = etags.into_iter().next().flatten();
                // The response was lost; the mark identifies the version as well.
                Ok(Some(
                    etag.map_or_else(|| Version::of_mark(&mark), |etag| Version::of_head(&etag)),
                ))
            }
            Ran::Stale(_) => Ok(None),
        }
    }

    /// Explains the change, and whether it [reads](Self::reads) the entity first. Reads what the
    /// plan needs.
    pub async fn explain(self) -> Result<Explanation> {
        let store = self.store;
        if let Some(error) = self.error {
            return Err(store.named("Explain", error));
        }
        if !self.reads() {
            return match Self::layout() {
                Some(layout) => store.explained(async { self.plan(layout) }).await,
                None => Ok(Explanation::merge(self.changes.len())),
            };
        }
        let mut refused = None;
        let changes = &self.changes;
        let change = |entity: &mut E, unknown: &mut Properties, sealed: &[String]| {
            refused = patch(entity, unknown, sealed, changes).err();
        };
        let condition = self.condition.as_ref();
        let explained = store.explain().update_whole(self.key, condition, change).await;
        refused.map_or(explained, |error| Err(store.named("Explain", error)))
    }

    /// Changes the entity and returns its new version. One request, or those of [`Store::update`] if
    /// the entity [has to be read](Self::reads). In a type with [parts](Self::set_named), it is one request if
    /// the entity has the parts of the properties, and otherwise one more than an update.
    ///
    /// Fails with [`ErrorKind::NotFound`] if the entity does not exist, and with [`ErrorKind::Decode`]
    /// if the result does not decode as the type.
    pub async fn send(self) -> Result<Version> {
        let store = self.store;
        if let Some(error) = self.error {
            return Err(store.named("Patch", error));
        }
        let sent = async {
            let merged = match Self::layout() {
                _ if self.reads() => Ok(None),
                Some(layout) => self.send_parts(layout).await,
                None => {
                    let condition = self.condition.as_ref().and_then(IfMatch::by_service);
                    merge(store, &parts(&self.key)?, &self.changes, condition).await.map(Some)
                }
            };
            // A condition is not met if there is no entity.
            let is_missing = |error: &Error| error.code() == Some(&ErrorCode::RESOURCE_NOT_FOUND);
            match merged {
                Err(error) if self.condition.is_some() && is_missing(&error) => Err(conflict()),
                Err(error) => Err(error),
                Ok(Some(version)) => Ok(version),
                Ok(None) => {
                    let changes = self.changes;
                    let mut change =
                        |entity: &mut E, unknown: &mut Properties, sealed: &[String]| {
                            patch(entity, unknown, sealed, &changes)
                        };
                    store
                        .update_whole(self.key, self.condition.as_ref(), &mut change)
                        .await?
                        .map(|versioned| versioned.version)
                }
            }
        };
        sent.await.map_err(|error| store.named("Patch", error))
    }
}

/// Changes properties of an entity, including those that its type does not have.
fn patch<E: Entity>(
    entity: &mut E,
    unknown: &mut Properties,
    sealed: &[String],
    changes: &[(Cow<'static, str>, Option<Value>)],
) -> Result<()> {
    if let Some((name, _)) = changes.iter().find(|(name, _)| sealed.iter().any(|one| one == name)) {
        return Err(other_version(name, "encrypted it, and this type does not encrypt it"));
    }
    let mut row = DynamicEntity::of_any_size(entity)?;
    for (name, value) in changes {
        match value {
            Some(value) => drop(row.set(&**name, value.clone())),
            None => drop(row.remove(name)),
        }
    }
    *entity = row.read_as()?;
    let written = DynamicEntity::of_any_size(entity)?;
    // The last of several changes of one property counts.
    let last = changes.iter().map(|(name, _)| (&**name, row.get(name)));
    for (name, value) in last {
        match (value, written.get(name)) {
            (Some(_), Some(_)) => {}
            (Some(value), None) => drop(unknown.set(name, value.clone())),
            (None, None) => drop(unknown.remove(name)),
            (None, Some(_)) => {
                let what = format!("property `{name}` cannot be removed: its field has a default");
                return Err(Error::refused(ErrorKind::Invalid, what)
                    .advise("set it to that, or make the field an Option without a default"));
            }
        }
    }
    Ok(())
}

/// Merges properties into an entity that has no other rows.
async fn merge<E: Entity + Clone + Send + Sync + 'static>(
    store: &Store<E>,
    keys: &Keys,
    changes: &Changes,
    condition: Option<Match>,
) -> Result<Version> {
    let deciding = &store.inner.deciding;
    let op = Op::random(deciding.clock().now())?;
    let mut row = DynamicEntity::new(&*keys.0, &*keys.1);
    for (name, value) in changes {
        if let Some(value) = value {
            row.set(&**name, value.clone());
        }
    }
    row.set(MARK, op.mark());
    let error = match deciding.table().merge((&row, condition.unwrap_or(Match::Any))).await {
        Ok(etag) => return Ok(Version::of_head(&etag)),
        Err(error) => error,
    };
    if error.outcome() == Outcome::Unknown {
        // The mark shows whether the merge was applied.
        let now = deciding
            .row_as::<Marked>(keys)
            .await
            .map_err(|error| error.with_outcome(Outcome::Unknown))?;
        if let Some(now) = now.filter(|now| now.entity.0.as_deref() == Some(op.mark())) {
            return Ok(Version::of_head(&now.etag));
        }
    }
    Err(error)
}

impl<E> fmt::Debug for Patch<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.changes.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Patch").field("properties", &names).finish_non_exhaustive()
    }
}
