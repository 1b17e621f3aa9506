//! A rolling deployment by the migration guide alone: instances of the program that the guide begins with, on
//! `azure_data_tables` 0.21, and of the one that it ends with work on one table at the same time.

use azure_data_tables::prelude::TableClient;
use rowkey::Outcome;
use rowkey_interop::{Result, before, connection_string, service};

use crate as after;
use crate::{ErrorKind, StorageAccount, Table};

const GUIDE: &str = include_str!("../../../../../docs/src/migrate/azure-data-tables.md");
const AFTER: &str = include_str!("main.rs");

/// The clients of both programs for a new table.
async fn both(name: &str) -> Result<(TableClient, Table)> {
    let text = connection_string()?;
    let name = format!("{name}{}", uuid::Uuid::new_v4().simple());
    let table = StorageAccount::from_connection_string(&text)?.table(&name);
    table.create().await?;
    Ok((service(&text)?.table_client(name), table))
}

fn old(id: &str, salary: u32) -> before::Employee {
    let (department, id, name) = ("sales".into(), id.into(), "Ada".into());
    before::Employee { department, id, name, salary, title: None }
}

fn new(id: &str, salary: u32) -> after::Employee {
    let (department, id, name) = ("sales".into(), id.into(), "Ada".into());
    after::Employee { department, id, name, salary, title: Some("Lead".into()) }
}

#[test]
fn the_guide_shows_the_code_that_is_deployed_here() {
    let code = AFTER.split_once("mod rolling;\n\n").expect("a marker").1.trim_end();
    let shown = GUIDE.split("```rust\n").skip(1).map(|block| block.split("```").next());
    assert!(shown.flatten().any(|block| block.starts_with(code)), "not on the page:\n{code}");
}

#[tokio::test]
async fn both_programs_of_the_guide_read_and_change_each_others_rows() -> Result {
    let (running, deployed) = both("guide").await?;
    before::insert(&running, &old("1", 100)).await?;
    after::insert(&deployed, &new("2", 200)).await?;

    // Each lists all rows, and finds the other's by a number.
    for (least, count) in [(0, 2), (200, 1)] {
        assert_eq!(before::query(&running, least).await?.len(), count, "0.21, from {least}");
        assert_eq!(after::query(&deployed, least).await?.len(), count, "rowkey, from {least}");
    }
    let read = before::get(&running, "2").await?.ok_or("a row")?;
    assert_eq!((read.salary, read.title.as_deref()), (200, Some("Lead")));
    let read = after::get(&deployed, "1").await?.ok_or("a row")?;
    assert_eq!((read.salary, read.title), (100, None));

    // Each changes a row of the other, which reads the change.
    deployed.update(after::Employee::key("sales", "1"), |employee| employee.salary = 101).await?;
    assert_eq!(before::get(&running, "1").await?.ok_or("a row")?.salary, 101);
    let rows = running.partition_key_client("sales");
    let changed =
        before::Employee { salary: 201, ..before::get(&running, "2").await?.ok_or("a row")? };
    rows.entity_client("2")
        .update(&changed, azure_data_tables::IfMatchCondition::Any)?
        .into_future()
        .await?;
    assert_eq!(after::get(&deployed, "2").await?.ok_or("a row")?.salary, 201);

    // Every other call of the guide, on a row that the other program wrote.
    after::write(&deployed, &new("1", 102)).await?;
    before::write(&running, &old("2", 202)).await?;
    assert!(after::query(&deployed, 0).await?.is_empty(), "both end with a deletion");
    assert!(before::transact(&running, [&old("3", 3), &old("4", 4)]).await?);
    assert!(!after::transact(&deployed, [&new("5", 5), &new("3", 3)]).await?);
    assert!(after::transact(&deployed, [&new("5", 5), &new("6", 6)]).await?);
    assert_eq!(before::query(&running, 0).await?.len(), 4);
    deployed.delete_table().await?;
    Ok(())
}

#[tokio::test]
async fn a_number_that_the_running_program_could_not_read_is_refused_before_it_is_sent() -> Result {
    let (running, deployed) = both("large").await?;
    let error = after::insert(&deployed, &new("1", u32::MAX)).await.expect_err("beyond Int32");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(error.to_string().contains("`salary`"), "{error}");
    assert!(before::query(&running, 0).await?.is_empty());
    deployed.delete_table().await?;
    Ok(())
}
