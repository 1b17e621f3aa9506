//! What becomes of a change when any one of its requests fails, or when others write between them.

use rowkey::{ErrorKind, Outcome, StorageAccount};
use rowkey_patterns::local_index::LocalIndex;
use rowkey_server::{Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{Runs, once, sweep};

use super::{Employee, assert_in_step, employee, key, staff, start, stored};

/// Sweeps over `change`, which is tried again until it has happened, and checks the rows each time.
/// `change` says whether it has.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn sweep_over(
    server: &Server,
    change: impl AsyncFn(&LocalIndex<Employee>) -> rowkey::Result<()>,
    done: impl Fn(Option<&Employee>) -> bool,
) -> Result<(), Box<dyn std::error::Error>> {
    for repeats in [true, false] {
        let scenario = async |account: &StorageAccount| {
            let account = if repeats { account.clone() } else { once(account) };
            change(&staff(&account)).await
        };
        let recover = async |account: &StorageAccount, result: &rowkey::Result<()>| -> TestResult {
            let staff = staff(account);
            if let Err(error) = result {
                // Whoever is told that it failed looks, and tries again if it has to be.
                let now = staff.get(key(7)).await?;
                let happened = done(now.as_deref());
                assert!(!happened || error.outcome() == Outcome::Unknown, "{error}");
                if !happened {
                    change(&staff).await?;
                }
            }
            Ok(())
        };
        let runs: Runs = sweep(server, scenario, recover, |snapshot, _| {
            let entities = assert_in_step(stored(snapshot));
            assert!(done(entities.get(&7)), "it has happened");
        })
        .await?;
        assert!(runs.failures > 0);
    }
    Ok(())
}

#[tokio::test]
async fn an_insert_happens_whole_or_not_at_all() -> TestResult {
    let (server, _) = start().await?;
    let ada = employee(7, "King", "ada@contoso.com");
    sweep_over(&server, async |staff| staff.insert(&ada).await.map(drop), |now| now == Some(&ada))
        .await
}

#[tokio::test]
async fn changes_that_move_copies_happen_whole_or_not_at_all() -> TestResult {
    let (server, it) = start().await?;
    it.insert(&employee(7, "King", "ada@contoso.com")).await?;
    let moved = |e: &mut Employee| {
        e.last_name = "Noel".into();
        e.email = "augusta@contoso.com".into();
        e.manager = None;
        e.badge = Some("B1".into());
    };
    let mut after = employee(7, "King", "ada@contoso.com");
    moved(&mut after);
    let done = |now: Option<&Employee>| now == Some(&after);
    sweep_over(
        &server,
        async |staff| {
            let read = staff.get(key(7)).await?.unwrap();
            staff.replace(&read.map(moved)).await.map(drop)
        },
        done,
    )
    .await?;
    sweep_over(
        &server,
        async |staff| {
            let found = staff.find(Employee::by_email("sales", "ada@contoso.com")).await?.unwrap();
            staff.replace(&found.map(moved)).await.map(drop)
        },
        done,
    )
    .await?;
    sweep_over(&server, async |staff| staff.update(key(7), moved).await.map(drop), done).await?;
    sweep_over(&server, async |staff| staff.upsert(&after).await.map(drop), done).await
}

#[tokio::test]
async fn an_update_knows_its_own_write_again() -> TestResult {
    let (server, it) = start().await?;
    it.insert(&employee(7, "King", "ada@contoso.com")).await?;
    for (cents, moves) in [(1, false), (2, true)] {
        let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_after_commit());
        let updated = it
            .update(key(7), |e| {
                e.cents = cents;
                e.last_name = if moves { "Noel".into() } else { e.last_name.clone() };
            })
            .await?;
        assert_eq!((lost.hits(), updated.cents), (1, cents));
        assert_in_step(stored(&server.snapshot()));
    }
    Ok(())
}

/// A count that is one higher may be this update's or another's.
#[tokio::test]
async fn an_update_does_not_take_the_step_of_another_writer_for_its_own() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(7, "King", "ada@contoso.com")).await?;
    // The write is lost, and another writer takes the same step before it is looked for.
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_before_commit());
    let held = server.inject(Fault::on(Operation::GetEntity).nth(2).hold());
    let (updated, ()) = tokio::join!(staff.update(key(7), |e| e.cents += 1), async {
        held.wait_until_held().await;
        staff.update(key(7), |e| e.cents += 1).await.unwrap();
        held.release();
    });
    let counted = staff.get(key(7)).await?.unwrap().cents;
    assert_eq!(lost.hits(), 1);
    assert_eq!((updated.unwrap_err().outcome(), counted), (Outcome::Unknown, 701));
    Ok(())
}

