//! Adds up what the requests of a call use, of all handles and accounts.

use std::sync::{Arc, Mutex, PoisonError};

use rowkey_entity::Receipt;
use tokio::time::Instant;

tokio::task_local! {
    static TALLY: Arc<Tally>;
}

/// The sum of a call, and the call that it is a part of.
#[derive(Debug)]
pub(crate) struct Tally {
    sum: Mutex<Receipt>,
    of: Option<Arc<Self>>,
}

/// Runs a call, and returns its output with what all its requests used.
///
/// Every request counts that the future sends while it is polled, when it is over or dropped: of any handle and
/// account, of calls that fail, and of calls that the future drops. As for a [`Meter`](crate::cost::Meter), an attempt
/// that could not connect is none, and the pieces of a body that is read piece by piece count as they are read.
/// Requests of tasks that it spawns do not count. Sends nothing
/// itself, and allocates twice.
///
/// ```
/// use rowkey::telemetry::with_receipt;
/// use rowkey::{DynamicEntity, StorageAccount};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// let orders = account.table("orders");
/// let (created, receipt) = with_receipt(async {
///     orders.create().await?;
///     orders.insert(&DynamicEntity::new("contoso", "1")).await
/// })
/// .await;
/// created?;
/// assert_eq!(receipt.attempts(), 2);
/// assert!(receipt.bytes_sent() > 0 && receipt.request_id().is_some());
/// # Ok(()) }
/// ```
pub fn with_receipt<F: Future>(call: F) -> impl Future<Output = (F::Output, Receipt)> {
    // Boxed, so that futures that contain this one do not grow with each layer.
    let call = Box::pin(call);
    async {
        let tally = Arc::new(Tally { sum: Mutex::default(), of: current() });
        let begun = Instant::now();
        let output = TALLY.scope(Arc::clone(&tally), call).await;
        let mut receipt = tally.sum.lock().unwrap_or_else(PoisonError::into_inner).clone();
        receipt.took(begun.elapsed());
        (output, receipt)
    }
}

/// Returns what the call that [`with_receipt`] runs has used until now, without its duration.
pub fn receipt_so_far() -> Receipt {
    let sum = |tally: &Arc<Tally>| tally.sum.lock().unwrap_or_else(PoisonError::into_inner).clone();
    TALLY.try_with(sum).unwrap_or_default()
}

/// Returns the sum of the innermost call that is being polled, if one is counted.
pub(crate) fn current() -> Option<Arc<Tally>> {
    TALLY.try_with(Arc::clone).ok()
}

impl Tally {
    /// Changes the sums of the call and of those that it is a part of.
    pub(crate) fn change(&self, change: impl Fn(&mut Receipt)) {
        let mut next = Some(self);
        while let Some(tally) = next {
            change(&mut tally.sum.lock().unwrap_or_else(PoisonError::into_inner));
            next = tally.of.as_deref();
        }
    }
}
