//! The whole way: a change written through a source, its message, the worker, the summaries.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{join, try_join_all};
use rowkey::StorageAccount;
use rowkey_eventual::source::Source;
use rowkey_eventual::worker::Step;
use rowkey_server::{Fault, Snapshot};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::sweep_every_way;
use rowkey_tests::{Fixture, TestResult, unique_name};

use super::*;

fn staff(account: &StorageAccount) -> Source<Employee> {
    let follower = departments(account).follower();
    Source::new(account.table("staff"), account.queue("changes"), [follower]).unwrap()
}

async fn start_source() -> Result<(Server, Source<Employee>), Box<dyn std::error::Error>> {
    let (server, table, _) = start().await?;
    let staff = staff(table.account());
    staff.create_if_missing().await?;
    Ok((server, staff))
}

/// Has workers do all there is to do, and finds what no message tells of.
async fn finish(account: &StorageAccount) -> TestResult {
    let staff = staff(account);
    let worker = staff.worker();
    while worker.step().await? != Step::Idle {}
    staff.drain(Duration::ZERO).run().await?;
    Ok(())
}

fn assert_finished(snapshot: &Snapshot) {
    assert_exact(snapshot);
    let staff = snapshot.table("staff").unwrap();
    assert!(staff.entities().all(|row| row.row_key().starts_with("id_")), "no intent is left");
    let poison = snapshot.queue("changes-poison").unwrap();
    assert_eq!(poison.messages().count(), 0, "nothing went wrong for good");
}

#[tokio::test]
async fn a_change_is_carried_on_and_costs_this() -> TestResult {
    let (server, staff) = start_source().await?;
    let mut before = server.journal();
    let mut cost = || {
        let journal = server.journal().since(&before);
        before = server.journal();
        journal.len()
    };
    staff.insert(&employee(1, "sales", 10, 1)).await?;
    assert_eq!(cost(), 2, "entity and intent together, and a message");
    assert_eq!(staff.worker().step().await?, Step::Handled);
    // Message and intent come and go with four requests, settling takes five for a new group.
    assert_eq!(cost(), 4 + 5);

    staff.insert(&employee(2, "sales", 20, 2)).await?;
    cost();
    assert_eq!(staff.worker().step().await?, Step::Handled);
    assert_eq!(cost(), 4 + 4);
    assert_finished(&server.snapshot());

    // What the summary does not show is not carried on.
    staff.update(key(2), |employee| employee.region = "west".into()).await?;
    assert_eq!(staff.worker().step().await?, Step::Idle);
    // Two summaries are settled.
    staff.update(key(2), |employee| employee.department = Some("hr".into())).await?;
    cost();
    assert_eq!(staff.worker().step().await?, Step::Handled);
    let journal = cost();
    assert_eq!(journal, 4 + 5 + 5, "a new group, and one whose latest has gone");
    assert_finished(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_worker_that_fails_or_ends_anywhere_leaves_nothing_undone() -> TestResult {
    let (server, staff) = start_source().await?;
    for one in [employee(1, "sales", 10, 3), employee(2, "sales", 20, 2)] {
        staff.insert(&one).await?;
    }
    finish(staff.table().account()).await?;
    let sales_to_hr = async |account: &StorageAccount| {
        let staff = self::staff(account);
        staff.update(key(1), |one| one.department = Some("hr".into())).await?;
        staff.worker().step().await
    };
    sweep_every_way(&server, sales_to_hr, finish, assert_finished).await
}

#[tokio::test]
async fn eight_writers_and_two_workers_end_with_exact_summaries() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    let view = view(table.clone(), fixture.table().await?);
    let queue = fixture.account.queue(&unique_name().to_lowercase());
    let staff = Source::new(table.clone(), queue, [view.follower()])?;
    staff.create_if_missing().await?;

    let writing = AtomicUsize::new(8);
    let writers = try_join_all((0..8).map(async |writer| {
        for n in 0..4 {
            let id = writer * 10 + n;
            staff.insert(&employee(id, "sales", id, 1)).await?;
            match n {
                1 => drop(staff.update(key(id), |one| one.department = Some("hr".into())).await?),
                2 => drop(staff.delete_if_exists(key(id)).await?),
                3 => drop(staff.update(key(id), |one| one.salary += 1000).await?),
                _ => {}
            }
        }
        writing.fetch_sub(1, Ordering::Relaxed);
        Ok::<_, rowkey::Error>(())
    }));
    let workers = try_join_all((0..2).map(async |_| {
        let worker = staff.worker();
        while worker.step().await? != Step::Idle || writing.load(Ordering::Relaxed) > 0 {}
        Ok::<_, rowkey::Error>(())
    }));
    let (written, worked) = join(writers, workers).await;
    written?;
    worked?;
    // Messages that a worker has put back are hidden for a while.
    staff.drain(Duration::ZERO).run().await?;
    let sum = (0..8).map(|writer| i64::from(writer * 10 + writer * 10 + 3 + 1000)).sum();
    assert_eq!(summary(&view, "sales").await?, Some((16, sum, Some(0), hired(1))));
    let sum = (0..8).map(|writer| i64::from(writer * 10 + 1)).sum();
    assert_eq!(summary(&view, "hr").await?, Some((8, sum, Some(1), hired(1))));
    assert!(view.check().run().await?.is_in_step());
    Ok(())
}

/// Workers are ended while a request of theirs is on its way, which arrives later, or never; answers
/// are lost; messages are received twice.
#[tokio::test]
async fn the_model_and_the_summaries_agree_whatever_befalls_the_workers() -> TestResult {
    let names = ["sales", "hr", ""];
    let (mut ended, mut failed) = (0, 0);
    for seed in seeds(40) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let (server, mut staff) = start_source().await?;
        let mut late = Vec::new();
        for _ in 0..10 {
            let id = random.below(3);
            let new = employee(id, random.pick(&names), random.below(50), random.below(4));
            match random.below(4) {
                0 => drop(staff.delete_if_exists(key(id)).await?),
                _ => drop(staff.upsert(&new).await?),
            }
            for _ in 0..random.below(3) {
                let request = u64::from(1 + random.below(9));
                let worker = staff.worker();
                if random.one_in(2) {
                    let fault = Fault::any().nth(request);
                    let fault = match random.below(3) {
                        0 => fault.close_before_commit(),
                        1 => fault.close_after_commit(),
                        _ => fault.reject(rowkey_server::ErrorCode::INTERNAL_ERROR),
                    };
                    let fault = server.inject(fault);
                    drop(worker.step().await);
                    failed += fault.hits();
                } else {
                    let held = server.inject(Fault::any().nth(request).hold());
                    tokio::select! {
                        () = held.wait_until_held() => {
                            late.push(held);
                            ended += 1;
                        }
                        worked = worker.step() => drop(worked?),
                    }
                }
                if random.one_in(2) {
                    // Messages are visible again, whoever held them.
                    server.clock().advance(Duration::from_secs(61));
                    staff = self::staff(&account(&server)?);
                }
            }
            if random.one_in(3) && !late.is_empty() {
                drop(late.swap_remove(random.below(u32::try_from(late.len())?) as usize));
            }
        }
        server.clock().advance(Duration::from_secs(3600));
        finish(&account(&server)?).await?;
        drop(late);
        finish(&account(&server)?).await?;
        assert_finished(&server.snapshot());
    }
    eprintln!("{ended} workers ended, {failed} requests failed");
    assert!(ended > 50 && failed > 50, "workers ended: {ended}, requests failed: {failed}");
    Ok(())
}
