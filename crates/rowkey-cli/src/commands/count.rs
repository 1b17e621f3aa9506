//! `rowkey count`: counts the entities of a table or a partition.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rowkey::pace::Pace;
use rowkey::patterns::job::{Job, Keys, Walk};
use rowkey::{DynamicEntity, Partition, Table};

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
}

pub(crate) async fn run(common: &Common, Count { table, partition }: Count) -> Result<()> {
    let handle = connect::account(common)?.table(&table);
    let walk = match partition {
        None => Walk::keys(&handle).split_automatically(),
        Some(key) => Walk::new(&handle, move |table| {
            table.query(Partition::<DynamicEntity>::new(&*key)).project::<Keys>()
        }),
    };
    // Hidden where stderr is no terminal.
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{msg}, {elapsed}") {
        bar.set_style(style);
    }
    let counted = count(&handle, &walk, &bar).await;
    bar.finish_and_clear();
    let entities = counted?;
    output::records(common.form(), &["table", "entities"], &[vec![table.into(), entities.into()]])
}

/// Runs the job until it is done, or until no page has come for as long as one operation may take. The job alone would wait
/// for ever for a service that cannot be reached.
async fn count(table: &Table, walk: &Walk<Keys>, bar: &ProgressBar) -> Result<u64> {
    let account = table.account();
    let pace = Pace::background();
    let mut reached = None;
    loop {
        let mut has_advanced = false;
        let until = account.clock().now() + account.options().timeout;
        let mut job =
            Job::count(walk.clone()).pace(pace.clone().until(until)).progress(|progress| {
                has_advanced = true;
                let entities = progress.report().total.examined;
                let requests = progress.requests.sent;
                bar.set_message(format!("entities: {entities}, requests: {requests}"));
                bar.tick();
            });
        if let Some(checkpoint) = reached.take() {
            job = job.resume(checkpoint);
        }
        match job.run().await {
            Ok(report) => return Ok(report.total.examined),
            Err(stopped) if has_advanced && stopped.error.is_retryable() => {
                reached = Some(*stopped.checkpoint);
            }
            // The job's own advice names its checkpoint, which is not kept.
            Err(stopped) if stopped.error.is_retryable() => {
                let advice = "try again later, or allow more time by --timeout";
                return Err(stopped.error.advise(advice).into());
            }
            Err(stopped) => return Err(stopped.error.into()),
        }
    }
}
