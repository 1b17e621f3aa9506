//! Pacing: a nightly load and the calls of users on one account, the deadline of a job, a retry budget, and
//! second requests of slow reads.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::error::Error;
use std::time::Duration;

use futures_util::{future, stream};
use rowkey::pace::{Hedge, Pace, Targets};
use rowkey::patterns::job::{Job, Walk};
use rowkey::{ClientOptions, Entity, StorageAccount};
use rowkey_emulator::{Operation, Server};

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{device}", row = "{number:6}")]
struct Reading {
    device: String,
    number: u32,
    degrees: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    // Half of the documented target of a partition: another program writes there as well.
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .targets(Targets { entities_per_partition: 1000, ..Targets::default() })
        .retry_budget(50)
        .build()?;

    // ANCHOR: foreground
    // Calls of users: before jobs, and no longer than their timeout. Slow reads are sent twice, 2 % at most.
    let options = ClientOptions {
        timeout: Duration::from_secs(10),
        pace: Some(Pace::foreground()),
        hedge: Some(Hedge { percent: 2, ..Hedge::default() }),
        ..ClientOptions::default()
    };
    let readings = account.with_options(options).table("readings");
    // ANCHOR_END: foreground
    readings.create().await?;

    // ANCHOR: job
    // A load, which has the pace `background` unless it is given another one. A user reads meanwhile.
    let row = |number| Reading { device: format!("d{}", number % 2), number, degrees: 20.5 };
    let nightly = Pace::background().entities_per_second(1500);
    let load = Job::upsert(&readings, stream::iter((0..600).map(row))).pace(nightly.clone());
    let user = readings.get(Reading::key("d0", 0));
    let (loaded, read) = future::join(load.run(), user).await;
    assert_eq!(loaded?.total.right, 600);
    read?;
    println!("{} requests of the load", nightly.requests().sent);
    assert_eq!(nightly.requests().sent, 6);
    // ANCHOR_END: job

    // ANCHOR: scope
    // Any code at a pace: all requests of the future, of all handles.
    let slowly = Pace::background().requests_per_second(100);
    let copy = async {
        for number in 0..3 {
            let Some(reading) = readings.get(Reading::key("d0", number * 2)).await? else {
                continue;
            };
            readings.upsert(&Reading { degrees: 21.0, ..reading.entity }).await?;
        }
        Ok::<_, rowkey::Error>(())
    };
    slowly.scope(copy).await?;
    assert_eq!(slowly.requests().sent, 6);
    // ANCHOR_END: scope

    // ANCHOR: deadline
    // A job that must end before the day begins, and is resumed in the next night.
    let night = Pace::background().until(account.clock().now());
    let Err(stopped) = Job::count(Walk::keys(&readings)).pace(night).run().await else {
        return Err("the night was over".into());
    };
    println!("{}", stopped.error);
    let resumed = Job::count(Walk::keys(&readings)).resume(*stopped.checkpoint).run().await?;
    assert_eq!(resumed.total.right, 600);
    // ANCHOR_END: deadline
    assert_eq!(server.journal().count(Operation::Transaction), 6);
    Ok(())
}
