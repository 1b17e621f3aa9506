//! A run: a server, the processes around it, and the verdict.

use std::path::PathBuf;
use std::time::Duration;

use rowkey::{Clock as _, ScanPolicy, SystemClock};
use rowkey_emulator::{Server, ServerClock};

use crate::Result;
use crate::chaos::Chaos;
use crate::clock::{Advancing, SharedClock};
use crate::jobs::{Places, Plan};
use crate::processes::{Processes, Role, Setting};
use crate::roles::account;
use crate::verdict::{self, Case};

/// The default number of tasks of a run: fewer where `ROWKEY_SWEEP` is not set.
pub(crate) fn usual() -> u64 {
    if rowkey_tests::sweep::is_brief() { 500 } else { 2_000 }
}
const WORKERS: usize = 4;
const WRITERS: usize = 2;
/// How often the parent looks.
const LOOK: Duration = Duration::from_millis(10);
/// After how many looks in which nothing was begun time is moved on, and how far.
const QUIET: (u32, Duration) = (15, Duration::from_secs(2));
/// How many looks in a row the queue has to be empty.
const EMPTY: u32 = 5;

pub(crate) async fn run(tasks: u64) -> Result {
    let seed = std::env::var("ROWKEY_SOAK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(5);
    println!("soak: {tasks} tasks, seed {seed}");
    let server = Server::builder().journal(false).clock(ServerClock::real()).start().await?;
    let file = ClockFile::new();
    let mut time = Advancing::create(&file.0, server.clock())?;
    let clock = SharedClock::open(&file.0)?;
    // The verdict looks at everything.
    let account = account(server.connection_string(), clock.clone(), ScanPolicy::Allow)?;
    let places = Places::new(account)?;
    let plan = Plan::new(tasks);
    places.create(&plan).await?;
    let begun = SystemClock.now();
    let passed = || (SystemClock.now() - begun).to_std().unwrap_or_default();

    let setting = Setting {
        connection_string: server.connection_string().to_owned(),
        clock: file.0.clone(),
        tasks,
    };
    let mut processes = Processes::new(setting, WORKERS, WRITERS, seed)?;
    let mut chaos = Chaos::new(&server, tasks, seed);
    go_on(&mut processes, &mut chaos, &mut time, &places).await?;
    processes.end(Role::Worker)?;
    let worked = passed();

    let reported = std::mem::take(&mut *processes.reported());
    let receptions: u64 = reported.begun.values().copied().map(u64::from).sum();
    println!(
        "  {WORKERS} workers, {WRITERS} writers, {} keys; {} tasks put, {} begun, {receptions} times; {} puts \
         repeated, {} given up",
        plan.keys,
        reported.put.len(),
        reported.begun.len(),
        processes.repeated,
        processes.given_up.len(),
    );
    println!("  {chaos}");
    println!(
        "  {} s, {} s by the server's clock",
        worked.as_secs(),
        (worked + time.total()).as_secs()
    );
    for counts in &reported.counts {
        println!(
            "  a worker at its end (handled, suppressed, retried, deferred, overrun, lost): {counts}"
        );
    }
    let case = Case { server: &server, places, clock, plan, reported: &reported };
    let found = verdict::check(&case, &mut time).await?;
    println!("  {found}");
    println!("  {} s with the verification", passed().as_secs());
    Ok(())
}

/// Triggers all events, and continues until the queue is empty.
async fn go_on(
    processes: &mut Processes,
    chaos: &mut Chaos<'_>,
    time: &mut Advancing,
    places: &Places,
) -> Result {
    let (mut before, mut quiet, mut empty, mut is_over) = (0, 0, 0, false);
    while empty < EMPTY {
        SystemClock.sleep(LOOK).await;
        let is_put = processes.look()?;
        let (begun, receptions) = {
            let reported = processes.reported();
            (u64::try_from(reported.begun.len())?, reported.begun.values().sum::<u32>())
        };
        if !is_over {
            chaos.tick(processes, time, begun)?;
            if is_put && chaos.is_over() {
                is_over = true;
                chaos.end();
                processes.end(Role::Writer)?;
            }
        }
        // What waits for its next attempt need not be waited for.
        quiet = if receptions == before { quiet + 1 } else { 0 };
        before = receptions;
        if quiet >= QUIET.0 {
            quiet = 0;
            time.advance(QUIET.1)?;
        }
        if is_over {
            let left = places.tasks.queue().approximate_count().await?;
            empty = if left == 0 { empty + 1 } else { 0 };
        }
    }
    Ok(())
}

/// The file of the clock, which goes with the run.
struct ClockFile(PathBuf);

impl ClockFile {
    fn new() -> Self {
        let name = format!("rowkey-soak-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for ClockFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
