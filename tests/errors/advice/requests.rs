//! Advices about requests: keys, properties, transactions, queries, blobs and answers.

use std::time::Duration;

use futures_util::FutureExt as _;
use rowkey::cost::{Class, PriceTable, Usage};
use rowkey::rounds::Rounds;
use rowkey::store::Store;
use rowkey::{ClientOptions, Entity, ErrorKind, RetryOptions, StorageAccount, Table};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::TestResult;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use super::{Case, case, refused, start};
use crate::account_at;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_customer, row = "customer_{customer}", many, copy(cents)))]
struct Order {
    tenant: String,
    id: u32,
    customer: String,
    cents: i64,
    note: String,
}

/// The copies of one of its indexes lack the note.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{team}", row = "task_{id:4}")]
#[entity(index(name = by_tag, row = "tag_{tag}", many, copy(tag)))]
#[entity(index(name = by_id, row = "id_{id}", many, copy(note)))]
struct Task {
    team: String,
    id: u32,
    tag: String,
    note: String,
}

fn order(id: u32) -> Order {
    Order { tenant: "contoso".into(), id, customer: "ada".into(), cents: 100, note: "x".into() }
}

async fn orders() -> TestResult<(Server, StorageAccount, Table)> {
    let (server, account) = start().await?;
    let table = account.table("orders");
    table.create().await?;
    Ok((server, account, table))
}

