//! Runs futures with limited concurrency.
//!
//! Each future is boxed, so that one instance of this code serves all call sites and entity types. One
//! instance for each was a third of the compiled code of a program with many stores.

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{self, StreamExt as _};
use rowkey_client::Result;

/// Runs at most `concurrency` futures at a time and returns their outputs in order. The first error stops the
/// others.
#[doc(hidden)]
pub async fn try_all<T, F>(
    futures: impl IntoIterator<Item = F>,
    concurrency: usize,
) -> Result<Vec<T>>
where
    T: Send,
    F: Future<Output = Result<T>> + Send,
{
    all_until(futures, concurrency, Result::is_err).await.into_iter().collect()
}

/// Runs the futures until `ends` returns `true` for an output, drops the unfinished ones, and returns all
/// outputs in order.
#[doc(hidden)]
pub async fn all_until<T, F>(
    futures: impl IntoIterator<Item = F>,
    concurrency: usize,
    ends: fn(&T) -> bool,
) -> Vec<T>
where
    T: Send,
    F: Future<Output = T> + Send,
{
    let mut boxed: Vec<BoxFuture<'_, T>> = Vec::new();
    for future in futures {
        boxed.push(Box::pin(future));
    }
    all_boxed(boxed, concurrency, ends).await
}

/// Like `all_until`. Compiled once for each output, not for each future.
async fn all_boxed<T: Send>(
    futures: Vec<BoxFuture<'_, T>>,
    concurrency: usize,
    ends: fn(&T) -> bool,
) -> Vec<T> {
    let mut returned: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let tasks = returned.iter_mut().zip(futures).map(|(slot, future)| {
        async move {
            let value = future.await;
            let is_end = ends(&value);
            *slot = Some(value);
            is_end
        }
        .boxed()
    });
    drive(tasks.collect(), concurrency).await;
    returned.into_iter().flatten().collect()
}

/// Runs tasks until one returns `true`, and drops the others.
fn drive(tasks: Vec<BoxFuture<'_, bool>>, concurrency: usize) -> BoxFuture<'_, ()> {
    async move {
        let mut running = stream::iter(tasks).buffer_unordered(concurrency.max(1));
        while let Some(is_end) = running.next().await {
            if is_end {
                break;
            }
        }
    }
    .boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rowkey_client::{Error, ErrorKind};
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn results_are_in_order_and_concurrency_is_limited() {
        let (running, most) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
        let futures = (0..20).map(|number: usize| async move {
            most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            for _ in 0..(20 - number) % 7 {
                yield_now().await;
            }
            running.fetch_sub(1, Ordering::Relaxed);
            Ok(number)
        });
        assert_eq!(try_all(futures, 4).await.unwrap(), (0..20).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn an_error_stops_the_remaining_futures() {
        let begun = &AtomicUsize::new(0);
        let futures = (0..20).map(|number| async move {
            begun.fetch_add(1, Ordering::Relaxed);
            if number == 2 { Err(Error::refused(ErrorKind::Invalid, "a test")) } else { Ok(number) }
        });
        assert_eq!(try_all(futures, 1).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(begun.load(Ordering::Relaxed), 3);
    }
}
