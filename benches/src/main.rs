//! `compare [report] [PART..] [ROUNDS] [WORKLOAD..]`: the comparisons, all of them by default. With
//! `report` the figures are kept in `results/`, and the pages and charts made from them are written;
//! `compare draw` makes these again without measuring.
//!
//! `compare serve`, `compare client ..`, `compare load ..` and `compare copy ..` are the processes that are measured.

use std::env;

use compare::clients::run::Result;
use compare::results::{Begun, commit};
use compare::{
    bare, bulk, clients, copied, durable, growth, indexed, patterns, publish, scan, servers, stored,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

const PARTS: [&str; 10] = [
    "servers", "growth", "patterns", "durable", "clients", "bulk", "copy", "indexed", "store",
    "scan",
];

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["client", client, workload, operations, host] = arguments[..] {
        let operations = operations.parse()?;
        let measured = clients::run::run(client, workload, operations, host, || 0)?;
        println!("{} {}", measured.nanoseconds, measured.allocations);
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        match arguments[..] {
            ["serve", ref rest @ ..] => Ok(bare::serve(*rest == ["all-headers"]).await?),
            ["load", loader, host] => {
                let (rate, cost) = bulk::load(loader, host).await?;
                println!("{rate} {cost}");
                Ok(())
            }
            ["copy", copier, from, to] if !copier.chars().all(|c| c.is_ascii_digit()) => {
                let [rate, cost, memory] = copied::copy(copier, from, to).await?;
                println!("{rate} {cost} {memory}");
                Ok(())
            }
            ["draw"] => Ok(publish::all()?),
            ["report", ref rest @ ..] => measure(rest, true).await,
            _ => measure(&arguments, false).await,
        }
    })
}

async fn measure(arguments: &[&str], kept: bool) -> Result<()> {
    let is_part = |text: &str| PARTS.contains(&text);
    let rounds = arguments.iter().find_map(|text| text.parse().ok()).unwrap_or(5);
    let only: Vec<&str> = (arguments.iter().copied())
        .filter(|text| !is_part(text) && text.parse::<usize>().is_err())
        .collect();
    if kept && !only.is_empty() {
        return Err("a report is of whole parts".into());
    }
    let report = Report { rounds, kept, commit: commit() };
    for part in PARTS {
        if !arguments.contains(&part) && arguments.iter().any(|text| is_part(text)) {
            continue;
        }
        let begun = Begun::now()?;
        match part {
            "servers" => {
                let figures = servers::compare(rounds, &only).await?;
                report.show(part, begun, servers::Servers::tables, figures)?;
            }
            "growth" => {
                let figures = growth::compare(rounds).await?;
                report.show(part, begun, growth::Growth::tables, figures)?;
            }
            "patterns" => {
                let figures = patterns::compare(rounds).await?;
                report.show(part, begun, patterns::Patterns::tables, figures)?;
            }
            "clients" => {
                let figures = clients::compare::compare(rounds, &only).await?;
                report.show(part, begun, clients::figures::Clients::tables, figures)?;
            }
            "durable" => report.show(part, begun, Clone::clone, durable::compare(rounds).await?)?,
            "bulk" => report.show(part, begun, Clone::clone, bulk::compare(rounds).await?)?,
            "copy" => report.show(part, begun, Clone::clone, copied::compare(rounds).await?)?,
            "store" => report.show(part, begun, Clone::clone, stored::compare(rounds).await?)?,
            "indexed" => report.show(part, begun, Clone::clone, indexed::compare(rounds).await?)?,
            _ => report.show(part, begun, Clone::clone, scan::compare(rounds).await?)?,
        }
    }
    Ok(())
}

/// What becomes of figures.
struct Report {
    rounds: usize,
    /// Whether they are kept and published.
    kept: bool,
    commit: String,
}

impl Report {
    fn show<T: Serialize + DeserializeOwned>(
        &self,
        part: &str,
        begun: Begun,
        tables: fn(&T) -> String,
        figures: T,
    ) -> Result<()> {
        let results = begun.end(&self.commit, self.rounds, figures)?;
        println!("{part}: {}\n\n{}", results.circumstances.say(), tables(&results.figures));
        if self.kept {
            results.save(part)?;
            publish::all()?;
        }
        Ok(())
    }
}
