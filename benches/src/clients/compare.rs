//! All clients under all workloads: rounds, a process each, and the table.

use std::io;
use std::process::{Command, Stdio};

use super::run::{Result, TABLE, WRITTEN};
use crate::load::Load;
use crate::process::{Server, Service, build};
use crate::report::{Goal, Rounds, Table, figure, judged};
use crate::requests::{PER_PARTITION, Writer};
use crate::servers::seed;

const CLIENTS: [&str; 5] =
    ["rowkey", "reqwest", "hyper-util", "azure_data_tables", "azure_data_tables-pooled"];
/// Where they stand in that list.
const OURS: usize = 0;
const REQWEST: usize = 1;
const HYPER: usize = 2;
const OLD: usize = 3;
const POOLED: usize = 4;

struct Workload {
    name: &'static str,
    operations: usize,
    /// Into how many parts an operation is divided: a query, into its entities.
    parts: f64,
    /// Of rowkey to hand-written reqwest.
    goal: f64,
    /// At most so many allocations.
    allocations: f64,
}

const WORKLOADS: [Workload; 4] = [
    Workload { name: "get", operations: 20_000, parts: 1.0, goal: 1.3, allocations: 60.0 },
    Workload { name: "insert", operations: 20_000, parts: 1.0, goal: 1.3, allocations: 70.0 },
    Workload { name: "EGT", operations: 1_000, parts: 1.0, goal: 1.3, allocations: 1_300.0 },
    Workload { name: "query", operations: 300, parts: 1_000.0, goal: 1.0, allocations: 7.2 },
];

/// Runs the workloads in `only`, or all, for `rounds` rounds and returns the table.
pub async fn compare(rounds: usize, only: &[&str]) -> Result<String> {
    let server = Server::bare_for_clients()?;
    let writer = Writer::new(server.host(Service::Table).to_owned());
    let mut load = Load::open(server.host(Service::Table), 4).await?;
    for table in [TABLE, WRITTEN] {
        load.ask(&writer.create_table(table)).await?;
    }
    seed(&mut load, &writer, TABLE, PER_PARTITION, PER_PARTITION).await?;

    let mut out = Table::new(&[
        "CPU us/op, 16 in flight",
        "rowkey",
        "reqwest by hand",
        "hyper-util by hand",
        "azure_data_tables",
        "the same, pooled",
        "rowkey / reqwest",
        "rowkey / hyper-util",
        "old / rowkey",
        "allocations: rowkey",
        "reqwest",
        "old",
    ]);
    for workload in WORKLOADS.iter().filter(|w| only.is_empty() || only.contains(&w.name)) {
        let mut cpu = <[Rounds; CLIENTS.len()]>::default();
        for round in 1..=rounds {
            eprintln!("{}: round {round}", workload.name);
            for (client, cpu) in CLIENTS.iter().zip(&mut cpu) {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("client");
                let (nanoseconds, _) =
                    child(command, client, workload, server.host(Service::Table))?;
                cpu.push(nanoseconds / 1e3);
            }
        }
        let mut allocations = <[Rounds; CLIENTS.len()]>::default();
        for at in [OURS, REQWEST, OLD] {
            let program = build("Cargo.toml", "rowkey-benches", "allocations", &[])?;
            let command = Command::new(program);
            let (_, count) = child(command, CLIENTS[at], workload, server.host(Service::Table))?;
            allocations[at].push(count);
        }
        out.row(vec![
            workload.name.to_owned(),
            figure(cpu[OURS].median()),
            figure(cpu[REQWEST].median()),
            figure(cpu[HYPER].median()),
            figure(cpu[OLD].median()),
            figure(cpu[POOLED].median()),
            judged(&cpu[OURS].over(&cpu[REQWEST]), Goal::AtMost(workload.goal)),
            judged(&cpu[OURS].over(&cpu[HYPER]), Goal::None),
            judged(&cpu[OLD].over(&cpu[OURS]), Goal::None),
            judged(&allocations[OURS], Goal::AtMost(workload.allocations)),
            figure(allocations[REQWEST].median()),
            figure(allocations[OLD].median()),
        ]);
    }
    Ok(out.render())
}

/// Runs a client in a process of its own; returns nanoseconds and allocations an operation.
fn child(
    mut command: Command,
    client: &str,
    workload: &Workload,
    host: &str,
) -> Result<(f64, f64)> {
    let operations = workload.operations.to_string();
    command.args([client, workload.name, &operations, host]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut figures = text.split_whitespace().map(str::parse::<f64>);
    let (Some(nanoseconds), Some(allocations)) = (figures.next(), figures.next()) else {
        return Err(io::Error::other(format!("{client} measured nothing")).into());
    };
    #[expect(clippy::cast_precision_loss, reason = "some thousand operations")]
    let parts = workload.operations as f64 * workload.parts;
    Ok((nanoseconds? / parts, allocations? / parts))
}
