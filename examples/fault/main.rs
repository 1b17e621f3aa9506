//! A test with an injected fault, and one with every fault: money moves from one account to another exactly
//! once, although any request may fail, before or after it took effect.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::{Entity, ManualClock, Outcome, Result, StorageAccount, Table, edm};
use rowkey_emulator::{Fault, Operation, Server, Snapshot, Sweep};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{bank}", row = "account_{number:4}")]
struct Balance {
    bank: String,
    number: u32,
    cents: i64,
}

/// The record of a transfer, written in the transaction of the transfer.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{bank}", row = "transfer_{id:8}")]
struct Transfer {
    bank: String,
    id: u32,
    cents: i64,
}

/// The service under test.
struct Bank {
    table: Table,
}

impl Bank {
    /// Moves money once for each `id`; repeating the call is safe.
    async fn transfer(&self, id: u32, from: u32, to: u32, cents: i64) -> Result<()> {
        let bank = String::from("north");
        loop {
            if self.table.get(Transfer::key(&bank, id)).await?.is_some() {
                return Ok(());
            }
            let from = self.balance(from).await?.map(|balance| balance.cents -= cents);
            let to = self.balance(to).await?.map(|balance| balance.cents += cents);
            let record = Transfer { bank: bank.clone(), id, cents };
            let transaction = self.table.transaction().insert(&record).replace(&from).replace(&to);
            match transaction.submit().await {
                Ok(_) => return Ok(()),
                // The outcome is unknown. The record shows whether the transfer was made, so read again.
                Err(error) if error.outcome() == Outcome::Unknown => {}
                Err(error)
                    if error.kind() == rowkey::ErrorKind::Conflict
                        || error.kind() == rowkey::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn balance(&self, number: u32) -> Result<rowkey::Stored<Balance>> {
        let found = self.table.get(Balance::key("north", number)).await?;
        Ok(found.unwrap_or_else(|| panic!("account {number} is there")))
    }
}

type TestResult<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> TestResult {
    a_lost_answer_moves_no_money_twice().await?;
    let runs = no_failure_moves_money_twice_or_half().await?;
    println!("a lost answer, and {runs} other failures: the money moved once each time");
    Ok(())
}

/// One fault: the transaction is committed and its response is lost.
async fn a_lost_answer_moves_no_money_twice() -> TestResult {
    let server = prepared().await?;
    let lost = server.inject(Fault::on(Operation::Transaction).times(1).close_after_commit());

    bank(&server)?.transfer(1, 7, 8, 500).await?;

    assert_eq!(lost.hits(), 1);
    assert_eq!(cents(&server.snapshot()), [500, 500]);
    // It was not sent again, because the record was found.
    assert_eq!(server.journal().count(Operation::Transaction), 1);
    Ok(())
}

/// Every fault: each request of the transfer fails once, in each way.
// ANCHOR: sweep
async fn no_failure_moves_money_twice_or_half() -> TestResult<u64> {
    let prepared = prepared().await?;
    let swept = Sweep::new(&prepared).run(
        async |server| Ok(bank(server)?),
        async |bank| bank.transfer(1, 7, 8, 500).await.is_ok(),
        // Repeating the call is safe in every case.
        async |bank| Ok(bank.transfer(1, 7, 8, 500).await?),
        async |server, _, _| {
            assert_eq!(cents(&server.snapshot()), [500, 500]);
            Ok(())
        },
    );
    Ok(swept.await?.runs)
}
// ANCHOR_END: sweep

/// A server with two accounts, 7 and 8. Its clock stands still.
async fn prepared() -> TestResult<Server> {
    let server = Server::builder().manual_clock().start().await?;
    let table = bank(&server)?.table;
    table.create().await?;
    for (number, cents) in [(7, 1000), (8, 0)] {
        table.insert(&Balance { bank: "north".into(), number, cents }).await?;
    }
    Ok(server)
}

/// The service on that server. Its waits between attempts take no time.
fn bank(server: &Server) -> Result<Bank> {
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::auto_advancing(server.clock().now().to_chrono()))
        .build()?;
    Ok(Bank { table: account.table("bank") })
}

/// The balances of the two accounts, read from the store itself.
fn cents(snapshot: &Snapshot) -> [i64; 2] {
    ["account_0007", "account_0008"].map(|row| {
        let entity = snapshot.table("bank").and_then(|table| table.entity("north", row));
        match entity.and_then(|entity| entity.get("cents")) {
            Some(edm::Value::Int64(cents)) => cents,
            other => panic!("{row} has no cents: {other:?}"),
        }
    })
}
