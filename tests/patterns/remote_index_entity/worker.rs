//! The whole way: a change written through a source, its message, the worker, the lists.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{join, try_join_all};
use rowkey_eventual::source::Source;
use rowkey_eventual::worker::Step;
use rowkey_tests::sweep::sweep_every_way;
use rowkey_tests::{Fixture, TestResult, unique_name};

use super::*;

fn staff(account: &StorageAccount) -> Source<Employee> {
    let follower = names(account).follower();
    Source::new(account.table("staff"), account.queue("changes"), [follower]).unwrap()
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
    assert_lists(snapshot);
    let staff = snapshot.table("staff").unwrap();
    assert!(staff.entities().all(|row| row.row_key().starts_with("id_")), "no intent is left");
    let poison = snapshot.queue("changes-poison").unwrap();
    assert_eq!(poison.messages().count(), 0, "nothing went wrong for good");
}

#[tokio::test]
async fn a_worker_that_fails_or_ends_anywhere_leaves_nothing_undone() -> TestResult {
    let (server, table, _) = start().await?;
    let staff = staff(table.account());
    staff.create_if_missing().await?;
    for one in [employee(1, "Jones"), employee(2, "Jones")] {
        staff.insert(&one).await?;
    }
    finish(table.account()).await?;
    let jones_to_king = async |account: &StorageAccount| {
        let staff = self::staff(account);
        staff.update(key(1), |one| one.last_name = Some("King".into())).await?;
        staff.worker().step().await
    };
    sweep_every_way(&server, jones_to_king, finish, assert_finished).await
}

#[tokio::test]
async fn eight_writers_and_two_workers_end_with_every_list_right() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    let names = listed_in(table.clone(), fixture.table().await?);
    let queue = fixture.account.queue(&unique_name().to_lowercase());
    let staff = Source::new(table, queue, [names.follower()])?;
    staff.create_if_missing().await?;

    let writing = AtomicUsize::new(8);
    let writers = try_join_all((0..8).map(async |writer| {
        for n in 0..4 {
            let id = writer * 10 + n;
            staff.insert(&employee(id, "Jones")).await?;
            match n {
                1 => drop(staff.update(key(id), |one| one.last_name = Some("King".into())).await?),
                2 => drop(staff.delete_if_exists(key(id)).await?),
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
    let of = |kept: &[u32]| -> BTreeSet<u32> {
        (0..8).flat_map(|writer| kept.iter().map(move |n| writer * 10 + n)).collect()
    };
    assert_eq!(ids(&names, "Jones").await?, of(&[0, 3]));
    assert_eq!(ids(&names, "King").await?, of(&[1]));
    assert_eq!((names.keys("Jones").await?.len(), names.keys("King").await?.len()), (16, 8));
    assert!(names.check().run().await?.is_in_step());
    Ok(())
}
