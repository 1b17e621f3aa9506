//! Denormalization across partitions: copies of an entity's properties in other entities, in any partition or
//! table, which are updated after the commit.
//!
//! A target is a range of rows. Settling reads a page of them, then the entity, and writes those that differ on
//! condition that they are unchanged. Each target names the entity whose copy it holds, so that an entity removes
//! only its own copy.
//!
//! | row | property | content |
//! |---|---|---|
//! | target | `CopiedFrom_{name}` | PartitionKey, line feed, RowKey of the entity |

mod held;
mod turns;
mod walk;

use async_trait::async_trait;
use rowkey_client::cost::{Class, Usage};
use rowkey_client::index::COPIED_FROM;
use rowkey_client::internals::shown;
use rowkey_client::{DynamicEntity, Entity, Error, ErrorKind, Key, Partition, Result, Table};
use rowkey_patterns::job::Verdict;

use crate::declaring::settling::{Settled, Settling};
use crate::declaring::{Change, Contribution, Declaration, StoredType};
use crate::layer::deciding::Deciding;
use crate::row::op::{keys_at, row_address};
use crate::row::text;
pub(crate) use held::{Copied, Heads, Holder};
use walk::{Stretch, Walk};

/// The most keys and ranges that an entity names.
const MAX_TARGETS: usize = 100;

/// Copies of properties of an `S` in entities of type `T`, in any partition or table.
///
/// For example, each employee shows the name of its department, which is in another partition. The store of
/// the departments keeps the names in step: see [`StoreBuilder::with`](crate::StoreBuilder::with).
/// The department says which employees have its name: by keys, or by a part of a partition. [`Copies`] does
/// the same in the partition of the entity, in one transaction.
///
/// Targets are updated after the commit of a write. This usually happens in the same call; if it has more than
/// 1,000 targets, the program stopped, or another writer changed a target at the same time,
/// [`Store::run`](crate::Store::run) continues, 1,000 targets at a time. A target is never inserted. A target
/// that is stored after its source gets its copy when the source is written again:
/// [`Store::rewrite`](crate::Store::rewrite) and [`Store::repair`](crate::Store::repair). Programs that insert
/// targets can read the source, and store the copy themselves.
///
/// Costs three requests for the op row and its message, one for each 1,000 targets and a read of the source,
/// one transaction for each 100 targets whose copy changes, and a read of the source at the end. A write that
/// changes neither the copied properties nor the targets costs nothing.
///
/// ```
/// use rowkey::store::{RemoteCopies, Store};
/// use rowkey::{Entity, StorageAccount};
///
/// #[derive(Clone, Debug, Entity)]
/// #[entity(store, partition = "departments", row = "department_{id}")]
/// struct Department {
///     id: String,
///     name: String,
/// }
///
/// #[derive(Clone, Debug, PartialEq, Entity)]
/// #[entity(partition = "{department}", row = "employee_{id:6}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     department_name: Option<String>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let employees = account.table("employees");
/// # employees.create().await?;
/// let names = RemoteCopies::new(
///     "department_name",
///     &employees,
///     // Where copies belong: all employees of the department.
///     |department: &Department| [Employee::partition(&department.id)],
///     // The copied value.
///     |department| department.name.clone(),
///     // How it is put there, and taken away.
///     |employee: &mut Employee, name| employee.department_name = name.cloned(),
/// );
/// let departments = Store::<Department>::builder(account.table("departments"))
///     .queue(account.queue("departments"))
///     .with(names)
///     .build()?;
/// departments.create_if_missing().await?;
///
/// departments.insert(&Department { id: "7".into(), name: "Sales".into() }).await?;
/// for id in 0..3 {
///     let department_name = Some("Sales".into());
///     employees.insert(&Employee { department: "7".into(), id, department_name }).await?;
/// }
/// departments.update(Department::key("7"), |sales| sales.name = "Retail".into()).await?;
/// for employee in employees.query(Employee::partition("7")).all().await? {
///     assert_eq!(employee.entity.department_name.as_deref(), Some("Retail"));
/// }
/// # Ok(()) }
/// ```
///
/// [`Copies`]: crate::Copies
pub struct RemoteCopies<S, T, V> {
    name: &'static str,
    /// The property of a target that names the entity whose copy it holds.
    source: String,
    holder: Holder<T>,
    targets: Targets<S, T>,
    what: Box<dyn Fn(&S) -> V + Send + Sync>,
    set: Set<T, V>,
}

type Targets<S, T> = Box<dyn Fn(&S) -> Vec<Partition<T>> + Send + Sync>;
type Set<T, V> = Box<dyn Fn(&mut T, Option<&V>) + Send + Sync>;

/// What the entity says of its targets now.
struct Wanted<V> {
    /// None if the entity does not exist.
    targets: Vec<Stretch>,
    value: Option<V>,
}

