//! Requests that rows of one partition share: claims, copies elsewhere and releases of a write of several
//! entities.
//!
//! A transaction of several claims is the same as these claims one by one, all in one instant. If it is refused or
//! not answered, the claims are made one by one, which also looks for the effect of the transaction. The same is
//! true of copies and releases. So a group adds no state that another program could see.

use std::collections::HashMap;

use rowkey_client::pace::Pace;
use rowkey_client::table::RowWrite;
use rowkey_client::{
    DynamicEntity, ETag, Error, ErrorKind, Key, Match, Outcome, Partition, Result, Stored,
    Transaction,
};
use rowkey_patterns::internals::try_all;

use super::Executor;
use super::announce::Announcer;
use super::caused::caused_by;
use super::claim::claim;
use super::remembered::Row;
use crate::layer::deciding::{Deciding, is_undecodable};
use crate::plan::inline::{Known, RowElsewhere};
use crate::plan::{MAX_OPERATIONS, NewClaim, Plan};
use crate::row::op::{ClaimRef, Op};
use crate::row::{Claim, Keys};

/// Rows that are read at once.
pub(super) const READS: usize = 8;

/// How many rows of a partition are read one by one; more are read by a query.
pub(super) const ONE_BY_ONE: usize = 2;

/// How many rows a query may return for each row that is wanted. Rows that it does not return are read one by one.
const SPARE: usize = 4;

/// How many claims of a group may meet a row and be made alone, before all others are made alone, too.
const ALONE: usize = 3;

impl Executor {
    /// Runs writes that share their clean-up, as writes in flight at the same time do. Deletes their op rows and
    /// messages at the end; if the future is dropped, workers do.
    pub(crate) async fn sharing<T>(&self, writes: impl Future<Output = T>) -> T {
        self.sharing_at(None, writes).await
    }

    /// Like `sharing`, with a pace for the clean-up alone.
    pub(crate) async fn sharing_at<T>(
        &self,
        pace: Option<Pace>,
        writes: impl Future<Output = T>,
    ) -> T {
        let Some(announcer) = self.announcer.as_deref() else { return writes.await };
        let flight = announcer.ending.begin();
        let written = writes.await;
        drop(flight);
        let clean_up = self.clean_up(announcer);
        match pace {
            Some(pace) => pace.scope(clean_up).await,
            None => clean_up.await,
        }
        written
    }
}

/// A claim that a plan made or may have made.
pub(crate) struct Claimed<'p> {
    pub(crate) new: &'p NewClaim,
    /// `None` if its request was not answered.
    pub(crate) etag: Option<ETag>,
}

impl<'p> Claimed<'p> {
    const fn unanswered(new: &'p NewClaim) -> Self {
        Self { new, etag: None }
    }
}

/// Claims the values of a plan in the order of their keys, as many of a partition as a transaction takes. One
/// request for each partition if the values are free.
///
/// Adds to `claimed` the claims that may exist afterwards. Sets `in_doubt` if a request may take effect later.
/// Errors name the operation of the caller.
pub(crate) async fn claim_all<'p>(
    (table, announcer): (&Deciding, &Announcer),
    plan: &'p Plan,
    claimed: &mut Vec<Claimed<'p>>,
    in_doubt: &mut bool,
) -> Result<()> {
    let of_one = |one: &NewClaim, other: &NewClaim| one.reference.keys.0 == other.reference.keys.0;
    for partition in plan.claims.chunk_by(of_one) {
        for chunk in partition.chunks(MAX_OPERATIONS) {
            let mut left: Vec<&NewClaim> = chunk.iter().collect();
            let mut alone = 0;
            while !left.is_empty() {
                if left.len() > 1 && alone < ALONE {
                    let names = left.iter().map(|new| new.index);
                    match caused_by(names, insert(table, &left, &plan.op)).await {
                        Ok(etags) => {
                            let all = left.into_iter().zip(etags);
                            claimed.extend(all.map(|(new, etag)| Claimed { new, etag }));
                            break;
                        }
                        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                            // Its value is taken, or the claim is left over.
                            let at = error.details().operation_index.unwrap_or_default();
                            let at = at.min(left.len() - 1);
                            left.swap(0, at);
                            left[1..].sort_by(|a, b| a.reference.keys.cmp(&b.reference.keys));
                        }
                        Err(error) if is_repeated(&error) => {
                            *in_doubt = true;
                            alone = ALONE;
                            claimed.extend(left.iter().map(|new| Claimed::unanswered(new)));
                        }
                        Err(error) => {
                            if error.outcome() == Outcome::Unknown {
                                *in_doubt = true;
                                claimed.extend(left.iter().map(|new| Claimed::unanswered(new)));
                            }
                            let at = error.details().operation_index.and_then(|at| left.get(at));
                            let new = at.unwrap_or(&left[0]);
                            return Err(error.at_operation(plan.step_of(&new.owner.1)));
                        }
                    }
                    alone += 1;
                }
                let new = left.remove(0);
                let same = claimed.iter().position(|other| std::ptr::eq(other.new, new));
                let at = same.unwrap_or_else(|| {
                    claimed.push(Claimed::unanswered(new));
                    claimed.len() - 1
                });
                let made = claim(table, announcer, new, &plan.op, in_doubt);
                let made = caused_by([new.index], made).await;
                let etag = made.map_err(|error| error.at_operation(plan.step_of(&new.owner.1)))?;
                claimed[at].etag = Some(etag);
            }
        }
    }
    Ok(())
}

