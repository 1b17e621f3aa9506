//! `rowkey set` and `rowkey patch`: write entities, whole or in part.

use clap::Args;
use rowkey::{DynamicEntity, ETag, Match, Table};
use serde_json::Value;

use crate::args::Common;
use crate::connect;
use crate::entities::{Input, condition};
use crate::error::{Error, Result};
use crate::output;

const SET: &str = "\
Examples:
  rowkey set orders '{\"PartitionKey\":\"contoso\",\"RowKey\":\"7\",\"Cents\":{\"Edm.Int64\":\"995\"},\"Note\":\"new\"}'
  rowkey set orders @order.json --if-match \"W/\\\"datetime'2026-11-27T19%3A00%3A00.0000000Z'\\\"\"
  rowkey get orders contoso 7 | rowkey set archive - --insert";

const PATCH: &str = "\
Examples:
  rowkey patch orders '{\"PartitionKey\":\"contoso\",\"RowKey\":\"7\",\"Note\":\"paid\"}'
  rowkey patch orders - --upsert < changes.jsonl";

/// Insert entities, or replace those with the same keys.
#[derive(Args)]
#[command(before_help = SET)]
pub(crate) struct Set {
    /// The name of the table.
    table: String,
    #[command(flatten)]
    input: Input,
    /// Only insert: fail with exit code 4 if an entity has the keys.
    #[arg(long, conflicts_with = "if_match")]
    insert: bool,
    /// Only replace, and only if the stored entity has this ETag; `*` for any.
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
}

/// Change some properties of entities, and leave the others as they are.
#[derive(Args)]
#[command(before_help = PATCH)]
pub(crate) struct Patch {
    /// The name of the table.
    table: String,
    #[command(flatten)]
    input: Input,
    /// Insert entities that do not exist. Without it they are an error, with exit code 3.
    #[arg(long, conflicts_with = "if_match")]
    upsert: bool,
    /// Change the entity only if it has this ETag; `*` for any.
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
}

/// How entities are written.
enum Operation {
    Insert,
    Upsert,
    Replace(Match),
    UpsertMerge,
    Merge(Match),
}

pub(crate) async fn set(common: &Common, set: Set) -> Result<()> {
    let operation = match &set.if_match {
        _ if set.insert => Operation::Insert,
        Some(etag) => Operation::Replace(condition(etag)),
        None => Operation::Upsert,
    };
    write(common, &set.table, &set.input, operation).await
}

pub(crate) async fn patch(common: &Common, patch: Patch) -> Result<()> {
    let operation = match &patch.if_match {
        _ if patch.upsert => Operation::UpsertMerge,
        Some(etag) => Operation::Merge(condition(etag)),
        None => Operation::Merge(Match::Any),
    };
    write(common, &patch.table, &patch.input, operation).await
}

/// Writes entities one after the other, and then a record for each that was written.
async fn write(common: &Common, table: &str, input: &Input, operation: Operation) -> Result<()> {
    let handle = connect::account(common)?.table(table);
    let entities = input.read()?;
    if let Operation::Replace(Match::ETag(_)) | Operation::Merge(Match::ETag(_)) = operation
        && entities.len() > 1
    {
        return Err(Error::usage(format!(
            "--if-match is the ETag of one entity, and the input has {}; write them one by one",
            entities.len()
        )));
    }
    let mut columns = vec!["table", "etag"];
    if common.show_keys {
        columns.extend(["partition_key", "row_key"]);
    }
    let (mut rows, mut result) = (Vec::new(), Ok(()));
    for (index, entity) in entities.iter().enumerate() {
        let keys = (&*entity.partition_key, &*entity.row_key);
        match operation.send(&handle, entity).await {
            Ok(etag) => {
                let mut row = vec![Value::from(table), etag.as_str().into()];
                if let Some((partition_key, row_key)) = common.shown(keys) {
                    row.extend([partition_key.into(), row_key.into()]);
                }
                rows.push(row);
            }
            Err(error) => {
                let error = Error::of_write(error).with_keys(common.shown(keys));
                let (number, all) = (index + 1, entities.len());
                result = Err(if all == 1 {
                    error
                } else {
                    error.during(format!("entity {number} of {all}, after {index} were written"))
                });
                break;
            }
        }
    }
    if rows.is_empty() {
        return result;
    }
    // What the service refused is the cause, even if the output is closed as well.
    let shown = output::records(common.form(), &columns, &rows);
    result.and(shown)
}

impl Operation {
    async fn send(&self, table: &Table, entity: &DynamicEntity) -> rowkey::Result<ETag> {
        match self {
            Self::Insert => table.insert(entity).await,
            Self::Upsert => table.upsert(entity).await,
            Self::Replace(condition) => table.replace((entity, condition.clone())).await,
            Self::UpsertMerge => table.upsert_merge(entity).await,
            Self::Merge(condition) => table.merge((entity, condition.clone())).await,
        }
    }
}
