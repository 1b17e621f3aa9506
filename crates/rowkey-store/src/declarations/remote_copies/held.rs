//! The holders of copies: rows of a table, read by pages and written in transactions, or entities of a store,
//! each written through the plan of its type.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryStreamExt as _};
use rowkey_client::edm::Value;
use rowkey_client::{
    Continuation, DynamicEntity, ETag, Entity, Error, Outcome, Page, Receipt, Result, Stored,
    Transaction,
};
use rowkey_patterns::internals::try_all;

use super::walk::{Stretch, Walk};
use crate::declarations::copies::put_into;
use crate::declaring::StoredType;
use crate::declaring::settling::Settling;
use crate::layer::deciding::{Deciding, is_lost, is_undecodable};
use crate::row::{Head, Keys, text};

/// The most targets on a page: as many as the service returns at once.
const PAGE: u32 = 1000;

/// Where targets are stored.
pub(crate) enum Holder<T> {
    Table(Deciding),
    Store(Box<dyn Heads<T>>),
}

/// The entities of a store, each written through the plan of its type.
#[async_trait]
pub(crate) trait Heads<T>: Send + Sync {
    fn deciding(&self) -> &Deciding;

    /// Creates what the store needs.
    async fn create_missing(&self) -> Result<()>;

    /// The type of the store, and those that its declarations write through their stores.
    fn writes(&self) -> Result<Vec<StoredType>>;

    /// Whether a row is that of an entity, and not one of its other rows.
    fn is_head(&self, row: &DynamicEntity) -> bool;

    /// Opens an entity; `None` for other rows, and for entities that this program cannot read.
    async fn open(&self, stored: Stored<DynamicEntity>) -> Result<Option<Stored<Head<T>>>>;

    /// Writes an entity if it is unchanged since it was opened.
    async fn write(&self, keys: &Keys, head: Stored<Head<T>>, after: &T) -> Result<Copied>;
}

/// What became of a copy.
pub(crate) enum Copied {
    Done,
    /// Another writer changed the entity.
    Lost,
}

/// How many entities of a store are opened or written at once.
const AT_A_TIME: usize = 8;

/// A target that was read.
pub(super) struct Held<T> {
    pub(super) keys: Keys,
    pub(super) etag: ETag,
    pub(super) entity: T,
    /// The keys of the entity whose copy it holds.
    pub(super) source: Option<String>,
    form: Form<T>,
}

/// A target as it is stored.
enum Form<T> {
    Row(DynamicEntity),
    Head(Box<Stored<Head<T>>>),
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

    /// Returns one of its targets on the page. Once that one is written, the service refuses the unanswered write.
    pub(super) fn on<'h, T>(&self, page: &'h [Held<T>]) -> Option<&'h Keys> {
        let is_of = |held: &&Held<T>| self.rows.iter().any(|(keys, _)| *keys == held.keys);
        page.iter().find(is_of).map(|held| &held.keys)
    }
}

