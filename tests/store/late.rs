//! Requests that land long after their sender gave them up.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use std::pin::pin;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::{Either, join, select};
use rowkey::store::Store;
use rowkey::{ManualClock, Outcome, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Service};
use rowkey_tests::{TestError, TestResult, sweep};

use super::rows::{self, Order, agreed, left, order, store};

/// A proxy before the Table service. It can keep a request instead of passing it on, and close the
/// connection: the client gets no answer. What is kept is sent later.
pub(crate) struct Late {
    port: u16,
    server: u16,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    /// The text of the one request to delay.
    wanted: Option<String>,
    kept: Option<Vec<u8>>,
}

impl Late {
    pub(crate) fn start(server: &Server) -> TestResult<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (port, server) = (listener.local_addr()?.port(), table_port(server)?);
        let shared = Arc::new(Mutex::new(Shared::default()));
        let state = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                // A connection that breaks is the client's to notice.
                thread::spawn(move || drop(pass_on(stream, server, &state)));
            }
        });
        Ok(Self { port, server, shared })
    }

    /// The same account through the proxy.
    pub(crate) fn account(
        &self,
        server: &Server,
        clock: impl rowkey::Clock + 'static,
    ) -> Result<StorageAccount, rowkey::Error> {
        let text = server.connection_string();
        let text = text.replace(&format!(":{}/", self.server), &format!(":{}/", self.port));
        StorageAccount::builder().connection_string(&text)?.clock(clock).build()
    }

    /// Keeps the next request that contains `text`.
    pub(crate) fn keep(&self, text: &str) {
        *self.shared.lock().unwrap() = Shared { wanted: Some(text.to_owned()), kept: None };
    }

    /// Whether a request is kept.
    pub(crate) fn has_kept(&self) -> bool {
        self.shared.lock().unwrap().kept.is_some()
    }

    /// Sends the delayed request, and returns the response.
    pub(crate) fn land(&self) -> Result<String, std::io::Error> {
        let kept = self.shared.lock().unwrap().kept.take().unwrap();
        let answer = ask(&kept, self.server)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

fn table_port(server: &Server) -> TestResult<u16> {
    let url = reqwest::Url::parse(server.table_endpoint())?;
    Ok(url.port().ok_or("no port")?)
}

/// Reads one request, and answers it or keeps it.
fn pass_on(mut client: TcpStream, server: u16, state: &Mutex<Shared>) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    let (head, length) = loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let lower = text[..end].to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
            break (end, length.map_or(0, |length| length.trim().parse().unwrap()));
        }
        match client.read(&mut buffer)? {
            0 => return Ok(()),
            read => request.extend_from_slice(&buffer[..read]),
        }
    };
    while request.len() < head + 4 + length {
        match client.read(&mut buffer)? {
            0 => return Ok(()),
            read => request.extend_from_slice(&buffer[..read]),
        }
    }
    // One request per connection.
    request.splice(head..head, b"\r\nConnection: close".iter().copied());
    {
        let mut state = state.lock().unwrap();
        let text = String::from_utf8_lossy(&request);
        if state.wanted.as_ref().is_some_and(|wanted| text.contains(wanted)) {
            *state = Shared { wanted: None, kept: Some(request) };
            return Ok(());
        }
    }
    client.write_all(&ask(&request, server)?)
}

