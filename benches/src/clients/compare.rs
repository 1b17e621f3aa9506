//! All clients under all workloads: rounds, and a process each.

use std::io;
use std::process::{Command, Stdio};

use super::figures::{Client, Clients, Row};
use super::run::{Result, TABLE, WRITTEN};
use crate::load::Load;
use crate::process::{Server, Service, build, cached};
use crate::report::Rounds;
use crate::requests::{PER_PARTITION, Writer};
use crate::servers::seed;

/// A client, and its language.
const CLIENTS: [(&str, Language); 7] = [
    ("rowkey", Language::Rust),
    ("reqwest", Language::Rust),
    ("hyper-util", Language::Rust),
    ("azure_data_tables", Language::Rust),
    ("azure_data_tables-pooled", Language::Rust),
    ("js", Language::JavaScript),
    ("python", Language::Python),
];
/// Whose allocations are counted.
const COUNTED: [&str; 3] = ["rowkey", "reqwest", "azure_data_tables"];

#[derive(Clone, Copy)]
enum Language {
    Rust,
    JavaScript,
    Python,
}

struct Workload {
    name: &'static str,
    /// Operations a round, by language.
    operations: [usize; 3],
    /// Into how many parts an operation is divided: a query, into its entities.
    parts: f64,
    /// Of rowkey to hyper-util by hand, at most.
    goal: f64,
    /// At most this number of allocations.
    allocations: f64,
}

const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "get",
        operations: [20_000, 5_000, 600],
        parts: 1.0,
        goal: 1.1,
        allocations: 45.0,
    },
    Workload {
        name: "insert",
        operations: [20_000, 5_000, 600],
        parts: 1.0,
        goal: 1.1,
        allocations: 70.0,
    },
    Workload {
        name: "EGT of 100",
        operations: [1_000, 100, 16],
        parts: 1.0,
        goal: 1.2,
        allocations: 1_300.0,
    },
    Workload {
        name: "query, an entity",
        operations: [300, 60, 16],
        parts: 1_000.0,
        goal: 0.8,
        allocations: 7.2,
    },
];

/// Runs the workloads that begin with one of `only`, or all, for `rounds` rounds.
pub async fn compare(rounds: usize, only: &[&str]) -> Result<Clients> {
    let server = Server::bare_for_clients()?;
    let host = server.host(Service::Table);
    let writer = Writer::new(host.to_owned());
    let mut load = Load::open(host, 4).await?;
    for table in [TABLE, WRITTEN] {
        load.ask(&writer.create_table(table)).await?;
    }
    seed(&mut load, &writer, TABLE, PER_PARTITION, PER_PARTITION).await?;

    let installed: Vec<_> = CLIENTS.into_iter().filter(|client| is_there(*client)).collect();
    let counting = build("Cargo.toml", "rowkey-benches", "allocations", &[])?;
    let chosen = |workload: &&Workload| {
        only.is_empty() || only.iter().any(|name| workload.name.starts_with(name))
    };
    let mut rows = Vec::new();
    for workload in WORKLOADS.iter().filter(chosen) {
        let mut cpu = vec![Rounds::default(); installed.len()];
        for round in 1..=rounds {
            eprintln!("{}: round {round}", workload.name);
            for (&(client, language), cpu) in installed.iter().zip(&mut cpu) {
                let command = command(client, language)?;
                let (nanoseconds, _) = child(command, client, language, workload, host)?;
                cpu.push(nanoseconds / 1e3);
            }
        }
        let mut clients = Vec::new();
        for (&(client, language), cpu) in installed.iter().zip(cpu) {
            let mut allocations = Rounds::default();
            if COUNTED.contains(&client) {
                let mut command = Command::new(&counting);
                command.arg(client);
                let (_, count) = child(command, client, language, workload, host)?;
                allocations.push(count);
            }
            clients.push(Client { name: client.to_owned(), cpu, allocations });
        }
        rows.push(Row {
            name: workload.name.to_owned(),
            goal: workload.goal,
            allocations: workload.allocations,
            clients,
        });
    }
    Ok(Clients { workloads: rows })
}

/// Whether a client is installed, which is said otherwise.
fn is_there((client, language): (&str, Language)) -> bool {
    let needs = match language {
        Language::Rust => return true,
        Language::JavaScript => cached("js/node_modules/@azure/data-tables"),
        Language::Python => cached("python/bin/python"),
    };
    if !needs.exists() {
        eprintln!("{client} is left out, {} is not there: see README.md", needs.display());
    }
    needs.exists()
}

/// A process that measures itself.
fn command(client: &str, language: Language) -> io::Result<Command> {
    let script = |name: &str| format!("{}/sdk/{name}", env!("CARGO_MANIFEST_DIR"));
    Ok(match language {
        Language::Rust => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["client", client]);
            command
        }
        Language::JavaScript => {
            let mut command = Command::new("node");
            command.arg(script("client.cjs")).env("NODE_PATH", cached("js/node_modules"));
            command
        }
        Language::Python => {
            let mut command = Command::new(cached("python/bin/python"));
            command.arg(script("client.py"));
            command
        }
    })
}

/// Runs a client to its end; returns nanoseconds and allocations an operation.
fn child(
    mut command: Command,
    client: &str,
    language: Language,
    workload: &Workload,
    host: &str,
) -> Result<(f64, f64)> {
    let operations = workload.operations[language as usize];
    let name = workload.name.split([' ', ',']).next().unwrap_or_default();
    command.args([name, &operations.to_string(), host]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut figures = text.split_whitespace().map(str::parse::<f64>);
    let (Some(nanoseconds), Some(allocations)) = (figures.next(), figures.next()) else {
        return Err(io::Error::other(format!("{client} measured nothing")).into());
    };
    #[expect(clippy::cast_precision_loss, reason = "some thousand operations")]
    let parts = operations as f64 * workload.parts;
    Ok((nanoseconds? / parts, allocations? / parts))
}
