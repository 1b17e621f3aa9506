//! Log tail: the newest entries first without a scan, beside rows of a .NET program, and a consumer that
//! continues, oldest first, where it stopped.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey::patterns::log_tail::{EntryId, LogTail};
use rowkey::{DynamicEntity, Entity, ManualClock, StorageAccount, Stored};
use rowkey_emulator::{Fault, Operation, Server};

/// An expense claim. Its RowKey is the inverted time, `2516350751999999999_web-1`, so that a query
/// of the partition begins with the newest.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{employee}", row = "{id}", rename_all = "PascalCase")]
struct Expense {
    employee: String,
    id: EntryId,
    cents: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Time stands still in this example until it is advanced.
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::auto_advancing("2026-01-01T00:00:00Z".parse()?);
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    let log = LogTail::new(account.table("expenses"));
    log.table().create_if_missing().await?;

    // ANCHOR: append
    // An entry has its id before it is sent, so a repetition is the same row: never a second one.
    for cents in [1250, 499, 8900, 75] {
        let expense = Expense { employee: "000223".into(), id: log.next_id(), cents };
        log.append(&expense).await?;
        clock.advance(Duration::from_secs(1));
    }
    // ANCHOR_END: append

    // A response is lost, so it is unknown whether the entry was stored; it is stored once.
    let lost = server.inject(Fault::on(Operation::InsertEntity).times(1).close_after_commit());
    let expense = Expense { employee: "000223".into(), id: log.next_id(), cents: 640 };
    log.append(&expense).await?;
    assert_eq!(lost.hits(), 1);

    // ANCHOR: newest
    // The newest three are one request, however long the log is.
    let before = server.journal();
    let newest = log.latest(Expense::partition("000223"), 3).await?;
    assert_eq!(cents(&newest), [640, 75, 8900]);
    assert_eq!(server.journal().since(&before).len(), 1);
    // ANCHOR_END: newest

    // A row of a .NET program, ticks and a GUID, is an ordinary entry.
    let mut row =
        DynamicEntity::new("000223", "2516350751989999999-9c5b94b1-35ad-49bb-b118-8e8fc24abf80");
    row.set("Cents", 3300_i64);
    log.table().insert(&row).await?;
    let start: DateTime<Utc> = "2026-01-01T00:00:00Z".parse()?;
    let first_two = start..start + TimeDelta::seconds(2);
    let between = log.between(Expense::partition("000223"), first_two).all().await?;
    assert_eq!(cents(&between), [3300, 499, 1250]);

    // ANCHOR: tail
    // A consumer reads oldest first, and stores its position together with its results.
    // Entries are left to settle first: writers' clocks differ, and a write may take its time.
    let settle = Duration::from_secs(90);
    clock.advance(settle.saturating_sub(Duration::from_secs(1)));
    let (mut total, mut stored) = (0, String::new());
    let mut tail = log.tail(Expense::partition("000223"), settle).batch_size(4);
    if let Some(batch) = tail.next_batch().await? {
        total += cents(&batch.entries).iter().sum::<i64>();
        stored = batch.position.to_string();
    }

    // The program ends here, and another one continues.
    let mut tail = log.tail(Expense::partition("000223"), settle).resume(stored.parse()?);
    while let Some(batch) = tail.next_batch().await? {
        total += cents(&batch.entries).iter().sum::<i64>();
    }
    // ANCHOR_END: tail
    assert_eq!(total, 1250 + 3300 + 499 + 8900 + 75, "the last one has not settled yet");
    clock.advance(Duration::from_secs(60));
    let batch = tail.next_batch().await?.ok_or("one more")?;
    assert_eq!(cents(&batch.entries), [640]);

    println!("newest three in one request; six entries consumed in order, each once");
    Ok(())
}

fn cents(entries: &[Stored<Expense>]) -> Vec<i64> {
    entries.iter().map(|stored| stored.entity.cents).collect()
}
