//! The change of one entity: the head that it replaces is read, all declarations plan, and the executor runs the
//! plan. All writes of a store, single ones and those of transactions and jobs, go through [`Store::add`].

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey_client::rounds::Rounds;
use rowkey_client::table::EncodedRow;
use rowkey_client::{
    Blob, DynamicEntity, ETag, Entity, Error, ErrorKind, Match, Outcome, Properties, Receipt,
    Result, Stored,
};
use rowkey_patterns::internals::try_all;

use super::if_match::IfMatch;
use super::version::Version;
use super::{Store, Written};
use crate::declarations;
use crate::declarations::blob_ref;
use crate::declarations::blob_ref::Referring;
use crate::declaring::settling::Settled;
use crate::declaring::{Change, Contribution, Declaration};
use crate::execute::settler::Settler;
use crate::execute::{Executor, Ran};
use crate::layer::blob_field::BlobFields;
use crate::layer::deciding::Deciding;
use crate::layer::{Closing, Layers};
use crate::plan::inline::Effect;
use crate::plan::{Edit, Plan, ReadRow, Source, Write};
use crate::row::declared::prefix;
use crate::row::envelope::other_version;
use crate::row::op::Op;
use crate::row::{Closed, Head, HeadRow, Keys, digest, keys_of};

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    pub(super) fn rounds(&self, keys: &Keys) -> Rounds<'_> {
        Rounds::new(&self.inner.table, keys)
    }

    /// Plans and runs one change. Plans it again while rows that the plan read change.
    pub(super) async fn write(
        &self,
        keys: &Keys,
        before: Option<ReadHead<E>>,
        after: Option<&E>,
        rounds: &mut Rounds<'_>,
    ) -> Result<(OneWritten, Op)> {
        self.write_all(keys, before, after, false, rounds).await
    }

    /// Like `write`. With `rewrites`, writes all rows of the entity, not only those that change.
    pub(super) async fn write_all(
        &self,
        keys: &Keys,
        before: Option<ReadHead<E>>,
        after: Option<&E>,
        rewrites: bool,
        rounds: &mut Rounds<'_>,
    ) -> Result<(OneWritten, Op)> {
        let executor = self.executor();
        loop {
            let op = Op::random(self.inner.deciding.clock().now())?;
            let mut plan = Plan::new(keys.0.clone(), op.clone());
            plan.rewrites = rewrites;
            self.add(&mut plan, keys, before.as_ref(), after).await?;
            match executor.run(plan).await? {
                Ran::Done { etags, settled } => {
                    let etag = etags.into_iter().next().flatten();
                    return Ok((OneWritten { etag, settled, mark: op.mark().to_owned() }, op));
                }
                Ran::Stale(error) => {
                    if !rounds.again().await {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Adds a change of one entity to a plan, with the additions of all declarations.
    pub(super) async fn add(
        &self,
        plan: &mut Plan,
        keys: &Keys,
        before: Option<&ReadHead<E>>,
        after: Option<&E>,
    ) -> Result<()> {
        self.inner.check_writer().await?;
        if after.is_some() && before.is_some_and(|before| before.is_signed) {
            let what = "the stored entity is signed, and this program has no keys to sign it again";
            return Err(Error::refused(ErrorKind::Invalid, what).advise(
                "mark the fields that the other programs encrypt with #[entity(encrypt)], and give their \
                 keys to `StoreBuilder::keys`",
            ));
        }
        if let (Some(before), Some(after), None) = (before, after, &self.inner.sealer)
            && !before.sealed.is_empty()
        {
            let row = DynamicEntity::of_any_size(after)?;
            if let Some(name) = before.sealed.iter().find(|name| row.get(name).is_some()) {
                return Err(other_version(name, "encrypted it, and this one has no keys"));
            }
        }
        let referring = if E::DECLARED.references.is_empty() {
            None
        } else {
            let before = before.map(|head| (&head.entity, head.older.as_ref()));
            let referring = Referring::of(before, after);
            let blobs = (self.inner.blobs()?, prefix::<E>());
            let now = self.inner.deciding.clock().now();
            referring.hold(blobs, keys, now, &mut plan.naming)?;
            Some(referring)
        };
        let op = plan.op.clone();
        let layers = &self.inner.layers;
        let unknown = match (before, after) {
            (Some(before), Some(after)) => before.unknown.clone().beside(after),
            _ => Properties::new(),
        };
        let closed = match after {
            Some(entity) => {
                let kept = before.filter(|before| !before.is_of_another);
                let stored = kept.and_then(ReadHead::closed);
                let closing = Closing {
                    op: &op,
                    rewrites: plan.rewrites,
                    uploads: &mut plan.uploads,
                    before: stored.map(|closed| &closed.row),
                    table: self.inner.deciding.table(),
                };
                layers.close(closing, (entity, &unknown)).await?
            }
            None => None,
        };
        let change = Change {
            before: before.map(|head| &head.entity),
            after,
            keys,
            op: &op,
            // An entity of an older type version is written with all its rows.
            rewrites: plan.rewrites || before.is_some_and(|head| head.older.is_some()),
            // An entity without a mark may come from another program, and then has no copies.
            reads_copies: before.is_some_and(|head| {
                let is_own = head.mark.is_some() && head.older.is_none();
                self.inner.reads_copies || plan.rewrites || !is_own
            }),
            is_over_expired: after.is_some() && before.is_some_and(|head| head.is_of_another),
            mark: before.and_then(|head| head.mark.as_deref()),
            stored: before.and_then(ReadHead::closed),
            unknown: &unknown,
            closed: closed.as_ref(),
            older: before.and_then(|head| head.older.as_ref()),
        };
        let row = after.map(|entity| {
            let content = change.content(entity);
            EncodedRow::of(&HeadRow { keys, content, mark: op.mark() })
        });
        let write = match (before, row.transpose()?) {
            (None, None) => return Ok(()),
            (None, Some(row)) => Write::Insert(row),
            (Some(before), Some(row)) => Write::Replace(row, Match::ETag(before.etag.clone())),
            (Some(before), None) => Write::Delete(Match::ETag(before.etag.clone())),
        };
        plan.push(Edit { row_key: keys.1.clone(), write, source: Source::Head })?;
        declarations::wide::add(plan, keys, before.and_then(ReadHead::closed), closed.as_ref())?;
        for declaration in &self.inner.declarations {
            self.contribute(plan, &**declaration, change).await?;
        }
        // Blobs are deleted last, when no other target needs them any more.
        let stored = before.and_then(ReadHead::closed);
        for name in BlobFields::freed(E::DECLARED.blobs, stored, closed.as_ref()) {
            let blob = self.inner.blobs.as_ref().map(|blobs| blobs.deciding().blob(&name));
            self.free(plan, &keys.1, declarations::blob_field::NAME, (name, blob));
        }
        if let Some(referring) = referring {
            let blobs = self.inner.blobs()?;
            for path in referring.freed((blobs, prefix::<E>()), (after, &unknown))? {
                let blob = blobs.at_path(&path);
                self.free(plan, &keys.1, blob_ref::NAME, (path, blob));
            }
        }
        Ok(())
    }

    /// Names a blob that the head drops as a target, which the writer itself deletes after the commit.
    fn free(
        &self,
        plan: &mut Plan,
        row_key: &str,
        declaration: &'static str,
        (address, blob): (String, Option<Blob>),
    ) {
        let (of, layers) = (prefix::<E>(), &self.inner.layers);
        let mut freed = Contribution { plan, declaration, of, row_key, layers };
        match blob {
            Some(blob) => freed.target_inline(address, Effect::Free(blob)),
            None => freed.target(address),
        }
    }

    /// Adds the additions of one declaration to a change.
    pub(super) async fn contribute(
        &self,
        plan: &mut Plan,
        declaration: &dyn Declaration<E>,
        change: Change<'_, E>,
    ) -> Result<()> {
        let keys = change.keys;
        let reads = declaration.reads(change)?;
        if !reads.is_empty() {
            read_rows(&self.inner.deciding, plan, keys, reads).await?;
        }
        let name = declaration.name();
        let mut contribution = Contribution {
            plan,
            declaration: name,
            of: prefix::<E>(),
            row_key: &keys.1,
            layers: &self.inner.layers,
        };
        declaration
            .contribute(change, &mut contribution)
            .map_err(|error| error.during(name.to_owned()))
    }

    /// Reads the head that a write replaces, on the primary. Does not read fields in blobs, unless a
    /// declaration of the program may look at them.
    pub(super) async fn read_before(&self, keys: &Keys) -> Result<Option<ReadHead<E>>> {
        let read = self.inner.deciding_layers().deciding_head(&self.inner.deciding, keys).await?;
        Ok(read.map(ReadHead::of))
    }

    /// Reads the head on the primary.
    pub(super) async fn read(&self, keys: &Keys) -> Result<Option<ReadHead<E>>> {
        let read = self.inner.layers.deciding_head(&self.inner.deciding, keys).await?;
        Ok(read.map(ReadHead::of))
    }

    /// Reads the head on the primary if it meets the condition; otherwise fails with a conflict. Does not read
    /// fields in blobs, like [`read_before`](Self::read_before).
    ///
    /// An expired entity meets a condition that names its version. It does not meet one that only requires that an
    /// entity exists.
    pub(super) async fn read_if(&self, keys: &Keys, condition: &IfMatch) -> Result<ReadHead<E>> {
        let head = self.read_opened(keys, condition, &self.inner.deciding_layers()).await?;
        if *condition == IfMatch::Any {
            return self.unexpired_head(Some(head)).ok_or_else(conflict);
        }
        Ok(head)
    }

    /// Like [`read_if`](Self::read_if), opened by these layers.
    pub(super) async fn read_opened(
        &self,
        keys: &Keys,
        condition: &IfMatch,
        layers: &Layers,
    ) -> Result<ReadHead<E>> {
        if condition.is_never_met() {
            return Err(conflict());
        }
        let deciding = &self.inner.deciding;
        let (head, digest) = if condition.has_digest() {
            let Some(stored) = deciding.row(keys).await? else { return Err(conflict()) };
            let digest = digest(&stored.entity);
            (layers.open(deciding.table(), stored).await?, Some(digest))
        } else {
            (layers.deciding_head(deciding, keys).await?, None)
        };
        let head = head.map(ReadHead::of);
        head.filter(|head| condition.admits(&head.etag, head.mark.as_deref(), digest))
            .ok_or_else(conflict)
    }

    /// Reads the head of an entity that is changed, which must exist and meet the condition.
    pub(super) async fn read_to_change(
        &self,
        keys: &Keys,
        condition: Option<&IfMatch>,
    ) -> Result<ReadHead<E>> {
        if let Some(condition) = condition {
            let head = self.read_opened(keys, condition, &self.inner.layers).await?;
            return self.unexpired_head(Some(head)).ok_or_else(conflict);
        }
        let missing = || Error::refused(ErrorKind::NotFound, "there is no such entity");
        self.unexpired_head(self.read(keys).await?).ok_or_else(missing)
    }

    pub(super) fn executor(&self) -> Executor {
        Executor {
            table: self.inner.deciding.clone(),
            announcer: self.inner.announcer.clone(),
            settlers: vec![Arc::clone(&self.inner.of_type) as Arc<dyn Settler>],
        }
    }
}

/// Reads the rows that a declaration edits, except those that another one read.
fn read_rows<'a>(
    deciding: &'a Deciding,
    plan: &'a mut Plan,
    keys: &'a Keys,
    reads: Vec<String>,
) -> BoxFuture<'a, Result<()>> {
    async move {
        let reads: BTreeSet<_> = reads.into_iter().collect();
        for row_key in &reads {
            plan.requires(row_key);
        }
        let reads = reads.into_iter().filter(|row_key| !plan.rows.contains_key(row_key));
        let reads = reads.map(|row_key| async move {
            let stored = deciding.row(&(keys.0.clone(), row_key.clone())).await?;
            let before = stored.map(|stored| (stored.entity, stored.etag));
            let after = before.as_ref().map(|(row, _)| row.clone());
            Ok::<_, Error>((row_key, ReadRow { before, after }))
        });
        let read = try_all(reads, usize::MAX).await?;
        plan.rows.extend(read);
        Ok(())
    }
    .boxed()
}

/// The result of writing one entity.
pub(super) struct OneWritten {
    pub(super) etag: Option<ETag>,
    pub(super) mark: String,
    pub(super) settled: Settled,
}

pub(super) fn version_of(written: &OneWritten) -> Written {
    let version = match &written.etag {
        Some(etag) => Version::of_head(etag),
        // The response was lost; the mark identifies the version as well.
        None => Version::of_mark(&written.mark),
    };
    Written { version, settled: written.settled, receipt: Receipt::default() }
}

/// A head that was read in order to write it.
pub(super) struct ReadHead<E> {
    pub(super) head: Head<E>,
    pub(super) etag: ETag,
    /// Whether it is expired, so that a new entity takes its place and keeps none of its properties.
    pub(super) is_of_another: bool,
}

impl<E> Deref for ReadHead<E> {
    type Target = Head<E>;

    fn deref(&self) -> &Head<E> {
        &self.head
    }
}

impl<E> ReadHead<E> {
    pub(super) fn of(stored: Stored<Head<E>>) -> Self {
        Self { head: stored.entity, etag: stored.etag, is_of_another: false }
    }

    pub(super) fn closed(&self) -> Option<&Closed> {
        self.head.closed.as_ref()
    }
}

/// A change of an entity, its unknown properties, and the names of its sealed ones.
pub(super) type Changing<'c, E, R> =
    dyn FnMut(&mut E, &mut Properties, &[String]) -> std::result::Result<(), R> + Send + 'c;

impl<E: Entity + Clone> ReadHead<E> {
    /// The entity after a change, unless the change refuses. Changes the unknown properties in place.
    pub(super) fn change<R>(
        &mut self,
        keys: &Keys,
        change: &mut Changing<'_, E, R>,
    ) -> Result<std::result::Result<E, R>> {
        let mut after = self.head.entity.clone();
        let Head { unknown, sealed, .. } = &mut self.head;
        if let Err(refused) = change(&mut after, unknown, sealed) {
            return Ok(Err(refused));
        }
        if keys_of(&after)? != *keys {
            let what = "the change alters a part of the key, and keys cannot change";
            return Err(Error::refused(ErrorKind::Invalid, what)
                .advise("delete the entity and insert the other one, in one transaction"));
        }
        Ok(Ok(after))
    }
}

pub(super) fn conflict() -> Error {
    let what = "it was changed or deleted since it was read";
    Error::refused(ErrorKind::Conflict, what).advise("read it again")
}

/// Whether another writer came first, so that reading and writing again may succeed.
pub(super) fn is_race(error: &Error) -> bool {
    error.outcome() != Outcome::Unknown
        && error.details().index.is_none()
        && matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Conflict)
}