/// Notes the claims that a committed plan made, so that they need not be read when they are released, and
/// forgets those that it releases.
pub(crate) fn remember(announcer: &Announcer, plan: &Plan, op: &str, claimed: Vec<Claimed<'_>>) {
    for released in &plan.released {
        announcer.claims.forget(&released.reference.keys);
    }
    for Claimed { new, etag } in claimed {
        if let Some(etag) = etag {
            let row = Row { etag, owner: new.owner.clone(), op: Some(op.to_owned()) };
            announcer.claims.put(new.reference.keys.clone(), row);
        }
    }
}

/// Whether a request got no answer, so that its effect is looked for by doing its parts one by one.
fn is_repeated(error: &Error) -> bool {
    error.outcome() == Outcome::Unknown && !is_undecodable(error)
}

async fn insert(table: &Deciding, claims: &[&NewClaim], op: &Op) -> Result<Vec<Option<ETag>>> {
    let op = op.row_key()?;
    let add = |transaction: Transaction, new: &&NewClaim| {
        let wanted = Claim { owner: new.owner.clone(), op: op.clone() };
        transaction.insert(&wanted.row(&new.reference.keys))
    };
    claims.iter().fold(table.transaction(), add).submit().await
}

/// Reads rows. If only one row of a partition is wanted, one request reads it. Several rows of a partition are
/// read by one query, which stops if too many others are between them; the rest is read one by one.
pub(crate) async fn read(
    table: &Deciding,
    wanted: &[&Keys],
) -> Result<Vec<Option<Stored<DynamicEntity>>>> {
    let queries = by_partition(wanted).into_iter().filter(|group| group.len() > ONE_BY_ONE);
    let queries = queries.map(|group| async move { range(table, wanted, &group).await });
    let found = try_all(queries, READS).await?;
    let mut found: HashMap<Keys, Stored<DynamicEntity>> = found.into_iter().flatten().collect();
    let rows: Vec<_> = wanted.iter().map(|keys| found.remove(*keys)).collect();
    let rows = wanted.iter().zip(rows).map(|(keys, row)| async move {
        match row {
            Some(row) => Ok(Some(row)),
            None => table.row(keys).await,
        }
    });
    try_all(rows, READS).await
}

/// Queries a partition for the rows from the first to the last that are wanted.
async fn range(
    table: &Deciding,
    wanted: &[&Keys],
    group: &[usize],
) -> Result<Vec<(Keys, Stored<DynamicEntity>)>> {
    let row_keys = || group.iter().map(|at| &wanted[*at].1);
    let (Some(first), Some(last)) = (row_keys().min(), row_keys().max()) else {
        return Ok(Vec::new());
    };
    let partition_key = &*wanted[group[0]].0;
    let key = |row_key: &str| Key::<DynamicEntity>::new(partition_key, row_key);
    let partition = Partition::<DynamicEntity>::new(partition_key).range(key(first)..=key(last));
    let most = u32::try_from(group.len() * SPARE).unwrap_or(u32::MAX).min(1000);
    // An unanswered read changed nothing.
    let page = table.query(partition).page(most, None).await;
    let page = page.map_err(|error| error.with_outcome(Outcome::Rejected))?;
    let keyed = |row: Stored<DynamicEntity>| {
        ((row.entity.partition_key.clone(), row.entity.row_key.clone()), row)
    };
    Ok(page.entities.into_iter().map(keyed).collect())
}

