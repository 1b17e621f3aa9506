//! A change and what follows from it: a price changes, and whoever waits for it is told. Neither a crash
//! nor a lost message makes the shop forget to tell, and nobody is told of what did not happen.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowkey::{Entity, ErrorCode, StorageAccount};
use rowkey_eventual::Task;
use rowkey_eventual::outbox::Outbox;
use rowkey_eventual::worker::{Attempt, Done, Step};
use rowkey_server::{Fault, Operation, Server};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{shop}", row = "item_{item}")]
struct Price {
    shop: String,
    item: String,
    cents: i64,
}

/// What follows from a change of a price. Messages and rows outlive programs, so this is a stored
/// format: give new fields a default.
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
    let outbox = Outbox::<TellWatchers>::new(account.table("prices"), account.queue("watchers"));
    outbox.table().create_if_missing().await?;
    outbox.tasks().create_if_missing().await?;

    // The handler may see a task twice, when a worker dies before it can say that it is done. Mails
    // are told apart by the id of the task, which is the same each time.
    let sent = Arc::new(Mutex::new(Vec::new()));
    let tell = |task: TellWatchers, attempt: Attempt| {
        let sent = Arc::clone(&sent);
        async move {
            let mail = (attempt.id().to_owned(), format!("{} is {} now", task.item, task.cents));
            let mut sent = sent.lock().expect("nobody panics");
            if sent.contains(&mail) {
                return Ok(Done::AlreadyApplied);
            }
            sent.push(mail);
            Ok(Done::Applied)
        }
    };
    let worker = outbox.worker(&tell);

    // The price and the intent to tell are one transaction; a message says that there is an intent.
    set_price(&outbox, "lamp", 4_900).await?;
    assert_eq!(worker.step().await?, Step::Handled);
    println!("told: {}", last(&sent));

    // The queue is down: the price is set all the same, and the intent stays where it is.
    let down = server.inject(Fault::on(Operation::PutMessage).reject(ErrorCode::SERVER_BUSY));
    set_price(&outbox, "chair", 7_500).await?;
    drop(down);
    assert_eq!(worker.step().await?, Step::Idle, "no message tells of it");

    // From time to time somebody looks for intents that are older than messages usually get.
    let drained = outbox.drain(Duration::ZERO, &tell).run().await?;
    assert_eq!((drained.found, drained.delivered), (1, 1));
    println!("found by a drain: {}", last(&sent));

    // What is refused intends nothing.
    let sold_out = outbox.table().transaction().replace((
        &Price { shop: "leeds".into(), item: "sofa".into(), cents: 1 },
        rowkey::Match::Any,
    ));
    let task = TellWatchers { item: "sofa".into(), cents: 1 };
    let refused = outbox.submit(sold_out, [&task]).await.err().ok_or("there is a sofa")?;
    assert!(refused.is_not_found());
    assert_eq!(outbox.drain(Duration::ZERO, &tell).run().await?.found, 0);
    assert_eq!(sent.lock().expect("nobody panics").len(), 2);
    println!("nobody was told of the sofa: there is none");
    Ok(())
}

async fn set_price(outbox: &Outbox<TellWatchers>, item: &str, cents: i64) -> rowkey::Result<()> {
    let price = Price { shop: "leeds".into(), item: item.into(), cents };
    let task = TellWatchers { item: item.into(), cents };
    outbox.submit(outbox.table().transaction().upsert(&price), [&task]).await.map(drop)
}

fn last(sent: &Mutex<Vec<(String, String)>>) -> String {
    let sent = sent.lock().expect("nobody panics");
    sent.last().map(|(_, text)| text.clone()).unwrap_or_default()
}
