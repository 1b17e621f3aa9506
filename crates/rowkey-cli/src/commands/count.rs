//! `rowkey count`: counts the entities of a table or a partition.

use clap::Args;
use rowkey::cost::Meter;
use rowkey::patterns::job::{Job, Keys, Walk};
use rowkey::{DynamicEntity, Partition};

use crate::args::Common;
use crate::connect;
use crate::error::Result;
use crate::jobs::{self, JobFlags, Runner};
use crate::output;
use crate::prices;

const EXAMPLES: &str = "\
Examples:
  rowkey count orders --partition contoso
  rowkey count orders --prices prices.json --json
  rowkey count orders --checkpoint count.checkpoint --max-rate 5000";

/// Count the entities of a table, or of one partition.
///
/// The service has no count: this reads all keys, with one request for each 1,000 entities. Several ranges of a table are read
/// at once. Entities that are written meanwhile may be missing or included.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Count {
    /// The name of the table.
    table: String,
    /// Count only the partition with this PartitionKey.
    #[arg(long, value_name = "KEY")]
    partition: Option<String>,
    #[command(flatten)]
    job: JobFlags,
}

pub(crate) async fn run(common: &Common, args: Count) -> Result<()> {
    let Count { table, partition, job } = args;
    let prices = job.prices();
    let meter = Meter::new();
    let handle = connect::account(common)?.table(&table).with_meter(&meter);
    let price_table = prices.read()?;
    if let Some(price_table) = &price_table {
        // A price that is missing is reported before anything is sent.
        prices.of(price_table, &handle.scan::<DynamicEntity>().explain()?.usage)?;
    }
    let runner = Runner::new(common, &job)?;
    let walk = match &partition {
        None => Walk::keys(&handle).split_automatically(),
        Some(key) => {
            let key = key.clone();
            Walk::new(&handle, move |table| {
                table.query(Partition::<DynamicEntity>::new(&*key)).project::<Keys>()
            })
        }
    };
    // A checkpoint of another partition is refused.
    let count = Job::count(walk).parameter("partition", partition.unwrap_or_default());
    let report = runner.walk(count).await?;
    let (mut columns, mut row) =
        (vec!["table", "entities"], vec![table.into(), report.total.right.into()]);
    if let Some(price_table) = price_table {
        let usage = meter.usage();
        columns.push("requests");
        row.push(usage.requests().into());
        columns.extend(prices::COLUMNS);
        row.extend(prices.of(&price_table, &usage)?.map(Into::into));
    }
    output::records(common.form(), &columns, &[row])?;
    jobs::finish(common, &report)
}