impl<S, T: Entity, V> RemoteCopies<S, T, V> {
    /// Copies `what` of an entity into the entities of `table` at `targets`: up to 100 keys, or parts of
    /// partitions, such as `Employee::partition("7")`. `set` stores the copy in a target, or removes it when
    /// the entity no longer names the target. Sends nothing.
    ///
    /// The functions must depend on their arguments alone. A target has the copy of one entity: if two name
    /// it, it has the copy of the one that was settled last. `name` is a part of a property of the targets,
    /// `CopiedFrom_{name}`, so do not change it; other properties of a target that `T` does not have are kept.
    /// Rows of a range that cannot be read as a `T` are left unchanged.
    ///
    /// A write is refused with [`ErrorKind::Invalid`] if its targets are not one range of RowKeys, such as those
    /// of an index, and with [`ErrorKind::TooLarge`] if there are more than 100.
    pub fn new<I>(
        name: &'static str,
        table: &Table,
        targets: impl Fn(&S) -> I + Send + Sync + 'static,
        what: impl Fn(&S) -> V + Send + Sync + 'static,
        set: impl Fn(&mut T, Option<&V>) + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator,
        I::Item: Into<Partition<T>>,
    {
        const {
            assert!(
                !T::STORE,
                "the type of the targets has #[entity(store)]: give its store to `RemoteCopies::through`, which keeps \
                 its other rows in step"
            );
        }
        let targets = move |source: &S| targets(source).into_iter().map(Into::into).collect();
        Self::into(name, Holder::Table(Deciding::new(table)), Box::new(targets), what, set)
    }

    pub(crate) fn into(
        name: &'static str,
        holder: Holder<T>,
        targets: Targets<S, T>,
        what: impl Fn(&S) -> V + Send + Sync + 'static,
        set: impl Fn(&mut T, Option<&V>) + Send + Sync + 'static,
    ) -> Self {
        let source = format!("{COPIED_FROM}{name}");
        Self { name, source, holder, targets, what: Box::new(what), set: Box::new(set) }
    }

    /// Returns the ranges of the targets.
    fn targets(&self, source: Option<&S>) -> Result<Vec<Stretch>> {
        let mut all = Vec::new();
        for partition in source.map(&self.targets).unwrap_or_default() {
            if let Some(rows) = Stretch::of(partition, self.name)?
                && !all.contains(&rows)
            {
                all.push(rows);
            }
        }
        if all.len() > MAX_TARGETS {
            let what = format!(
                "`{}` names {} keys and ranges; the maximum is {MAX_TARGETS}",
                self.name,
                all.len()
            );
            return Err(Error::refused(ErrorKind::TooLarge, what));
        }
        Ok(all)
    }

    /// What the entity says now. An entity with invalid targets has none: a write of it is refused.
    fn wanted(&self, source: Option<&S>) -> Wanted<V> {
        let targets = self.targets(source).unwrap_or_default();
        Wanted { targets, value: source.map(&self.what) }
    }
}

#[async_trait]
impl<S, T, V> Declaration<S> for RemoteCopies<S, T, V>
where
    S: Entity + Send + Sync + 'static,
    T: Entity + Clone + PartialEq + Send + Sync + 'static,
    V: PartialEq + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        self.name
    }

    fn operations(&self) -> usize {
        0
    }

    fn needs_queue(&self) -> bool {
        true
    }

    async fn create_if_missing(&self) -> Result<()> {
        match &self.holder {
            Holder::Table(table) => table.table().create_if_missing().await.map(drop),
            Holder::Store(store) => store.create_missing().await,
        }
    }

    fn contribute(&self, change: Change<'_, S>, plan: &mut Contribution<'_>) -> Result<()> {
        let new = self.targets(change.after)?;
        let old = self.wanted(change.before);
        let stays = old.value == change.after.map(&self.what) && !change.is_rewrite();
        for rows in new.iter().filter(|rows| !(stays && old.targets.contains(rows))) {
            plan.target(rows.address());
        }
        for rows in old.targets.iter().filter(|rows| !new.contains(rows)) {
            plan.target(rows.address());
        }
        Ok(())
    }

    /// A range has one page and one transaction, as long as how many rows it has is not known. Targets that are entities
    /// of a store use what their writes use.
    fn settling_usage(&self, address: &str) -> Usage {
        let keys = Walk::read(address, self.name).ok().and_then(|walk| walk.rows.keys());
        let class = if keys.is_some() { Class::TableRead } else { Class::TableScan };
        let reads = Usage::of(class, 1) + Usage::of(Class::TableRead, 1);
        reads + Usage::of(Class::TableBatchWrite, 1)
    }

    async fn settle(&self, settling: &Settling<S>, address: &str) -> Result<Settled> {
        self.settle_at(settling, Walk::read(address, self.name)?).await
    }

    async fn verify(&self, settling: &Settling<S>, address: &str) -> Result<Verdict> {
        self.verify_at(settling, Walk::read(address, self.name)?).await
    }

    fn includes(&self, named: &str, address: &str) -> bool {
        let rows = |address| Walk::read(address, self.name).ok().map(|walk| walk.rows);
        match (rows(named), rows(address).and_then(|rows| rows.keys())) {
            (Some(named), Some((partition_key, row_key))) => {
                named.contains(&partition_key, &row_key)
            }
            _ => named == address,
        }
    }

    fn writes(&self) -> Result<Vec<StoredType>> {
        let is_name =
            |name: &str| name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
        if !is_name(self.name) {
            let what = format!("`{}` is a part of a property's name", self.name);
            return Err(Error::refused(ErrorKind::Invalid, what)
                .advise("use letters, digits and `_` in the name of the copies"));
        }
        self.holder.writes()
    }

    fn target_of(&self, row: &DynamicEntity) -> Option<(Key<S>, String)> {
        let (partition_key, row_key) = keys_at(text(row, &self.source)?, self.name).ok()?;
        if !self.holder.may_hold(row) {
            return None;
        }
        let rows = Stretch::one((row.partition_key.clone(), row.row_key.clone()));
        Some((Key::new(partition_key, row_key), rows.address()))
    }
}

shown!([S, T, V] RemoteCopies<S, T, V>: name);

/// The content of the property that names the entity whose copy a target holds.
fn source_of<S>(settling: &Settling<S>) -> String
where
    S: Entity,
{
    row_address(settling.keys())
}
