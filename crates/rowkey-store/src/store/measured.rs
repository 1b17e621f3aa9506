//! Metrics of writes, and the receipts of their results.

use rowkey_client::telemetry::{error_type, metrics, with_receipt};
use rowkey_client::{Entity, Receipt, Result};

use super::{Store, Written};
use crate::declaring::settling::Settled;

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Runs a write, reports it, and returns its result with what all its requests used. A write yields
    /// what is settled, or `None` if it wrote nothing.
    pub(super) async fn measured<T>(
        &self,
        operation: &'static str,
        write: impl Future<Output = Result<(T, Option<Settled>)>>,
    ) -> Result<(T, Receipt)> {
        let (written, receipt) = with_receipt(write).await;
        let table = &self.inner.table;
        let (outcome, failure) = match &written {
            Ok((_, Some(Settled::Done))) => ("done", None),
            Ok((_, Some(Settled::Pending))) => ("pending", None),
            Ok((_, None)) => ("unchanged", None),
            Err(error) => ("failed", Some(error_type(error))),
        };
        let attributes = [
            ("db.collection.name", table.name()),
            ("rowkey.operation.name", operation),
            ("rowkey.outcome", outcome),
            // One without a value is left out.
            ("error.type", failure.unwrap_or_default()),
        ];
        let telemetry = table.account().telemetry();
        let seconds = receipt.duration().as_secs_f64();
        telemetry.record(metrics::STORE_WRITE_DURATION.name, &attributes, seconds);
        let requests = receipt.attempts().into();
        telemetry.record(metrics::STORE_WRITE_REQUESTS.name, &attributes, requests);
        match written {
            Ok((written, _)) => Ok((written, receipt)),
            Err(error) => Err(self.named(operation, error)),
        }
    }
}

/// A write that [`Store::measured`] reports.
pub(super) fn ended(written: Written) -> (Written, Option<Settled>) {
    let settled = written.settled;
    (written, Some(settled))
}

pub(super) fn with_its_receipt((written, receipt): (Written, Receipt)) -> Written {
    Written { receipt, ..written }
}
