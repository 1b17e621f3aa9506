//! What becomes of a change and its copies when any request fails, when anybody stops anywhere, and when
//! a worker comes late.

use rowkey::Outcome;
use rowkey_tests::sweep::{once, stopped_at_every_request, sweep};

use super::*;

/// A change of the one entity, and what it is to be afterwards.
#[derive(Clone, Copy, Debug)]
enum Change {
    Delete,
    Insert,
    /// Every copy moves, one goes and one comes.
    Move,
    /// Every copy stays where it is.
    Rename,
}

impl Change {
    const ALL: [Self; 4] = [Self::Delete, Self::Insert, Self::Move, Self::Rename];

    async fn make(self, staff: &Source<Employee>) -> Result<()> {
        let key = key("it", 7);
        match self {
            Self::Delete => staff.delete_if_exists(key).await.map(drop),
            Self::Insert => staff.insert(&before()).await.map(drop),
            Self::Move | Self::Rename => {
                let read = staff.get(key).await?.unwrap();
                let change = |e: &mut Employee| *e = self.after().unwrap();
                staff.replace(&read.map(change)).await.map(drop)
            }
        }
    }

    fn after(self) -> Option<Employee> {
        match self {
            Self::Delete => None,
            Self::Insert => Some(before()),
            Self::Move => Some(Employee {
                last_name: "Noel".into(),
                email: "noel@x.org".into(),
                city: "York".into(),
                badge: None,
                cents: 200,
                active: true,
                ..before()
            }),
            Self::Rename => Some(Employee { first_name: "Augusta".into(), ..before() }),
        }
    }

    /// A server where the change can be made.
    async fn start(
        self,
    ) -> std::result::Result<(Server, StorageAccount, Source<Employee>), Box<dyn std::error::Error>>
    {
        let (server, account, staff) = start().await?;
        if !matches!(self, Self::Insert) {
            staff.insert(&before()).await?;
            settle(&staff).await?;
        }
        Ok((server, account, staff))
    }
}

fn before() -> Employee {
    Employee { badge: Some("B1".into()), ..employee("it", 7, "King", "king@x.org") }
}

fn only(snapshot: &Snapshot) -> Option<Employee> {
    assert_in_step(snapshot).into_values().next()
}

