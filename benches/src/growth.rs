//! Memory and latency from 10,000 entities to a million.

use std::io;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::{Load, Operation};
use crate::process::{Kind, Server, Service};
use crate::report::{Goal, Rounds, Table, figure, judged};
use crate::requests::{PER_PARTITION, Writer};
use crate::servers::workloads::scattered;
use crate::servers::{measure, mib, seed};

pub const SIZES: [usize; 5] = [10_000, 30_000, 100_000, 300_000, 1_000_000];
/// Who grows. Azurite would need minutes for a million.
const GROWING: [Kind; 2] = [Kind::Bare, Kind::Rowkey];
/// What an entity may take at a million of them, in bytes.
pub const BYTES: f64 = 1_350.0;

struct Workload {
    name: &'static str,
    connections: usize,
    operations: usize,
    /// The cost at a million over that at 10,000.
    goal: f64,
    request: Request,
    /// What makes it undone when nothing is measured, so that no round finds more than the one before.
    undo: Option<Request>,
}

/// Writes the request with this number for a server that holds `entities` entities.
type Request = fn(&Writer, number: usize, entities: usize) -> Vec<u8>;

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "get",
        connections: 8,
        operations: 20_000,
        goal: 2.0,
        request: |writer, number, entities| {
            writer.get("many", scattered(number, entities), PER_PARTITION)
        },
        undo: None,
    },
    Workload {
        name: "insert",
        connections: 8,
        operations: 10_000,
        goal: 1.6,
        request: |writer, number, entities| writer.insert("many", entities + number, PER_PARTITION),
        undo: Some(|writer, number, entities| {
            writer.delete("many", entities + number, PER_PARTITION)
        }),
    },
    Workload {
        name: "page of 1,000",
        connections: 4,
        operations: 300,
        goal: 1.6,
        request: |writer, number, entities| {
            writer.page("many", scattered(number, entities / PER_PARTITION))
        },
        undo: None,
    },
];

/// The measurements.
#[derive(Debug, Deserialize, Serialize)]
pub struct Growth {
    pub workloads: Vec<Row>,
    /// By size; of the bare server and of ours.
    pub bytes_per_entity: Vec<[f64; GROWING.len()]>,
    /// At a million.
    pub peak_mib: [f64; GROWING.len()],
    /// When the table of a million is dropped; the bare server has no such operation.
    pub dropped_mib: f64,
}

/// One workload.
#[derive(Debug, Deserialize, Serialize)]
pub struct Row {
    pub name: String,
    pub goal: f64,
    /// CPU time in microseconds an operation, by size; of the bare server and of ours.
    pub cpu: Vec<[Rounds; GROWING.len()]>,
}

struct Contender {
    server: Server,
    writer: Writer,
    entities: usize,
    memory: u64,
}

/// Fills servers of all sizes and compares.
pub async fn compare(rounds: usize) -> io::Result<Growth> {
    let mut sizes = Vec::new();
    for entities in SIZES {
        eprintln!("growth: seeding {entities}");
        let [bare, rowkey] = GROWING;
        sizes
            .push([Contender::new(bare, entities).await?, Contender::new(rowkey, entities).await?]);
    }
    let mut workloads = Vec::new();
    for workload in &WORKLOADS {
        let mut cpu = vec![<[Rounds; GROWING.len()]>::default(); SIZES.len()];
        for round in 0..=rounds {
            eprintln!("{} among many: round {round}", workload.name);
            for (contenders, cpu) in sizes.iter().zip(&mut cpu) {
                for (contender, cpu) in contenders.iter().zip(cpu) {
                    let cost = contender.round(workload, round).await?;
                    if round > 0 {
                        cpu.push(cost);
                    }
                }
            }
        }
        workloads.push(Row { name: workload.name.to_owned(), goal: workload.goal, cpu });
    }
    let bytes = |contender: &Contender| {
        #[expect(clippy::cast_precision_loss, reason = "some gigabytes")]
        let ratio = contender.memory as f64 / contender.entities as f64;
        ratio.round()
    };
    let bytes_per_entity = sizes.iter().map(|pair| pair.each_ref().map(bytes)).collect();
    let [bare, rowkey] = sizes.last().ok_or(io::ErrorKind::NotFound)?;
    let peak_mib = [mib(bare.server.peak_memory()?), mib(rowkey.server.peak_memory()?)];
    let dropped_mib = mib(drop_table(rowkey).await?);
    Ok(Growth { workloads, bytes_per_entity, peak_mib, dropped_mib })
}

