//! `rowkey delete`: deletes one entity.

use clap::Args;
use rowkey::{DynamicEntity, Key, Match};

use crate::args::Common;
use crate::confirm::Confirm;
use crate::connect;
use crate::entities::{Keys, condition};
use crate::error::{Error, Result};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  rowkey delete orders contoso order_000007
  rowkey delete orders contoso order_000007 --yes
  rowkey delete orders contoso order_000007 --if-match \"W/\\\"datetime'2026-11-27T19%3A00%3A00.0000000Z'\\\"\"";

/// Delete one entity.
///
/// Asks on a terminal, unless --if-match has the ETag of the entity that was read.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Delete {
    /// The name of the table.
    table: String,
    #[command(flatten)]
    keys: Keys,
    /// Delete the entity only if it has this ETag; `*` for any.
    #[arg(long, value_name = "ETAG")]
    if_match: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
}

pub(crate) async fn run(common: &Common, delete: Delete) -> Result<()> {
    let Delete { table, keys, if_match, confirm } = delete;
    let handle = connect::account(common)?.table(&table);
    let condition = if_match.as_deref().map_or(Match::Any, condition);
    // `*` says nothing about what was read, so it does not replace the question.
    if condition == Match::Any {
        let mut what = format!("delete an entity of {table}");
        if let Some(keys) = common.shown(keys.parts()) {
            what = format!("{what} with the keys {keys:?}");
        }
        confirm.ask(&what, Some("--if-match ETAG"))?;
    }
    let key = Key::<DynamicEntity>::new(&*keys.partition_key, &*keys.row_key);
    let deleted = handle.delete(key, condition).await;
    deleted.map_err(|error| Error::of_write(error).with_keys(common.shown(keys.parts())))?;
    let (mut columns, mut row) = (vec!["table", "deleted"], vec![table.into(), true.into()]);
    if let Some((partition_key, row_key)) = common.shown(keys.parts()) {
        columns.extend(["partition_key", "row_key"]);
        row.extend([partition_key.into(), row_key.into()]);
    }
    output::records(common.form(), &columns, &[row])
}
