//! The holders of copies: rows of a table, read by pages and written in transactions.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::{
    Continuation, DynamicEntity, ETag, Entity, Error, Outcome, Page, Result, Stored, Transaction,
};

use super::walk::{Stretch, Walk};
use crate::deciding::Deciding;
use crate::execute::commit::is_undecodable;
use crate::execute::settle::{Settling, is_lost};
use crate::plan::contributor::StoredType;
use crate::plan::copies::put_into;
use crate::row::{Keys, text};

/// The targets that a page has: as many as the service returns at once.
const PAGE: u32 = 1000;

/// Where targets are stored.
pub(super) enum Holder<T> {
    Table(Deciding),
    #[expect(dead_code, reason = "stores follow")]
    Store(std::marker::PhantomData<fn() -> T>),
}

/// A target that was read.
pub(super) struct Held<T> {
    pub(super) keys: Keys,
    pub(super) etag: ETag,
    pub(super) entity: T,
    /// The keys of the entity whose copy it holds.
    pub(super) source: Option<String>,
    row: DynamicEntity,
}

/// The new state of a target.
pub(super) struct Edit<T> {
    pub(super) after: T,
    /// The property that names the source, and its content.
    pub(super) source: Option<String>,
}

/// The result of writing several targets.
#[derive(Default)]
pub(super) struct Outcomes {
    /// Whether another writer changed a target.
    pub(super) lost: bool,
    /// Writes that were not answered.
    pub(super) doubts: Vec<Doubt>,
}

/// A write that was not answered: the targets and the `ETag`s that it requires.
pub(super) struct Doubt {
    pub(super) rows: Vec<(Keys, ETag)>,
    pub(super) error: Error,
}

impl Doubt {
    /// Whether the write may still take effect. It cannot once one of its targets has changed.
    pub(super) fn is_open<T>(&self, page: &[Held<T>]) -> bool {
        let has_changed = |(keys, etag): &(Keys, ETag)| {
            page.iter().any(|held| held.keys == *keys && held.etag != *etag)
        };
        !self.rows.iter().any(has_changed)
    }

    /// Returns a target of it on the page. Writing that one refuses the unanswered write.
    pub(super) fn on<'h, T>(&self, page: &'h [Held<T>]) -> Option<&'h Keys> {
        let is_of = |held: &&Held<T>| self.rows.iter().any(|(keys, _)| *keys == held.keys);
        page.iter().find(is_of).map(|held| &held.keys)
    }
}

impl<T: Entity> Holder<T> {
    /// The types whose stores are written.
    pub(super) fn writes(&self) -> Result<Vec<StoredType>> {
        Ok(Vec::new())
    }

    fn deciding(&self) -> &Deciding {
        match self {
            Self::Table(table) => table,
            Self::Store(_) => unreachable!("stores follow"),
        }
    }

    /// Reads the targets of the next page, except rows that cannot be read as a `T`. `source` is the property
    /// that names the source.
    pub(super) async fn page(
        &self,
        walk: &Walk,
        source: &str,
    ) -> Result<(Vec<Held<T>>, Option<Continuation>)> {
        let page = read(self.deciding(), &walk.rows, walk.from()).await?;
        let held = page.entities.into_iter().filter_map(|Stored { entity: row, etag, .. }| {
            let entity = row.read_as().ok()?;
            let keys = (row.partition_key.clone(), row.row_key.clone());
            Some(Held { keys, etag, entity, source: text(&row, source).map(str::to_owned), row })
        });
        Ok((held.collect(), page.continuation))
    }

    /// Writes targets on condition that they are unchanged: 100 in a transaction, one transaction after the
    /// other. `None` writes a target without a change.
    pub(super) async fn write<S: Entity>(
        &self,
        (declaration, source): (&str, &str),
        settling: &Settling<S>,
        edits: Vec<(Held<T>, Option<Edit<T>>)>,
    ) -> Result<Outcomes> {
        let mut writes = Vec::new();
        for (held, edit) in edits {
            let mut row = held.row.clone();
            if let Some(edit) = edit {
                put_into(declaration, &mut row, (&held.entity, &edit.after))?;
                match edit.source {
                    Some(keys) => drop(row.set(source, keys)),
                    None => drop(row.remove(source)),
                }
            }
            let one = replacing(self.deciding(), &held.row, &row, &held.etag);
            writes.push(((held.keys, held.etag), one));
        }
        let mut outcomes = Outcomes::default();
        for (rows, transaction) in packed(writes) {
            match submit(transaction).await {
                Ok(()) => drop(settling.wrote(Ok(()))?),
                Err(error) if is_undecodable(&error) => return Err(error),
                Err(error) if error.outcome() == Outcome::Unknown => {
                    outcomes.doubts.push(Doubt { rows, error });
                }
                Err(error) if is_lost(&error) => outcomes.lost = true,
                Err(error) => return Err(error),
            }
        }
        Ok(outcomes)
    }
}

/// Reads a page of rows. One request.
fn read<'a>(
    table: &'a Deciding,
    rows: &'a Stretch,
    from: Option<Continuation>,
) -> BoxFuture<'a, Result<Page<DynamicEntity>>> {
    async move {
        if let Some(keys) = rows.keys() {
            let entities = table.row(&keys).await?.into_iter().collect();
            return Ok(Page { entities, continuation: None });
        }
        let page = table.query(rows.partition()).page(PAGE, from).await;
        // An unanswered read changed nothing.
        page.map_err(|error| error.with_outcome(Outcome::Rejected))
    }
    .boxed()
}

/// Replaces a row on condition that it is unchanged: by a merge of the properties that change, unless one is
/// removed, which a merge cannot do.
fn replacing(
    table: &Deciding,
    before: &DynamicEntity,
    after: &DynamicEntity,
    etag: &ETag,
) -> Transaction {
    if before.iter().any(|(name, _)| after.get(name).is_none()) {
        return table.transaction().replace((after, etag.clone()));
    }
    let mut changed = DynamicEntity::new(&*before.partition_key, &*before.row_key);
    for (name, value) in after.iter().filter(|(name, value)| before.get(name) != Some(value)) {
        changed.set(name, value.clone());
    }
    table.transaction().merge((&changed, etag.clone()))
}

/// A transaction, and the rows and `ETag`s that it requires.
type Packed = (Vec<(Keys, ETag)>, Transaction);

/// Joins writes of one row each into transactions.
fn packed(writes: Vec<((Keys, ETag), Transaction)>) -> Vec<Packed> {
    let mut all: Vec<Packed> = Vec::new();
    for (row, one) in writes {
        match all.pop() {
            Some((mut rows, open)) if open.fits(&one) => {
                rows.push(row);
                all.push((rows, open.append(one)));
            }
            full => {
                all.extend(full);
                all.push((vec![row], one));
            }
        }
    }
    all
}

/// Sends a transaction.
fn submit(transaction: Transaction) -> BoxFuture<'static, Result<()>> {
    async move { transaction.submit().await.map(drop) }.boxed()
}
