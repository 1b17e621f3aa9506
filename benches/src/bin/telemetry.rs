//! `telemetry off|on [GETS]`: gets one entity again and again on one thread, without telemetry or with OpenTelemetry's SDK, for
//! callgrind; and the allocations of a record.
//!
//! ```console
//! $ valgrind --tool=callgrind --separate-threads=yes target/release/telemetry on 2000
//! ```
//!
//! The server is in the same process on threads of its own, so the client's instructions are those of the first thread. Two
//! runs with different numbers of gets tell the start apart.

use std::alloc::System;
use std::env;
use std::error::Error;
use std::sync::Arc;

use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::Registry;
use rowkey::telemetry::Telemetry as _;
use rowkey::{DynamicEntity, StorageAccount};
use rowkey_emulator::Server;
use rowkey_otel::Otel;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let is_on = arguments.first().is_some_and(|text| text == "on");
    let gets = arguments.get(1).map_or(Ok(1_000), |text| text.parse::<u32>())?;

    let exporter = opentelemetry_prometheus::exporter().with_registry(Registry::new()).build()?;
    let provider = SdkMeterProvider::builder().with_reader(exporter).build();
    let server = Server::start().await?;
    let mut account = StorageAccount::builder().connection_string(server.connection_string())?;
    if is_on {
        account = account.telemetry(Arc::new(Otel::new(&provider)));
    }
    let table = account.build()?.table("things");
    table.create().await?;
    let thing = DynamicEntity::new("p", "r");
    table.insert(&thing).await?;
    for _ in 0..gets {
        table.get(thing.key()).await?;
    }
    println!("{gets} gets");

    let otel = Otel::new(&provider);
    let labels = [("db.operation.name", "GetEntity"), ("server.port", "443")];
    let record = || otel.record("db.client.operation.duration", &labels, 0.001);
    record();
    let region = Region::new(ALLOCATOR);
    for _ in 0..1_000 {
        record();
    }
    println!("{} allocations of 1,000 records", region.change().allocations);
    Ok(())
}
