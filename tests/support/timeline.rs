//! Simulated time: it passes only while all futures wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey::service::Service;
use rowkey::{Attempt, AttemptResult, Clock, Policy, StorageAccountBuilder};
use rowkey_emulator::{Server, ServerClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::TestResult;

/// A clock for tests of throttling, deadlines and back-off, shared with a server.
///
/// [`run`](Self::run) polls a future until everything in it waits for the clock, and then advances the clock
/// to the end of the shortest wait. Hours pass in an instant, waits end in order, and concurrent waits
/// overlap. For accounts of [`connect`](Self::connect), time stands still while a request is processed, and
/// passes while it is on the way to the server. Those need a runtime of one thread.
#[derive(Clone, Debug)]
pub struct Timeline {
    server: ServerClock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    begun: DateTime<Utc>,
    now: DateTime<Utc>,
    sleepers: BTreeMap<u64, (DateTime<Utc>, Waker)>,
    /// Waits that have ended, and that their futures do not know of.
    woken: BTreeSet<u64>,
    waits: u64,
    /// Requests that are processed.
    requests: usize,
    /// Who waits in `run`.
    runner: Option<Waker>,
}

impl Timeline {
    /// A timeline that also advances `server`, a manual clock.
    pub fn new(server: &ServerClock) -> Self {
        let now = server.now().to_chrono();
        let state = State {
            begun: now,
            now,
            sleepers: BTreeMap::new(),
            woken: BTreeSet::new(),
            waits: 0,
            requests: 0,
            runner: None,
        };
        Self { server: server.clone(), state: Arc::new(Mutex::new(state)) }
    }

    /// The time that has passed.
    pub fn elapsed(&self) -> Duration {
        let state = self.state();
        (state.now - state.begun).to_std().unwrap_or_default()
    }

    /// The builder of an account on this clock, whose requests to the tables of `server` take `latency`.
    pub async fn connect(
        &self,
        server: &Server,
        latency: Duration,
    ) -> TestResult<StorageAccountBuilder> {
        let (_, rest) = server.table_endpoint().split_once("://").ok_or("no endpoint")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}/{path}", listener.local_addr()?);
        spawn(listen(self.clone(), listener, host.parse()?, latency));
        let builder = rowkey::StorageAccount::builder()
            .connection_string(server.connection_string())?
            .endpoint(Service::Table, &endpoint)?
            .clock(self.clone())
            .policy(Arc::new(self.clone()));
        Ok(builder)
    }

    /// Runs a future to its end.
    pub async fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            self.state().runner = Some(context.waker().clone());
            loop {
                let noticing = Arc::new(Noticing(context.waker().clone(), AtomicBool::new(false)));
                let waker = Waker::from(Arc::clone(&noticing));
                if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    return Poll::Ready(result);
                }
                // A future that was woken in the meantime has work at this time, and is polled again soon.
                if noticing.1.load(Ordering::Relaxed) || !self.move_on() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Ends the shortest wait. Returns `false` if nothing waits, or if something has work at this time.
    fn move_on(&self) -> bool {
        let ended = {
            let mut state = self.state();
            let is_quiet = state.requests == 0 && state.woken.is_empty();
            let earliest = state.sleepers.values().map(|(until, _)| *until).min();
            let Some(earliest) = earliest.filter(|_| is_quiet) else { return false };
            let passed = (earliest - state.now).to_std().unwrap_or_default();
            self.server.advance(passed);
            state.now = state.now.max(earliest);
            let now = state.now;
            let ended: Vec<_> = state
                .sleepers
                .iter()
                .filter(|(_, (until, _))| *until <= now)
                .map(|(wait, (_, waker))| (*wait, waker.clone()))
                .collect();
            for (wait, _) in &ended {
                state.sleepers.remove(wait);
                state.woken.insert(*wait);
            }
            ended
        };
        for (_, waker) in ended {
            waker.wake();
        }
        true
    }

    /// Changes the number of requests that are processed.
    fn requests(&self, change: isize) {
        let runner = {
            let mut state = self.state();
            state.requests = state.requests.saturating_add_signed(change);
            state.runner.clone()
        };
        if let Some(runner) = runner {
            runner.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for Timeline {
    fn now(&self) -> DateTime<Utc> {
        self.state().now
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let until = self.now() + duration;
        let wait = {
            let mut state = self.state();
            state.waits += 1;
            state.waits
        };
        Box::pin(Sleep { timeline: self, wait, until })
    }
}

struct Sleep<'a> {
    timeline: &'a Timeline,
    wait: u64,
    until: DateTime<Utc>,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.timeline.state();
        if state.now >= self.until {
            state.woken.remove(&self.wait);
            return Poll::Ready(());
        }
        state.sleepers.insert(self.wait, (self.until, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        let runner = {
            let mut state = self.timeline.state();
            state.sleepers.remove(&self.wait);
            state.woken.remove(&self.wait);
            state.runner.clone()
        };
        if let Some(runner) = runner {
            runner.wake();
        }
    }
}

impl Policy for Timeline {
    fn before(&self, _: &mut Attempt<'_>) -> rowkey::Result<()> {
        self.requests(1);
        Ok(())
    }

    fn after(&self, _: &Attempt<'_>, _: AttemptResult) {
        self.requests(-1);
    }
}

/// Passes connections on to the server.
async fn listen(
    timeline: Timeline,
    listener: TcpListener,
    server: SocketAddr,
    latency: Duration,
) -> io::Result<()> {
    loop {
        let (client, _) = listener.accept().await?;
        spawn(relay(timeline.clone(), client, server, latency));
    }
}

/// Passes each request on after the latency, and each answer at once.
async fn relay(
    timeline: Timeline,
    mut client: TcpStream,
    server: SocketAddr,
    latency: Duration,
) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.split(), server.split());
    // Requests are not pipelined: the first bytes after an answer begin the next one.
    let on_its_way = AtomicBool::new(false);
    let up = async {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = from_client.read(&mut buffer).await?;
            if length == 0 {
                return to_server.shutdown().await;
            }
            if !on_its_way.swap(true, Ordering::Relaxed) && latency > Duration::ZERO {
                timeline.requests(-1);
                timeline.sleep(latency).await;
                timeline.requests(1);
            }
            to_server.write_all(&buffer[..length]).await?;
        }
    };
    let down = async {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = from_server.read(&mut buffer).await?;
            if length == 0 {
                return to_client.shutdown().await;
            }
            on_its_way.store(false, Ordering::Relaxed);
            to_client.write_all(&buffer[..length]).await?;
        }
    };
    futures_util::future::try_join(up, down).await.map(drop)
}

#[expect(clippy::disallowed_methods, reason = "connections end with the runtime of the test")]
fn spawn(task: impl Future<Output = io::Result<()>> + Send + 'static) {
    tokio::spawn(task);
}

/// Forwards a wake-up, and records that there was one.
struct Noticing(Waker, AtomicBool);

impl Wake for Noticing {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::Relaxed);
        self.0.wake_by_ref();
    }
}