#[tokio::test]
async fn whichever_request_fails_the_copies_are_in_step_in_the_end() -> TestResult {
    for change in Change::ALL {
        for repeats in [true, false] {
            let (server, ..) = change.start().await?;
            Box::pin(sweep(
                &server,
                async |account| {
                    let account = if repeats { account.clone() } else { once(account) };
                    let staff = source(&account);
                    let made = change.make(&staff).await;
                    drop(staff.worker().step().await);
                    made
                },
                async |account, _| work_off(account).await,
                |snapshot, made| {
                    let now = only(snapshot);
                    match made.as_ref().map_err(Error::outcome) {
                        Ok(()) => assert_eq!(now, change.after()),
                        Err(Outcome::Unknown) => {}
                        Err(_) => assert_ne!(now, change.after(), "it was refused"),
                    }
                },
            ))
            .await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn whoever_stops_anywhere_leaves_what_the_next_one_finishes() -> TestResult {
    for change in Change::ALL {
        let (server, ..) = change.start().await?;
        Box::pin(stopped_at_every_request(
            &server,
            async |account| {
                let staff = source(account);
                change.make(&staff).await.unwrap();
                assert_eq!(staff.worker().step().await.unwrap(), Step::Handled);
            },
            work_off,
            |snapshot| drop(assert_in_step(snapshot)),
        ))
        .await?;
    }
    Ok(())
}

/// Says which run it was, when a test panics.
struct Late(String);

impl Drop for Late {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with a late worker: {}", self.0);
        }
    }
}

/// Without the last look one of these ends out of step.
#[tokio::test]
async fn a_worker_that_comes_late_does_not_undo_what_is_newer() -> TestResult {
    let mut runs = 0;
    for first in [Change::Delete, Change::Insert, Change::Move] {
        let (prepared, first_account, _) = first.start().await?;
        first.make(&source(&first_account)).await?;
        for second in [Change::Delete, Change::Move] {
            for back in [false, true] {
                // Held at each of its requests, while another change is made and carried on; and, if it
                // is taken back, a third.
                for nth in 1.. {
                    let _late = Late(format!("{first:?} at {nth}, {second:?}, back: {back}"));
                    let server = prepared.fork().await?;
                    let account = account(&server)?;
                    let staff = source(&account);
                    let held = server.inject(Fault::any().nth(nth).hold());
                    let worker = staff.worker();
                    let end = {
                        let meanwhile = async {
                            held.wait_until_held().await;
                            if staff.get(key("it", 7)).await?.is_some() {
                                second.make(&staff).await?;
                                settle(&staff).await?;
                            }
                            if back {
                                staff.upsert(&before()).await?;
                                settle(&staff).await?;
                            }
                            held.release();
                            std::future::pending::<Result<()>>().await
                        };
                        tokio::select! {
                            step = worker.step() => {
                                assert_ne!(step?, Step::Retried);
                                held.hits() == 0
                            }
                            failed = meanwhile => { failed?; true }
                        }
                    };
                    if end {
                        break;
                    }
                    settle(&source(&account)).await?;
                    assert_in_step(&server.snapshot());
                    runs += 1;
                }
            }
        }
    }
    assert!(runs > 100);
    eprintln!("late workers: {runs} runs");
    Ok(())
}

/// What it wrote would stay: another worker has settled the change that it works on, and nobody looks
/// again. So what it writes has to fail.
#[tokio::test]
async fn a_worker_that_comes_late_and_dies_has_written_nothing_old() -> TestResult {
    let (prepared, first_account, _) = Change::Rename.start().await?;
    Change::Rename.make(&source(&first_account)).await?;
    for nth in 2.. {
        let _late = Late(format!("dying after {nth}"));
        let server = prepared.fork().await?;
        let staff = source(&account(&server)?);
        let held = server.inject(Fault::any().nth(nth).hold());
        let worker = staff.worker();
        let meanwhile = async {
            held.wait_until_held().await;
            staff.update(key("it", 7), |e| e.first_name = "Bob".into()).await?;
            settle(&staff).await?;
            server.clock().advance(Duration::from_secs(1));
            let drained = source(&account(&server)?).drain(Duration::ZERO).run().await?;
            assert_eq!(drained.failed, 0);
            let dead = server.inject(Fault::any().nth(1).hold());
            held.release();
            dead.wait_until_held().await;
            Ok::<_, Box<dyn std::error::Error>>(())
        };
        let end = tokio::select! {
            step = worker.step() => { assert_ne!(step?, Step::Poisoned); true }
            stopped = meanwhile => { stopped?; false }
        };
        // As the sweep does: what it asked for last is not done there.
        let server = server.fork().await?;
        server.clock().advance(Duration::from_secs(61));
        work_off(&account(&server)?).await?;
        assert_in_step(&server.snapshot());
        if end {
            assert!(nth > 10, "it was stopped at each of its requests");
            break;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_drain_and_a_worker_at_once_settle_it() -> TestResult {
    for nth in 2..=12 {
        let (server, _, staff) = Change::Move.start().await?;
        Change::Move.make(&staff).await?;
        let held = server.inject(Fault::any().nth(nth).hold());
        let worker = staff.worker();
        let (step, drained) = tokio::join!(worker.step(), async {
            held.wait_until_held().await;
            server.clock().advance(Duration::from_secs(1));
            let drained = source(&account(&server).unwrap()).drain(Duration::ZERO).run().await;
            held.release();
            drained
        });
        assert!(matches!(step?, Step::Handled | Step::Suppressed));
        assert_eq!(drained?.failed, 0);
        assert_eq!(only(&server.snapshot()), Change::Move.after());
    }
    Ok(())
}
