//! The code that the migration guide for `azure_data_tables` 0.21 ends with, as the guide shows it. `rolling` runs it
//! beside the code that the guide begins with.

mod rolling;

use rowkey::{ETag, Entity, ErrorKind, Match, Result, StorageAccount, Table};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "{id}", compat = "azure_data_tables-0.21")]
struct Employee {
    department: String,
    id: String,
    name: String,
    salary: u32,
    title: Option<String>,
}

async fn insert(table: &Table, employee: &Employee) -> Result<ETag> {
    table.insert(employee).await
}

async fn get(table: &Table, id: &str) -> Result<Option<Employee>> {
    Ok(table.get(Employee::key("sales", id)).await?.map(|stored| stored.entity))
}

async fn write(table: &Table, employee: &Employee) -> Result<()> {
    let key = || Employee::key(&employee.department, &employee.id);
    table.upsert(employee).await?;
    table.upsert_merge(employee).await?;

    let changed = table.update(key(), |employee| employee.salary += 1).await?;
    table.merge((&changed.entity, Match::Any)).await?;
    table.delete(key(), Match::Any).await
}

async fn query(table: &Table, least: u32) -> Result<Vec<Employee>> {
    let query = table.query(Employee::partition("sales")).filter(Employee::SALARY.ge(least));
    let found = query.page_size(100).all().await?;
    Ok(found.into_iter().map(|stored| stored.entity).collect())
}

async fn transact(table: &Table, both: [&Employee; 2]) -> Result<bool> {
    match table.transaction().insert(both[0]).insert(both[1]).submit().await {
        Ok(_etags) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}
