//! The blobs of a write: uploads before the commit, and deletions.
//!
//! The blobs of one container are deleted together by Blob Batch; those that the batch does not delete, one by one.
//!
//! Only blobs that no head names now or later are deleted here. So a deletion that takes effect late, or twice,
//! does no harm, and blobs whose result is missing in the answer to the batch are deleted again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rowkey_client::blob::Check;
use rowkey_client::internals::{MAX_BLOBS, declared};
use rowkey_client::{Blob, Error, Outcome, Result};
use rowkey_patterns::internals::try_all;

use super::announce::Announcer;
use super::caused::caused_by;
use crate::plan::Plan;

/// Blobs uploaded at once.
pub(super) const UPLOADS: usize = 8;

/// Whether the service deletes several blobs by one request. Each store finds out by its first batch.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    are_refused: AtomicBool,
}

impl Batches {
    /// Deletes blobs that may not exist; returns the result of each. One request for up to 256 blobs of a container,
    /// and one for each blob that the batch did not delete.
    pub(crate) async fn delete(&self, blobs: &[&Blob]) -> Vec<Result<()>> {
        let mut is_gone = vec![false; blobs.len()];
        let mut by_container: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, blob) in blobs.iter().enumerate() {
            by_container.entry(blob.container()).or_default().push(at);
        }
        for chunk in by_container.values().flat_map(|all| all.chunks(MAX_BLOBS)) {
            if chunk.len() == 1 || self.are_refused.load(Ordering::Relaxed) {
                continue;
            }
            let container = blobs[chunk[0]].account().container(blobs[chunk[0]].container());
            let together: Vec<_> = chunk.iter().map(|at| blobs[*at].clone()).collect();
            match container.delete_blobs(&together).await {
                Ok(results) => {
                    for (at, result) in chunk.iter().zip(results) {
                        is_gone[*at] = result.is_ok();
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "blobs are deleted one by one");
                    self.are_refused.fetch_or(is_unsupported(&error), Ordering::Relaxed);
                }
            }
        }
        let mut results = Vec::with_capacity(blobs.len());
        for (blob, is_gone) in blobs.iter().zip(is_gone) {
            let deleted = if is_gone { Ok(true) } else { blob.delete_if_exists().await };
            results.push(deleted.map(drop));
        }
        results
    }
}

/// Whether the service would refuse every batch: it does not support them, or this program may not send them.
fn is_unsupported(error: &Error) -> bool {
    error.outcome() == Outcome::Rejected && !error.is_retryable()
}

/// Uploads the blobs of a plan. One request each.
pub(super) async fn upload(plan: &Plan) -> Result<()> {
    let uploads = plan.uploads.iter().map(|upload| async move {
        let [(partition, in_partition), (row, in_row), (op, of_op)] = &upload.metadata;
        let metadata = [(*partition, &**in_partition), (*row, &**in_row), (*op, &**of_op)];
        let put = upload.blob.put(upload.content.clone()).metadata(&metadata).check(Check::Crc64);
        let sent = declared(upload.property, put.send()).await;
        sent.map_err(|error| error.during(format!("property `{}`", upload.property)))
    });
    try_all(uploads, UPLOADS).await.map(drop)
}

/// Deletes the blobs of a write that was not committed. If the write may still be committed, or a
/// deletion fails, the blobs are left to a sweep.
pub(super) async fn forget(announcer: &Announcer, plan: &Plan, in_doubt: bool) {
    if in_doubt {
        return;
    }
    let blobs: Vec<_> = plan.uploads.iter().map(|upload| &upload.blob).collect();
    let names = plan.uploads.iter().map(|upload| upload.property);
    let deleted = caused_by(names, announcer.batches.delete(&blobs)).await;
    for error in deleted.into_iter().filter_map(Result::err) {
        tracing::debug!(%error, "a blob is left to a sweep");
    }
}
