//! The time from the start of a server to its first response, and its memory while idle.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::figures::Start;
use crate::load::Load;
use crate::process::{KINDS, Kind, Server, Service};
use crate::requests::Writer;
use crate::servers::mib;

/// How long no client asks before memory is looked at.
const IDLE: Duration = Duration::from_millis(500);

/// Starts every server `rounds` times.
pub(super) async fn measure(rounds: usize) -> io::Result<[Start; KINDS.len()]> {
    let mut starts = <[Start; KINDS.len()]>::default();
    // The first round loads the programs into memory, and is not counted.
    for round in 0..=rounds {
        eprintln!("start: round {round}");
        for (kind, start) in KINDS.into_iter().zip(&mut starts) {
            let Some((milliseconds, idle_mib)) = once(kind).await? else { continue };
            if round > 0 {
                start.milliseconds.push(milliseconds);
                start.idle_mib.push(idle_mib);
            }
        }
    }
    Ok(starts)
}

/// Milliseconds until the first answer, and MiB when idle; `None` of a server that is not installed.
async fn once(kind: Kind) -> io::Result<Option<(f64, f64)>> {
    let begun = Instant::now();
    let Some(server) = Server::start(kind)? else { return Ok(None) };
    let host = server.host(Service::Table);
    let mut load = Load::open(host, 1).await?;
    load.ask(&Writer::new(host.to_owned()).create_table("first")).await?;
    let took = begun.elapsed();
    thread::sleep(IDLE);
    Ok(Some((took.as_secs_f64() * 1e3, mib(server.memory()?))))
}