/// Groups the positions of keys by partition, in the order in which the partitions come first.
fn by_partition(keys: &[&Keys]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut of: HashMap<&str, usize> = HashMap::new();
    for (at, keys) in keys.iter().enumerate() {
        let group = *of.entry(&keys.0).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(at);
    }
    groups
}

/// Deletes claims that are unchanged, as many of a partition as a transaction takes. Returns those that it could
/// not delete.
pub(crate) async fn release(
    table: &Deciding,
    claims: &[(&ClaimRef, &ETag)],
) -> Result<Vec<ClaimRef>> {
    let keys: Vec<_> = claims.iter().map(|(claim, _)| &claim.keys).collect();
    let key = |at: usize| Key::<DynamicEntity>::new(&*keys[at].0, &*keys[at].1);
    let mut left = Vec::new();
    for group in by_partition(&keys) {
        for chunk in group.chunks(MAX_OPERATIONS) {
            let delete = |transaction: Transaction, at: &usize| {
                transaction.delete(key(*at), Match::ETag(claims[*at].1.clone()))
            };
            if chunk.len() > 1 {
                let names = chunk.iter().map(|at| &*claims[*at].0.name);
                let deletion = chunk.iter().fold(table.transaction(), delete).submit();
                match caused_by(names, deletion).await {
                    Ok(_) => continue,
                    Err(error) if is_undecodable(&error) => return Err(error),
                    Err(_) => {}
                }
            }
            for at in chunk {
                let (claim, etag) = claims[*at];
                let deletion = table.table().delete(key(*at), Match::ETag(etag.clone()));
                match caused_by([&*claim.name], deletion).await {
                    Ok(()) => {}
                    Err(error) if is_undecodable(&error) => return Err(error),
                    // It is looked at again.
                    Err(_) => left.push(claim.clone()),
                }
            }
        }
    }
    Ok(left)
}

/// Returns the operation that writes or deletes a row elsewhere, under the condition that follows from what is
/// known of it; `None` if the row must be read first.
pub(crate) fn operation(table: &Deciding, row: &RowElsewhere) -> Option<Transaction> {
    let transaction = row.place.deciding(table).transaction();
    match (&row.write, &row.known) {
        (Some(write), Known::New) => Some(transaction.row(write, RowWrite::Insert)),
        (Some(write), Known::Present(etag)) => {
            Some(transaction.row(write, RowWrite::Replace(Match::ETag(etag.clone()))))
        }
        (None, Known::Present(etag)) => {
            let key = Key::<DynamicEntity>::new(&*row.place.keys.0, &*row.place.keys.1);
            Some(transaction.delete(key, Match::ETag(etag.clone())))
        }
        (_, Known::Unread | Known::Missing) | (None, Known::New) => None,
    }
}

/// Collects the first row elsewhere that is not written yet and all others that the same transaction can write:
/// those of its partition. The new copy of an entity comes before the old one goes: a lookup finds both copies or
/// one, never none.
pub(crate) fn together(
    table: &Deciding,
    rows: &[&RowElsewhere],
    is_done: &[bool],
    first: usize,
) -> Option<(Transaction, Vec<usize>)> {
    let mut transaction = operation(table, rows[first])?;
    let mut group = vec![first];
    for at in first + 1..rows.len() {
        let row = rows[at];
        if is_done[at] || !row.place.shares_partition(&rows[first].place) {
            continue;
        }
        // Its new copy would come later.
        let is_early = row.write.is_none()
            && (first..at).any(|other| {
                let other_row = rows[other];
                let is_open = !is_done[other] && !group.contains(&other);
                is_open && (other_row.index, &other_row.owner) == (row.index, &row.owner)
            });
        let Some(one) = operation(table, row).filter(|_| !is_early) else { continue };
        if transaction.fits(&one) {
            transaction = transaction.append(one);
            group.push(at);
        }
    }
    Some((transaction, group))
}