fn ask(request: &[u8], server: u16) -> std::io::Result<Vec<u8>> {
    let mut upstream = TcpStream::connect(("127.0.0.1", server))?;
    upstream.write_all(request)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// A server, the proxy before it, and a store behind the proxy with a clock of its own.
async fn start() -> TestResult<(Server, Late, ManualClock, Store<Order>)> {
    let (server, _) = rows::start().await?;
    let late = Late::start(&server)?;
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let orders = store(&late.account(&server, clock.clone())?)?;
    Ok((server, late, clock, orders))
}

/// The client sends a transaction again that was not answered. The first attempt lands after the
/// second one was committed, and after the entity was deleted.
#[tokio::test]
async fn a_late_attempt_does_not_restore_a_deleted_entity() -> TestResult {
    let (server, late, _, orders) = start().await?;
    late.keep("$batch");
    orders.insert(&order(1)).await?;
    assert!(late.has_kept(), "the first attempt was not answered");
    assert!(orders.delete(Order::key("contoso", 1)).await?);
    let answer = late.land()?;
    assert!(agreed(&server.snapshot(), true).is_empty(), "{answer}");
    Ok(())
}

/// A worker inserts a row elsewhere and gets no answer, late in the life of the op row. The insert
/// lands when the entity and the op row are gone.
#[tokio::test]
async fn a_late_remote_row_is_removed() -> TestResult {
    let (server, late, clock, orders) = start().await?;
    let pass = |seconds| {
        server.clock().advance(Duration::from_secs(seconds));
        clock.advance(Duration::from_secs(seconds));
    };
    // The writer stops after its commit.
    let held = server.inject(Fault::on(Operation::Transaction).nth(2).hold());
    {
        let one = order(1);
        let insert = orders.insert(&one);
        select(pin!(insert), pin!(held.wait_until_held())).await;
    }
    held.discard();
    pass(595);
    late.keep("PrimaryPartitionKey");
    orders.work_once().await?;
    assert!(late.has_kept());
    orders.delete(Order::key("contoso", 1)).await?;
    for _ in 0..8 {
        pass(5);
        orders.work_once().await?;
    }
    let answer = late.land()?;
    for _ in 0..4 {
        pass(2800);
        orders.work_once().await?;
    }
    assert!(agreed(&server.snapshot(), true).is_empty(), "{answer}");
    assert_eq!(left(&server), Vec::<String>::new());
    Ok(())
}

/// The machine sleeps while a writer waits for an answer. When it wakes, a worker has settled and
/// forgotten the write.
#[tokio::test]
async fn a_delayed_writer_does_not_report_a_committed_write_as_failed() -> TestResult {
    let (server, _, clock, orders) = start().await?;
    let pass = |seconds| {
        server.clock().advance(Duration::from_secs(seconds));
        clock.advance(Duration::from_secs(seconds));
    };
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_after_commit());
    let held = server.inject(Fault::on(Operation::GetEntity).nth(1).hold());
    let one = order(1);
    let other = async {
        held.wait_until_held().await;
        let account = sweep::account(&server)?;
        store(&account)?.work_once().await?;
        for _ in 0..3 {
            pass(2800);
            store(&sweep::account(&server)?)?.work_once().await?;
        }
        held.release();
        Ok::<_, TestError>(())
    };
    let (inserted, other) = join(Box::pin(orders.insert(&one)), other).await;
    other?;
    assert_eq!(lost.hits(), 1);
    assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    if let Err(error) = inserted {
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    }
    Ok(())
}

/// A writer is held up between two claims for so long that a worker gave its write up and forgot it, and
/// that another writer took the first value.
#[tokio::test]
async fn a_writer_delayed_before_its_commit_does_not_affect_others() -> TestResult {
    let (server, _, clock, orders) = start().await?;
    let pass = |seconds| {
        server.clock().advance(Duration::from_secs(seconds));
        clock.advance(Duration::from_secs(seconds));
    };
    let held = server.inject(Fault::on(Operation::InsertEntity).nth(2).hold());
    let (one, two) = (order(1), order(2));
    let submit = orders.transaction().insert(&one).insert(&two).submit();
    let other = async {
        held.wait_until_held().await;
        for _ in 0..3 {
            pass(2800);
            store(&sweep::account(&server)?)?.work_once().await?;
        }
        let taken = Order { number: Some("A1".into()), ..order(3) };
        store(&sweep::account(&server)?)?.insert(&taken).await?;
        held.release();
        Ok::<_, TestError>(())
    };
    let (submitted, other) = join(submit, other).await;
    other?;
    // Each value has one owner, which has its claim.
    let orders = agreed(&server.snapshot(), false);
    assert_eq!((orders.len(), submitted.is_err()), (1, true));
    Ok(())
}