pub(super) const CASES: &[Case] = &[
    case("set it with `PriceTable::per_10_000`", || {
        async {
            let used = Usage::of(Class::TableScan, 1);
            let prices = PriceTable::new("USD");
            let error = refused(prices.of(&used))?;
            prices.per_10_000(Class::TableScan, "0.01".parse()?).of(&used)?;
            Ok(error)
        }
        .boxed()
    }),
    case("read it, or upsert", || {
        async {
            let (_server, _, table) = orders().await?;
            table.insert(&order(1)).await?;
            let error = refused(table.insert(&order(1)).await)?;
            assert!(table.get(Order::key("contoso", 1)).await?.is_some());
            table.upsert(&order(1)).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("read it again and decide again", || {
        async {
            let (_server, _, table) = orders().await?;
            table.insert(&order(1)).await?;
            let read = table.get(Order::key("contoso", 1)).await?.unwrap();
            table.upsert(&order(1)).await?;
            let error = refused(table.replace(&read.map(|order| order.cents += 1)).await)?;
            let again = table.get(Order::key("contoso", 1)).await?.unwrap();
            table.replace(&again.map(|order| order.cents += 1)).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("send fewer requests", || {
        async {
            let (server, _, table) = orders().await?;
            let busy = Fault::on(Operation::InsertEntity).times(100).reject(ErrorCode::SERVER_BUSY);
            let busy = server.inject(busy);
            let error = refused(table.insert(&order(1)).await)?;
            drop(busy);
            table.insert(&order(1)).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("try again later", || {
        async {
            let (server, _, table) = orders().await?;
            let down = Fault::on(Operation::GetEntity).times(100).close_before_commit();
            let down = server.inject(down);
            let error = refused(table.get(Order::key("contoso", 1)).await)?;
            drop(down);
            table.get(Order::key("contoso", 1)).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("split it", || {
        async {
            let (_server, _, table) = orders().await?;
            let all: Vec<_> = (0..101).map(order).collect();
            let send = |orders: &[Order]| {
                orders.iter().fold(table.transaction(), rowkey::Transaction::upsert).submit()
            };
            let error = refused(send(&all).await)?;
            assert_eq!(error.details().operation_index, Some(100));
            send(&all[..100]).await?;
            send(&all[100..]).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("check the credential and what it permits", || {
        async {
            let (server, _, _table) = orders().await?;
            let text = server.connection_string();
            let wrong = text.replace("AccountKey=", "AccountKey=AAAA");
            let wrong = StorageAccount::builder()
                .connection_string(&wrong)?
                .clock(rowkey::ManualClock::auto_advancing(server.clock().now().to_chrono()))
                .build()?;
            let error = refused(wrong.table("orders").insert(&order(1)).await)?;
            rowkey_tests::sweep::account(&server)?.table("orders").insert(&order(1)).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("wait for the lease, or acquire it", || {
        async {
            let (_server, account, _) = orders().await?;
            let container = account.container("leased");
            container.create().await?;
            let blob = container.blob("one");
            blob.put("x").send().await?;
            let lease = blob.acquire_lease(Duration::from_secs(15)).await?.unwrap();
            let error = refused(blob.put("y").send().await)?;
            lease.release().await?;
            blob.put("y").send().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("check the endpoint: a storage service says in a code why it refuses", || {
        async {
            let stub = MockServer::start().await;
            Mock::given(matchers::any())
                .respond_with(ResponseTemplate::new(404))
                .mount(&stub)
                .await;
            let wrong = account_at(&stub.uri()).build()?.table("orders");
            let error = refused(wrong.get(Order::key("contoso", 1)).await)?;
            let (_server, _, table) = orders().await?;
            assert!(table.get(Order::key("contoso", 1)).await?.is_none());
            Ok(error)
        }
        .boxed()
    }),
    case("read it, or write it without the condition that it is missing", || {
        async {
            let (_server, account, _) = orders().await?;
            let container = account.container("blobs");
            container.create().await?;
            let blob = container.blob("one");
            blob.put("x").send().await?;
            let missing = blob.with_conditions(rowkey::blob::Conditions::missing());
            let error = refused(missing.put("y").send().await)?;
            assert!(blob.read().bytes().await?.is_some());
            blob.put("y").send().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("narrow it, allow more pages, or resume from the last continuation token", || {
        async {
            let (_server, _, table) = orders().await?;
            for id in 0..5 {
                table.insert(&order(id)).await?;
            }
            let query = || table.query(Order::partition("contoso")).page_size(2);
            let error = refused(query().max_pages(1).all().await)?;
            assert_eq!(query().max_pages(9).all().await?.len(), 5);
            let page = table.query(Order::partition("contoso")).page(2, None).await?;
            let rest = query().resume(page.continuation.unwrap()).max_pages(2).all().await?;
            assert_eq!(page.entities.len() + rest.len(), 5);
            let one = table.query(Order::partition("contoso").range(..=Order::key("contoso", 0)));
            assert_eq!(one.max_pages(1).all().await?.len(), 1);
            Ok(error)
        }
        .boxed()
    }),
    case("allow more time, or resume from the last continuation token", || {
        async {
            let (_server, _, table) = orders().await?;
            table.insert(&order(1)).await?;
            let query = || table.query(Order::partition("contoso"));
            let error = refused(query().deadline(Duration::ZERO).all().await)?;
            assert_eq!(query().deadline(Duration::from_secs(60)).all().await?.len(), 1);
            Ok(error)
        }
        .boxed()
    }),
    case("the account's retry budget is used up; try again when the service has recovered", || {
        async {
            let (server, ..) = orders().await?;
            let account = StorageAccount::builder()
                .connection_string(server.connection_string())?
                .clock(rowkey_tests::sweep::waiting(&server)?.1)
                .retry_budget(1)
                .build()?;
            let table = account.table("orders");
            let down = Fault::on(Operation::GetEntity).times(100).reject(ErrorCode::SERVER_BUSY);
            let down = server.inject(down);
            let error = refused(table.get(Order::key("contoso", 1)).await)?;
            assert_eq!(down.hits(), 2, "one retry");
            drop(down);
            table.get(Order::key("contoso", 1)).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("allow a longer `timeout`, or try again later", || {
        async {
            let (server, ..) = orders().await?;
            let (account, _clock) = rowkey_tests::sweep::waiting(&server)?;
            let retry =
                RetryOptions { base_delay: Duration::from_secs(60), ..RetryOptions::default() };
            let options = |seconds| ClientOptions {
                timeout: Duration::from_secs(seconds),
                retry: retry.clone(),
                ..account.options().clone()
            };
            let busy = || Fault::on(Operation::GetEntity).times(1).reject(ErrorCode::SERVER_BUSY);
            let get = |table: Table| async move { table.get(Order::key("contoso", 1)).await };
            let table = account.table("orders");
            let first = server.inject(busy());
            let error = refused(get(table.with_options(options(30))).await)?;
            drop(first);
            let second = server.inject(busy());
            get(table.with_options(options(300))).await?;
            drop(second);
            Ok(error)
        }
        .boxed()
    }),
    case(
        "name its field in `copy(..)` of the index and build it anew, narrow the range if it is a value of the index, or read the entities and look at it there",
        || {
            async {
                let (_server, account) = start().await?;
                let tasks = Store::<Task>::builder(account.table("tasks")).build()?;
                tasks.create_if_missing().await?;
                tasks
                    .insert(&Task { team: "a".into(), id: 1, tag: "b".into(), note: "x".into() })
                    .await?;
                let of_index = |note: &str| {
                    tasks.query(Task::by_tag("a", "b")).filter(Task::NOTE.is(note)).all()
                };
                let error = refused(of_index("x").await)?;
                let narrowed = tasks.query(Task::by_tag("a", "b"));
                assert_eq!(narrowed.all().await?.len(), 1);
                let entities = tasks.query(Task::partition("a")).filter(Task::NOTE.is("x"));
                assert_eq!(entities.all().await?.len(), 1);
                let copied = tasks.query(Task::by_id("a", 1)).filter(Task::NOTE.is("x"));
                assert_eq!(copied.all().await?.len(), 1);
                Ok(error)
            }
            .boxed()
        },
    ),
];

#[tokio::test]
async fn a_write_was_lost_to_another_writer_only_if_reading_again_can_help() {
    let (_server, account) = start().await.unwrap();
    let table = account.table("orders");
    let mut rounds = Rounds::new(&table, "orders");
    assert!(rounds.again().await);
    let taken = rowkey::Error::refused(ErrorKind::AlreadyExists, "taken").in_index("by_email");
    assert!(!rowkey::rounds::was_lost(&taken));
    let stale = rowkey::Error::refused(ErrorKind::Conflict, "it was changed");
    assert!(rowkey::rounds::was_lost(&stale));
    assert!(!rowkey::rounds::was_lost(&stale.with_outcome(rowkey::Outcome::Unknown)));
}
