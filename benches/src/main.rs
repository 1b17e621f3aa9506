//! `compare [durable|servers|growth|clients|bulk|indexed|scan] [ROUNDS] [WORKLOAD..]`: the comparisons, all of them
//! by default.
//!
//! `compare serve`, `compare client ..` and `compare load ..` are the processes that are measured.

use std::env;

use compare::clients::run::Result;
use compare::{bare, bulk, clients, durable, growth, indexed, scan, servers};

const PARTS: [&str; 7] = ["durable", "servers", "growth", "clients", "bulk", "indexed", "scan"];

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
        if let ["serve", rest @ ..] = &arguments[..] {
            return Ok(bare::serve(*rest == ["all-headers"]).await?);
        }
        if let ["load", loader, host] = arguments[..] {
            let (rate, cost) = bulk::load(loader, host).await?;
            println!("{rate} {cost}");
            return Ok(());
        }
        let rounds = arguments.iter().find_map(|text| text.parse().ok()).unwrap_or(5);
        let is_part = |text: &&str| PARTS.contains(text);
        let chosen = |name| arguments.contains(&name) || !arguments.iter().any(is_part);
        let only: Vec<&str> = (arguments.iter().copied())
            .filter(|text| !is_part(text) && text.parse::<usize>().is_err())
            .collect();
        if chosen("durable") {
            println!("{}", durable::compare(rounds).await?);
        }
        if chosen("servers") {
            println!("{}", servers::compare(rounds, &only).await?.tables());
        }
        if chosen("growth") {
            println!("{}", growth::compare(rounds).await?.tables());
        }
        if chosen("clients") {
            println!("{}", clients::compare::compare(rounds, &only).await?);
        }
        if chosen("bulk") {
            println!("{}", bulk::compare(rounds).await?);
        }
        if chosen("indexed") {
            println!("{}", indexed::compare(rounds).await?);
        }
        if chosen("scan") {
            println!("{}", scan::compare(rounds).await?);
        }
        Ok(())
    })
}
