//! Injected faults between client and server: each kind of fault, and a sweep over every request of the
//! client operations that send several requests.

mod blobs;
mod changes;
mod control;
mod faults;
mod hot_partitions;
mod operations;
mod pages;
mod queues;
mod requests;

use rowkey::{Entity, StorageAccount, Table};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

/// A counter.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{kind}", row = "{id:4}", rename_all = "PascalCase")]
struct Counter {
    kind: String,
    id: u32,
    count: i32,
}

fn counter(kind: &str, id: u32) -> Counter {
    Counter { kind: kind.into(), id, count: 0 }
}

/// A server with a manual clock, an account on it, and an empty table.
async fn start() -> TestResult<(Server, StorageAccount, Table)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let table = account.table("counters");
    table.create().await?;
    Ok((server, account, table))
}
