//! Adds up what the requests of a call use, of all handles and accounts.

use std::sync::{Arc, Mutex, PoisonError};

use rowkey_entity::Receipt;
use tokio::time::Instant;

tokio::task_local! {
    static TALLY: Arc<Tally>;
}

/// The sum of a call, and the call that it is a part of.
struct Tally {
    sum: Mutex<Receipt>,
    of: Option<Arc<Self>>,
}

/// Runs a call, and returns its output with what all its requests used.
///
/// Every request counts that the future sends while it is polled: of any handle and account, of calls that
/// fail, and of calls that the future drops. Requests of tasks that it spawns do not count. Sends nothing
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
        let tally = Arc::new(Tally { sum: Mutex::default(), of: TALLY.try_with(Arc::clone).ok() });
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

/// Counts an attempt that is about to be sent.
pub(crate) fn sent(bytes: u64) {
    add(|sum| sum.sent(1, bytes));
}

/// Counts the response to an attempt, with the ids of the service and of the client.
pub(crate) fn answered<'a>(bytes: u64, ids: impl Fn() -> (Option<&'a str>, Option<&'a str>)) {
    add(|sum| {
        let (id, client_id) = ids();
        sum.answered(id, client_id, bytes);
    });
}

fn add(change: impl Fn(&mut Receipt)) {
    // Without a tally, this reads one thread-local value.
    let _ = TALLY.try_with(|tally| {
        let mut next = Some(tally);
        while let Some(tally) = next {
            change(&mut tally.sum.lock().unwrap_or_else(PoisonError::into_inner));
            next = tally.of.as_ref();
        }
    });
}
