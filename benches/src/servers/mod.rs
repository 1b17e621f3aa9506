//! Servers under the same load: CPU an operation, latency, memory, and how they start.
//!
//! - [`workloads`]: the requests
//! - [`start`]: from start to first answer, and idle
//! - [`figures`]: what came of it, as a table

mod figures;
mod start;
pub mod workloads;

use std::io;
use std::time::Duration;

pub use figures::{Measured, Row, Servers, Start};

use crate::load::{Load, Operation, count, percentile};
use crate::process::{KINDS, Kind, SERVICES, Server, Service};
use crate::requests::{PER_PARTITION, Writer};
use workloads::{FLAT, SMALL, WIDE, WORKLOADS, Workload};

struct Contender {
    kind: Kind,
    server: Server,
    /// One a service.
    writers: [Writer; SERVICES.len()],
    measured: [Measured; WORKLOADS.len()],
    /// The numbers that are used up, a workload.
    used: [usize; WORKLOADS.len()],
}

/// Runs the workloads whose names begin with one of `only`, or all, for `rounds` rounds.
pub async fn compare(rounds: usize, only: &[&str]) -> io::Result<Servers> {
    let starts = start::measure(rounds).await?;
    let mut contenders = Vec::new();
    for kind in KINDS {
        if let Some(server) = Server::start(kind)? {
            eprintln!("{kind:?}: seeding");
            let contender = Contender::new(kind, server);
            contender.seed().await?;
            contenders.push(contender);
        } else {
            eprintln!("{kind:?} is not installed: see README.md");
        }
    }
    let chosen = |workload: &Workload| {
        only.is_empty() || only.iter().any(|name| workload.name.starts_with(name))
    };
    let mut peak_mib = <[f64; KINDS.len()]>::default();
    let mut rows = Vec::new();
    for (at, workload) in WORKLOADS.iter().enumerate().filter(|(_, workload)| chosen(workload)) {
        for contender in &contenders {
            let peak = &mut peak_mib[contender.kind as usize];
            *peak = peak.max(mib(contender.server.peak_memory()?));
            contender.server.forget_peak()?;
        }
        // The first round warms up.
        for round in 0..=rounds {
            eprintln!("{}: round {round}", workload.name);
            for contender in &mut contenders {
                contender.round(at, workload, round > 0).await?;
            }
        }
        let mut measured = <[Measured; KINDS.len()]>::default();
        for contender in &mut contenders {
            let peak = mib(contender.server.peak_memory()?);
            contender.measured[at].peak_mib = peak;
            let most = &mut peak_mib[contender.kind as usize];
            *most = most.max(peak);
            measured[contender.kind as usize] = std::mem::take(&mut contender.measured[at]);
        }
        rows.push(Row {
            name: workload.name.to_owned(),
            connections: workload.connections,
            goals: workload.goals,
            tail: workload.tail,
            measured,
        });
    }
    Ok(Servers { workloads: rows, starts, peak_mib })
}

impl Contender {
    fn new(kind: Kind, server: Server) -> Self {
        let writers = SERVICES.map(|service| Writer::new(server.host(service).to_owned()));
        let measured = <[Measured; WORKLOADS.len()]>::default();
        Self { kind, server, writers, measured, used: Default::default() }
    }

    async fn seed(&self) -> io::Result<()> {
        let [tables, queues, blobs] = &self.writers;
        let mut load = Load::open(self.server.host(Service::Queue), 1).await?;
        load.ask(&queues.create_queue()).await?;
        let mut load = Load::open(self.server.host(Service::Blob), 1).await?;
        load.ask(&blobs.create_container()).await?;
        let mut load = Load::open(self.server.host(Service::Table), 4).await?;
        for table in ["inserts", "batches", "small", "wide", "flat"] {
            load.ask(&tables.create_table(table)).await?;
        }
        seed(&mut load, tables, "small", SMALL, PER_PARTITION).await?;
        seed(&mut load, tables, "wide", WIDE, WIDE).await?;
        seed(&mut load, tables, "flat", FLAT, FLAT).await
    }

    async fn round(&mut self, at: usize, workload: &Workload, counts: bool) -> io::Result<()> {
        let operations = workload.operations[usize::from(self.kind == Kind::Azurite)];
        let first = self.used[at];
        self.used[at] += operations + 1;
        let writer = &self.writers[workload.service as usize];
        let operations: Vec<_> =
            (first + 1..=first + operations).map(|n| (workload.operation)(writer, n)).collect();
        let host = self.server.host(workload.service);
        let mut load = Load::open(host, workload.connections).await?;
        let answer = load.perform(&(workload.operation)(writer, first)).await?;
        let (marker, times) = workload.proof;
        if times > 0 && count(&answer, marker) != times {
            return Err(io::Error::other(format!("{:?}: not what was asked for", self.kind)));
        }
        let (cpu, mut took) = measure(&self.server, &mut load, &operations).await?;
        if counts {
            let measured = &mut self.measured[at];
            measured.cpu.push(cpu);
            measured.p50.push(micros(percentile(&mut took, 50)));
            measured.p99.push(micros(percentile(&mut took, 99)));
        }
        Ok(())
    }
}

/// Performs `operations`; returns the server's CPU time in microseconds an operation, and how long each
/// took.
pub(crate) async fn measure(
    server: &Server,
    load: &mut Load,
    operations: &[Operation],
) -> io::Result<(f64, Vec<Duration>)> {
    let before = server.cpu()?;
    let took = load.run(operations).await?;
    let cpu = server.cpu()?.saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "some thousand operations")]
    Ok((micros(cpu) / took.len() as f64, took))
}

/// Inserts `entities` entities.
pub(crate) async fn seed(
    load: &mut Load,
    writer: &Writer,
    table: &str,
    entities: usize,
    per_partition: usize,
) -> io::Result<()> {
    for some in (0..entities).step_by(20_000) {
        let starts = (some..entities.min(some + 20_000)).step_by(100);
        let requests: Vec<_> = starts
            .map(|from| writer.batch(table, from..from + 100, per_partition).into())
            .collect();
        load.run(&requests).await?;
    }
    Ok(())
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[expect(clippy::cast_precision_loss, reason = "some gigabytes")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
