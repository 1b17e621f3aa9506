//! Two programs share four partitions, each with a balance. One is killed; the other takes over, and a late write of
//! the first is refused.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use rowkey::worker::partitions::{Fence, Owned, Partitions};
use rowkey::{Entity, ErrorKind, ManualClock, StorageAccount, Table};
use rowkey_emulator::Server;
use tokio::sync::Mutex;

/// What the owner of a partition counts. It is the only writer.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "shard_{shard:2}", row = "balance")]
struct Balance {
    shard: u32,
    owner: String,
}

/// The fences of each program, for this example only.
type Fences = Arc<Mutex<Vec<(&'static str, u32, Fence)>>>;

/// The work of a partition: it claims the PartitionKey, then writes under the fence until it is to stop.
async fn work(
    owned: Owned,
    program: &'static str,
    table: Table,
    fences: Fences,
) -> rowkey::Result<()> {
    let shard = owned.index();
    let fence = owned.fence(&table, &format!("shard_{shard:02}")).await?;
    // From here on, no earlier owner can write. Read what you decide by after this.
    let balance = Balance { shard, owner: program.to_owned() };
    fence.submit(table.transaction().upsert(&balance)).await?;
    println!("{program} owns partition {shard} under token {}", owned.token());
    fences.lock().await.push((program, shard, fence));
    // A worker of this partition's queue would run here: `worker.run_until(owned.stopping())`.
    owned.stopping().await;
    println!("{program} gives partition {shard} up");
    Ok(())
}

/// A program of the set: it owns its share until it is stopped.
async fn program(
    name: &'static str,
    account: StorageAccount,
    fences: Fences,
) -> rowkey::Result<()> {
    let table = account.table("balances");
    let partitions = Partitions::new(account.container("locks"), "balances", 4)
        .term(Duration::from_secs(30))
        .look_every(Duration::from_secs(20));
    let run = move |owned| work(owned, name, table.clone(), Arc::clone(&fences));
    // `pending` is a signal in a real program: it stops its work and frees its partitions.
    partitions.run_until(run, pending()).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The clocks are advanced manually, so that the example waits for nothing.
    let server = Server::builder().manual_clock().start().await?;
    let connect = |clock: &ManualClock| {
        let text = server.connection_string();
        StorageAccount::builder().connection_string(text)?.clock(clock.clone()).build()
    };
    let now = server.clock().now().to_chrono();
    let (of_ada, of_bob) = (ManualClock::new(now), ManualClock::new(now));
    let (ada, bob) = (connect(&of_ada)?, connect(&of_bob)?);
    let balances = connect(&of_ada)?.table("balances");
    balances.create().await?;
    ada.container("locks").create().await?;

    let fences: Fences = Arc::default();
    let all_are_of = async |program: &'static str| {
        while fences.lock().await.iter().filter(|it| it.0 == program).count() < 4 {
            tokio::task::yield_now().await;
        }
    };

    // Ada comes first, and owns all four. Then her program is killed, with a request still on its way.
    tokio::select! {
        ended = program("Ada", ada, Arc::clone(&fences)) => return Ok(ended?),
        () = all_are_of("Ada") => println!("Ada is killed"),
    }

    // Half a minute later her leases have ended, and Bob takes over.
    server.clock().advance(Duration::from_secs(31));
    of_bob.advance(Duration::from_secs(31));
    tokio::select! {
        ended = program("Bob", bob, Arc::clone(&fences)) => return Ok(ended?),
        () = all_are_of("Bob") => println!("Bob owns all"),
    }

    // Her request arrives now, and is refused as a whole.
    let (_, shard, fence) = fences.lock().await.first().cloned().ok_or("no fence")?;
    let balance = Balance { shard, owner: "Ada, late".to_owned() };
    let late = fence.submit(balances.transaction().upsert(&balance)).await;
    let refused = late.err().ok_or("it was not refused")?;
    assert_eq!(refused.kind(), ErrorKind::Leased);
    println!("refused: {refused}");
    let stored = balances.get(Balance::key(shard)).await?.ok_or("no balance")?;
    assert_eq!(stored.entity.owner, "Bob");
    Ok(())
}
