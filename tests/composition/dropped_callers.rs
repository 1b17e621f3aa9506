//! Item 12: a change whose caller is dropped, and a change while the queue is unavailable.

use std::time::Duration;

use rowkey::{ManualClock, StorageAccount};
use rowkey_patterns::local_index::IndexedTransaction;
use rowkey_server::{ErrorCode, Fault, Server, Service};
use rowkey_tests::sweep::stopped_at_every_request;

use crate::{employee, settle, source, start};

/// The longest time that a change may wait for an unavailable queue.
const BUDGET: Duration = Duration::from_secs(1);

/// Item 12: an insert whose future is dropped after the commit puts no message, and only a scan of the
/// table finds its intent.
#[tokio::test]
#[should_panic(expected = "employee 7 is stored, and 0 copies follow without a scan")]
async fn a_change_whose_caller_is_dropped_is_carried_on() {
    let (server, _account) = start().await;
    let scenario = async |account: &StorageAccount| {
        source(account).insert(&employee(7, "ada@contoso.com")).await
    };
    // Workers alone: no drain.
    let recover = async |account: &StorageAccount| {
        settle(&source(account)).await;
        Ok(())
    };
    let runs = stopped_at_every_request(&server, scenario, recover, |snapshot| {
        let stored = snapshot.table("staff").unwrap().entity("sales", "id_000007").is_some();
        let copies = snapshot.table("cities").unwrap().partition("city_Leeds").count();
        assert!(
            copies == usize::from(stored),
            "employee 7 is stored, and {copies} copies follow without a scan"
        );
    });
    runs.await.unwrap();
}

/// An account whose waits can be counted, with a queue service that refuses everything.
fn waiting(server: &Server) -> (StorageAccount, ManualClock) {
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let builder = StorageAccount::builder().connection_string(server.connection_string()).unwrap();
    (builder.clock(clock.clone()).build().unwrap(), clock)
}

/// Item 12: an insert waits after its commit until all attempts to put its message have failed.
#[tokio::test]
#[should_panic(expected = "an insert waits for the queue for more than a second")]
async fn an_insert_does_not_wait_for_the_queue() {
    let (server, _account) = start().await;
    let outage = server.inject(Fault::service(Service::Queue).reject(ErrorCode::SERVER_BUSY));
    let (account, clock) = waiting(&server);
    source(&account).insert(&employee(7, "ada@contoso.com")).await.unwrap();
    assert!(outage.hits() > 0);
    let waited: Duration = clock.slept().iter().sum();
    assert!(waited <= BUDGET, "an insert waits for the queue for more than a second: {waited:?}");
}

/// Item 12: a transaction waits for each of its messages in turn.
#[tokio::test]
#[should_panic(expected = "a transaction of four waits for the queue for more than a second")]
async fn a_transaction_does_not_wait_for_each_of_its_messages() {
    let (server, _account) = start().await;
    let outage = server.inject(Fault::service(Service::Queue).reject(ErrorCode::SERVER_BUSY));
    let (account, clock) = waiting(&server);
    let staff = source(&account);
    let all: Vec<_> = (1..=4).map(|id| employee(id, &format!("e{id}@contoso.com"))).collect();
    let four = all.iter().fold(staff.transaction(), IndexedTransaction::insert);
    four.submit().await.unwrap();
    assert!(outage.hits() > 0);
    let waited: Duration = clock.slept().iter().sum();
    assert!(
        waited <= BUDGET,
        "a transaction of four waits for the queue for more than a second: {waited:?}"
    );
}
