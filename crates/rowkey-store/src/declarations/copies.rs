//! Denormalization: copies of an entity's properties in other entities of its partition.
//!
//! The entities that hold copies are edited in the transaction of the source entity, on condition
//! that they are unchanged since they were read.

use rowkey_client::internals::shown;
use rowkey_client::{DynamicEntity, Entity, Error, ErrorKind, Key, Result};

use crate::declaring::{Change, Contribution, Declaration};

/// Copies of properties of an `S` in entities of type `T` in the same partition. [`RemoteCopies`] are in any
/// partition or table.
///
/// For example, a department shows the name of its manager. With the name copied into the department's
/// entity, one request reads both. The store of the source keeps the copies in step with the source, in
/// one transaction: see [`StoreBuilder::with`](crate::StoreBuilder::with). The entities that hold copies
/// (targets) are written through a [`Table`](rowkey_client::Table) as usual. A change of a target and a change
/// of its copies do not overwrite each other if both give the ETag that was read.
///
/// Costs one read and one operation for each target whose copy changes. A write that changes neither the
/// copied properties nor the targets costs nothing. A target that is stored after its source gets its
/// copy when the source is written again: [`Store::rewrite`](crate::Store::rewrite).
///
/// ```
/// use rowkey::store::{Copies, Store};
/// use rowkey::{Entity, StorageAccount};
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(store, partition = "{company}", row = "id_{id:6}")]
/// struct Employee {
///     company: String,
///     id: u32,
///     name: String,
///     manages: Option<String>,
/// }
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(partition = "{company}", row = "department_{name}")]
/// struct Department {
///     company: String,
///     name: String,
///     manager: Option<String>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let table = account.table("staff");
/// let managers = Copies::new(
///     "managers",
///     1,
///     // Where copies belong: nowhere, unless the employee is a manager.
///     |e: &Employee| e.manages.as_ref().map(|name| Department::key(&e.company, name)),
///     // The copied values.
///     |employee| employee.name.clone(),
///     // How it is put there, and taken away.
///     |department: &mut Department, name| department.manager = name.cloned(),
/// );
/// let staff = Store::<Employee>::builder(table.clone()).with(managers).build()?;
/// staff.create_if_missing().await?;
///
/// let (company, manages) = ("contoso".to_owned(), Some("sales".to_owned()));
/// table.insert(&Department { company: company.clone(), name: "sales".into(), manager: None }).await?;
/// staff.insert(&Employee { company, id: 7, name: "Ada".into(), manages }).await?;
/// staff.update(Employee::key("contoso", 7), |ada| ada.name = "Ada King".into()).await?;
///
/// let sales = table.get(Department::key("contoso", "sales")).await?.ok_or("no department")?;
/// assert_eq!(sales.entity.manager.as_deref(), Some("Ada King"));
/// # Ok(()) }
/// ```
///
/// [`RemoteCopies`]: crate::RemoteCopies
pub struct Copies<S, T, V> {
    name: &'static str,
    max: usize,
    targets: Targets<S, T>,
    what: Box<dyn Fn(&S) -> V + Send + Sync>,
    set: Set<T, V>,
}

type Targets<S, T> = Box<dyn Fn(&S) -> Vec<Key<T>> + Send + Sync>;
type Set<T, V> = Box<dyn Fn(&mut T, Option<&V>) + Send + Sync>;

impl<S, T: Entity, V> Copies<S, T, V> {
    /// Copies `what` of an entity into the entities at `targets`: none, one (an `Option`) or several keys
    /// of its partition, at most `max`. `set` stores the copy in a target, or removes it when the entity
    /// no longer names the target.
    ///
    /// A write is refused if a target is in another partition ([`ErrorKind::Invalid`]), if there are more
    /// than `max` targets ([`ErrorKind::TooLarge`]), or if a target does not exist
    /// ([`ErrorKind::NotFound`]). If a copy is only removed, a missing target is no error, and a target
    /// that holds another copy by then is left unchanged. Properties of a target that `T` does not have
    /// are kept.
    ///
    /// The targets are of a plain type, without `#[entity(store)]`. The compiler enforces this in `cargo build`
    /// and `cargo test`, when it compiles the call for the types, and not yet in `cargo check`. If both types
    /// have stores, use [`RemoteCopies::through`](crate::RemoteCopies::through), or write both entities in one
    /// transaction:
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{company}", row = "id_{id:6}")]
    /// struct Employee { company: String, id: u32, name: String }
    ///
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{company}", row = "department_{name}")]
    /// #[entity(index(name = by_manager, row = "manager_{manager}", many))]
    /// struct Department { company: String, name: String, manager: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let staff = Store::<Employee>::builder(account.table("staff")).build()?;
    /// let departments = Store::<Department>::builder(account.table("staff")).build()?;
    /// # staff.create_if_missing().await?;
    /// let company = || "contoso".to_owned();
    /// let ada = Employee { company: company(), id: 7, name: "Ada".into() };
    /// let sales = Department { company: company(), name: "sales".into(), manager: "Ada".into() };
    /// staff.transaction().insert(&ada).with(&departments, &sales).submit().await?;
    /// # assert!(departments.exists(Department::key("contoso", "sales")).await?);
    /// # Ok(()) }
    /// ```
    pub fn new<I: IntoIterator<Item = Key<T>>>(
        name: &'static str,
        max: usize,
        targets: impl Fn(&S) -> I + Send + Sync + 'static,
        what: impl Fn(&S) -> V + Send + Sync + 'static,
        set: impl Fn(&mut T, Option<&V>) + Send + Sync + 'static,
    ) -> Self {
        const {
            assert!(
                !T::STORE,
                "the type of the targets has #[entity(store)], and `Copies` do not go through its store: use \
                 `RemoteCopies::through`, or write both entities in one transaction, `Store::transaction` with \
                 `Transaction::with`"
            );
        }
        let targets = Box::new(move |source: &S| targets(source).into_iter().collect());
        Self { name, max, targets, what: Box::new(what), set: Box::new(set) }
    }

