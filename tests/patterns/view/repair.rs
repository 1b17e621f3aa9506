//! Views compared with a scan of their entities, mended, and built for what was there before.

use rowkey::{DynamicEntity, ErrorKind, Match};
use rowkey_eventual::repair::{Checkpoint, Report};
use rowkey_eventual::view::View;
use rowkey_server::Operation;
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};

use super::*;

#[tokio::test]
async fn a_view_is_built_for_entities_that_were_there_before() -> TestResult {
    let (server, staff, view) = start().await?;
    for id in 0..100 {
        let department = ["sales", "hr", ""][id as usize % 3];
        staff.insert(&employee(id, department, id, id % 28)).await?;
    }
    let report = view.check().run().await?.clone();
    assert_eq!(report, Report { entities: 100, missing: 67, ..Report::default() });
    assert!(!report.is_in_step());
    assert_eq!(server.snapshot().table("departments").unwrap().len(), 0, "a check writes nothing");

    let before = server.journal();
    let report = view.repair().run().await?.clone();
    assert_eq!((report.missing, report.mended, report.is_in_step()), (67, 67, true));
    let journal = server.journal().since(&before);
    // 34 and 33 employees, 32 in a transaction at most.
    assert_eq!(journal.count(Operation::Transaction), 4);
    assert_exact(&server.snapshot());

    let before = server.journal();
    let report = view.check().run().await?.clone();
    assert_eq!(report, Report { entities: 100, claims: 67, ..Report::default() });
    let journal = server.journal().since(&before);
    let of_summaries = 2 + 2;
    assert_eq!(journal.clone().count(Operation::GetEntity), 67 * 2 + 67 * 2 + of_summaries);
    assert_eq!(journal.count(Operation::QueryEntities), 2 + 2, "a page a table, one a group");
    Ok(())
}

#[tokio::test]
async fn every_kind_of_drift_is_found_and_mended() -> TestResult {
    let (server, staff, view) = start().await?;
    for id in 1..=6 {
        put(&staff, &view, &employee(id, "sales", id, id)).await?;
    }
    put(&staff, &view, &employee(7, "hr", 7, 7)).await?;
    put(&staff, &view, &employee(8, "law", 8, 8)).await?;
    // Written past the view: a raise, a move, a death.
    staff.upsert(&employee(1, "sales", 100, 1)).await?;
    staff.upsert(&employee(2, "hr", 2, 2)).await?;
    staff.delete(key(3), Match::Any).await?;
    // Written into the view: a contribution, and both kinds of summaries.
    let row = |row| Key::<DynamicEntity>::new("sales", row);
    view.table().delete(row("from_summary_west_id_000004"), Match::Any).await?;
    let mut wrong = DynamicEntity::new("hr", "summary");
    wrong.set("Headcount", 5_i64);
    view.table().merge((&wrong, Match::Any)).await?;
    view.table().delete(Key::<DynamicEntity>::new("law", "summary"), Match::Any).await?;
    // What is no employee, and what is of no view.
    let mut unfit = DynamicEntity::new("west", "id_000009");
    unfit.set("Salary", "much");
    staff.insert(&unfit).await?;
    view.table().insert(&DynamicEntity::new("sales", "note")).await?;

    let expected =
        Report { entities: 8, unfit: 1, claims: 7, missing: 3, orphan: 2, unsound: 3, mended: 0 };
    assert_eq!(*view.check().run().await?, expected);
    let mut repair = view.repair();
    repair.run().await?;
    // In the first half what is missing is mended: contributions to two of the three summaries.
    let report = repair.report();
    assert_eq!((report.missing, report.orphan, report.unfit), (3, 2, 1));
    assert_eq!(report.drifted(), report.mended);
    staff.delete(unfit.key(), Match::Any).await?;
    assert_exact(&server.snapshot());
    let check = view.check().run().await?.clone();
    assert_eq!((check.drifted(), check.is_in_step()), (0, true));
    Ok(())
}

