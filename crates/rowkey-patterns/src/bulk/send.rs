//! One transaction on its way, and what becomes of its entities when it fails.

use rowkey::{Entity, Error, ErrorCode, ErrorKind, Key, Outcome, Table, Transaction};

use super::{Failure, Verb};

/// What a transaction that is refused means for its entities.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Failing {
    /// None of them is written, and nothing of their partition after them.
    EndsThePartition,
    /// The one that was refused is taken out, and the others are sent again.
    IsTakenOut,
}

/// Entities of one partition, and the transaction that writes them.
pub(super) struct Group<E> {
    pub(super) partition_key: String,
    /// The entities with their positions in the stream, in the order of the operations.
    pub(super) entities: Vec<(u64, E)>,
    pub(super) transaction: Transaction,
}

/// What became of a group.
pub(super) struct Sent<E> {
    pub(super) partition_key: String,
    pub(super) written: u64,
    pub(super) transactions: u64,
    pub(super) failures: Vec<Failure<E>>,
}

/// Sends a group, and takes out what the service refuses if `failing` says so.
pub(super) async fn send<E: Entity>(
    table: Table,
    verb: Verb,
    failing: Failing,
    group: Group<E>,
) -> Sent<E> {
    let Group { partition_key, entities, transaction } = group;
    let mut sent = Sent { partition_key, written: 0, transactions: 0, failures: Vec::new() };
    let mut pending = vec![(entities, transaction)];
    while let Some((mut entities, transaction)) = pending.pop() {
        sent.transactions += 1;
        let error = match transaction.submit().await {
            Ok(etags) => {
                sent.written += etags.len() as u64;
                continue;
            }
            Err(error) => error,
        };
        let again = |entities: Vec<(u64, E)>| {
            let ones = entities.iter().map(|(_, entity)| verb.transaction(&table, entity));
            let transaction = ones.fold(table.transaction(), Transaction::append);
            (entities, transaction)
        };
        let separable = failing == Failing::IsTakenOut && entities.len() > 1 && blames_one(&error);
        match error.operation_index().filter(|&index| index < entities.len()) {
            Some(index) if separable => {
                let refused = entities.remove(index);
                sent.failures.push(failure(&[refused], error));
                pending.push(again(entities));
            }
            None if separable => {
                let second = entities.split_off(entities.len() / 2);
                pending.push(again(second));
                pending.push(again(entities));
            }
            _ => sent.failures.push(failure(&entities, error)),
        }
    }
    sent
}

/// Positions and keys, which is all that is reported of entities.
fn failure<E: Entity>(entities: &[(u64, E)], error: Error) -> Failure<E> {
    let keys = entities.iter().map(|(position, entity)| (*position, Key::of(entity)));
    Failure { entities: keys.collect(), skipped: 0, error }
}

/// Whether an entity of the transaction made it fail, so that the others would be written without
/// it. When it is unknown whether all of them were, sending them again could tell nothing.
fn blames_one(error: &Error) -> bool {
    let general =
        matches!(error.kind(), ErrorKind::Auth | ErrorKind::Throttled | ErrorKind::Unavailable);
    error.outcome() != Outcome::Unknown
        && !general
        && error.code() != Some(&ErrorCode::TABLE_NOT_FOUND)
}
