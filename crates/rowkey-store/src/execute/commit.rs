//! The commit: one entity group transaction, and the handling of a refusal or a missing response.

use std::time::Duration;

use rowkey_client::{ETag, Error, ErrorKind, Match, Outcome, Result};

use super::claim::{Fate, end, fate};
use crate::layer::deciding::{Deciding, is_lost, is_undecodable};
use crate::layer::wide;
use crate::plan::{CopyOf, Edit, Plan, Source, Write};
use crate::row::times::SENT;
use crate::row::{INDEX, Keys, Marked, primary_keys, text};

/// How often a transaction is adjusted and sent again, in addition to once per operation.
const SPARE_ROUNDS: usize = 8;

/// How often an unanswered transaction is sent again.
const REPETITIONS: u32 = 3;

/// The wait before the first repetition; each later one is four times as long.
const WAIT: Duration = Duration::from_millis(100);

/// The result of a transaction.
pub(crate) enum Committed {
    /// Committed, with the `ETag` of each head in order; `None` if it was deleted or the response
    /// was lost.
    Yes(Vec<Option<ETag>>),
    /// A row that the plan is based on has changed: make the plan again. Nothing was written.
    Stale(Error),
}

/// Sends the transaction of a plan.
///
/// After an error with [`Outcome::Unknown`], the transaction may have been committed, or may be
/// committed later. An answer that cannot be decoded ends it at once: the next one would be no better.
///
/// Sets `in_doubt` if one of its requests may take effect later. Errors name the operation of the caller.
pub(crate) async fn commit(
    table: &Deciding,
    plan: &Plan,
    in_doubt: &mut bool,
) -> Result<Committed> {
    let mut operations = plan.operations()?;
    let mut rounds = operations.len() + SPARE_ROUNDS;
    let mut repetitions = REPETITIONS;
    let mut lost: Option<Error> = None;
    loop {
        if (plan.has_op_row() || plan.expires) && is_old(table, plan) {
            // A void at the key of the op row may have been inserted and removed, or a blob be swept.
            let what = "the write was delayed until its operation was voided";
            return match lost {
                Some(lost) => Err(lost.during(what)),
                None if *in_doubt => {
                    Err(Error::refused(ErrorKind::Unavailable, what).with_outcome(Outcome::Unknown))
                }
                None => Ok(Committed::Stale(Error::refused(ErrorKind::Unavailable, what))),
            };
        }
        // Not repeated by the client: an unanswered attempt may take effect after an answered one, and
        // must then meet the op row.
        let add = |transaction, edit: &Edit| {
            edit.write.add_to(transaction, &plan.partition_key, &edit.row_key)
        };
        let error = match operations.iter().fold(table.transaction(), add).submit().await {
            Ok(etags) => {
                let heads = operations.iter().zip(etags);
                let heads = heads.filter(|(edit, _)| matches!(edit.source, Source::Head));
                let etags = heads.map(|(_, etag)| etag).collect();
                return Ok(Committed::Yes(etags));
            }
            Err(error) => error,
        };
        let refused = error.details().operation_index.filter(|at| *at < operations.len());
        let step = refused.and_then(|at| plan.step_of_edit(&operations[at]));
        let error = error.at_operation(step);
        // An earlier attempt may have been executed, or may be executed later.
        let unanswered = error.outcome() == Outcome::Unknown;
        *in_doubt |= unanswered;
        if is_undecodable(&error) || (!*in_doubt && error.outcome() == Outcome::NotSent) {
            return Err(error);
        }
        if *in_doubt {
            let repeats = unanswered && repetitions > 0;
            if repeats {
                table.clock().sleep(WAIT * 4_u32.pow(REPETITIONS - repetitions)).await;
                repetitions -= 1;
            }
            match decide(table, plan, &operations, repeats).await {
                Decided::Committed => {
                    let etags = heads_now(table, plan).await;
                    return Ok(Committed::Yes(etags));
                }
                Decided::Never if unanswered => {
                    let error = error.with_outcome(Outcome::Rejected).during(VOIDED);
                    // After the last repetition, this writer has voided it. Making the plan again would
                    // only send as many requests that are not answered.
                    return if repeats { Ok(Committed::Stale(error)) } else { Err(error) };
                }
                Decided::NotYet if repeats => {
                    lost = Some(error);
                    continue;
                }
                Decided::NotYet if unanswered => return Err(error),
                Decided::Unknown => return Err(error.with_outcome(Outcome::Unknown)),
                Decided::Never | Decided::NotYet => {}
            }
        }
        if error.outcome() == Outcome::NotSent {
            return Err(error);
        }
        rounds -= 1;
        if rounds == 0 {
            return Err(error);
        }
        let Some(at) = refused else { return Err(error) };
        let mended = mend(table, &mut operations, at, error, step.is_some()).await;
        if let Some(stale) = mended.map_err(|error| error.at_operation(step))? {
            return Ok(Committed::Stale(stale));
        }
        if plan.has_op_row() && *in_doubt {
            // The void that decided the attempt prevents any commit of this operation.
            let stale = match lost {
                Some(lost) => lost.with_outcome(Outcome::Rejected).during(VOIDED),
                None => Error::refused(ErrorKind::Unavailable, VOIDED),
            };
            return Ok(Committed::Stale(stale));
        }
    }
}

