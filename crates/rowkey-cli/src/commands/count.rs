//! `rowkey count`: counts the entities of a table or a partition.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rowkey::patterns::job::{Job, Keys, Walk};
use rowkey::{DynamicEntity, Partition};

use crate::args::Common;
use crate::connect;
use crate::error::Result;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  rowkey count orders --partition contoso
  rowkey count orders --json";

/// Count the entities of a table, or of one partition.
///
/// The service has no count: this reads all keys, with one request for each 1,000 entities. Entities that are written
/// meanwhile may be missing or included.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Count {
    /// The name of the table.
    table: String,
    /// Count only the partition with this PartitionKey.
    #[arg(long, value_name = "KEY")]
    partition: Option<String>,
}

pub(crate) async fn run(common: &Common, Count { table, partition }: Count) -> Result<()> {
    let handle = connect::account(common)?.table(&table);
    let walk = match partition {
        None => Walk::keys(&handle),
        Some(key) => Walk::new(&handle, move |table| {
            table.query(Partition::<DynamicEntity>::new(&*key)).project::<Keys>()
        }),
    };
    // Hidden where stderr is no terminal.
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{msg}, {elapsed}") {
        bar.set_style(style);
    }
    let job = Job::count(walk).progress(|progress| {
        let entities = progress.report().total.examined;
        bar.set_message(format!("{entities} entities, {} requests", progress.requests.sent));
        bar.tick();
    });
    let report = job.run().await.map_err(rowkey::Error::from);
    bar.finish_and_clear();
    let entities = report?.total.examined;
    output::records(common.form(), &["table", "entities"], &[vec![table.into(), entities.into()]])
}
