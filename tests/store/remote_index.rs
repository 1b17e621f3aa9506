//! Indexes in other partitions and what else follows a commit: it follows the primary, waits for no queue,
//! and stands beside every other part.

use std::time::Duration;

use rowkey::store::{Change, Contribution, Declaration, Settled, Store, Transaction, View};
use rowkey::worker::outbox::Outbox as _;
use rowkey::worker::{Task, Tasks};
use rowkey::{ClientOptions, DynamicEntity, Entity, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Service};
use rowkey_tests::TestResult;
use rowkey_tests::sweep;
use serde::{Deserialize, Serialize};

/// The longest time that a write may wait for an unavailable queue.
const BUDGET: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{department}", row = "id_{id:6}")]
#[entity(index(name = by_city, partition = "city_{city}", row = "{department}", many))]
struct Employee {
    department: String,
    id: u32,
    city: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "summary")]
struct City {
    name: String,
    people: i64,
}

#[derive(Serialize, Deserialize)]
struct Mail;

impl Task for Mail {
    const KIND: &'static str = "mail";
}

/// A row beside each change.
struct Audit;

impl Declaration<Employee> for Audit {
    fn name(&self) -> &'static str {
        "audit"
    }

    fn operations(&self) -> usize {
        1
    }

    fn contribute(
        &self,
        change: Change<'_, Employee>,
        plan: &mut Contribution<'_>,
    ) -> rowkey::Result<()> {
        let row_key = format!("audit_{}_{}", change.row_key(), change.op().mark());
        plan.insert(&DynamicEntity::new(change.partition_key(), row_key))
    }
}

fn employee(id: u32) -> Employee {
    Employee { department: "sales".into(), id, city: "Leeds".into() }
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Employee>> {
    let cities = View::new("cities", &account.table("cities"), |employee: &Employee| {
        Some(City::key(&employee.city))
    });
    Store::builder(account.table("staff"))
        .queue(account.queue("staff"))
        .with(Audit)
        .with(cities.count(City::PEOPLE))
        .with(Tasks::<Mail>::new(account.queue("mails")))
        .build()
}

async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = sweep::account(&server)?;
    account.table("cities").create().await?;
    store(&account)?.create_if_missing().await?;
    Tasks::<Mail>::new(account.queue("mails")).create_if_missing().await?;
    Ok((server, account))
}

/// How many copies the index has of a city, and how many people its summary counts.
fn at(server: &Server, city: &str) -> (usize, i64) {
    let snapshot = server.snapshot();
    let copies = snapshot.table("staff").unwrap().partition(&format!("city_{city}")).count();
    let summary = snapshot.table("cities").unwrap().entity(city, "summary");
    match summary.and_then(|row| row.get("people")) {
        Some(rowkey::edm::Value::Int64(people)) => (copies, people),
        _ => (copies, 0),
    }
}

/// Item 1: an audit row, an index, a view and a mail follow one change.
#[tokio::test]
async fn every_derived_row_follows_a_change() -> TestResult {
    let (server, account) = start().await?;
    let staff = store(&account)?;
    let written = staff.transaction().insert(&employee(7)).task(&Mail).submit().await?;
    assert_eq!(written.settled, Settled::Done);
    assert_eq!(at(&server, "Leeds"), (1, 1));
    let snapshot = server.snapshot();
    assert_eq!(snapshot.queue("mails").unwrap().messages().count(), 1);
    let rows = snapshot.table("staff").unwrap();
    assert!(rows.entities().any(|row| row.row_key().starts_with("audit_")));
    Ok(())
}

/// Item 4: a worker with `read_from_secondary` settles by the state of the primary.
#[tokio::test]
async fn derived_rows_follow_the_primary() -> TestResult {
    for nth in 1..=4 {
        let (server, account) = start().await?;
        let staff = store(&account)?;
        staff.insert(&employee(7)).await?;
        let behind = server.hold_back_secondary();
        // The writer cannot settle.
        let down = server.inject(Fault::on(Operation::GetEntity).resource("cities").hold());
        {
            let update = staff.update(Employee::key("sales", 7), |one| one.city = "York".into());
            let held = std::pin::pin!(down.wait_until_held());
            futures_util::future::select(std::pin::pin!(update), held).await;
        }
        drop(down);
        server.clock().advance(Duration::from_secs(61));
        let account = sweep::account(&server)?;
        let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
        let reads = Fault::on(Operation::GetEntity).nth(nth);
        let busy = server.inject(reads.reject(ErrorCode::SERVER_BUSY));
        let worker = store(&account.with_options(options))?;
        assert_eq!(worker.work_once().await?.failed, 0);
        assert_eq!(busy.hits(), 1);
        drop((busy, behind));
        assert_eq!((at(&server, "York"), at(&server, "Leeds")), ((1, 1), (0, 0)), "{nth}");
    }
    Ok(())
}

/// Item 12: neither an insert nor a transaction of four with a mail each waits for queues that are down.
#[tokio::test]
async fn no_write_waits_for_an_unavailable_queue() -> TestResult {
    for count in [1, 4] {
        let (server, _) = start().await?;
        let outage = server.inject(Fault::service(Service::Queue).reject(ErrorCode::SERVER_BUSY));
        let (account, clock) = sweep::waiting(&server)?;
        let staff = store(&account)?;
        let all: Vec<_> = (1..=count).map(employee).collect();
        let transaction = all.iter().fold(staff.transaction(), Transaction::insert);
        let mails = (1..=count).fold(transaction, |transaction, _| transaction.task(&Mail));
        mails.submit().await?;
        assert_eq!(outage.hits(), 2, "each queue is asked once");
        let waited: Duration = clock.slept().iter().sum();
        assert!(waited <= BUDGET, "{count} inserts wait for the queue: {waited:?}");
        assert_eq!(at(&server, "Leeds").0, usize::try_from(count)?);
    }
    Ok(())
}
