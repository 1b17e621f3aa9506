//! `allocations CLIENT WORKLOAD OPERATIONS HOST`: a client under an allocator that counts.

use std::alloc::System;
use std::env;

use compare::clients::run::{Result, run};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [client, workload, operations, host] = &arguments[..] else {
        return Err("usage: allocations CLIENT WORKLOAD OPERATIONS HOST".into());
    };
    let count = || {
        let stats = ALLOCATOR.stats();
        stats.allocations + stats.reallocations
    };
    let measured = run(client, workload, operations.parse()?, host, count)?;
    println!("{} {}", measured.nanoseconds, measured.allocations);
    Ok(())
}