impl<T: Entity + Clone + Send + Sync + 'static> Holder<T> {
    /// The types whose stores are written.
    pub(super) fn writes(&self) -> Result<Vec<StoredType>> {
        match self {
            Self::Table(_) => Ok(Vec::new()),
            Self::Store(store) => store.writes(),
        }
    }

    /// Whether a row may be a target: the other rows of a stored entity are copies of it and no targets.
    pub(super) fn may_hold(&self, row: &DynamicEntity) -> bool {
        match self {
            Self::Table(_) => true,
            Self::Store(store) => store.is_head(row),
        }
    }

    /// Reads the targets of the next page, except rows that cannot be read as a `T`. `source` is the property
    /// that names the source.
    pub(super) async fn page(
        &self,
        walk: &Walk,
        source: &str,
    ) -> Result<(Vec<Held<T>>, Option<Continuation>)> {
        let table = match self {
            Self::Table(table) => table,
            Self::Store(store) => store.deciding(),
        };
        let Page { entities, continuation, .. } = read(table, &walk.rows, walk.from()).await?;
        let held = match self {
            Self::Table(_) => {
                let rows = entities.into_iter();
                rows.filter_map(|Stored { entity: row, etag, .. }| {
                    let entity = row.read_as().ok()?;
                    let keys = (row.partition_key.clone(), row.row_key.clone());
                    let source = text(&row, source).map(str::to_owned);
                    Some(Held { keys, etag, entity, source, form: Form::Row(row) })
                })
                .collect()
            }
            Self::Store(store) => {
                let open = entities.into_iter().map(|stored| async move {
                    let keys = (stored.entity.partition_key.clone(), stored.entity.row_key.clone());
                    let Some(head) = store.open(stored).await? else { return Ok(None) };
                    let source = match head.entity.unknown.get(source) {
                        Some(Value::String(source)) => Some(source.clone()),
                        _ => None,
                    };
                    let (entity, etag) = (head.entity.entity.clone(), head.etag.clone());
                    Ok(Some(Held { keys, etag, entity, source, form: Form::Head(Box::new(head)) }))
                });
                try_all(open, AT_A_TIME).await?.into_iter().flatten().collect()
            }
        };
        Ok((held, continuation))
    }

    /// Writes targets on condition that they are unchanged. Rows: 100 in a transaction, one transaction after the
    /// other. Entities of a store: 8 at a time. `None` writes a target without a change.
    pub(super) async fn write<S: Entity>(
        &self,
        names: (&str, &str),
        settling: &Settling<S>,
        edits: Vec<(Held<T>, Option<Edit<T>>)>,
    ) -> Result<Outcomes> {
        match self {
            Self::Table(table) => Self::write_rows(table, names, settling, edits).await,
            Self::Store(store) => Self::write_heads(&**store, names.1, settling, edits).await,
        }
    }

    async fn write_rows<S: Entity>(
        table: &Deciding,
        (declaration, source): (&str, &str),
        settling: &Settling<S>,
        edits: Vec<(Held<T>, Option<Edit<T>>)>,
    ) -> Result<Outcomes> {
        let mut writes = Vec::new();
        for (held, edit) in edits {
            let Form::Row(before) = held.form else { continue };
            let mut row = before.clone();
            if let Some(edit) = edit {
                put_into(declaration, &mut row, (&held.entity, &edit.after))?;
                match edit.source {
                    Some(keys) => drop(row.set(source, keys)),
                    None => drop(row.remove(source)),
                }
            }
            let one = replacing(table, &before, &row, &held.etag);
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

    /// An entity that its store refuses does not stop the others.
    async fn write_heads<S: Entity>(
        store: &dyn Heads<T>,
        source: &str,
        settling: &Settling<S>,
        edits: Vec<(Held<T>, Option<Edit<T>>)>,
    ) -> Result<Outcomes> {
        let writes = edits.into_iter().filter_map(|(held, edit)| {
            let Form::Head(mut head) = held.form else { return None };
            let after = match edit {
                None => held.entity,
                Some(Edit { after, source: keys }) => {
                    match keys {
                        Some(keys) => drop(head.entity.unknown.set(source, keys)),
                        None => drop(head.entity.unknown.remove(source)),
                    }
                    after
                }
            };
            Some(async move {
                let written = store.write(&held.keys, *head, &after).await;
                Ok((written, vec![(held.keys, held.etag)]))
            })
        });
        let mut outcomes = Outcomes::default();
        let mut failed = None;
        for (written, rows) in try_all(writes, AT_A_TIME).await? {
            match written {
                Ok(Copied::Done) => drop(settling.wrote(Ok(()))?),
                Ok(Copied::Lost) => outcomes.lost = true,
                Err(error) if error.outcome() == Outcome::Unknown && !is_undecodable(&error) => {
                    outcomes.doubts.push(Doubt { rows, error });
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(outcomes), Err)
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
            return Ok(Page { entities, continuation: None, receipt: Receipt::default() });
        }
        let query = table.query(rows.partition()).page_size(PAGE);
        let query = match from {
            Some(from) => query.resume(from),
            None => query,
        };
        // A page of the service, which is shorter if its rows are long.
        let page = query.pages().try_next().await;
        // An unanswered read changed nothing.
        let page = page.map_err(|error| error.with_outcome(Outcome::Rejected))?;
        let empty =
            || Page { entities: Vec::new(), continuation: None, receipt: Receipt::default() };
        Ok(page.unwrap_or_else(empty))
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
