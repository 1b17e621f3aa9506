//! The accept loops, and the threads that serve the connections.
//!
//! Each thread has its own runtime and serves its connections from the first request to the last.
//! Passing a request to another thread would take longer than answering most requests.

use std::future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tracing::warn;

use super::connection::{Serves, serve};
use crate::state::State;
use crate::tls::Acceptor;

/// The delay before accepting again when the system is out of file descriptors.
const ACCEPT_DELAY: Duration = Duration::from_millis(50);

/// Bound sockets, each with what it serves.
pub(crate) type Listeners = Vec<(TcpListener, Serves)>;

/// A running server: its threads end when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    /// Whether the runtime needs timers.
    is_timed: bool,
}

/// Serves on `listeners` until the result is dropped, with `threads` threads.
pub(crate) fn start(
    state: Arc<State>,
    listeners: Listeners,
    tls: Option<Acceptor>,
    threads: NonZeroUsize,
) -> io::Result<Running> {
    for (listener, _) in &listeners {
        listener.set_nonblocking(true)?;
    }
    let (stop, stopped) = oneshot::channel();
    let is_timed = state.keep_alive.is_limited();
    let mut running = Running { stop: Some(stop), threads: Vec::new(), is_timed };
    let mut workers = Vec::new();
    for _ in 1..threads.get() {
        let (send, dispatched) = mpsc::unbounded_channel();
        let open = Arc::<AtomicUsize>::default();
        workers.push(Worker { send, open: Arc::clone(&open) });
        let (state, tls) = (Arc::clone(&state), tls.clone());
        running.thread(move || serve_dispatched(state, tls, dispatched, open))?;
    }
    let dispatcher = Dispatcher { state, tls, open: Arc::default(), workers: workers.into() };
    running.thread(move || accept_all(dispatcher, listeners, stopped))?;
    Ok(running)
}

impl Running {
    fn thread<F: Future<Output = ()>>(
        &mut self,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> io::Result<()> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_io();
        if self.is_timed {
            runtime.enable_time();
        }
        let runtime = runtime.build()?;
        let builder = thread::Builder::new().name("rowkey-server".to_owned());
        self.threads.push(builder.spawn(move || runtime.block_on(work()))?);
        Ok(())
    }

    /// Waits until the server stops, which happens only after a failure.
    pub(crate) fn wait(mut self) {
        self.join();
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The loops wait only for sockets and this signal, so they end at once.
        self.join();
    }
}

/// Distributes the connections over the threads.
#[derive(Clone)]
struct Dispatcher {
    state: Arc<State>,
    tls: Option<Acceptor>,
    /// The number of connections of the accepting thread.
    open: Arc<AtomicUsize>,
    workers: Arc<[Worker]>,
}

/// A thread that does not accept connections.
struct Worker {
    send: mpsc::UnboundedSender<Accepted>,
    /// The number of its connections.
    open: Arc<AtomicUsize>,
}

/// A connection for another thread, which registers it with its own runtime.
type Accepted = (std::net::TcpStream, SocketAddr, Serves);

impl Dispatcher {
    /// The thread with the fewest connections, unless that is the accepting thread.
    fn fewest(&self) -> Option<&Worker> {
        let count = |open: &AtomicUsize| open.load(Ordering::Relaxed);
        let worker = self.workers.iter().min_by_key(|worker| count(&worker.open))?;
        (count(&worker.open) < count(&self.open)).then_some(worker)
    }
}

/// Accepts on every listener until the stop signal, then closes all open connections.
async fn accept_all(dispatcher: Dispatcher, listeners: Listeners, stopped: oneshot::Receiver<()>) {
    let mut loops = JoinSet::new();
    for (listener, serves) in listeners {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                loops.spawn(accept(dispatcher.clone(), listener, serves));
            }
            Err(error) => warn!(%error, "cannot listen"),
        }
    }
    let _ = stopped.await;
}

async fn accept(dispatcher: Dispatcher, listener: tokio::net::TcpListener, serves: Serves) {
    let mut connections = JoinSet::new();
    let mut is_full = false;
    loop {
        let Some(accepted) = unless_ended(listener.accept(), &mut connections).await else {
            dispatcher.open.fetch_sub(1, Ordering::Relaxed);
            continue;
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_the_peer(&error) => continue,
            Err(error) => {
                // Connections that arrive meanwhile wait in the socket's queue.
                if !is_full {
                    warn!(%error, "cannot accept connections until others end");
                }
                is_full = true;
                delay_accept().await;
                continue;
            }
        };
        is_full = false;
        // Responses are small, and clients wait for them.
        let _ = stream.set_nodelay(true);
        if let Some(worker) = dispatcher.fewest() {
            if let Ok(stream) = stream.into_std() {
                worker.open.fetch_add(1, Ordering::Relaxed);
                let _ = worker.send.send((stream, peer, serves));
            }
        } else {
            dispatcher.open.fetch_add(1, Ordering::Relaxed);
            let (state, tls) = (Arc::clone(&dispatcher.state), dispatcher.tls.clone());
            connections.spawn(serve(state, tls, stream, peer, serves));
        }
    }
}

/// Serves the connections that the accepting thread sends, until it stops.
async fn serve_dispatched(
    state: Arc<State>,
    tls: Option<Acceptor>,
    mut dispatched: mpsc::UnboundedReceiver<Accepted>,
    open: Arc<AtomicUsize>,
) {
    let mut connections = JoinSet::new();
    loop {
        let Some(accepted) = unless_ended(dispatched.recv(), &mut connections).await else {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        };
        let Some((stream, peer, serves)) = accepted else { return };
        let (state, tls) = (Arc::clone(&state), tls.clone());
        connections.spawn(async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => serve(state, tls, stream, peer, serves).await,
                Err(error) => warn!(%error, "a connection cannot be served"),
            }
        });
    }
}

/// The next connection; `None` if one of the open ones ended, which is removed.
///
/// Ended ones come first. If clients connect without a pause, a new one is always ready, and what ended before it
/// would be counted as open, and kept in memory, until there is a pause.
async fn unless_ended<T>(
    arriving: impl Future<Output = T>,
    connections: &mut JoinSet<()>,
) -> Option<T> {
    match select(pin!(end(connections)), pin!(arriving)).await {
        Either::Left(_) => None,
        Either::Right((arrived, _)) => Some(arrived),
    }
}

/// Waits until a connection ends, for ever if there is none.
async fn end(connections: &mut JoinSet<()>) {
    if connections.join_next().await.is_none() {
        future::pending::<()>().await;
    }
}

/// Whether a connection ended before it was accepted. Other connections are not affected.
fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Sleeps on another thread. A runtime with timers would read the time whenever it becomes idle.
async fn delay_accept() {
    #[expect(clippy::disallowed_methods, reason = "backs off while descriptors are exhausted")]
    let _ = tokio::task::spawn_blocking(|| thread::sleep(ACCEPT_DELAY)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ended_connections_are_removed_although_new_ones_are_ready() {
        let mut connections = JoinSet::new();
        connections.spawn(future::ready(()));
        connections.spawn(future::ready(()));
        connections.spawn(future::pending());
        tokio::task::yield_now().await;
        let mut ended = 0;
        while unless_ended(future::ready(()), &mut connections).await.is_none() {
            ended += 1;
        }
        assert_eq!((ended, connections.len()), (2, 1));
    }
}