#[tokio::test]
async fn rows_of_another_view_in_the_same_table_are_left() -> TestResult {
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(partition = "of_{region}", row = "summary", rename_all = "PascalCase")]
    struct Region {
        region: String,
        headcount: i64,
    }
    let (server, staff, view) = start().await?;
    let group = |employee: &Employee| Some(Region::key(&employee.region));
    let regions = View::new("regions", staff.clone(), view.table().clone(), group);
    let regions = regions.count(Region::HEADCOUNT);
    put(&staff, &view, &employee(1, "sales", 1, 1)).await?;
    regions.settle(key(1), Region::key("west")).await?;
    let before = rows(&server);
    for report in [view.repair().run().await?.clone(), regions.repair().run().await?.clone()] {
        assert_eq!((report.claims, report.drifted()), (1, 0));
    }
    assert_eq!(rows(&server), before);
    Ok(())
}

#[tokio::test]
async fn a_column_that_is_new_is_filled_by_a_repair() -> TestResult {
    let (server, staff, view) = start().await?;
    let group = |employee: &Employee| employee.department.as_ref().map(Department::key);
    let old = View::new("departments", staff.clone(), view.table().clone(), group)
        .count(Department::HEADCOUNT);
    for id in 1..=5 {
        staff.insert(&employee(id, "sales", id, id)).await?;
        old.settle(key(id), Department::key("sales")).await?;
    }
    // Settled by the new declaration before it is complete.
    put(&staff, &view, &employee(2, "sales", 20, 2)).await?;
    let report = view.repair().run().await?.clone();
    assert_eq!((report.missing, report.is_in_step()), (4, true));
    assert_exact(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_run_goes_on_from_its_checkpoint_in_another_process() -> TestResult {
    let (server, staff, view) = start().await?;
    for id in 0..25 {
        staff.insert(&employee(id, "sales", id, 1)).await?;
    }
    let mut stored = String::from(
        "{\"mend\":true,\"table\":0,\"next\":null,\"report\":\
        {\"entities\":0,\"unfit\":0,\"claims\":0,\"missing\":0,\"orphan\":0,\"unsound\":0,\"mended\":0}}",
    );
    let mut steps = 0;
    loop {
        let checkpoint: Checkpoint = serde_json::from_str(&stored)?;
        let mut run = view.repair().page_size(10).resume(checkpoint)?;
        if !run.step().await? {
            break;
        }
        steps += 1;
        stored = serde_json::to_string(run.checkpoint())?;
    }
    assert_eq!(steps, 3 + 3, "25 employees, 26 rows of the view");
    let checkpoint: Checkpoint = serde_json::from_str(&stored)?;
    assert_eq!((checkpoint.report().entities, checkpoint.report().mended), (25, 25));
    assert_exact(&server.snapshot());
    let error = view.check().resume(checkpoint).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    Ok(())
}

#[tokio::test]
async fn a_run_keeps_to_its_pace() -> TestResult {
    let (_server, staff, view) = start().await?;
    for id in 0..40 {
        staff.insert(&employee(id, "sales", id, 1)).await?;
    }
    let clock = staff.account().clock();
    let begun = clock.now();
    view.repair().entities_per_second(8).run().await?;
    // In batches of 32: the second waits for the first, what they have written for both.
    assert_eq!((clock.now() - begun).num_seconds(), (32 + 8 + 32) / 8);
    Ok(())
}

#[tokio::test]
async fn a_repair_while_writers_and_workers_go_on_ends_with_everything_right() -> TestResult {
    let names = ["sales", "hr", ""];
    for seed in seeds(15) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let (server, staff, view) = start().await?;
        for id in 0..8 {
            let employee = employee(id, random.pick(&names), random.below(50), random.below(4));
            if random.one_in(2) {
                staff.insert(&employee).await?;
            } else {
                put(&staff, &view, &employee).await?;
            }
        }
        let mut repair = view.repair().page_size(3).concurrency(2);
        let writes = async {
            for _ in 0..10 {
                let (id, name) = (random.below(8), random.pick(&names));
                put(&staff, &view, &employee(id, name, random.below(50), random.below(4))).await?;
            }
            Ok::<_, rowkey::Error>(())
        };
        let (repaired, written) = futures_util::future::join(repair.run(), writes).await;
        repaired?;
        written?;
        assert_exact(&server.snapshot());
        assert!(view.check().run().await?.is_in_step());
    }
    Ok(())
}

fn rows(server: &Server) -> Vec<String> {
    let snapshot = server.snapshot();
    let rows = snapshot.table("departments").unwrap().entities();
    rows.map(|row| format!("{} {} {:?}", row.partition_key(), row.row_key(), row.timestamp()))
        .collect()
}
