//! Servers under the same load: CPU an operation, latency, memory.

use std::io;
use std::time::Duration;

use crate::load::{Load, Operation, count, percentile};
use crate::process::{Kind, SERVICES, Server, Service};
use crate::report::{Goal, Rounds, Table, figure, judged};
use crate::requests::{PER_PARTITION, Writer};
use crate::small::{BLOB_LINE, BLOB_LINES};

/// How many entities a point get chooses from.
pub const SMALL: usize = 10_000;
/// How many entities a filter goes through, all in one partition.
const FLAT: usize = 100_000;

const KINDS: [Kind; 3] = [Kind::Bare, Kind::Rowkey, Kind::Azurite];

struct Workload {
    name: &'static str,
    service: Service,
    connections: usize,
    /// Operations a round: of the two in Rust, and of Azurite.
    operations: [usize; 2],
    /// The ratios to the bare server and to Azurite.
    goals: [Goal; 2],
    /// What the answers of an operation hold, and how often, so that nobody is fast by answering nothing.
    proof: (&'static str, usize),
    /// The operation with a number that no other operation on the server had.
    operation: fn(&Writer, usize) -> Operation,
}

const WORKLOADS: [Workload; 8] = [
    Workload {
        name: "insert",
        service: Service::Table,
        connections: 8,
        operations: [20_000, 600],
        goals: [Goal::AtMost(1.7), Goal::AtLeast(28.0)],
        proof: ("", 0),
        operation: |writer, number| writer.insert("inserts", number, PER_PARTITION).into(),
    },
    Workload {
        name: "get, 10,000 entities",
        service: Service::Table,
        connections: 8,
        operations: [20_000, 300],
        goals: [Goal::AtMost(1.6), Goal::AtLeast(80.0)],
        proof: ("\"RowKey\"", 1),
        operation: |writer, number| {
            writer.get("small", scattered(number, SMALL), PER_PARTITION).into()
        },
    },
    Workload {
        name: "EGT of 100 inserts",
        service: Service::Table,
        connections: 4,
        operations: [400, 24],
        goals: [Goal::AtMost(2.2), Goal::AtLeast(30.0)],
        proof: ("HTTP/1.1 204", 100),
        operation: |writer, number| {
            writer.batch("batches", number * 100..number * 100 + 100, PER_PARTITION).into()
        },
    },
    Workload {
        name: "page of 1,000",
        service: Service::Table,
        connections: 4,
        operations: [400, 12],
        goals: [Goal::AtMost(2.0), Goal::AtLeast(40.0)],
        proof: ("\"RowKey\"", 1_000),
        operation: |writer, number| writer.page("small", number % (SMALL / PER_PARTITION)).into(),
    },
    Workload {
        name: "range of 100",
        service: Service::Table,
        connections: 4,
        operations: [3_000, 60],
        goals: [Goal::AtMost(1.8), Goal::AtLeast(100.0)],
        proof: ("\"RowKey\"", 100),
        operation: |writer, number| {
            writer.range("small", number % (SMALL / PER_PARTITION), number * 7 % 900).into()
        },
    },
    Workload {
        name: "filter, 1 % of 100,000",
        service: Service::Table,
        connections: 4,
        operations: [100, 12],
        goals: [Goal::AtMost(3.5), Goal::AtLeast(9.0)],
        proof: ("\"RowKey\"", 1_000),
        operation: |writer, number| writer.filtered("flat", number % 100).into(),
    },
    Workload {
        name: "queue put+get+delete",
        service: Service::Queue,
        connections: 8,
        operations: [5_000, 200],
        goals: [Goal::AtMost(1.5), Goal::AtLeast(40.0)],
        // An empty queue's answer has none; without the receipt in it the deletion fails.
        proof: ("<MessageText>", 1),
        operation: |writer, number| writer.through_the_queue(number),
    },
    Workload {
        name: "blob put+get, 4 KiB",
        service: Service::Blob,
        connections: 8,
        operations: [5_000, 200],
        goals: [Goal::AtMost(1.8), Goal::AtLeast(80.0)],
        proof: (BLOB_LINE, BLOB_LINES),
        operation: |writer, number| writer.blob_and_back(number),
    },
];

/// What was measured of a server under a workload.
#[derive(Default)]
struct Measured {
    /// Microseconds an operation.
    cpu: Rounds,
    p50: Rounds,
    p99: Rounds,
}

struct Contender {
    kind: Kind,
    server: Server,
    /// One a service.
    writers: [Writer; SERVICES.len()],
    idle: u64,
    measured: [Measured; WORKLOADS.len()],
    /// The numbers that are used up, a workload.
    used: [usize; WORKLOADS.len()],
}

/// Runs the workloads whose names begin with one of `only`, or all, for `rounds` rounds and returns
/// the tables.
pub async fn compare(rounds: usize, only: &[&str]) -> io::Result<String> {
    let mut contenders = Vec::new();
    for kind in KINDS {
        if let Some(server) = Server::start(kind)? {
            let idle = server.memory()?;
            let writers = SERVICES.map(|service| Writer::new(server.host(service).to_owned()));
            let measured = <[Measured; WORKLOADS.len()]>::default();
            eprintln!("{kind:?}: seeding");
            let contender =
                Contender { kind, server, writers, idle, measured, used: Default::default() };
            contender.seed().await?;
            contenders.push(contender);
        } else {
            eprintln!("{kind:?} is not installed: see README.md");
        }
    }
    for (at, workload) in WORKLOADS.iter().enumerate() {
        if !only.is_empty() && !only.iter().any(|name| workload.name.starts_with(name)) {
            continue;
        }
        // The first round warms up.
        for round in 0..=rounds {
            eprintln!("{}: round {round}", workload.name);
            for contender in &mut contenders {
                contender.round(at, workload, round > 0).await?;
            }
        }
    }
    render(&contenders)
}

impl Contender {
    async fn seed(&self) -> io::Result<()> {
        let [tables, queues, blobs] = &self.writers;
        let mut load = Load::open(self.server.host(Service::Queue), 1).await?;
        load.ask(&queues.create_queue()).await?;
        let mut load = Load::open(self.server.host(Service::Blob), 1).await?;
        load.ask(&blobs.create_container()).await?;
        let mut load = Load::open(self.server.host(Service::Table), 4).await?;
        for table in ["inserts", "batches", "small", "flat"] {
            load.ask(&tables.create_table(table)).await?;
        }
        seed(&mut load, tables, "small", SMALL, PER_PARTITION).await?;
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

/// A number below `limit` that does not follow the one before.
pub(crate) fn scattered(number: usize, limit: usize) -> usize {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % limit
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn render(contenders: &[Contender]) -> io::Result<String> {
    let find = |kind| contenders.iter().find(|contender| contender.kind == kind);
    let mut table = Table::new(&[
        "CPU us/op (connections)",
        "bare",
        "rowkey",
        "Azurite",
        "rowkey / bare",
        "Azurite / rowkey",
        "rowkey p50 us",
        "bare p99",
        "rowkey p99",
        "Azurite p99",
    ]);
    for (at, workload) in WORKLOADS.iter().enumerate() {
        let nothing = Measured::default();
        let of = |kind| find(kind).map_or(&nothing, |contender| &contender.measured[at]);
        let (bare, rowkey, azurite) = (of(Kind::Bare), of(Kind::Rowkey), of(Kind::Azurite));
        table.row(vec![
            format!("{} ({})", workload.name, workload.connections),
            figure(bare.cpu.median()),
            figure(rowkey.cpu.median()),
            figure(azurite.cpu.median()),
            judged(&rowkey.cpu.over(&bare.cpu), workload.goals[0]),
            judged(&azurite.cpu.over(&rowkey.cpu), workload.goals[1]),
            figure(rowkey.p50.median()),
            figure(bare.p99.median()),
            figure(rowkey.p99.median()),
            figure(azurite.p99.median()),
        ]);
    }
    let mut process = Table::new(&["server", "idle MiB", "peak MiB"]);
    for contender in contenders {
        process.row(vec![
            format!("{:?}", contender.kind),
            figure(mib(contender.idle)),
            figure(mib(contender.server.peak_memory()?)),
        ]);
    }
    Ok(format!("{}\n{}", table.render(), process.render()))
}

#[expect(clippy::cast_precision_loss, reason = "some gigabytes")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
