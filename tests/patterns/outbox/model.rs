//! Random programs that fail, stop and start again: what was changed is followed by what it intends,
//! exactly.

use std::pin::pin;

use futures_util::future::select;
use rowkey_server::Snapshot;
use rowkey_tests::random::{Random, Seed, seeds};

use super::faults::work_off;
use super::*;

const OPERATIONS: usize = 16;

/// Does something, and stops at its `nth` request if it comes to that.
async fn stopped(server: &Server, nth: u64, something: impl Future<Output = ()>) {
    let held = server.inject(Fault::any().nth(nth).hold());
    select(pin!(something), pin!(held.wait_until_held())).await;
}

async fn operate(server: &Server, account: &StorageAccount, random: &mut Random) {
    let outbox = outbox(account);
    let id = random.below(12);
    let age = Duration::from_secs(random.within(60));
    match random.below(7) {
        0..=2 => drop(hire(&outbox, id).await),
        3 | 4 => drop(outbox.worker(writer(account)).step().await),
        5 => drop(outbox.drain(age, writer(account)).run().await),
        // A message is lost, or comes twice.
        _ => {
            let queue = account.queue("welcome");
            let Ok(messages) = queue.receive(1, Duration::from_secs(1)).await else { return };
            for message in messages {
                if random.one_in(2) {
                    drop(queue.delete(&message).await);
                } else {
                    drop(queue.put(rowkey::queue::Body::text(message.text())).send().await);
                }
            }
        }
    }
    server.clock().advance(Duration::from_secs(random.within(40)));
}

/// Who was hired, and who was welcomed or will be.
fn assert_nothing_lost(snapshot: &Snapshot) {
    let hired: Vec<Employee> = rows(snapshot, "staff", "id_");
    let letters: Vec<Letter> = rows(snapshot, "letters", "");
    let intents = intents(snapshot);
    for Employee { id, .. } in &hired {
        let is_intended = || {
            let task = serde_json::to_string(&welcome(*id)).unwrap();
            intents.iter().any(|intent| intent.get("Task") == Some(&task.as_str().into()))
        };
        assert!(
            letters.iter().any(|letter| letter.id == *id) || is_intended(),
            "{id} is forgotten"
        );
    }
    assert!(letters.iter().all(|letter| hired.iter().any(|employee| employee.id == letter.id)));
}

#[tokio::test]
async fn whatever_fails_every_change_is_followed_by_what_it_intends() -> TestResult {
    let (prepared, ..) = start().await?;
    for seed in seeds(120) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let server = prepared.fork().await?;
        for _ in 0..OPERATIONS {
            let account = account(&server)?;
            let nth = 1 + random.within(6);
            match random.below(5) {
                0 => {
                    let something = operate(&server, &account, &mut random);
                    stopped(&server, nth, something).await;
                }
                1 => {
                    let fault = Fault::any().nth(nth);
                    let _fault = server.inject(match random.below(3) {
                        0 => fault.close_before_commit(),
                        1 => fault.close_after_commit(),
                        _ => fault.reject(ErrorCode::INTERNAL_ERROR),
                    });
                    operate(&server, &account, &mut random).await;
                }
                _ => operate(&server, &account, &mut random).await,
            }
            assert_nothing_lost(&server.snapshot());
        }
        // Longer than anything is hidden, and a second time for what was put aside.
        for _ in 0..2 {
            server.clock().advance(Duration::from_secs(3600));
            let account = account(&server)?;
            outbox(&account).tasks().redrive(100).await?;
            work_off(&account).await?;
        }
        assert_done(&server.snapshot());
    }
    Ok(())
}
