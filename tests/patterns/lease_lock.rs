//! The lock on a blob's lease: one holder at a time, work that stops when the lock is lost, tokens
//! that only grow, and what remains when a request of it fails.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join;
use rowkey::patterns::lease_lock::{Guarded, Held, LeaseLock, Lost};
use rowkey::{ClientOptions, Clock, ErrorKind, ManualClock, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{once, sweep, waiting};

const TERM: Duration = Duration::from_secs(30);

fn lock(account: &StorageAccount) -> LeaseLock {
    LeaseLock::new(account.container("locks").blob("lock")).term(TERM)
}

/// A server, an account whose clock is `clock`, and a container for locks.
async fn start() -> TestResult<(Server, ManualClock, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::new(server.clock().now().to_chrono());
    let account = account(&server, clock.clone())?;
    account.container("locks").create().await?;
    Ok((server, clock, account))
}

fn account(server: &Server, clock: impl Clock + 'static) -> rowkey::Result<StorageAccount> {
    StorageAccount::builder().connection_string(server.connection_string())?.clock(clock).build()
}

async fn forever(_: &Held) {
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_lock_has_one_holder_until_release_or_expiry() -> TestResult {
    let (server, _, account) = start().await?;
    let lock = lock(&account);
    let first = lock.try_acquire().await?.unwrap();
    assert!(lock.try_acquire().await?.is_none());
    assert!(first.release().await?);
    let second = lock.try_acquire().await?.unwrap();
    server.clock().advance(TERM + Duration::from_secs(1));
    let third = lock.try_acquire().await?.unwrap();
    assert_eq!((second.token(), third.token()), (2, 3));
    assert!(!second.admits(third.token()) && third.admits(second.token()));
    assert!(!second.release().await?, "it is another holder's");
    assert_eq!(third.renew().await.map_err(|error| error.kind()), Ok(()));
    Ok(())
}

#[tokio::test]
async fn acquiring_costs_three_requests_and_five_the_first_time() -> TestResult {
    let (server, _, account) = start().await?;
    for requests in [5, 3] {
        let before = server.journal().len();
        let held = lock(&account).try_acquire().await?.unwrap();
        assert_eq!(server.journal().len() - before, requests);
        held.release().await?;
    }
    let before = server.journal().len();
    let held = lock(&account).acquire().await?;
    assert!(lock(&account).try_acquire().await?.is_none());
    assert_eq!(server.journal().len() - before, 4, "a lock that is taken is seen at once");
    held.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_waiter_acquires_the_lock_when_it_is_free() -> TestResult {
    let (server, clock, account) = start().await?;
    let lock = lock(&account);
    let held = lock.acquire().await?;
    let mut woken = 0;
    let mut wakes = async |operation, count| {
        while server.journal().count(operation) < count {
            tokio::task::yield_now().await;
            if clock.slept().len() > woken {
                woken += 1;
                clock.advance(TERM / 5);
            }
        }
    };
    let (next, ()) = join(lock.acquire(), async {
        // It has been looked at in vain before the holder gives it up.
        wakes(Operation::LeaseBlob, 5).await;
        held.release().await.unwrap();
        wakes(Operation::SetBlobMetadata, 2).await;
    })
    .await;
    assert_eq!(next?.token(), 2);
    Ok(())
}

#[tokio::test]
async fn setting_the_date_back_does_not_extend_the_term() -> TestResult {
    let (server, clock, account) = start().await?;
    let held = lock(&account).acquire().await?;
    clock.set_date(clock.now() - Duration::from_secs(60));
    assert_eq!(held.remaining(), TERM);
    let passed = TERM + Duration::from_secs(1);
    clock.advance(passed);
    server.clock().advance(passed);
    assert_eq!(held.remaining(), Duration::ZERO, "another may hold it");
    assert!(lock(&account).try_acquire().await?.is_some());
    Ok(())
}

#[tokio::test]
async fn setting_the_date_forward_does_not_end_the_term() -> TestResult {
    let (_server, clock, account) = start().await?;
    let held = lock(&account).acquire().await?;
    clock.set_date(clock.now() + Duration::from_secs(60));
    assert_eq!(held.remaining(), TERM);
    Ok(())
}

#[tokio::test]
async fn work_renews_the_lock() -> TestResult {
    let (server, clock, account) = start().await?;
    let held = lock(&account).acquire().await?;
    let done = held
        .guard(async |held| {
            for _ in 0..9 {
                // Until the keeper sleeps.
                tokio::task::yield_now().await;
                clock.advance(TERM / 3);
                server.clock().advance(TERM / 3);
                while held.remaining() < TERM {
                    tokio::task::yield_now().await;
                }
            }
            held.remaining()
        })
        .await;
    assert_eq!(done.done(), Some(TERM), "three terms later it is still held");
    assert_eq!(server.journal().count(Operation::LeaseBlob), 2 + 9);
    assert!(lock(&account).try_acquire().await?.is_none());
    Ok(())
}

#[tokio::test]
async fn work_stops_when_the_lock_is_broken() -> TestResult {
    let (_server, clock, account) = start().await?;
    let held = lock(&account).acquire().await?;
    account.container("locks").blob("lock").break_lease(Duration::ZERO).await?;
    let (outcome, ()) = join(held.guard(forever), async { clock.advance(TERM / 3) }).await;
    assert!(matches!(outcome, Guarded::Lost(Lost::Taken)), "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn work_observes_loss_of_the_lock_and_ends_itself() -> TestResult {
    let (_server, clock, account) = start().await?;
    let held = lock(&account).acquire().await?;
    let told = AtomicBool::new(false);
    let work = async {
        let mut steps = 0;
        while !told.load(Ordering::Relaxed) {
            steps += 1;
            tokio::task::yield_now().await;
        }
        steps
    };
    let keeper = async {
        let lost = held.lost().await;
        told.store(true, Ordering::Relaxed);
        lost
    };
    let operator = async {
        account.container("locks").blob("lock").break_lease(Duration::ZERO).await?;
        clock.advance(TERM / 3);
        Ok::<_, rowkey::Error>(())
    };
    let (steps, (lost, broken)) = join(work, join(keeper, operator)).await;
    broken?;
    assert_eq!(lost, Lost::Taken);
    assert!(steps > 0, "it went on until it was told");
    Ok(())
}

#[tokio::test]
async fn work_stops_before_the_term_ends_when_renewing_fails() -> TestResult {
    let (server, _, setup) = start().await?;
    drop(setup);
    // Waiting moves this clock, and the server's stands still: the lease is never lost there.
    let (account, clock) = waiting(&server)?;
    let held = lock(&once(&account)).acquire().await?;
    let taken = clock.now();
    let _down = server.inject(Fault::on(Operation::LeaseBlob).reject(ErrorCode::SERVER_BUSY));
    let outcome = held.guard(forever).await;
    assert!(matches!(outcome, Guarded::Lost(Lost::Expired)), "{outcome:?}");
    assert!(held.remaining().is_zero());
    assert!(clock.now() >= taken + TERM);
    assert!(server.journal().count(Operation::LeaseBlob) > 1, "it is tried more than once");
    Ok(())
}

#[tokio::test]
async fn an_unreadable_fencing_token_is_not_reset() -> TestResult {
    let (_server, _, account) = start().await?;
    let blob = account.container("locks").blob("lock");
    blob.put("").metadata(&[("fence", "seven")]).send().await?;
    let error = lock(&account).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    assert!(!error.to_string().contains("seven"), "{error}");
    blob.set_metadata(&[("fence", "7")]).await?;
    assert_eq!(lock(&account).try_acquire().await?.unwrap().token(), 8, "it was given back");
    Ok(())
}

/// A secondary that lags shows an older count, or a lock that is free.
#[tokio::test]
async fn the_fencing_token_is_read_on_the_primary() -> TestResult {
    let (server, _, setup) = start().await?;
    lock(&setup).acquire().await?.release().await?;
    let behind = server.hold_back_secondary();
    lock(&setup).acquire().await?.release().await?;
    let options = ClientOptions { read_from_secondary: true, ..setup.options().clone() };
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let lagging = account(&server, clock)?.with_options(options);
    let busy = Fault::on(Operation::GetBlobProperties).nth(1).reject(ErrorCode::SERVER_BUSY);
    let busy = server.inject(busy);
    assert_eq!(lock(&lagging).acquire().await?.token(), 3);
    assert_eq!(busy.hits(), 1);
    drop(behind);
    Ok(())
}

#[tokio::test]
async fn the_next_holder_loads_saved_state_and_an_older_token_cannot_save() -> TestResult {
    let (server, clock, account) = start().await?;
    let first = lock(&account).acquire().await?;
    assert_eq!(first.load().await?.bytes, "");
    let before = server.journal().len();
    let saved = first.save("of the first").await?;
    assert_eq!(server.journal().len() - before, 1);
    assert_eq!(first.load().await?.properties.etag, saved.etag);
    clock.advance(TERM * 2);
    server.clock().advance(TERM * 2);
    let late = first.save("late, though no other has come").await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Leased);
    let second = lock(&account).acquire().await?;
    assert_eq!((second.token(), &*second.load().await?.bytes), (2, &b"of the first"[..]));
    second.save("of the second").await?;
    for refused in [first.save("late").await.map(drop), first.load().await.map(drop)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Leased);
    }
    assert_eq!(second.load().await?.bytes, "of the second");
    second.release().await?;
    assert!(second.remaining().is_zero());
    assert_eq!(lock(&account).acquire().await?.token(), 3, "saving keeps the count");
    Ok(())
}

#[tokio::test]
async fn invalid_lease_terms_are_rejected_before_sending() -> TestResult {
    let (server, _, account) = start().await?;
    let sent = server.journal().len();
    for seconds in [0, 14, 61] {
        let error = lock(&account).term(Duration::from_secs(seconds)).try_acquire().await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert_eq!(server.journal().len(), sent);
    Ok(())
}

#[tokio::test]
async fn after_any_failed_request_the_lock_is_free_and_tokens_increase() -> TestResult {
    for repeats in [true, false] {
        let (server, _, account) = start().await?;
        let before = lock(&account).acquire().await?.token();
        server.clock().advance(TERM * 2);
        sweep(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                let held = lock(&account).try_acquire().await?;
                let Some(held) = held else { return Ok(None) };
                held.renew().await?;
                let token = held.token();
                held.release().await?;
                Ok::<_, rowkey::Error>(Some(token))
            },
            async |account, result| {
                let held = lock(account).try_acquire().await?.ok_or("it is still taken")?;
                assert!(held.token() > before);
                if let Ok(Some(token)) = result {
                    assert!(held.token() > *token);
                }
                Ok(())
            },
            |_, _| {},
        )
        .await?;
    }
    Ok(())
}

/// A protected resource: it stores the last token, and rejects smaller ones.
#[derive(Default)]
struct Resource {
    seen: u64,
    /// Who wrote, in order.
    writers: Vec<u64>,
}

impl Resource {
    fn write(&mut self, token: u64) -> bool {
        let admitted = token >= self.seen;
        if admitted {
            self.seen = token;
            self.writers.push(token);
        }
        admitted
    }

    /// Whether the writes of each holder are contiguous.
    fn is_serial(&self) -> bool {
        let mut turns = self.writers.clone();
        turns.dedup();
        turns.iter().collect::<BTreeSet<_>>().len() == turns.len()
    }
}

/// The totals over all schedules.
#[derive(Default)]
struct Seen {
    turns: usize,
    writes: usize,
    late: usize,
}

/// Three programs take the lock, write, fall asleep, wake up late, renew and release in any order; CI
/// tries more than 10,000 of them.
#[test]
fn critical_sections_do_not_overlap_under_any_schedule() -> TestResult {
    let seeds = seeds(3400);
    let parts = 4;
    let mut all = Seen::default();
    std::thread::scope(|scope| -> TestResult {
        let threads: Vec<_> = (0..parts)
            .map(|part| {
                let seeds = seeds.clone().filter(move |seed| seed % parts == part);
                scope.spawn(move || {
                    let runtime =
                        tokio::runtime::Builder::new_current_thread().enable_all().build();
                    let seen =
                        runtime.map_err(|error| error.to_string())?.block_on(schedules(seeds));
                    seen.map_err(|error| error.to_string())
                })
            })
            .collect();
        for thread in threads {
            let seen = thread.join().map_err(|_| "a schedule failed")??;
            all.turns += seen.turns;
            all.writes += seen.writes;
            all.late += seen.late;
        }
        Ok(())
    })?;
    let Seen { turns, writes, late } = all;
    let schedules = seeds.count();
    eprintln!(
        "{schedules} schedules, {turns} turns, {writes} writes, {late} of them late and refused"
    );
    assert!(late > schedules / 50, "the schedules test too little");
    Ok(())
}

/// All on one lock: a schedule finds it as the one before has left it, a term later.
async fn schedules(seeds: impl Iterator<Item = u64>) -> TestResult<Seen> {
    let (server, clock, account) = start().await?;
    let lock = lock(&account).term(Duration::from_secs(15));
    let pass = |seconds: u32| {
        // The clocks of the programs move with the server's here.
        let pause = Duration::from_secs(seconds.into());
        server.clock().advance(pause);
        clock.advance(pause);
    };
    let mut resource = Resource::default();
    let mut seen = Seen::default();
    for seed in seeds {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let mut programs: [Option<Held>; 3] = [None, None, None];
        let mut last = resource.seen;
        pass(16);
        for _ in 0..12 {
            let program = &mut programs[random.below(3) as usize];
            match (random.below(8), program.take()) {
                (0, held) => {
                    pass(1 + random.below(20));
                    *program = held;
                }
                (1, Some(held)) => {
                    held.release().await?;
                }
                (2, Some(held)) => *program = held.renew().await.is_ok().then_some(held),
                // Without a look at the clock, as if it had been paused just after one.
                (_, Some(held)) => {
                    seen.writes += 1;
                    seen.late += usize::from(!resource.write(held.token()));
                    *program = Some(held);
                }
                (1..=3, None) => {
                    *program = lock.try_acquire().await?;
                    if let Some(held) = program {
                        assert!(held.token() > last, "tokens grow");
                        last = held.token();
                        seen.turns += 1;
                    }
                }
                // Busy with something else.
                (_, None) => {}
            }
        }
        assert!(resource.is_serial(), "{:?}", resource.writers);
        resource.writers.clear();
    }
    Ok(seen)
}
