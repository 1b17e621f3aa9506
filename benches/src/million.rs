//! A million entities: what they take, and whether operations get slower.

use std::io;

use crate::load::{Load, Operation};
use crate::process::{Kind, Server, Service};
use crate::report::{Goal, Rounds, Table, figure, judged};
use crate::requests::{PER_PARTITION, Writer};
use crate::servers::{SMALL, measure, mib, scattered, seed};

const MILLION: usize = 1_000_000;
/// What a million entities may take, in MiB.
const MEMORY: f64 = 1.6 * 1024.0;

struct Workload {
    name: &'static str,
    connections: usize,
    operations: usize,
    /// The cost at a million over that at 10,000.
    goal: f64,
    request: fn(&Writer, number: usize, entities: usize) -> Vec<u8>,
}

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "get",
        connections: 8,
        operations: 20_000,
        goal: 2.0,
        request: |writer, number, entities| {
            writer.get("many", scattered(number, entities), PER_PARTITION)
        },
    },
    Workload {
        name: "page of 1,000",
        connections: 4,
        operations: 300,
        goal: 1.6,
        request: |writer, number, entities| {
            writer.page("many", scattered(number, entities / PER_PARTITION))
        },
    },
    Workload {
        name: "insert",
        connections: 8,
        operations: 20_000,
        goal: 1.6,
        request: |writer, number, entities| writer.insert("many", entities + number, PER_PARTITION),
    },
];

struct Contender {
    kind: Kind,
    entities: usize,
    server: Server,
    writer: Writer,
    memory: u64,
    cpu: [Rounds; WORKLOADS.len()],
}

/// Fills both servers with 10,000 and with a million entities, and compares.
pub async fn compare(rounds: usize) -> io::Result<String> {
    let mut contenders = Vec::new();
    for kind in [Kind::Bare, Kind::Rowkey] {
        for entities in [SMALL, MILLION] {
            eprintln!("{kind:?}: seeding {entities}");
            let Some(server) = Server::start(kind)? else { continue };
            let writer = Writer::new(server.host(Service::Table).to_owned());
            let mut load = Load::open(server.host(Service::Table), 4).await?;
            load.ask(&writer.create_table("many")).await?;
            let empty = server.memory()?;
            seed(&mut load, &writer, "many", entities, PER_PARTITION).await?;
            let memory = server.memory()? - empty;
            let cpu = <[Rounds; WORKLOADS.len()]>::default();
            contenders.push(Contender { kind, entities, server, writer, memory, cpu });
        }
    }
    for (at, workload) in WORKLOADS.iter().enumerate() {
        for round in 0..=rounds {
            eprintln!("{} among many: round {round}", workload.name);
            for contender in &mut contenders {
                let numbers = round * workload.operations..(round + 1) * workload.operations;
                let requests: Vec<_> = numbers
                    .map(|number| (workload.request)(&contender.writer, number, contender.entities))
                    .map(Operation::from)
                    .collect();
                let mut load =
                    Load::open(contender.server.host(Service::Table), workload.connections).await?;
                let (cpu, _) = measure(&contender.server, &mut load, &requests).await?;
                if round > 0 {
                    contender.cpu[at].push(cpu);
                }
            }
        }
    }
    render(&contenders)
}

fn render(contenders: &[Contender]) -> io::Result<String> {
    let mut table = Table::new(&["CPU us/op", "server", "10,000", "1,000,000", "ratio"]);
    for (at, workload) in WORKLOADS.iter().enumerate() {
        for pair in contenders.chunks(2) {
            let [few, many] = pair else { continue };
            table.row(vec![
                workload.name.to_owned(),
                format!("{:?}", few.kind),
                figure(few.cpu[at].median()),
                figure(many.cpu[at].median()),
                judged(&many.cpu[at].over(&few.cpu[at]), Goal::AtMost(workload.goal)),
            ]);
        }
    }
    let mut memory =
        Table::new(&["a million entities", "MiB (goal <= 1638)", "bytes an entity", "peak MiB"]);
    for contender in contenders.iter().filter(|contender| contender.entities == MILLION) {
        let mut used = Rounds::default();
        used.push(mib(contender.memory));
        memory.row(vec![
            format!("{:?}", contender.kind),
            judged(&used, Goal::AtMost(MEMORY)),
            (contender.memory / MILLION as u64).to_string(),
            figure(mib(contender.server.peak_memory()?)),
        ]);
    }
    Ok(format!("{}\n{}", table.render(), memory.render()))
}
