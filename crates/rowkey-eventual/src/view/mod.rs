//! Materialised views: summaries of groups of entities, each read by one point query.
//!
//! How many employees a department has, what they earn together and when the latest was hired is a
//! scan of the department, or a row that somebody keeps. [`View`] keeps it: whatever happens to an
//! entity, its summaries are settled, that is, made to agree with what the entity is now. Beside each
//! summary lies a row for every entity in it, which says what the entity contributes, and one entity
//! group transaction changes both. So the same change may be settled twice, late or out of order, and
//! counts once.
//!
//! ```
//! use rowkey::{Entity, StorageAccount, edm::DateTime};
//! use rowkey_eventual::source::Source;
//! use rowkey_eventual::view::View;
//!
//! #[derive(Clone, Debug, Entity)]
//! #[entity(partition = "{region}", row = "id_{id:6}")]
//! struct Employee {
//!     region: String,
//!     id: u32,
//!     department: String,
//!     salary: u32,
//!     hired: DateTime,
//! }
//!
//! /// What the dashboard shows.
//! #[derive(Clone, Debug, PartialEq, Entity)]
//! #[entity(partition = "{name}", row = "summary", rename_all = "PascalCase")]
//! struct Department {
//!     name: String,
//!     headcount: i64,
//!     salary: i64,
//!     latest_hire: Option<DateTime>,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_server::Server::start().await?;
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! let (table, summaries) = (account.table("staff"), account.table("departments"));
//! # summaries.create().await?;
//! let departments = View::new("departments", table.clone(), summaries.clone(), |e: &Employee| {
//!     Some(Department::key(&e.department))
//! })
//! .count(Department::HEADCOUNT)
//! .sum(Department::SALARY, |e| e.salary)
//! .latest(Department::LATEST_HIRE, |e| e.hired);
//!
//! // Whatever is written through the source, its workers carry on to the view.
//! let staff = Source::new(table, account.queue("staff-changes"), [departments.follower()])?;
//! staff.create_if_missing().await?;
//! let hired = "2026-11-20T09:00:00Z".parse()?;
//! let department = "sales".to_owned();
//! staff.insert(&Employee { region: "west".into(), id: 7, department, salary: 4_200, hired }).await?;
//! staff.worker().step().await?;
//!
//! // One point query.
//! let sales = summaries.get(Department::key("sales")).await?.ok_or("no summary")?;
//! assert_eq!((sales.entity.headcount, sales.entity.salary), (1, 4_200));
//! assert_eq!(sales.entity.latest_hire, Some(hired));
//! # Ok(())
//! # }
//! ```
//!
//! The rows are described in the book, under "Materialised views".

mod columns;
mod group;
mod repair;
mod settle;

use std::fmt;
use std::sync::Arc;

use rowkey::table::Table;
use rowkey::{Column, DynamicEntity, Entity, Error, ErrorKind, Key, Property, Result};

use crate::source::{Follower, Target};
use crate::worker::Done;
use columns::{Columns, Kind, Precedes};
use group::Group;

const OPERATION: &str = "View";

/// How many entities are settled into a summary at a time when a view is repaired: their rows and the
/// summary go into one transaction.
const BATCH: usize = 32;

/// Summaries, of type `S`, of the entities of type `E`: one for each group of them.
///
/// The summaries are ordinary entities, to be read with [`Table::get`] or a query. The view writes the
/// columns it was told of and keeps all others as they are; whatever else `S` has must be optional.
/// Clones are cheap.
pub struct View<E, S> {
    name: &'static str,
    entities: Table,
    table: Table,
    group: GroupOf<E, S>,
    columns: Columns<E>,
}

type GroupOf<E, S> = Arc<dyn Fn(&E) -> Option<Key<S>> + Send + Sync>;

/// Declaring one.
impl<E: Entity + Send + Sync + 'static, S: Entity + Send + Sync + 'static> View<E, S> {
    /// A view of the `entities` of a table whose summaries lie in `table`. Sends nothing.
    ///
    /// `group` says which summary an entity is part of, if any. A summary is of one view, whose `name`
    /// it carries: give each view another one, and keep it.
    ///
    /// The functions given to this and to the columns say what the entity alone tells, and the same
    /// each time.
    pub fn new(
        name: &'static str,
        entities: Table,
        table: Table,
        group: impl Fn(&E) -> Option<Key<S>> + Send + Sync + 'static,
    ) -> Self {
        Self { name, entities, table, group: Arc::new(group), columns: Columns::default() }
    }

