//! Random programs: tasks of all sorts, workers that end anywhere, answers that are lost, messages
//! that come again. In the end every task is done or a dead letter, as intended.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use rowkey::StorageAccount;
use rowkey::worker::{Step, Worker};
use rowkey_emulator::{ErrorCode, Fault, Server};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{self, once};

use super::{Deed, Resize, Resizer, claims, done, letters, redrive, start, tasks, texts, worker};

/// What should become of the tasks.
#[derive(Default)]
struct Model {
    /// Those that were put for certain.
    wanted: BTreeSet<u64>,
    /// Those whose end is unknown.
    possible: BTreeSet<u64>,
    /// Those that can never be done.
    poison: BTreeSet<u64>,
    puts: u64,
}

#[tokio::test]
async fn every_task_is_done_or_a_dead_letter_after_any_faults() -> TestResult {
    let (first, _) = start().await?;
    let (mut ends, mut faults) = (0, 0);
    for seed in seeds(60) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let server = first.fork().await?;
        let mut model = Model::default();
        let patient = sweep::account(&server)?;
        for _ in 0..25 {
            let account = if random.one_in(2) { once(&patient) } else { patient.clone() };
            let fault = fault(&mut random).map(|fault| server.inject(fault));
            match random.below(8) {
                0..3 => put(&mut random, &account, &mut model).await,
                3..6 => drop(stubborn(&account).step().await),
                6 => {
                    // The worker ends at one of its requests.
                    let nth = 1 + u64::from(random.below(5));
                    let held = server.inject(Fault::any().nth(nth).hold());
                    let worker = stubborn(&account);
                    let (step, end) = (pin!(worker.step()), pin!(held.wait_until_held()));
                    let ended = select(end, step).await;
                    ends += u64::from(matches!(ended, futures_util::future::Either::Left(_)));
                }
                _ => {
                    server.clock().advance(Duration::from_secs(random.within(40)));
                    if random.one_in(3) {
                        drop(redrive(&account).await);
                    }
                }
            }
            faults += fault.map_or(0, |fault| fault.hits());
        }
        settle(&server, &model).await?;
    }
    eprintln!("{ends} workers ended, {faults} requests failed");
    assert!(ends > 0 && faults > 0, "nothing is tested");
    Ok(())
}

/// A worker that tries as often as it takes, at once.
fn stubborn(account: &StorageAccount) -> Worker<Resize, Resizer> {
    worker(account).max_attempts(1000).retry_backoff(Duration::ZERO, Duration::ZERO)
}

async fn put(random: &mut Random, account: &StorageAccount, model: &mut Model) {
    let picture = model.puts;
    model.puts += 1;
    let deed = random.pick(&[Deed::Succeed, Deed::Succeed, Deed::FailFirst, Deed::Poison]);
    let pixels = if random.one_in(3) { "#".repeat(62_000) } else { String::new() };
    if deed == Deed::Poison {
        model.poison.insert(picture);
    }
    match tasks(account).put(&Resize { picture, deed, pixels }).await {
        Ok(_) => model.wanted.insert(picture),
        Err(_) => model.possible.insert(picture),
    };
}

fn fault(random: &mut Random) -> Option<Fault> {
    let matching = Fault::any().nth(1 + u64::from(random.below(4)));
    Some(match random.below(6) {
        0 => matching.close_before_commit(),
        1 => matching.close_after_commit(),
        2 => matching.reject(ErrorCode::SERVER_BUSY),
        3 => matching.reject(ErrorCode::INTERNAL_ERROR),
        _ => return None,
    })
}

/// Runs until all tasks are settled, and compares.
async fn settle(server: &Server, model: &Model) -> TestResult {
    server.clock().advance(Duration::from_secs(100));
    let account = sweep::account(server)?;
    let worker = stubborn(&account);
    while worker.step().await? != Step::Idle {}
    server.clock().advance(Duration::from_secs(100));
    tasks(&account).sweep_claims(Duration::ZERO).await?;
    let snapshot = server.snapshot();
    assert_eq!(texts(&snapshot, "jobs"), [""; 0]);
    let done: BTreeSet<u64> = done(&snapshot).into_iter().collect();
    let mut aside = BTreeSet::new();
    let mut claimed = BTreeSet::new();
    for text in letters(&snapshot) {
        let inline = text["task"]["picture"].as_u64();
        let picture = inline.or_else(|| {
            let claim = text["claim"].as_str()?;
            claimed.insert(claim.to_owned());
            let task: Resize = serde_json::from_slice(&snapshot.blob("claims", claim)?).ok()?;
            Some(task.picture)
        });
        aside.insert(picture.ok_or("a poisoned task whose blob is gone")?);
    }
    let is_certain = |picture: &u64| model.wanted.contains(picture);
    let is_known = |picture: &u64| is_certain(picture) || model.possible.contains(picture);
    assert!(done.is_disjoint(&model.poison) && aside.is_subset(&model.poison), "{aside:?}");
    let ended: BTreeSet<u64> = done.union(&aside).copied().collect();
    assert!(ended.iter().all(is_known));
    assert!(model.wanted.is_subset(&ended), "{:?} are lost", model.wanted.difference(&ended));
    let blobs: BTreeSet<String> = claims(&account).await?.into_iter().collect();
    assert_eq!(blobs, claimed, "the blobs of what is put aside, and no others");
    Ok(())
}
