//! Each request of each write fails in every way: what the write says is what happened, and a worker
//! leaves nothing over.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::store::Store;
use rowkey::{Error, Outcome, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Matching, Server, Snapshot};
use rowkey_tests::sweep::{self, is_in_sample, once};
use rowkey_tests::{TestError, TestResult};

use super::rows::{Order, agreed, left, order, start, store};

/// The keys of orders, and their cents.
type Orders = Vec<(String, i64)>;

type Write = fn(Store<Order>) -> BoxFuture<'static, Result<(), Error>>;

/// Writes that are committed and writes that are refused, each on a server with one order.
pub(crate) const WRITES: [(&str, Write); 9] = [
    ("insert", |orders| async move { orders.insert(&order(2)).await.map(drop) }.boxed()),
    ("insert of one that exists", |orders| {
        async move { orders.insert(&order(1)).await.map(drop) }.boxed()
    }),
    ("insert with a value that is taken", |orders| {
        let taken = Order { number: Some("A1".into()), ..order(2) };
        async move { orders.insert(&taken).await.map(drop) }.boxed()
    }),
    ("insert with a place that is taken", |orders| {
        let taken = Order { desk: Some(1), ..order(2) };
        async move { orders.insert(&taken).await.map(drop) }.boxed()
    }),
    ("update of everything", |orders| {
        let change = |order: &mut Order| {
            order.cents += 1;
            (order.desk, order.courier) = (Some(7), Some("lee".into()));
            order.number = Some("B".into());
        };
        async move { orders.update(Order::key("contoso", 1), change).await.map(drop) }.boxed()
    }),
    ("update of an index", |orders| {
        let change = |order: &mut Order| {
            order.cents += 1;
            order.customer = "bob".into();
        };
        async move { orders.update(Order::key("contoso", 1), change).await.map(drop) }.boxed()
    }),
    ("upsert", |orders| {
        let other = Order { number: None, cents: 7, ..order(1) };
        async move { orders.upsert(&other).await.map(drop) }.boxed()
    }),
    ("delete", |orders| {
        async move { orders.delete(Order::key("contoso", 1)).await.map(drop) }.boxed()
    }),
    ("transaction", |orders| {
        async move {
            let (two, three) = (order(2), order(3));
            orders.transaction().insert(&two).insert(&three).submit().await.map(drop)
        }
        .boxed()
    }),
];

type Fail = fn(Matching) -> Fault;

pub(crate) const FAILURES: [Fail; 4] = [
    |requests| requests.close_before_commit(),
    |requests| requests.close_after_commit(),
    |requests| requests.reject(ErrorCode::SERVER_BUSY),
    |requests| requests.reject(ErrorCode::INTERNAL_ERROR),
];

/// A server with one order.
pub(crate) async fn with_one() -> TestResult<Server> {
    let (server, account) = start().await?;
    store(&account)?.insert(&order(1)).await?;
    Ok(server)
}

/// Makes one write on a copy of `server` with these faults, and checks what it says and leaves. The
/// orders afterwards, and how many requests it was.
pub(crate) async fn one(
    server: &Server,
    write: Write,
    faults: &[Fault],
    repeats: bool,
    expected: Option<&(Orders, Orders)>,
) -> TestResult<(Vec<(String, i64)>, usize, bool)> {
    let server = server.fork().await?;
    let injected: Vec<_> = faults.iter().map(|fault| server.inject(fault.clone())).collect();
    let connect = |server: &Server| -> Result<StorageAccount, Error> {
        sweep::account(server).map(|account| if repeats { account } else { once(&account) })
    };
    let result = write(store(&connect(&server)?)?).await;
    let requests = server.journal().len();
    drop(injected);
    let orders = agreed(&server.snapshot(), false);
    if let Some((before, after)) = expected {
        match &result {
            Ok(()) => assert_eq!(orders, *after, "it says that it was committed"),
            Err(error) if error.outcome() == Outcome::Unknown => {}
            Err(error) => assert_eq!(orders, *before, "it says that it was not: {error}"),
        }
    }
    let unknown = result.as_ref().is_err_and(|error| error.outcome() == Outcome::Unknown);
    let work = async |seconds| {
        server.clock().advance(Duration::from_secs(seconds));
        let orders = store(&sweep::account(&server)?)?;
        orders.drain_backlog().await?;
        let worked = orders.work_once().await?;
        assert_eq!(worked.failed, 0, "{worked:?}");
        Ok::<_, TestError>(())
    };
    work(61).await?;
    work(2).await?;
    let orders = agreed(&server.snapshot(), true);
    for _ in 0..3 {
        work(2800).await?;
    }
    assert_eq!(agreed(&server.snapshot(), true), orders);
    assert_eq!(left(&server), Vec::<String>::new());
    Ok((orders, requests, unknown))
}

fn orders_of(snapshot: &Snapshot) -> Vec<(String, i64)> {
    agreed(snapshot, true)
}

#[tokio::test]
async fn a_write_reports_its_outcome_and_cleans_up() -> TestResult {
    let server = with_one().await?;
    let before = orders_of(&server.snapshot());
    for (name, write) in WRITES {
        let (after, requests, _) = one(&server, write, &[], true, None).await?;
        let expected = (before.clone(), after);
        let mut unknown = 0;
        for request in 1..=u64::try_from(requests)? {
            for (at, fail) in (0..).zip(FAILURES) {
                for repeats in [true, false] {
                    // Each request, each failure, and both kinds of client.
                    if !is_in_sample(request + 2 * at + u64::from(repeats)) {
                        continue;
                    }
                    eprintln!("{name}: request {request}, failure {at}, repeats: {repeats}");
                    let fault = fail(Fault::any().nth(request));
                    let (_, _, is_unknown) =
                        one(&server, write, &[fault], repeats, Some(&expected)).await?;
                    unknown += usize::from(is_unknown);
                }
            }
        }
        assert_eq!(unknown, 0, "{name}: one failure leaves nothing unknown");
    }
    Ok(())
}
