//! Materialised views: summaries of groups of entities, each read by one point query.
//!
//! How many employees a department has, what they earn together and when the latest was hired is a
//! scan of the department, or a row that somebody keeps. [`View`] keeps it: whatever happens to an
//! entity, [`settle`](View::settle) makes the summaries agree with what the entity is now. Beside each
//! summary lies a row for every entity in it, which says what the entity contributes, and one entity
//! group transaction changes both. So the same change may be settled twice, late or out of order, and
//! counts once.
//!
//! ```
//! use rowkey::{Entity, StorageAccount, edm::DateTime};
//! use rowkey_eventual::view::View;
//!
//! #[derive(Clone, Debug, Entity)]
//! #[entity(partition = "{department}", row = "id_{id:6}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     salary: u32,
//!     hired: DateTime,
//! }
//!
//! /// What the dashboard shows.
//! #[derive(Clone, Debug, PartialEq, Entity)]
//! #[entity(partition = "{department}", row = "summary", rename_all = "PascalCase")]
//! struct Department {
//!     department: String,
//!     headcount: i64,
//!     salary: i64,
//!     latest_hire: Option<DateTime>,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_server::Server::start().await?;
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! let (staff, summaries) = (account.table("staff"), account.table("departments"));
//! # staff.create().await?;
//! # summaries.create().await?;
//! let departments = View::new("departments", staff.clone(), summaries.clone(), |employee: &Employee| {
//!     Some(Department::key(&employee.department))
//! })
//! .count(Department::HEADCOUNT)
//! .sum(Department::SALARY, |employee| employee.salary)
//! .latest(Department::LATEST_HIRE, |employee| employee.hired);
//!
//! let hired = "2026-11-20T09:00:00Z".parse()?;
//! staff.insert(&Employee { department: "sales".into(), id: 7, salary: 4_200, hired }).await?;
//! // Once or twice: a worker may have been interrupted.
//! for _ in 0..2 {
//!     departments.settle(Employee::key("sales", 7), Department::key("sales")).await?;
//! }
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
use rowkey::{Column, Entity, Key, Property};

use columns::{Columns, Kind, Precedes};

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