    /// This column says how many entities there are in the group.
    #[must_use = "the view itself does not change"]
    pub fn count(self, column: Column<i64>) -> Self {
        self.column(column.name(), Kind::Count)
    }

    /// This column is the sum of a number of each entity: of money in cents, say.
    ///
    /// Sums of doubles depend on the order in which they are made, so there are none. A sum that does
    /// not fit is an error of [`settle`](Self::settle).
    #[must_use = "the view itself does not change"]
    pub fn sum<N: Into<i64>>(
        self,
        column: Column<i64>,
        of: impl Fn(&E) -> N + Send + Sync + 'static,
    ) -> Self {
        self.column(column.name(), Kind::Sum(Arc::new(move |entity| of(entity).into())))
    }

    /// This column is the smallest value that any entity of the group has.
    #[must_use = "the view itself does not change"]
    pub fn min<P: Property + Ord, V: Into<Option<P>>>(
        self,
        column: Column<P>,
        of: impl Fn(&E) -> V + Send + Sync + 'static,
    ) -> Self {
        self.first(column, of, columns::less::<P>)
    }

    /// This column is the greatest value that any entity of the group has.
    #[must_use = "the view itself does not change"]
    pub fn max<P: Property + Ord, V: Into<Option<P>>>(
        self,
        column: Column<P>,
        of: impl Fn(&E) -> V + Send + Sync + 'static,
    ) -> Self {
        self.first(column, of, columns::greater::<P>)
    }

    /// This column is the latest time that any entity of the group has: [`max`](Self::max), of times.
    ///
    /// When the entity goes that has it, the rows of all others are read to find the next.
    #[must_use = "the view itself does not change"]
    pub fn latest<P: Property + Ord, V: Into<Option<P>>>(
        self,
        column: Column<P>,
        of: impl Fn(&E) -> V + Send + Sync + 'static,
    ) -> Self {
        self.max(column, of)
    }

    /// What carries changes of the entities on to the view: for the [`Source`](crate::source::Source)
    /// through which they are written.
    pub fn follower(&self) -> Follower<E> {
        let (demands, settles) = (self.clone(), self.clone());
        let targets = move |entity: &E| Ok(demands.target(entity)?.into_iter().collect());
        Follower::new(self.name, targets, move |primary, address| {
            let view = settles.clone();
            async move {
                // The condition on the summary tells what is late, so that the source need not look at
                // the entity once more.
                view.settle_all(&view.group_at(&address)?, &[primary.key().clone()]).await?;
                Ok(Done::Applied)
            }
        })
    }

    fn target(&self, entity: &E) -> Result<Option<Target>> {
        let Some(summary) = (self.group)(entity) else { return Ok(None) };
        let group = Group::of(&summary).map_err(|error| self.named(error))?;
        let contribution = self.contribution(&group, &Key::of(entity), entity)?;
        let content = contribution.iter().flat_map(DynamicEntity::iter).map(|(_, value)| value);
        let content = format!("{:?}", content.collect::<Vec<_>>());
        Ok(Some(Target::new(group.address()).content(content)))
    }

    fn group_at(&self, address: &str) -> Result<Group> {
        Group::at(address).ok_or_else(|| {
            let what = "the text is not the address of a summary";
            self.named(Error::refused(ErrorKind::Invalid, what))
        })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The table of the summaries.
    pub fn table(&self) -> &Table {
        &self.table
    }

    fn first<P: Property, V: Into<Option<P>>>(
        self,
        column: Column<P>,
        of: impl Fn(&E) -> V + Send + Sync + 'static,
        precedes: Precedes,
    ) -> Self {
        let name = column.name();
        let of = move |entity: &E| columns::stored(name, of(entity).into().as_ref());
        self.column(name, Kind::First { of: Arc::new(of), precedes })
    }

    fn column(mut self, name: &'static str, kind: Kind<E>) -> Self {
        self.columns.push(name, kind);
        self
    }
}

impl<E, S> Clone for View<E, S> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            entities: self.entities.clone(),
            table: self.table.clone(),
            group: Arc::clone(&self.group),
            columns: self.columns.clone(),
        }
    }
}

impl<E, S> fmt::Debug for View<E, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("name", &self.name)
            .field("table", &self.table.name())
            .finish_non_exhaustive()
    }
}