/// What happened to a write whose transaction got no answer.
const VOIDED: &str = "the write was voided before it was committed";

/// Whether the writer was stopped for so long, for example by a machine that was suspended, that a
/// worker may have decided the write and removed all traces. A missing row then proves nothing.
fn is_old(table: &Deciding, plan: &Plan) -> bool {
    let age = table.clock().now() - plan.op.created();
    age.to_std().is_ok_and(|age| age >= SENT)
}

enum Decided {
    Committed,
    /// A void exists.
    Never,
    /// Not committed yet; sending it again is harmless.
    NotYet,
    Unknown,
}

/// Finds out whether an unanswered transaction was committed. If it will be repeated, does not give it
/// up.
async fn decide(table: &Deciding, plan: &Plan, operations: &[Edit], repeats: bool) -> Decided {
    let decided = if plan.has_op_row() {
        decide_by_op_row(table, plan, repeats).await
    } else {
        decide_by_head(table, plan, operations).await
    };
    decided.unwrap_or(Decided::Unknown)
}

async fn decide_by_op_row(table: &Deciding, plan: &Plan, repeats: bool) -> Result<Decided> {
    let keys = (plan.partition_key.clone(), plan.op.row_key()?);
    let fate = match fate(table, &keys).await? {
        Some((fate, _)) => Some(fate),
        None if is_old(table, plan) => None,
        None if repeats => return Ok(Decided::NotYet),
        None => end(table, &keys).await?,
    };
    Ok(match fate {
        Some(Fate::Committed) => Decided::Committed,
        Some(Fate::Void) => Decided::Never,
        None => Decided::Unknown,
    })
}

/// Decides by the mark of one entity. If the operation has a condition, sending it again is safe.
async fn decide_by_head(table: &Deciding, plan: &Plan, operations: &[Edit]) -> Result<Decided> {
    let heads = || operations.iter().filter(|edit| matches!(edit.source, Source::Head));
    let replaced = || heads().find(|edit| matches!(edit.write, Write::Replace(..)));
    let inserted = || heads().find(|edit| matches!(edit.write, Write::Insert(_)));
    // The most conclusive head.
    let Some(head) = replaced().or_else(inserted).or_else(|| heads().next()) else {
        return Ok(Decided::Unknown);
    };
    // A missing entity proves its deletion, even by another writer: that writer made the same changes to its
    // copies and to the rows that were read, but not to rows that this write inserts.
    let is_alone =
        heads().count() == 1 && !operations.iter().any(|edit| matches!(edit.source, Source::Note));
    let keys = (plan.partition_key.clone(), head.row_key.clone());
    let now = table.row_as::<Marked>(&keys).await?;
    let is_mine = |mark: &Option<String>| mark.as_deref() == Some(plan.op.mark());
    Ok(match (&head.write, now) {
        (Write::Delete(_), None) if is_alone => Decided::Committed,
        (_, Some(now)) if is_mine(&now.entity.0) => Decided::Committed,
        (
            Write::Replace(_, condition) | Write::Merge(_, condition) | Write::Delete(condition),
            Some(now),
        ) if *condition == Match::ETag(now.etag.clone()) => Decided::NotYet,
        _ => Decided::Unknown,
    })
}

/// Reads the `ETag` of each head after a commit whose response was lost.
async fn heads_now(table: &Deciding, plan: &Plan) -> Vec<Option<ETag>> {
    let mut etags = Vec::new();
    for head in plan.heads() {
        let keys = (plan.partition_key.clone(), head.row_key.clone());
        let now = table.row_as::<Marked>(&keys).await.ok().flatten();
        let is_mine = |mark: &Option<String>| mark.as_deref() == Some(plan.op.mark());
        etags.push(now.filter(|now| is_mine(&now.entity.0)).map(|now| now.etag));
    }
    etags
}