/// What is in use when the table is gone and its memory was given back, or after ten seconds of some
/// other work.
async fn drop_table(contender: &Contender) -> io::Result<u64> {
    let Contender { server, writer, .. } = contender;
    let before = server.memory()?;
    let mut load = Load::open(server.host(Service::Table), 1).await?;
    load.ask(&writer.delete_table("many")).await?;
    load.ask(&writer.create_table("few")).await?;
    for round in 0..20 {
        if server.memory()? < before / 10 {
            break;
        }
        thread::sleep(Duration::from_millis(500));
        // What another thread freed, the allocator gives back while this one goes on allocating.
        let numbers = round * 500..(round + 1) * 500;
        let inserts: Vec<_> =
            numbers.map(|number| writer.insert("few", number, PER_PARTITION).into()).collect();
        load.run(&inserts).await?;
    }
    server.memory()
}

impl Contender {
    async fn new(kind: Kind, entities: usize) -> io::Result<Self> {
        let server = Server::start(kind)?.ok_or(io::ErrorKind::NotFound)?;
        let writer = Writer::new(server.host(Service::Table).to_owned());
        let mut load = Load::open(server.host(Service::Table), 4).await?;
        load.ask(&writer.create_table("many")).await?;
        let empty = server.memory()?;
        seed(&mut load, &writer, "many", entities, PER_PARTITION).await?;
        let memory = server.memory()?.saturating_sub(empty);
        Ok(Self { server, writer, entities, memory })
    }

    /// Microseconds of CPU time per operation.
    async fn round(&self, workload: &Workload, round: usize) -> io::Result<f64> {
        let all = |request: Request| -> Vec<Operation> {
            let numbers = round * workload.operations..(round + 1) * workload.operations;
            numbers.map(|number| request(&self.writer, number, self.entities).into()).collect()
        };
        let mut load = Load::open(self.server.host(Service::Table), workload.connections).await?;
        let (cpu, _) = measure(&self.server, &mut load, &all(workload.request)).await?;
        if let Some(undo) = workload.undo {
            load.run(&all(undo)).await?;
        }
        Ok(cpu)
    }
}

impl Growth {
    pub fn tables(&self) -> String {
        let mut head = vec!["CPU us/op", "server"];
        let sizes = SIZES.map(grouped);
        head.extend(sizes.iter().map(String::as_str));
        head.push("1,000,000 / 10,000");
        let mut table = Table::new(&head);
        for row in &self.workloads {
            for (at, kind) in GROWING.into_iter().enumerate() {
                let cpu: Vec<_> = row.cpu.iter().map(|each| &each[at]).collect();
                let mut cells = vec![row.name.clone(), kind.name().to_owned()];
                cells.extend(cpu.iter().map(|rounds| figure(rounds.median())));
                let goal = if kind == Kind::Rowkey { Goal::AtMost(row.goal) } else { Goal::None };
                let ratio = cpu.last().zip(cpu.first()).map(|(many, few)| many.over(few));
                cells.push(judged(&ratio.unwrap_or_default(), goal));
                table.row(cells);
            }
        }
        let mut head = vec!["memory", "server"];
        head.extend(sizes.iter().map(String::as_str));
        head.extend(["goal", "peak MiB", "MiB, table dropped"]);
        let mut memory = Table::new(&head);
        for (at, kind) in GROWING.into_iter().enumerate() {
            let mut cells = vec!["bytes per entity".to_owned(), kind.name().to_owned()];
            let mut bytes = self.bytes_per_entity.iter().map(|each| each[at]);
            cells.extend(bytes.clone().map(figure));
            let ours = kind == Kind::Rowkey;
            let last = bytes.next_back().unwrap_or(f64::NAN);
            cells.push(if ours { Goal::AtMost(BYTES).verdict(last) } else { String::new() });
            cells.push(figure(self.peak_mib[at]));
            cells.push(figure(if ours { self.dropped_mib } else { f64::NAN }));
            memory.row(cells);
        }
        format!("{}\n{}", table.render(), memory.render())
    }
}

/// A number of entities, as people write it.
fn grouped(number: usize) -> String {
    match (number / 1_000_000, number / 1_000 % 1_000) {
        (0, thousands) => format!("{thousands},000"),
        (millions, thousands) => format!("{millions},{thousands:03},000"),
    }
}
