//! The cost of durability: inserts in memory, with syncs at an interval, and with a sync before
//! each answer; and how long a start takes with a million entities.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use crate::load::{Load, Operation, percentile};
use crate::process::{Server, Service};
use crate::report::{Goal, Rounds, Table, figure, judged};
use crate::requests::{PER_PARTITION, Writer};
use crate::servers::{mib, seed};

const MILLION: usize = 1_000_000;
const CONNECTIONS: usize = 8;
/// Inserts of a round. Fewer where each waits for the disk.
const MODES: [(&str, Option<&str>, usize); 3] = [
    ("in memory", None, 20_000),
    ("--sync interval", Some("interval"), 20_000),
    ("--sync always", Some("always"), 2_000),
];

struct Contender {
    server: Server,
    writer: Writer,
    rate: Rounds,
    cpu: Rounds,
    /// Milliseconds that all but one in a hundred inserts took at most.
    p99: Rounds,
}

/// A directory beside this package's build, so that it is on a disk.
fn directory(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("cache/durable").join(name)
}

/// Compares rates, and then starts a server that holds a million entities.
pub async fn compare(rounds: usize) -> io::Result<String> {
    let mut contenders = Vec::new();
    for (name, sync, _) in MODES {
        let location = directory(name.trim_start_matches("--sync "));
        let _ = std::fs::remove_dir_all(&location);
        let server = match sync {
            None => Server::rowkey(&[])?,
            Some(sync) => {
                std::fs::create_dir_all(&location)?;
                let location = location.to_string_lossy();
                Server::rowkey(&["--location", &location, "--sync", sync])?
            }
        };
        let writer = Writer::new(server.host(Service::Table).to_owned());
        let mut load = Load::open(server.host(Service::Table), 1).await?;
        load.ask(&writer.create_table("many")).await?;
        let [rate, cpu, p99] = <[Rounds; 3]>::default();
        contenders.push(Contender { server, writer, rate, cpu, p99 });
    }
    for round in 0..=rounds {
        eprintln!("durable inserts: round {round}");
        for (contender, (_, _, operations)) in contenders.iter_mut().zip(MODES) {
            contender.insert(round, operations).await?;
        }
    }
    let mut table =
        Table::new(&["insert (8)", "inserts/s", "CPU us/op", "p99 ms", "rate / in memory"]);
    for (contender, (name, _, _)) in contenders.iter().zip(MODES) {
        let over = contender.rate.over(&contenders[0].rate);
        let goal = if name == "--sync interval" { Goal::AtLeast(0.5) } else { Goal::None };
        table.row(vec![
            name.to_owned(),
            figure(contender.rate.median()),
            figure(contender.cpu.median()),
            figure(contender.p99.median()),
            judged(&over, goal),
        ]);
    }
    drop(contenders);
    Ok(format!("{}\n{}", table.render(), million().await?))
}

impl Contender {
    async fn insert(&mut self, round: usize, operations: usize) -> io::Result<()> {
        let numbers = round * operations..(round + 1) * operations;
        let requests: Vec<Operation> = numbers
            .map(|number| self.writer.insert("many", number, PER_PARTITION).into())
            .collect();
        let mut load = Load::open(self.server.host(Service::Table), CONNECTIONS).await?;
        let (cpu, begin) = (self.server.cpu()?, Instant::now());
        let mut took = load.run(&requests).await?;
        let elapsed = begin.elapsed();
        let cpu = self.server.cpu()?.saturating_sub(cpu);
        if round > 0 {
            #[expect(clippy::cast_precision_loss, reason = "some thousand operations")]
            let count = operations as f64;
            self.rate.push(count / elapsed.as_secs_f64());
            self.cpu.push(cpu.as_secs_f64() * 1e6 / count);
            self.p99.push(percentile(&mut took, 99).as_secs_f64() * 1e3);
        }
        Ok(())
    }
}

/// A million entities are inserted, the server is killed and started again.
async fn million() -> io::Result<String> {
    let location = directory("million");
    let _ = std::fs::remove_dir_all(&location);
    std::fs::create_dir_all(&location)?;
    let text = location.to_string_lossy().into_owned();
    let flags = ["--location", text.as_str()];
    let server = Server::rowkey(&flags)?;
    let writer = Writer::new(server.host(Service::Table).to_owned());
    let mut load = Load::open(server.host(Service::Table), 4).await?;
    load.ask(&writer.create_table("many")).await?;
    eprintln!("a million entities: seeding");
    seed(&mut load, &writer, "many", MILLION, PER_PARTITION).await?;
    let (memory, peak) = (server.memory()?, server.peak_memory()?);
    drop(server);
    let begin = Instant::now();
    let server = Server::rowkey(&flags)?;
    let elapsed = begin.elapsed();
    let mut table = Table::new(&["a million entities, killed and started again", ""]);
    let mut row = |what: &str, value: f64| table.row(vec![what.to_owned(), figure(value)]);
    row("seconds until it is ready", elapsed.as_secs_f64());
    row("MiB after the inserts", mib(memory));
    row("MiB at most", mib(peak));
    row("MiB after the start", mib(server.memory()?));
    drop(server);
    std::fs::remove_dir_all(&location)?;
    Ok(table.render())
}