/// Adjusts the operation `at`, which was refused, to the stored state. Returns the reason if the plan has to be
/// made again, and an error if the write is refused. `of_several`: whether the caller writes several entities.
async fn mend(
    table: &Deciding,
    operations: &mut Vec<Edit>,
    at: usize,
    error: Error,
    of_several: bool,
) -> Result<Option<Error>> {
    let edit = operations[at].clone();
    match (&edit.source, &edit.write, error.kind()) {
        (Source::Op, ..) if error.kind() == ErrorKind::AlreadyExists => {
            let what = "another program voided the operation before it was committed";
            Ok(Some(Error::refused(ErrorKind::Conflict, what)))
        }
        (Source::Edited, ..) if is_lost(&error) => Ok(Some(error)),
        (Source::Head, Write::Insert(_), ErrorKind::AlreadyExists) if of_several => {
            Err(error.advise("read it, and use `replace_if` with its version"))
        }
        (Source::Note, Write::Insert(_), ErrorKind::AlreadyExists) => {
            Err(error
                .advise("give the row beside the entity another key: a row with this one exists"))
        }
        // The entity has other rows than the patch expects.
        (Source::Further(_), Write::Merge(..), ErrorKind::NotFound) => Ok(Some(error)),
        (Source::Head, Write::Replace(..) | Write::Delete(_), ErrorKind::NotFound) => {
            Err(Error::refused(ErrorKind::Conflict, "it was deleted since it was read"))
        }
        (Source::Copy(_) | Source::Further(_), Write::Delete(_), ErrorKind::NotFound) => {
            operations.remove(at);
            Ok(None)
        }
        (Source::Further(owner), Write::Insert(row), ErrorKind::AlreadyExists) => {
            let keys = (owner.0.clone(), edit.row_key.clone());
            match table.row(&keys).await? {
                None => {}
                // A leftover row: the head, guarded by the transaction, does not have it.
                Some(found)
                    if wide::number_of(&found.entity).is_some_and(|(of, _)| of == owner.1) =>
                {
                    operations[at].write = Write::Replace(row.clone(), Match::ETag(found.etag));
                }
                Some(_) => {
                    let what = "a row of another program has the key of a further row of the wide \
                                entity";
                    return Err(Error::refused(ErrorKind::Invalid, what).advise(
                        "move that row: RowKeys that begin with `wide_` are reserved for further rows",
                    ));
                }
            }
            Ok(None)
        }
        (
            Source::Further(_),
            Write::Replace(..) | Write::Delete(_),
            ErrorKind::NotFound | ErrorKind::Conflict,
        ) => {
            let what = "a further row of the entity was changed or deleted since it was read";
            Err(Error::refused(ErrorKind::Conflict, what).advise("read the entity again"))
        }
        (Source::Copy(_), Write::Replace(row, _), ErrorKind::NotFound | ErrorKind::Conflict) => {
            operations[at].write = Write::Insert(row.clone());
            Ok(None)
        }
        (Source::Copy(copy), Write::Insert(row), ErrorKind::AlreadyExists) => {
            let keys = (copy.owner.0.clone(), edit.row_key.clone());
            match in_the_way(table, copy, &keys).await? {
                Obstacle::None => {}
                Obstacle::Stale(etag) => {
                    operations[at].write = Write::Replace(row.clone(), Match::ETag(etag));
                }
                Obstacle::Foreign => {
                    let advice = format!(
                        "another program's row has the key of a copy in the index `{}`: move or delete it",
                        copy.index
                    );
                    return Err(error.advise(advice).in_index(copy.index));
                }
                Obstacle::Taken => {
                    let advice = format!(
                        "another entity has the same value in the index `{}`: write another value, or change \
                         that entity first",
                        copy.index
                    );
                    return Err(error.advise(advice).in_index(copy.index));
                }
            }
            Ok(None)
        }
        _ => Err(error),
    }
}

/// The row at the key of a copy that is inserted.
enum Obstacle {
    /// No row any more.
    None,
    /// A copy that no entity demands. It may be replaced on condition that it is unchanged.
    Stale(ETag),
    /// The copy of another entity.
    Taken,
    /// A row of another kind.
    Foreign,
}

async fn in_the_way(table: &Deciding, copy: &CopyOf, keys: &Keys) -> Result<Obstacle> {
    let Some(found) = table.row(keys).await? else { return Ok(Obstacle::None) };
    let owner =
        primary_keys(&found.entity).filter(|_| text(&found.entity, INDEX) == Some(copy.index));
    let Some(owner) = owner else { return Ok(Obstacle::Foreign) };
    if owner == copy.owner {
        return Ok(Obstacle::Stale(found.etag));
    }
    let is_demanded = match table.row(&owner).await? {
        Some(head) => copy.demands.ask(table.table(), &head, copy.position, keys).await?,
        None => false,
    };
    Ok(if is_demanded { Obstacle::Taken } else { Obstacle::Stale(found.etag) })
}
