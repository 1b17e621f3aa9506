//! The requests that running a plan takes without failures and competing writers, before it runs.
//!
//! This follows the executor step by step, and asks the functions that group its requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use rowkey_client::cost::{Class, Usage};
use rowkey_client::internals::{MAX_BLOBS, message_len};
use rowkey_client::queue::Body;
use rowkey_client::{DynamicEntity, ETag, Key, Match, Result, Transaction};

use super::announce::Notice;
use super::group::{self, ONE_BY_ONE};
use super::settler::Settler;
use crate::layer::deciding::Deciding;
use crate::plan::inline::{Effect, Known};
use crate::plan::{Edit, MAX_OPERATIONS, NewClaim, Plan};
use crate::row::op::Target;
use crate::row::{Claim, Keys};

/// Predicts the requests of a plan. Assumes that the rows and claims that it looks at exist.
pub(crate) fn predict(
    table: &Deciding,
    settlers: &[Arc<dyn Settler>],
    plan: &mut Plan,
) -> Result<Usage> {
    let operations = plan.operations()?;
    let add = |transaction, edit: &Edit| {
        edit.write.add_to(transaction, &plan.partition_key, &edit.row_key)
    };
    let commit = of_transaction(&operations.iter().fold(table.transaction(), add));
    if operations.is_empty() {
        return Ok(Usage::default());
    }
    if !plan.has_op_row() {
        return Ok(commit);
    }
    let looked = looked_at(plan);
    // Any ETag of the service is as long.
    let etag = ETag::new("W/\"datetime'2026-01-01T00%3A00%3A00.1234567Z'\"");
    for inline in &mut plan.inline {
        if let Effect::Row(row) = &mut inline.effect
            && matches!(row.known, Known::Unread | Known::Missing)
        {
            row.known = Known::Present(etag.clone());
        }
    }
    for released in &mut plan.released {
        released.etag.get_or_insert_with(|| etag.clone());
    }
    let uploads = plan
        .uploads
        .iter()
        .map(|upload| Usage::of(Class::BlobWrite, 1).with_bytes(upload.content.len() as u64, 0));
    let all = looked
        + uploads.sum::<Usage>()
        + announced(plan)?
        + claimed(table, plan)?
        + commit
        + written_elsewhere(table, plan)
        + settled(settlers, plan)
        + released(table, plan)
        + freed(plan);
    // The op row, and the message.
    Ok(all + Usage::of(Class::TableDelete, 1) + Usage::of(Class::QueueClass1, 1))
}

fn of_transaction(transaction: &Transaction) -> Usage {
    Usage::of(Class::TableBatchWrite, 1).with_bytes(transaction.payload_size() as u64, 0)
}

/// The reads of rows and claims that this program does not remember.
fn looked_at(plan: &Plan) -> Usage {
    let rows = plan.inline.iter().filter_map(|inline| match &inline.effect {
        Effect::Row(row) if row.known == Known::Unread => {
            Some((row.place.table_name(), &row.place.keys))
        }
        _ => None,
    });
    let claims = plan.released.iter().filter(|released| released.etag.is_none());
    let claims = claims.map(|released| &released.reference.keys);
    let mut by_partition: BTreeMap<_, usize> = BTreeMap::new();
    for (of, keys) in
        rows.map(|(table, keys)| (Some(table), keys)).chain(claims.map(|keys| (None, keys)))
    {
        *by_partition.entry((of.map(ToString::to_string), &keys.0)).or_default() += 1;
    }
    let reads = by_partition.values().map(|count| {
        if *count > ONE_BY_ONE {
            Usage::of(Class::TableScan, 1)
        } else {
            Usage::of(Class::TableRead, *count as u64)
        }
    });
    reads.sum()
}

fn announced(plan: &Plan) -> Result<Usage> {
    let op = (plan.partition_key.clone(), plan.op.row_key()?);
    let claims = plan.claims.iter().map(|claim| claim.reference.clone()).collect();
    let text = Notice::new(op, claims).text()?;
    Ok(Usage::of(Class::QueueClass1, 1).with_bytes(message_len(&Body::base64(text)), 0))
}

