//! A change and its consequence: a price changes, and its watchers are notified. Neither a crash nor an
//! unavailable queue loses a notification, and a refused change notifies no one.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowkey::store::{Settled, Store};
use rowkey::worker::outbox::Outbox as _;
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{Entity, ErrorCode, ManualClock, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Entity)]
#[entity(store, partition = "{shop}", row = "item_{item}")]
struct Price {
    shop: String,
    item: String,
    cents: i64,
}

/// What follows from a change of a price. Messages outlive programs, so this is a stored format: give
/// new fields a default.
#[derive(Serialize, Deserialize)]
struct TellWatchers {
    item: String,
    cents: i64,
}

impl Task for TellWatchers {
    const KIND: &'static str = "tell-watchers";
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;

    // ANCHOR: declare
    let tells = Tasks::<TellWatchers>::new(account.queue("watchers"));
    let prices = Store::<Price>::builder(account.table("prices"))
        .queue(account.queue("prices"))
        .with(tells.clone())
        .build()?;
    prices.create_if_missing().await?; // and the queue of the tasks
    // ANCHOR_END: declare

    // A worker may receive a task twice, if an earlier one stopped too soon. Mails are identified by the task
    // id, which is the same each time.
    let sent = Arc::new(Mutex::new(Vec::new()));
    let mailbox = Arc::clone(&sent);
    let worker = Worker::new(tells.clone(), move |task: TellWatchers, attempt: Attempt| {
        let mail = (attempt.id().to_owned(), format!("{} is {} now", task.item, task.cents));
        let mut mailbox = mailbox.lock().expect("no thread panics");
        let is_new = !mailbox.contains(&mail);
        if is_new {
            println!("told: {}", mail.1);
            mailbox.push(mail);
        }
        std::future::ready(Ok(if is_new { Done::Applied } else { Done::AlreadyApplied }))
    });

    // ANCHOR: write
    // The price and the task are one transaction.
    let lamp = Price { shop: "leeds".into(), item: "lamp".into(), cents: 4_900 };
    let tell = TellWatchers { item: "lamp".into(), cents: 4_900 };
    let submitted = prices.transaction().insert(&lamp).task(&tell).submit().await?;
    assert_eq!(submitted.settled, Settled::Done, "the message is in the queue");
    assert_eq!(worker.step().await?, Step::Handled);
    // ANCHOR_END: write

    // The queues are unavailable: the price is set anyway, and the op row keeps the task.
    let down = server.inject(Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY));
    let chair = Price { shop: "leeds".into(), item: "chair".into(), cents: 7_500 };
    let tell = TellWatchers { item: "chair".into(), cents: 7_500 };
    let submitted = prices.transaction().insert(&chair).task(&tell).submit().await?;
    assert_eq!(submitted.settled, Settled::Pending);
    drop(down);
    assert_eq!(worker.step().await?, Step::Idle);
    // A worker of the store puts the task. Programs keep one running: `prices.run(shutdown)`. This worker
    // belongs to another program, which does not know that the queues were unavailable. By the clock of its
    // account, it leaves op rows younger than a minute to their writer.
    server.clock().advance(Duration::from_secs(61));
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::auto_advancing(server.clock().now().to_chrono()))
        .build()?;
    let another = Store::<Price>::builder(account.table("prices"))
        .queue(account.queue("prices"))
        .with(Tasks::<TellWatchers>::new(account.queue("watchers")))
        .build()?;
    another.drain_backlog().await?;
    assert_eq!(worker.step().await?, Step::Handled);

    // A refused change notifies no one.
    let tell = TellWatchers { item: "lamp".into(), cents: 1 };
    let refused = prices.transaction().insert(&lamp).task(&tell).submit().await;
    assert!(refused.err().ok_or("there are two lamps")?.kind() == rowkey::ErrorKind::AlreadyExists);
    assert_eq!(worker.step().await?, Step::Idle);
    assert_eq!(sent.lock().expect("no thread panics").len(), 2);
    println!("a refused change tells nothing");
    Ok(())
}
