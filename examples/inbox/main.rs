//! Deposits that must be counted once: a queue may deliver each of them twice, and the shop puts a deposit
//! again if it gets no response.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::store::Deciding;
use rowkey::worker::inbox::Inbox;
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{DynamicEntity, Entity, StorageAccount};
use rowkey_emulator::Server;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{owner}", row = "balance")]
struct Balance {
    owner: String,
    cents: i64,
}

#[derive(Serialize, Deserialize)]
struct Deposit {
    owner: String,
    cents: i64,
}

impl Task for Deposit {
    const KIND: &'static str = "deposit";
}

/// The table of balances, and its inbox. `Deciding` reads the primary.
#[derive(Clone)]
struct Bank {
    balances: Deciding,
    inbox: Inbox,
}

// ANCHOR: handler
impl Bank {
    async fn deposit(&self, task: Deposit, attempt: Attempt) -> rowkey::Result<Done> {
        let key = Balance::key(&task.owner);
        let effect = async |row: &DynamicEntity| {
            // The new balance and the row that says so: both or neither.
            let transaction = self.balances.table().transaction().insert(row);
            let transaction = match self.balances.get(key.clone()).await? {
                Some(mut balance) => {
                    balance.entity.cents += task.cents;
                    transaction.replace(&balance)
                }
                None => {
                    transaction.insert(&Balance { owner: task.owner.clone(), cents: task.cents })
                }
            };
            transaction.submit().await.map(drop)
        };
        self.inbox.once(&key, &attempt, effect).await
    }
}
// ANCHOR_END: handler

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let balances = Deciding::new(&account.table("balances"));
    balances.table().create().await?;
    let bank = Bank { inbox: Inbox::new(&balances), balances };

    let deposits = Tasks::<Deposit>::new(account.queue("deposits"));
    deposits.create_if_missing().await?;
    let handler = bank.clone();
    let worker = Worker::new(deposits.clone(), move |task: Deposit, attempt: Attempt| {
        let bank = handler.clone();
        async move { bank.deposit(task, attempt).await }
    });

    // ANCHOR: put
    // The shop had no answer and puts the deposit again, under the number of its order.
    for _ in 0..2 {
        let deposit = Deposit { owner: "ada".into(), cents: 4_900 };
        deposits.put_with_key("order-4711", &deposit).await?;
    }
    assert_eq!(Box::pin(worker.step()).await?, Step::Handled);
    assert_eq!(Box::pin(worker.step()).await?, Step::Suppressed);
    // ANCHOR_END: put

    let balance = bank.balances.get(Balance::key("ada")).await?.ok_or("no balance")?;
    assert_eq!(balance.entity.cents, 4_900);
    println!("two messages, one deposit: {} cents", balance.entity.cents);

    // Run this once a day. Nothing has expired yet.
    assert_eq!(bank.inbox.expire().await?.total.right, 0);
    Ok(())
}
