//! What programs on `azure_data_tables` 0.21 do, call by call: the code that the migration guide begins with.
//!
//! `tests/book.rs` checks that each block of the guide stands here, so that what it shows compiles.

use azure_data_tables::IfMatchCondition;
use azure_data_tables::operations::InsertEntityResponse;
use azure_data_tables::prelude::{Filter, TableClient, Top};
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};

pub mod client {
    use azure_data_tables::clients::{TableServiceClient, TableServiceClientBuilder};
    use azure_storage::{CloudLocation, StorageCredentials};

    pub fn with_key(account: &str, key: String) -> TableServiceClient {
        let credentials = StorageCredentials::access_key(account, key);
        TableServiceClient::new(account, credentials)
    }

    pub fn with_sas(account: &str, sas: &str) -> azure_core::Result<TableServiceClient> {
        let credentials = StorageCredentials::sas_token(sas)?;
        Ok(TableServiceClient::new(account, credentials))
    }

    pub fn emulator() -> TableServiceClient {
        let location = CloudLocation::Emulator { address: "127.0.0.1".to_owned(), port: 10_002 };
        TableServiceClientBuilder::with_location(location, StorageCredentials::emulator()).build()
    }

    pub fn china(account: &str, credentials: StorageCredentials) -> TableServiceClient {
        let location = CloudLocation::China { account: account.to_owned() };
        TableServiceClientBuilder::with_location(location, credentials).build()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Employee {
    #[serde(rename = "PartitionKey")]
    pub department: String,
    #[serde(rename = "RowKey")]
    pub id: String,
    pub name: String,
    pub salary: u32,
    pub title: Option<String>,
}

pub async fn insert(table: &TableClient, employee: &Employee) -> azure_core::Result<String> {
    let response: InsertEntityResponse<Employee> =
        table.insert(employee)?.return_entity(true).await?;
    Ok(response.etag.to_string())
}

pub async fn get(table: &TableClient, id: &str) -> azure_core::Result<Option<Employee>> {
    let entity = table.partition_key_client("sales").entity_client(id);
    match entity.get::<Employee>().await {
        Ok(response) => Ok(Some(response.entity)),
        Err(error) if error.to_string().contains("404") => Ok(None),
        Err(error) => Err(error),
    }
}

pub async fn write(table: &TableClient, employee: &Employee) -> azure_core::Result<()> {
    let entity = table.partition_key_client(&employee.department).entity_client(&employee.id);
    entity.insert_or_replace(employee)?.await?;
    entity.insert_or_merge(employee)?.await?;

    let read = entity.get::<Employee>().await?;
    let changed = Employee { salary: read.entity.salary + 1, ..read.entity };
    entity.update(&changed, IfMatchCondition::Etag(read.etag))?.await?;
    entity.merge(&changed, IfMatchCondition::Any)?.await?;
    entity.delete().await?;
    Ok(())
}

pub async fn query(table: &TableClient, least: u32) -> azure_core::Result<Vec<Employee>> {
    let filter = Filter::new(format!("PartitionKey eq 'sales' and salary ge {least}"));
    let mut pages = table.query().filter(filter).top(Top::new(100)).into_stream::<Employee>();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        found.extend(page?.entities);
    }
    Ok(found)
}

pub async fn transact(table: &TableClient, both: [&Employee; 2]) -> azure_core::Result<bool> {
    let transaction = table.partition_key_client("sales").transaction();
    let response = transaction.insert(both[0])?.insert(both[1])?.await?;
    // Ok, also when the service refused and stored nothing: each answer has to be looked at.
    Ok(response.operation_responses.iter().all(|one| one.status_code.is_success()))
}