#[tokio::test]
async fn an_update_that_counts_counts_once_or_says_that_nobody_knows() -> TestResult {
    for repeats in [true, false] {
        let (server, it) = start().await?;
        it.insert(&employee(7, "King", "ada@contoso.com")).await?;
        sweep(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                staff(&account).update(key(7), |e| e.cents += 1).await.map(drop)
            },
            async |_, _| Ok(()),
            |snapshot, result| {
                let cents = assert_in_step(stored(snapshot))[&7].cents;
                match result.as_ref().map_err(rowkey::Error::outcome) {
                    Ok(()) => assert_eq!(cents, 701),
                    Err(Outcome::NotSent | Outcome::Rejected) => assert_eq!(cents, 700),
                    Err(Outcome::Unknown) => assert!([700, 701].contains(&cents)),
                }
            },
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn deletions_happen_whole_or_not_at_all() -> TestResult {
    let (server, it) = start().await?;
    it.insert(&employee(7, "King", "ada@contoso.com")).await?;
    let done = |now: Option<&Employee>| now.is_none();
    let by_key =
        async |staff: &LocalIndex<Employee>| staff.delete_if_exists(key(7)).await.map(drop);
    sweep_over(&server, by_key, done).await?;
    let as_read = async |staff: &LocalIndex<Employee>| {
        let read = staff.get(key(7)).await?.unwrap();
        staff.delete(&read).await
    };
    sweep_over(&server, as_read, done).await
}

#[tokio::test]
async fn several_changes_and_mended_rows_happen_whole_or_not_at_all() -> TestResult {
    let (server, it) = start().await?;
    it.insert(&employee(7, "King", "ada@contoso.com")).await?;
    it.insert(&employee(8, "King", "bob@contoso.com")).await?;
    let swap = async |staff: &LocalIndex<Employee>| {
        let (ada, bob) = (staff.get(key(7)).await?.unwrap(), staff.get(key(8)).await?.unwrap());
        let (to, from) = (bob.email.clone(), ada.email.clone());
        let (ada, bob) = (ada.map(|e| e.email = to), bob.map(|e| e.email = from));
        staff.transaction().replace(&ada).replace(&bob).submit().await.map(drop)
    };
    let done = |now: Option<&Employee>| now.is_some_and(|now| now.email == "bob@contoso.com");
    sweep_over(&server, swap, done).await?;

    // What stands in the way are the copies of an entity that is gone.
    it.table().delete(key(7), rowkey::Match::Any).await?;
    let ada = employee(7, "King", "ada@contoso.com");
    let insert = async |staff: &LocalIndex<Employee>| staff.insert(&ada).await.map(drop);
    sweep_over(&server, insert, |now| now == Some(&ada)).await
}

#[tokio::test]
async fn of_two_who_want_a_value_one_gets_it() -> TestResult {
    let (server, staff) = start().await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let meanwhile = async {
        held.wait_until_held().await;
        staff.insert(&employee(8, "King", "ada@contoso.com")).await?;
        held.release();
        Ok::<_, rowkey::Error>(())
    };
    let ours = employee(7, "King", "ada@contoso.com");
    let (inserted, other) = tokio::join!(staff.insert(&ours), meanwhile);
    other?;
    let refused = inserted.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert!(refused.to_string().contains("the index `by_email`"), "{refused}");
    assert_eq!(assert_in_step(stored(&server.snapshot())).len(), 1);
    Ok(())
}

#[tokio::test]
async fn who_loses_reads_and_decides_again() -> TestResult {
    let (server, staff) = start().await?;
    let of = |name: &str| employee(7, name, "ada@contoso.com");
    // Held: the writing of ours, which has read something else by then.
    let held = || server.inject(Fault::on(Operation::Transaction).nth(1).hold());

    // Inserted since an upsert saw nothing.
    let (fault, ours) = (held(), of("King"));
    let (upserted, ()) = tokio::join!(staff.upsert(&ours), async {
        fault.wait_until_held().await;
        staff.insert(&of("Noel")).await.unwrap();
        fault.release();
    });
    upserted?;
    // Changed since an update read it, so that its copy is elsewhere.
    let fault = held();
    let (updated, ()) = tokio::join!(staff.update(key(7), |e| e.cents += 1), async {
        fault.wait_until_held().await;
        staff.update(key(7), |e| e.last_name = "Byron".into()).await.unwrap();
        fault.release();
    });
    assert_eq!((&*updated?.last_name, 701), ("Byron", staff.get(key(7)).await?.unwrap().cents));
    // Deleted since an upsert read it.
    let fault = held();
    let (upserted, ()) = tokio::join!(staff.upsert(&ours), async {
        fault.wait_until_held().await;
        assert!(staff.delete_if_exists(key(7)).await.unwrap());
        fault.release();
    });
    upserted?;
    // Changed since a deletion read it.
    let fault = held();
    let (deleted, ()) = tokio::join!(staff.delete_if_exists(key(7)), async {
        fault.wait_until_held().await;
        staff.update(key(7), |e| e.last_name = "Byron".into()).await.unwrap();
        fault.release();
    });
    assert!(deleted?);
    assert_eq!(assert_in_step(stored(&server.snapshot())).len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_lookup_by_a_partial_copy_follows_the_value_to_another_entity() -> TestResult {
    let (server, staff) = start().await?;
    let with = |id, badge: Option<&str>| Employee {
        badge: badge.map(Into::into),
        ..employee(id, "King", &format!("e{id}@contoso.com"))
    };
    staff.insert(&with(7, Some("B1"))).await?;
    staff.insert(&with(8, None)).await?;
    // The copy has been read, and the entity is about to be.
    let held = server.inject(Fault::on(Operation::GetEntity).nth(2).hold());
    let (found, ()) = tokio::join!(staff.find(Employee::by_badge("sales", "B1")), async {
        held.wait_until_held().await;
        staff.update(key(7), |e| e.badge = None).await.unwrap();
        staff.update(key(8), |e| e.badge = Some("B1".into())).await.unwrap();
        held.release();
    });
    assert_eq!(found?.map(|found| found.id), Some(8));
    Ok(())
}
