//! What settling takes: several requests at a time, and another round when others write, too.

use futures_util::stream::iter;
use futures_util::{StreamExt as _, TryStreamExt as _};
use rowkey::{Error, Outcome, Result};
use rowkey_patterns::rounds::was_lost;

/// Whether reading and deciding again may lead to another result: somebody else has written, or nobody
/// knows whether this one has. (Settling goes by what is there, so that need not be known.)
pub(crate) fn is_open(error: &Error) -> bool {
    was_lost(error) || error.outcome() == Outcome::Unknown
}

/// The results of all futures in their order, so many of them running at a time; or the first error.
pub(crate) async fn all<T>(
    futures: impl IntoIterator<Item = impl Future<Output = Result<T>>>,
    at_a_time: usize,
) -> Result<Vec<T>> {
    iter(futures).buffered(at_a_time).try_collect().await
}
