//! `rowkey get`: reads one entity.

use clap::Args;
use rowkey::{DynamicEntity, Key};
use rowkey_transfer::Row;

use crate::args::{Common, Form};
use crate::connect;
use crate::entities::Keys;
use crate::error::{Error, Exit, Result};
use crate::output::{self, Entities};

const EXAMPLES: &str = "\
Examples:
  rowkey get orders contoso order_000007
  rowkey get orders contoso order_000007 --json --etag
  rowkey get orders '' \"it's\"
  rowkey get orders -- -5 -x";

/// Read one entity.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Get {
    /// The name of the table.
    table: String,
    #[command(flatten)]
    keys: Keys,
    /// Write JSON with the members `entity`, `etag` and `timestamp`. The form `table` shows the ETag always.
    #[arg(long)]
    etag: bool,
}

pub(crate) async fn run(common: &Common, Get { table, keys, etag }: Get) -> Result<()> {
    let form = common.form();
    if etag && form == Form::Csv {
        return Err(Error::usage("--etag has no CSV form; use --json"));
    }
    let handle = connect::account(common)?.table(&table);
    let shown = common.shown(keys.parts());
    let key = Key::<DynamicEntity>::new(&*keys.partition_key, &*keys.row_key);
    let stored = handle.get(key).await.map_err(|error| Error::from(error).with_keys(shown))?;
    let stored = stored.ok_or_else(|| {
        let text = format!(
            "no entity of {table} has these keys; check both, `rowkey query` lists a partition"
        );
        Error::new(Exit::NotFound, text).with_keys(shown)
    })?;
    match form {
        Form::Table => {
            output::properties(&stored.entity, stored.etag.as_str(), &stored.timestamp.to_string())
        }
        Form::JsonLines if etag => {
            let mut line = serde_json::to_vec(&stored).map_err(std::io::Error::from)?;
            line.push(b'\n');
            output::text(&line)
        }
        form => {
            let mut entities = Entities::new(form)?;
            entities.write(Row::from(stored))?;
            entities.finish()
        }
    }
}
