//! Bulk loads: the job engine of `rowkey::store` against a loop that submits transactions packed by hand.

use std::io;
use std::process::{Command, Stdio};
use std::time::Instant;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::pace::Targets;
use rowkey::patterns::job::Job;
use rowkey::{StorageAccount, Transaction};

use crate::clients::run::Result;
use crate::load::Load;
use crate::model::Reading;
use crate::process::{Server, Service, cpu};
use crate::report::{Goal, Rounds, Table, figure, judged};
use crate::requests::{PER_PARTITION, Writer};
use crate::sign::{ACCOUNT, KEY};

/// Entities a load.
const ENTITIES: usize = 1_000_000;
const IN_FLIGHT: usize = 8;
const TABLE: &str = "loaded";
/// The loaders. The first one is the baseline.
const LOADERS: [&str; 3] = ["by hand", "Job::upsert", "in any order"];
/// Of the rate of the loop by hand.
const GOAL: f64 = 0.7;

/// Lets every loader load `ENTITIES` for `rounds` rounds, each into a server of its own.
pub async fn compare(rounds: usize) -> Result<String> {
    let mut rates = <[Rounds; LOADERS.len()]>::default();
    let mut costs = <[Rounds; LOADERS.len()]>::default();
    for round in 1..=rounds {
        for (at, loader) in LOADERS.iter().enumerate() {
            eprintln!("bulk, {loader}: round {round}");
            let server = Server::bare_for_clients()?;
            let host = server.host(Service::Table).to_owned();
            let writer = Writer::new(host.clone());
            let mut load = Load::open(&host, 1).await?;
            load.ask(&writer.create_table(TABLE)).await?;
            let (rate, cost) = child(loader, &host)?;
            rates[at].push(rate);
            costs[at].push(cost);
        }
    }
    let mut out =
        Table::new(&["a million entities", "entities/s", "CPU us/entity", "rate / by hand"]);
    for (at, loader) in LOADERS.iter().enumerate() {
        out.row(vec![
            (*loader).to_owned(),
            figure(rates[at].median()),
            figure(costs[at].median()),
            if at == 0 {
                "1".to_owned()
            } else {
                judged(&rates[at].over(&rates[0]), Goal::AtLeast(GOAL))
            },
        ]);
    }
    Ok(out.render())
}

/// Entities per second, and microseconds of CPU time per entity.
fn child(loader: &str, host: &str) -> Result<(f64, f64)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["load", loader, host]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut figures = text.split_whitespace().map(str::parse::<f64>);
    match (figures.next(), figures.next()) {
        (Some(rate), Some(cost)) => Ok((rate?, cost?)),
        _ => Err(io::Error::other(format!("{loader} measured nothing")).into()),
    }
}

/// The body of a process that is measured: one load, and its two figures.
#[expect(clippy::cast_precision_loss, reason = "a million")]
pub async fn load(loader: &str, host: &str) -> Result<(f64, f64)> {
    // The server is not Azure: the loaders are compared, and not the documented targets.
    let account = StorageAccount::builder()
        .connection_string(&format!(
            "AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint=http://{host}/{ACCOUNT}"
        ))?
        .targets(Targets::UNLIMITED)
        .build()?;
    let table = account.table(TABLE);
    let readings = || stream::iter((0..ENTITIES).map(|n| Reading::numbered(n, PER_PARTITION)));
    let (begun, time) = (Instant::now(), cpu("self")?);
    let written = match loader {
        "by hand" => {
            let transactions = stream::iter((0..ENTITIES).step_by(100)).map(|first| {
                let hundred = (first..first + 100).map(|n| Reading::numbered(n, PER_PARTITION));
                let all = hundred
                    .fold(table.transaction(), |all: Transaction, reading| all.upsert(&reading));
                all.submit()
            });
            let answers = transactions.buffer_unordered(IN_FLIGHT);
            answers.try_fold(0, async |count, etags| Ok(count + etags.len() as u64)).await?
        }
        loader => {
            let groups = if loader == "Job::upsert" { 1 } else { IN_FLIGHT };
            let job = Job::upsert(&table, readings()).concurrency(IN_FLIGHT);
            job.groups_per_partition(groups).run().await?.total.right
        }
    };
    if written != ENTITIES as u64 {
        return Err(format!("{written} were written").into());
    }
    let seconds = begun.elapsed().as_secs_f64();
    let time = cpu("self")?.saturating_sub(time);
    Ok((ENTITIES as f64 / seconds, time.as_secs_f64() * 1e6 / ENTITIES as f64))
}
