//! Copies of a table between two servers: `Job::copy`, which `rowkey copy` runs, against a read loop with a write loop by hand over
//! reqwest, and a script on the official client for Python.

use std::io;
use std::process::{Command, Stdio};
use std::time::Instant;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::pace::Targets;
use rowkey::patterns::job::{Job, Walk};
use rowkey::{DynamicEntity, StorageAccount};
use serde_json::Value;

use crate::clients::by_hand::{Hand, etags};
use crate::clients::over_reqwest::OverReqwest;
use crate::clients::run::Result;
use crate::load::Load;
use crate::model::Reading;
use crate::process::{Kind, Server, Service, cached, cpu, peak};
use crate::report::{Goal, Rounds, Table, figure, judged};
use crate::requests::Writer;
use crate::sign::{ACCOUNT, KEY};

/// Entities of about 1 KiB.
const ENTITIES: usize = 1_000_000;
/// Those that the script copies, because it takes minutes for all.
const FEW: usize = 50_000;
const PER_PARTITION: usize = 5_000;
const IN_FLIGHT: usize = 8;
const FROM: &str = "source";
const FEW_FROM: &str = "few";
const TO: &str = "copies";
/// The copiers. The first one is the baseline of CPU time.
const COPIERS: [&str; 3] = ["by hand", "Job::copy", "Python"];
/// CPU time over the loops by hand, and the rate over that of the script.
const GOALS: (f64, f64) = (1.5, 15.0);
/// Of `Job::copy`, in MiB.
const MOST_MEMORY: f64 = 64.0;

/// What a copy took.
#[derive(Default)]
struct Figures {
    rates: Rounds,
    costs: Rounds,
    memory: Rounds,
}

/// Lets every copier copy the table for `rounds` rounds, each to a server of its own.
pub async fn compare(rounds: usize) -> Result<String> {
    let source = Server::start(Kind::Rowkey)?.ok_or("no server")?;
    let from = source.host(Service::Table).to_owned();
    fill(&from, FROM, ENTITIES).await?;
    fill(&from, FEW_FROM, FEW).await?;
    let mut all = <[Figures; COPIERS.len()]>::default();
    for round in 1..=rounds {
        for (at, copier) in COPIERS.iter().enumerate() {
            if *copier == "Python" && !cached("python/bin/python").exists() {
                continue;
            }
            eprintln!("copy, {copier}: round {round}");
            let server = Server::start(Kind::Rowkey)?.ok_or("no server")?;
            let to = server.host(Service::Table).to_owned();
            let mut load = Load::open(&to, 1).await?;
            load.ask(&Writer::new(to.clone()).create_table(TO)).await?;
            let [rate, cost, memory] = child(copier, &from, &to)?;
            all[at].rates.push(rate);
            all[at].costs.push(cost);
            all[at].memory.push(memory);
        }
    }
    Ok(table(&all))
}

fn table(all: &[Figures; COPIERS.len()]) -> String {
    let [by_hand, _, python] = all;
    let mut out = Table::new(&[
        "a million entities of 1 KiB",
        "entities/s",
        "CPU us/entity",
        "CPU / by hand",
        "rate / Python",
        "peak MiB",
    ]);
    for (copier, figures) in COPIERS.iter().zip(all) {
        if figures.rates.is_empty() {
            continue;
        }
        let is_ours = *copier == "Job::copy";
        let cpu = figures.costs.over(&by_hand.costs);
        let memory = figure(figures.memory.median());
        out.row(vec![
            (*copier).to_owned(),
            figure(figures.rates.median()),
            figure(figures.costs.median()),
            if is_ours { judged(&cpu, Goal::AtMost(GOALS.0)) } else { figure(cpu.median()) },
            match (is_ours, python.rates.is_empty()) {
                (true, false) => judged(&figures.rates.over(&python.rates), Goal::AtLeast(GOALS.1)),
                _ => String::new(),
            },
            if is_ours { judged(&figures.memory, Goal::AtMost(MOST_MEMORY)) } else { memory },
        ]);
    }
    out.render()
}

