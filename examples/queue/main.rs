//! A queue between two programs: one puts work into it, the other processes it, and work that fails
//! permanently is put aside.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use rowkey::queue::Body;
use rowkey::{Queue, Result, StorageAccount};
use rowkey_emulator::Server;

/// The visibility timeout: how long a worker has for a message before another one gets it.
const AT_WORK: Duration = Duration::from_secs(30);
/// The maximum number of attempts per message.
const MAX_ATTEMPTS: u32 = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let (jobs, poison) = (account.queue("jobs"), account.queue("jobs-poison"));
    jobs.create_if_missing().await?;
    poison.create_if_missing().await?;

    for order in ["1", "2", "not a number", "4"] {
        jobs.put(Body::text(order)).send().await?;
    }
    assert_eq!(jobs.approximate_count().await?, 4);

    let mut done = Vec::new();
    while jobs.approximate_count().await? > 0 {
        work(&jobs, &poison, &mut done).await?;
    }
    done.sort_unstable();
    assert_eq!(done, [1, 2, 4]);
    let aside = poison.peek(32).await?;
    assert_eq!(aside[0].text(), "not a number");
    println!("done: {done:?}; put aside: {}", aside.len());
    Ok(())
}

/// Receives a few messages and processes them. Each is deleted last: a worker that dies before that leaves
/// the message to the next one.
async fn work(jobs: &Queue, poison: &Queue, done: &mut Vec<u32>) -> Result<()> {
    for message in jobs.receive(32, AT_WORK).await? {
        match message.text().parse() {
            Ok(order) if done.contains(&order) => {}
            Ok(order) => done.push(order),
            Err(_) if message.dequeue_count < MAX_ATTEMPTS => {
                // Visible again at once in this example; a program would wait for a while.
                jobs.update(&message).send().await?;
                continue;
            }
            Err(_) => {
                poison.put(Body::text(message.text())).ttl(None).send().await?;
            }
        }
        jobs.delete(&message).await?;
    }
    Ok(())
}
