//! Views that another program damaged: `verify` adds the summaries up, and `repair` makes them exact.

use rowkey::store::{Settled, Store};
use rowkey::{DynamicEntity, Key, Match, Partition, StorageAccount, Table};
use rowkey_emulator::{Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

use super::view::{Employee, assert_exact, employee, key, start, store, view};

/// Two departments: four employees in `it`, two in `hr`.
async fn staffed() -> TestResult<(Server, Store<Employee>, Table)> {
    let (server, staff) = start().await?;
    for id in 1..=4 {
        staff.insert(&employee(id, "it", 10 * id, id)).await?;
    }
    for id in 5..=6 {
        staff.insert(&employee(id, "hr", 10 * id, id)).await?;
    }
    let departments = account(&server)?.table("departments");
    Ok((server, staff, departments))
}

fn summary(department: &str) -> Key<DynamicEntity> {
    Key::new(department, "summary")
}

async fn change(
    table: &Table,
    key: Key<DynamicEntity>,
    name: &str,
    value: impl Into<rowkey::edm::Value>,
) -> TestResult {
    let mut row = table.get(key).await?.ok_or("no such row")?;
    row.entity.set(name, value);
    table.replace(&row).await?;
    Ok(())
}

/// The contributions of a department.
async fn contributions(table: &Table, of: &str) -> rowkey::Result<Vec<Key<DynamicEntity>>> {
    let rows = table.query(Partition::<DynamicEntity>::new(of).prefix("from_")).all().await?;
    Ok(rows.into_iter().map(|row| row.entity.key()).collect())
}

#[tokio::test]
async fn a_wrong_sum_is_reported_by_verify_and_set_by_repair() -> TestResult {
    for (name, value) in [("Salary", 7_i64), ("Headcount", 9), ("LowestSalary", 1)] {
        let (server, staff, departments) = staffed().await?;
        change(&departments, summary("it"), name, value).await?;
        let report = staff.verify().run().await?;
        assert_eq!(report.part("totals of departments").stale, 1, "{name}: {report:?}");
        let report = staff.repair().run().await?;
        assert_eq!(report.part("totals of departments").repaired, 1, "{name}: {report:?}");
        assert_exact(&server.snapshot());
        assert!(staff.verify().run().await?.is_clean());
    }
    Ok(())
}

/// The difference between a damaged contribution and the right one says nothing about the sum.
#[tokio::test]
async fn a_repair_of_damaged_contributions_leaves_exact_sums() -> TestResult {
    let (server, staff, departments) = staffed().await?;
    let rows = contributions(&departments, "it").await?;
    change(&departments, rows[0].clone(), "Salary", 1_000_000_i64).await?;
    change(&departments, rows[1].clone(), "LowestSalary", -5_i64).await?;
    departments.delete(rows[2].clone(), Match::Any).await?;
    staff.repair().run().await?;
    assert_exact(&server.snapshot());
    assert!(staff.verify().run().await?.is_clean());
    Ok(())
}

/// Values of another type are in the rows of the view.
#[tokio::test]
async fn a_repair_replaces_values_of_a_wrong_type() -> TestResult {
    let (server, staff, departments) = staffed().await?;
    let rows = contributions(&departments, "it").await?;
    change(&departments, rows[0].clone(), "LatestHire", "yesterday").await?;
    change(&departments, rows[1].clone(), "Salary", "much").await?;
    change(&departments, summary("hr"), "LatestHire", "tomorrow").await?;
    change(&departments, summary("it"), "Headcount", "many").await?;
    assert!(!staff.verify().run().await?.is_clean());
    let report = staff.repair().run().await?;
    assert!(report.is_clean(), "{report:?}");
    assert_exact(&server.snapshot());
    Ok(())
}

/// A summary whose group is empty is found in its table.
#[tokio::test]
async fn a_wrong_summary_of_an_empty_group_is_found_in_its_table() -> TestResult {
    let (server, staff, departments) = staffed().await?;
    for id in 5..=6 {
        staff.delete(key(id)).await?;
    }
    change(&departments, summary("hr"), "Salary", 3_i64).await?;
    let report = staff.verify_in(&departments).run().await?;
    assert_eq!(report.part("totals of departments").stale, 1, "{report:?}");
    let report = staff.repair_in(&departments).run().await?;
    assert_eq!(report.part("totals of departments").repaired, 1, "{report:?}");
    assert_exact(&server.snapshot());
    assert!(staff.verify_in(&departments).run().await?.is_clean());
    Ok(())
}

/// Writers change the group while its damaged sum is set.
#[tokio::test]
async fn a_repair_during_writes_leaves_exact_sums() -> TestResult {
    let (server, staff, departments) = staffed().await?;
    change(&departments, summary("it"), "Salary", 7_i64).await?;
    let writer = async {
        for round in 0..20_u32 {
            for id in 1..=6 {
                let department = if (id + round) % 3 == 0 { "hr" } else { "it" };
                let employee = employee(id, department, 10 * id + round, 1 + round);
                staff.upsert(&employee).await?;
            }
        }
        Ok::<_, rowkey::Error>(())
    };
    let other: StorageAccount = account(&server)?;
    let repairer = store(&other)?;
    let repair = async { repairer.repair().run().await.map(drop) };
    let (written, repaired) = futures_util::future::join(writer, repair).await;
    written?;
    repaired?;
    server.clock().advance(std::time::Duration::from_secs(61));
    store(&account(&server)?)?.work_once().await?;
    // What the writers did while the repair looked at another group.
    let report = store(&account(&server)?)?.repair().run().await?;
    assert!(report.is_clean(), "{report:?}");
    assert_exact(&server.snapshot());
    Ok(())
}

/// Each group is added up once per run.
#[tokio::test]
async fn verify_reads_each_group_once() -> TestResult {
    let (server, staff, _) = staffed().await?;
    let begun = server.journal();
    assert!(staff.verify().run().await?.is_clean());
    let queries = server.journal().since(&begun).count(Operation::QueryEntities);
    // One page of entities, the end of the walk, and one page of contributions for each group.
    assert!(queries <= 2 + 2, "{queries} queries");
    Ok(())
}

#[tokio::test]
async fn a_foreign_row_at_the_key_of_a_contribution_stays() -> TestResult {
    let (server, staff, departments) = staffed().await?;
    let at = Key::<DynamicEntity>::new("hr", "from_summary_west_id_000007");
    let mut foreign = DynamicEntity::new("hr", "from_summary_west_id_000007");
    foreign.set("Furniture", "oak");
    departments.insert(&foreign).await?;
    let written = staff.insert(&employee(7, "hr", 70, 7)).await?;
    assert_eq!(written.settled, Settled::Pending);
    server.clock().advance(std::time::Duration::from_secs(61));
    assert_eq!(store(&account(&server)?)?.work_once().await?.failed, 1);
    let report = store(&account(&server)?)?.repair().run().await?;
    assert!(!report.is_clean(), "{report:?}");
    assert_eq!(departments.get(at.clone()).await?.ok_or("it is gone")?.entity, foreign);
    // It hinders no other entity of the group.
    staff.delete(key(6)).await?;
    departments.delete(at, Match::Any).await?;
    server.clock().advance(std::time::Duration::from_secs(3600));
    store(&account(&server)?)?.work_once().await?;
    assert_exact(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn the_rows_of_a_view_that_no_program_has_are_deleted() -> TestResult {
    let (server, staff, departments) = staffed().await?;
    let other = DynamicEntity::new("it", "floor_plan");
    departments.insert(&other).await?;
    let gone = || view(&account(&server).unwrap(), "departments");
    assert!(staff.clean_in(gone(), &departments).await.is_err(), "it has the view");
    let account = account(&server)?;
    let without =
        Store::<Employee>::builder(account.table("staff")).queue(account.queue("staff")).build()?;
    let report = without.clean_in(gone(), &departments).await?.run().await?;
    // Six contributions and two summaries.
    assert_eq!((report.part("departments").orphaned, report.part("departments").repaired), (8, 8));
    let left = departments.scan::<DynamicEntity>().all().await?;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].entity, other);
    Ok(())
}

#[tokio::test]
async fn deleted_entities_leave_no_contributions() -> TestResult {
    let (server, staff, departments) = staffed().await?;
    staff.delete_where(Employee::partition("west")).run().await?;
    assert!(contributions(&departments, "it").await?.is_empty());
    assert_exact(&server.snapshot());
    Ok(())
}