/// The queue is down, so the backlog announces the write. Its writer is held up before the transaction until a
/// worker has given the write up.
#[tokio::test]
async fn the_void_of_a_write_that_the_backlog_announced_is_removed() -> TestResult {
    let (server, _, clock, orders) = start().await?;
    let pass = |seconds| {
        server.clock().advance(Duration::from_secs(seconds));
        clock.advance(Duration::from_secs(seconds));
    };
    let down = server.inject(Fault::service(Service::Queue).reject(ErrorCode::SERVER_BUSY));
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let one = order(1);
    let other = async {
        held.wait_until_held().await;
        pass(100);
        let worked = store(&sweep::account(&server)?)?.drain_backlog().await?;
        assert_eq!(worked.waiting, 1);
        held.release();
        Ok::<_, TestError>(())
    };
    let (_, other) = join(Box::pin(orders.insert(&one)), other).await;
    other?;
    assert!(down.hits() > 0);
    drop(down);
    for _ in 0..3 {
        pass(2800);
        let orders = store(&sweep::account(&server)?)?;
        orders.drain_backlog().await?;
        orders.work_once().await?;
    }
    assert_eq!(left(&server), Vec::<String>::new());
    agreed(&server.snapshot(), true);
    Ok(())
}

/// An insert of an entity that exists takes over its claim. The entity is deleted, with its claim, before
/// the transaction of the insert lands.
#[tokio::test]
async fn a_late_insert_after_a_deletion_has_its_claim() -> TestResult {
    let (server, account) = rows::start().await?;
    let orders = store(&account)?;
    orders.insert(&order(1)).await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let one = order(1);
    let (insert, wait) = (pin!(orders.insert(&one)), pin!(held.wait_until_held()));
    if let Either::Right(((), insert)) = select(insert, wait).await {
        assert!(orders.delete(Order::key("contoso", 1)).await?);
        held.release();
        drop(insert.await);
    }
    agreed(&server.snapshot(), false);
    Ok(())
}

/// The writer's clock is 28 minutes behind the worker's. The writer is slow before its commit, and the
/// commit lands late: the worker must not take the operation for one that is long over.
#[tokio::test]
async fn a_late_commit_conflicts_with_its_void_despite_clock_skew() -> TestResult {
    let (server, _) = rows::start().await?;
    let skewed = |minutes| -> Result<_, rowkey::Error> {
        let now = server.clock().now().to_chrono() + TimeDelta::minutes(minutes);
        let clock = ManualClock::auto_advancing(now);
        let text = server.connection_string();
        let account = StorageAccount::builder().connection_string(text)?.clock(clock.clone());
        Ok((clock, store(&account.build()?)?))
    };
    let ((behind, writer), (ahead, worker)) = (skewed(-14)?, skewed(14)?);
    let pass = |seconds| {
        server.clock().advance(Duration::from_secs(seconds));
        behind.advance(Duration::from_secs(seconds));
        ahead.advance(Duration::from_secs(seconds));
    };
    let claim = server.inject(Fault::on(Operation::InsertEntity).nth(1).hold());
    let commit = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let one = order(1);
    let others = async {
        claim.wait_until_held().await;
        pass(290);
        claim.release();
        commit.wait_until_held().await;
        // Less than ten minutes after the commit was sent.
        pass(500);
        worker.work_once().await?;
        let taken = Order { number: Some("A1".into()), ..order(3) };
        worker.insert(&taken).await?;
        commit.release();
        Ok::<_, TestError>(())
    };
    let (inserted, others) = join(Box::pin(writer.insert(&one)), others).await;
    others?;
    assert_eq!(agreed(&server.snapshot(), false).len(), 1);
    assert_eq!(inserted.unwrap_err().details().index, Some("by_number"));
    for _ in 0..3 {
        pass(2800);
        worker.work_once().await?;
    }
    assert_eq!(agreed(&server.snapshot(), true).len(), 1);
    assert_eq!(left(&server), Vec::<String>::new());
    Ok(())
}