async fn fill(host: &str, table: &str, entities: usize) -> Result<()> {
    let table = account(host)?.table(table);
    table.create().await?;
    let rows = stream::iter((0..entities).map(|n| Reading::numbered(n, PER_PARTITION)));
    let report = Job::upsert(&table, rows).groups_per_partition(IN_FLIGHT).run().await?;
    if report.is_clean() { Ok(()) } else { Err("the source is not filled".into()) }
}

fn account(host: &str) -> Result<StorageAccount> {
    // The server is not Azure: the copiers are compared, and not the documented targets.
    Ok(StorageAccount::builder()
        .connection_string(&format!(
            "AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint=http://{host}/{ACCOUNT}"
        ))?
        .targets(Targets::UNLIMITED)
        .build()?)
}

/// Entities per second, microseconds of CPU time per entity, and the peak of memory in MiB.
fn child(copier: &str, from: &str, to: &str) -> Result<[f64; 3]> {
    let mut command = if copier == "Python" {
        let mut command = Command::new(cached("python/bin/python"));
        command.args(["sdk/copy_table.py", FEW_FROM, TO, from, to]);
        command
    } else {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["copy", copier, from, to]);
        command
    };
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let figures: Vec<f64> =
        text.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
    figures.try_into().map_err(|_| io::Error::other(format!("{copier} measured nothing")).into())
}

/// The body of a process that is measured: one copy, and its three figures.
#[expect(clippy::cast_precision_loss, reason = "a million, and bytes of memory")]
pub async fn copy(copier: &str, from: &str, to: &str) -> Result<[f64; 3]> {
    let (begun, time) = (Instant::now(), cpu("self")?);
    let copied = if copier == COPIERS[0] {
        by_hand(from, to).await?
    } else {
        let (from, to) = (account(from)?.table(FROM), account(to)?.table(TO));
        let walk = Walk::new(&from, rowkey::Table::scan::<DynamicEntity>);
        let job = Job::copy(walk.split_automatically(), &to).concurrency(IN_FLIGHT);
        job.run().await?.total.right
    };
    if copied != ENTITIES as u64 {
        return Err(format!("{copied} were copied").into());
    }
    let seconds = begun.elapsed().as_secs_f64();
    let time = cpu("self")?.saturating_sub(time);
    let cost = time.as_secs_f64() * 1e6 / ENTITIES as f64;
    Ok([ENTITIES as f64 / seconds, cost, peak()? as f64 / 1024.0 / 1024.0])
}

/// Reads page after page, and writes the entities of each with eight transactions in flight.
async fn by_hand(from: &str, to: &str) -> Result<u64> {
    let reader = OverReqwest::new(Hand::new(from))?;
    let writer = OverReqwest::new(Hand::new(to))?;
    let (mut copied, mut next) = (0, None);
    loop {
        let (page, after) = reader.page(FROM, next.as_ref()).await?;
        let mut page: Value = serde_json::from_slice(&page)?;
        let entities = page["value"].as_array_mut().ok_or("no entities")?;
        for entity in entities.iter_mut() {
            let entity = entity.as_object_mut().ok_or("no entity")?;
            entity.retain(|name, _| !name.starts_with("odata.") && !name.starts_with("Timestamp"));
        }
        let key = |entity: &Value| entity["PartitionKey"].as_str().map(str::to_owned);
        let groups = entities.chunk_by(|one, other| key(one) == key(other));
        let sent = stream::iter(groups.flat_map(|group| group.chunks(100))).map(async |hundred| {
            let bodies: Vec<_> =
                hundred.iter().map(serde_json::to_vec).collect::<std::result::Result<_, _>>()?;
            etags(&writer.store(TO, &bodies).await?)
        });
        let written = sent.buffer_unordered(IN_FLIGHT);
        copied += written.try_fold(0, async |all, etags| Ok(all + etags as u64)).await?;
        next = after;
        if next.is_none() {
            return Ok(copied);
        }
    }
}
