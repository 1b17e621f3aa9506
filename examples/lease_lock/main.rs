//! Leader election with a lease: of three programs that can write a report, one does. It is paused for longer
//! than its lease lasts, another takes over, and the late page of the first one is refused because the report
//! stores a later token.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use futures_util::future::join;
use rowkey::patterns::lease_lock::{Guarded, Held, LeaseLock, Lost};
use rowkey::{Entity, ErrorKind, ManualClock, StorageAccount, Table};
use rowkey_emulator::Server;

/// The protected data. `fence` is the token of its last writer.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "reports", row = "{name}")]
struct Report {
    name: String,
    fence: u64,
    page: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Clocks are moved by hand, so that no test waits for a lease to end.
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::new(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    let reports = account.table("reports");
    reports.create().await?;
    let locks = account.container("locks");
    locks.create().await?;

    // Each program has a lock of its own on the same blob. The first to come leads.
    let lock = LeaseLock::new(locks.blob("nightly-report")).term(Duration::from_secs(30));
    let ada = lock.try_acquire().await?.ok_or("another holder has it")?;
    assert!(lock.try_acquire().await?.is_none(), "Bob has to wait");
    assert!(lock.try_acquire().await?.is_none(), "Cleo, too");

    // While she writes, the lease is renewed; if it were lost, her work would stop at an await.
    let written = ada.guard(async |held| publish(&reports, held, "page 1, by Ada").await).await;
    assert!(matches!(written, Guarded::Done(Ok(true))));
    println!("Ada leads under token {}", ada.token());

    // Ada's machine is suspended. Half a minute later, Bob takes over and starts again.
    server.clock().advance(Duration::from_secs(31));
    let bob = lock.try_acquire().await?.ok_or("Ada's lease is over")?;
    assert!(publish(&reports, &bob, "page 1, by Bob").await?);
    println!("Bob leads under token {}", bob.token());

    // Ada wakes up. Her own clock stood still, so she believes that she leads, and writes.
    assert!(!ada.remaining().is_zero());
    assert!(!publish(&reports, &ada, "page 2, by Ada").await?, "her token is smaller than Bob's");
    let report = reports.get(Report::key("nightly")).await?.ok_or("there is a report")?;
    assert_eq!(report.entity.page, "page 1, by Bob");
    println!("Ada's late page was refused");

    // Her next renewal reports the loss.
    let lost = ada.renew().await.err().ok_or("the lease is Bob's")?;
    assert_eq!(lost.kind(), ErrorKind::Leased);

    // An operator breaks Bob's lock: what he does under it stops where it waits.
    locks.blob("nightly-report").break_lease(Duration::ZERO).await?;
    let work = bob.guard(async |_| std::future::pending::<()>().await);
    let ten_seconds = async { clock.advance(Duration::from_secs(10)) };
    let (stopped, ()) = join(work, ten_seconds).await;
    assert!(matches!(stopped, Guarded::Lost(Lost::Taken)));
    println!("Bob's work was stopped: {}", Lost::Taken);

    let cleo = lock.acquire().await?;
    assert_eq!(cleo.token(), 3);
    assert!(cleo.release().await?);
    Ok(())
}

/// Writes the report unless a later holder has written it: says whether it did.
async fn publish(reports: &Table, held: &Held, page: &str) -> rowkey::Result<bool> {
    let key = Report::key("nightly");
    let Some(stored) = reports.get(key).await? else {
        let report = Report { name: "nightly".into(), fence: held.token(), page: page.into() };
        return reports.insert(&report).await.map(|_| true);
    };
    if !held.admits(stored.entity.fence) {
        return Ok(false);
    }
    // Under the ETag: if a later holder writes between the read and this, nothing happens.
    let report = stored.map(|report| {
        report.fence = held.token();
        report.page = page.into();
    });
    match reports.replace(&report).await {
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
        result => result.map(|_| true),
    }
}
