//! Random operations, workers that fail and stop, and many writers at once: what is found is true at any
//! time, and in the end nothing is out of step.

use std::pin::pin;

use futures_util::future::{join_all, select, try_join_all};
use rowkey::ErrorCode;
use rowkey_tests::random::{Random, Seed, seeds};

use super::*;

const OPERATIONS: usize = 14;
const WRITERS: u32 = 8;

/// An entity of random values, of which `email` and `badge` are nobody else's.
fn random_employee(random: &mut Random, own: u32, department: &str, id: u32) -> Employee {
    Employee {
        department: department.into(),
        id,
        first_name: random.pick(&["Ada", "Bob"]).into(),
        last_name: random.pick(&["King", "Noel", "Jon_es"]).into(),
        email: format!("{}{own}@x.org", random.pick(&["a", "B", "c"])),
        city: random.pick(&["Leeds", "York"]).into(),
        badge: random.one_in(2).then(|| format!("B{own}")),
        cents: i64::from(random.below(3)),
        active: !random.one_in(3),
    }
}

/// One change; `own` tells the writer's entities from others'.
async fn write(staff: &Source<Employee>, random: &mut Random, own: u32) -> Result<()> {
    let department = random.pick(&["it", "hr"]);
    let (id, salt) = (own * 10 + random.below(3), random.below(3));
    // Values are unique to the place of the entity, and to the writer.
    let owned = own * 100 + salt * 10 + id % 10 + u32::from(department == "it") * 50_000;
    let entity = random_employee(random, owned, department, id);
    let key = key(department, id);
    let done = match random.below(6) {
        0 => staff.insert(&entity).await.map(drop),
        1..=3 => staff.upsert(&entity).await.map(drop),
        4 => staff.update(key, |e| e.city.clone_from(&entity.city)).await.map(drop),
        _ => staff.delete_if_exists(key).await.map(drop),
    };
    match done {
        Err(error) if error.is_already_exists() || error.is_not_found() => Ok(()),
        done => done,
    }
}

/// What verified lookups find is what is stored, whatever the copies say.
async fn assert_true(account: &StorageAccount, server: &Server) -> TestResult {
    let entities = entities(&server.snapshot());
    let index = index(account);
    for city in ["Leeds", "York"] {
        for found in index.query(Employee::by_city_all(city)).all().await? {
            assert_eq!(Some(&*found), entities.get(&(found.department.clone(), found.id)));
            assert_eq!(found.city, city);
        }
    }
    Ok(())
}

#[tokio::test]
async fn whatever_fails_what_is_found_is_true_and_copies_converge() -> TestResult {
    let (prepared, ..) = start().await?;
    for seed in seeds(100) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let server = prepared.fork().await?;
        for _ in 0..OPERATIONS {
            let account = account(&server)?;
            let staff = source(&account);
            let nth = 1 + random.within(14);
            // How it fails, or whether it stops.
            let fault = Fault::any().nth(nth);
            let (fault, stops) = match random.below(6) {
                0 => (Some(fault.close_before_commit()), false),
                1 => (Some(fault.close_after_commit()), false),
                2 => (Some(fault.reject(ErrorCode::INTERNAL_ERROR)), false),
                3 => (Some(fault.hold()), true),
                _ => (None, false),
            };
            let fault = fault.map(|fault| server.inject(fault));
            let writes = random.one_in(2);
            let operation = async {
                if writes {
                    drop(write(&staff, &mut random, 0).await);
                } else {
                    drop(staff.worker().step().await);
                }
            };
            match &fault {
                Some(held) if stops => {
                    select(pin!(operation), pin!(held.wait_until_held())).await;
                }
                _ => operation.await,
            }
            drop(fault);
            server.clock().advance(Duration::from_secs(random.within(40)));
        }
        assert_true(&account(&server)?, &server).await?;
        // Longer than anything is hidden, and a second time for what was put aside.
        for _ in 0..2 {
            server.clock().advance(Duration::from_secs(3600));
            let account = account(&server)?;
            source(&account).outbox().tasks().redrive(100).await?;
            work_off(&account).await?;
        }
        assert_in_step(&server.snapshot());
    }
    Ok(())
}

#[tokio::test]
async fn eight_writers_and_two_workers_leave_nothing_out_of_step() -> TestResult {
    let (mut writes, mut copies) = (0, 0);
    for seed in seeds(6) {
        let _seed = Seed(seed);
        let (server, account, staff) = start().await?;
        let writers = (0..WRITERS).map(|writer| {
            let (staff, mut random) = (staff.clone(), Random(seed * 100 + u64::from(writer)));
            async move {
                for _ in 0..12 {
                    // Entities of the writer's own, and some that all of them write.
                    let own = if random.one_in(2) { writer + 1 } else { 0 };
                    write(&staff, &mut random, own).await?;
                }
                Ok::<_, Error>(())
            }
        });
        let done = std::cell::Cell::new(false);
        let workers = (0..2).map(|_| async {
            let worker = staff.worker();
            // Nothing to do does not end it before the writers have.
            loop {
                let ended = done.get();
                if worker.step().await? == Step::Idle && ended {
                    return Ok::<_, Error>(());
                }
            }
        });
        let writing = async {
            let written = try_join_all(writers).await;
            done.set(true);
            written
        };
        let (written, worked) = Box::pin(async { tokio::join!(writing, join_all(workers)) }).await;
        written?;
        worked.into_iter().collect::<Result<()>>()?;
        // What a worker had to try again.
        server.clock().advance(Duration::from_secs(3600));
        let account = {
            drop(account);
            rowkey_tests::sweep::account(&server)?
        };
        work_off(&account).await?;
        assert_no_drift(&account).await?;
        writes += server.journal().count(Operation::Transaction);
        copies += assert_in_step(&server.snapshot()).len();
    }
    assert!(copies > 0);
    eprintln!("eight writers: {writes} transactions, {copies} entities in the end");
    Ok(())
}