fn claimed(table: &Deciding, plan: &Plan) -> Result<Usage> {
    let op = plan.op.row_key()?;
    let of_one = |one: &NewClaim, other: &NewClaim| one.reference.keys.0 == other.reference.keys.0;
    let row = |new: &NewClaim| {
        Claim { owner: new.owner.clone(), op: op.clone() }.row(&new.reference.keys)
    };
    let mut all = Usage::default();
    for chunk in plan.claims.chunk_by(of_one).flat_map(|partition| partition.chunks(MAX_OPERATIONS))
    {
        all += match chunk {
            [one] => rowkey_client::table::EncodedRow::of(&row(one))?.usage(),
            several => {
                let add = |transaction: Transaction, new: &NewClaim| transaction.insert(&row(new));
                of_transaction(&several.iter().fold(table.transaction(), add))
            }
        };
    }
    Ok(all)
}

/// The rows elsewhere that the writer writes without reading them again.
fn written_elsewhere(table: &Deciding, plan: &Plan) -> Usage {
    let rows = plan.inline.iter().filter_map(|inline| match &inline.effect {
        Effect::Row(row) => Some(row),
        Effect::Free(_) => None,
    });
    let rows: Vec<_> = rows.collect();
    let mut is_done = vec![false; rows.len()];
    let mut all = Usage::default();
    for at in 0..rows.len() {
        if is_done[at] {
            continue;
        }
        let Some((transaction, group)) = group::together(table, &rows, &is_done, at) else { break };
        for one in group {
            is_done[one] = true;
        }
        all += of_transaction(&transaction);
    }
    all
}

/// The targets that are settled by their declarations. The entity is read once more at the end if one of its targets was
/// written.
fn settled(settlers: &[Arc<dyn Settler>], plan: &Plan) -> Usage {
    let mut all = Usage::default();
    for settler in settlers {
        let is_left = |target: &&Target| {
            target.of == settler.of() && !plan.inline.iter().any(|one| one.target == **target)
        };
        let targets: Vec<_> = plan.targets.iter().filter(is_left).collect();
        for of_one in targets.chunk_by(|one, next| one.row_key == next.row_key) {
            let usages = of_one.iter().filter_map(|target| settler.settling_usage(target));
            let (usages, reads): (Vec<_>, Vec<_>) = usages.unzip();
            all += usages.into_iter().sum();
            all += Usage::of(Class::TableRead, u64::from(reads.contains(&true)));
        }
    }
    all
}

fn released(table: &Deciding, plan: &Plan) -> Usage {
    let mut by_partition: BTreeMap<&str, Vec<(&Keys, &ETag)>> = BTreeMap::new();
    for one in &plan.released {
        if let Some(etag) = &one.etag {
            let keys = &one.reference.keys;
            by_partition.entry(&keys.0).or_default().push((keys, etag));
        }
    }
    let mut all = Usage::default();
    for chunk in by_partition.values().flat_map(|partition| partition.chunks(MAX_OPERATIONS)) {
        all += match chunk {
            [_] => Usage::of(Class::TableDelete, 1),
            several => {
                let delete = |transaction: Transaction, (keys, etag): &(&Keys, &ETag)| {
                    let key = Key::<DynamicEntity>::new(&*keys.0, &*keys.1);
                    transaction.delete(key, Match::ETag((*etag).clone()))
                };
                of_transaction(&several.iter().fold(table.transaction(), delete))
            }
        };
    }
    all
}

fn freed(plan: &Plan) -> Usage {
    let mut by_container: BTreeMap<&str, usize> = BTreeMap::new();
    for inline in &plan.inline {
        if let Effect::Free(blob) = &inline.effect {
            *by_container.entry(blob.container()).or_default() += 1;
        }
    }
    let mut all = Usage::default();
    for mut left in by_container.into_values() {
        while left > 0 {
            let together = left.min(MAX_BLOBS);
            all += match together {
                1 => Usage::of(Class::BlobDelete, 1),
                several => Usage::of_blob_batch(several as u64),
            };
            left -= together;
        }
    }
    all
}
