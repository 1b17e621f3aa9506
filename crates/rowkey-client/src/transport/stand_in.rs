//! Answers requests in memory, so that stubs learn what a write needs.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};

/// Answers a request; `None` sends it to the service.
pub(crate) type Responder = Arc<dyn Fn(&Request<Bytes>) -> Option<Response<Bytes>> + Send + Sync>;

tokio::task_local! {
    static RESPONDER: Responder;
}

/// Runs `operations` to the end, with `responder` in the place of the connections.
pub(crate) async fn answered_by<F: Future>(responder: Responder, operations: F) -> F::Output {
    RESPONDER.scope(responder, operations).await
}

/// The response to a request of an operation that runs in [`answered_by`].
pub(super) fn answer(request: &Request<Bytes>) -> Option<Response<Bytes>> {
    RESPONDER.try_with(|respond| respond(request)).ok().flatten()
}
