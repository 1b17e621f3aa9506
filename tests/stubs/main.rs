//! The client against stubs: the exact bytes it sends, and answers that our server never gives.
//!
//! The expectations here are literal. They do not come from `rowkey-wire`, which the client uses.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod accounts;
mod alike;
mod answers;
mod blob_requests;
mod changes;
mod endless;
mod objects;
mod paging;
mod pretenders;
mod queue_requests;
mod requests;
mod stores;

use rowkey::{
    ClientOptions, Credential, Entity, ManualClock, RetryOptions, StorageAccount,
    StorageAccountBuilder, Table,
};
use wiremock::MockServer;

/// The stored entity.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{owner}", row = "{number:4}")]
struct Thing {
    owner: String,
    number: u16,
    name: String,
    count: i64,
    weight: f64,
}

fn thing() -> Thing {
    Thing { owner: "O'Neil & co".into(), number: 7, name: "a \"b\"".into(), count: 5, weight: 2.0 }
}

/// A stub, and a table on it. Waits take no time.
async fn stub() -> (MockServer, Table) {
    let stub = MockServer::start().await;
    let table = table(&stub.uri(), ClientOptions::default());
    (stub, table)
}

/// The start time of the clocks.
const WHEN: &str = "2026-11-20T12:00:00Z";

fn table(endpoint: &str, options: ClientOptions) -> Table {
    table_by(endpoint, options, ManualClock::auto_advancing(WHEN.parse().unwrap()))
}

fn table_by(endpoint: &str, options: ClientOptions, clock: ManualClock) -> Table {
    StorageAccount::builder()
        .name("acct")
        .endpoint(rowkey::service::Service::Table, endpoint)
        .unwrap()
        .credential(Credential::shared_key("acct", "a2V5").unwrap())
        .clock(clock)
        .options(options)
        .build()
        .unwrap()
        .table("things")
}

/// An account whose three services are all at one address.
fn account_at(uri: &str) -> StorageAccountBuilder {
    let builder = StorageAccount::builder()
        .name("acct")
        .endpoint(rowkey::service::Service::Table, uri)
        .unwrap();
    let builder = builder
        .endpoint(rowkey::service::Service::Queue, uri)
        .unwrap()
        .endpoint(rowkey::service::Service::Blob, uri)
        .unwrap();
    builder.credential(Credential::shared_key("acct", "a2V5").unwrap())
}

fn once() -> ClientOptions {
    let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
    ClientOptions { retry, ..ClientOptions::default() }
}
