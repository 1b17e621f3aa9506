//! `azure_data_tables` 0.21, the crate before: as it ships, without idle connections, and with a
//! pool given to it.

use std::sync::Arc;

use azure_core::TransportOptions;
use azure_data_tables::clients::{TableClient, TableServiceClientBuilder};
use azure_data_tables::operations::InsertEntityResponse;
use azure_data_tables::prelude::Filter;
use azure_storage::{CloudLocation, StorageCredentials};
use futures_util::TryStreamExt as _;

use super::run::{Client, Result, TABLE, WRITTEN};
use crate::model::{Read, Reading, Written};

#[derive(Debug)]
pub struct Old {
    table: TableClient,
    written: TableClient,
}

impl Old {
    pub fn new(host: &str, pooled: bool) -> Result<Self> {
        let (address, port) = host.split_once(':').ok_or("a host has a port")?;
        let location = CloudLocation::Emulator { address: address.to_owned(), port: port.parse()? };
        let mut builder =
            TableServiceClientBuilder::with_location(location, StorageCredentials::emulator());
        if pooled {
            let client = reqwest_old::Client::builder().no_proxy().build()?;
            builder = builder.transport(TransportOptions::new(Arc::new(client)));
        }
        let service = builder.build();
        Ok(Self { table: service.table_client(TABLE), written: service.table_client(WRITTEN) })
    }
}

impl Client for Old {
    async fn get(&self, partition: &str, row: &str) -> Result<bool> {
        let entity = self.table.partition_key_client(partition).entity_client(row);
        let answer = entity.get::<Read>().into_future().await?;
        Ok(!answer.entity.row_key.is_empty())
    }

    async fn insert(&self, reading: &Reading) -> Result<()> {
        let insert = self.written.insert::<_, Read>(Written::from(reading))?;
        let _: InsertEntityResponse<Read> = insert.into_future().await?;
        Ok(())
    }

    async fn transact(&self, readings: &[Reading]) -> Result<usize> {
        let partition = self.written.partition_key_client(&readings[0].partition);
        let mut all = partition.transaction();
        for reading in readings {
            all = all.insert(Written::from(reading))?;
        }
        let answer = all.into_future().await?;
        Ok(answer.operation_responses.iter().filter(|one| one.etag.is_some()).count())
    }

    async fn query(&self, partition: &str) -> Result<usize> {
        let filter = Filter::new(format!("PartitionKey eq '{partition}'"));
        let mut pages = self.table.query().filter(filter).into_stream::<Read>();
        let mut count = 0;
        while let Some(page) = pages.try_next().await? {
            count += page.entities.iter().filter(|read| !read.row_key.is_empty()).count();
        }
        Ok(count)
    }
}