    /// Returns the RowKeys of the targets.
    fn targets(&self, source: Option<&S>, partition_key: &str) -> Result<Vec<String>> {
        let mut row_keys = Vec::new();
        for key in source.map(&self.targets).unwrap_or_default() {
            let (partition, row_key) = key.parts().map_err(Error::no_such_key)?;
            if partition != partition_key {
                let what = format!("`{}` copies into another partition", self.name);
                return Err(Error::refused(ErrorKind::Invalid, what).advise(
                    "name only targets in the partition of the entity, or use `RemoteCopies`",
                ));
            }
            if !row_keys.iter().any(|known| known == row_key) {
                row_keys.push(row_key.to_owned());
            }
        }
        if row_keys.len() > self.max {
            let (what, max) = (row_keys.len(), self.max);
            let what = format!("`{}` copies into {what} entities; the maximum is {max}", self.name);
            return Err(Error::refused(ErrorKind::TooLarge, what));
        }
        Ok(row_keys)
    }
}

/// Writes the difference between two states of an entity into its row.
pub(super) fn put_into<T: Entity>(
    declaration: &str,
    row: &mut DynamicEntity,
    (before, after): (&T, &T),
) -> Result<()> {
    let (before, after) = (DynamicEntity::of(before)?, DynamicEntity::of(after)?);
    if (&after.partition_key, &after.row_key) != (&row.partition_key, &row.row_key) {
        let what = format!("`{declaration}` alters the key of a target, and keys cannot change");
        return Err(Error::refused(ErrorKind::Invalid, what));
    }
    for (name, _) in before.iter().filter(|(name, _)| after.get(name).is_none()) {
        row.remove(name);
    }
    for (name, value) in after.iter() {
        row.set(name, value.clone());
    }
    Ok(())
}

/// The edits of the targets that a change requires.
struct Edits<V> {
    /// Targets that get the new copy.
    put: Vec<String>,
    /// Targets that lose the old copy.
    take: Vec<String>,
    old: Option<V>,
    new: Option<V>,
}

impl<S, T: Entity + Clone + PartialEq, V: PartialEq> Copies<S, T, V> {
    fn edits(&self, change: Change<'_, S>) -> Result<Edits<V>> {
        let new_targets = self.targets(change.after, change.partition_key())?;
        // Invalid targets were never written.
        let old_targets = self.targets(change.before, change.partition_key()).unwrap_or_default();
        let (old, new) = (change.before.map(&self.what), change.after.map(&self.what));
        let stays = old == new && !change.is_rewrite();
        let take = old_targets.iter().filter(|key| !new_targets.contains(key)).cloned().collect();
        let put = new_targets.into_iter().filter(|key| !(stays && old_targets.contains(key)));
        Ok(Edits { put: put.collect(), take, old, new })
    }

    /// Stores a copy in a target row.
    fn put(&self, row: &mut DynamicEntity, copy: Option<&V>) -> Result<()> {
        let before: T = row.read_as()?;
        let mut after = before.clone();
        (self.set)(&mut after, copy);
        if after == before {
            return Ok(());
        }
        put_into(self.name, row, (&before, &after))
    }

    /// Whether a target already holds this copy, so that storing it changes nothing.
    fn holds(&self, row: &DynamicEntity, copy: Option<&V>) -> Result<bool> {
        let mut same = row.clone();
        self.put(&mut same, copy)?;
        Ok(same == *row)
    }
}

impl<S, T, V> Declaration<S> for Copies<S, T, V>
where
    T: Entity + Clone + PartialEq,
    V: PartialEq,
{
    fn name(&self) -> &str {
        self.name
    }

    fn operations(&self) -> usize {
        2 * self.max
    }

    fn reads(&self, change: Change<'_, S>) -> Result<Vec<String>> {
        let Edits { put, take, .. } = self.edits(change)?;
        Ok([put, take].concat())
    }

    fn contribute(&self, change: Change<'_, S>, plan: &mut Contribution<'_>) -> Result<()> {
        let Edits { put, take, old, new } = self.edits(change)?;
        for row_key in take {
            plan.edit(&row_key, |row| match row {
                Some(row) if self.holds(row, old.as_ref())? => self.put(row, None),
                _ => Ok(()),
            })?;
        }
        for row_key in put {
            plan.edit(&row_key, |row| {
                let Some(row) = row else {
                    let what = "the target entity of a copy does not exist";
                    return Err(Error::refused(ErrorKind::NotFound, what)
                        .advise("store it first, or name it as a target only when it exists"));
                };
                self.put(row, new.as_ref())
            })?;
        }
        Ok(())
    }
}

shown!([S, T, V] Copies<S, T, V>: name);
