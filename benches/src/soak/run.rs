//! The soak: everything at once for some minutes, a line of figures a minute, and a verdict.
//!
//! Latencies are measured in two ways. Over the busy connections a request follows the answer before
//! it, so all of them always wait for the server, and a latency is mostly that of the queue. The probe
//! is one more connection, on a thread of its own, which gets one entity every few milliseconds.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::spawn_local;
use tokio::time::{sleep, sleep_until};

use super::figures::{Latencies, Tally};
use super::odd::Odd;
use super::requests::{PAGE, Requests, STILL};
use super::socket::Socket;
use super::work::{CONNECTIONS, Worker};
use crate::load::{Connection, count};
use crate::process::{SERVICES, Server, Service};
use crate::report::{Table, figure};
use crate::servers::mib;

/// Idle connections.
const IDLE: usize = 1_000;
/// Time between the probe's gets.
const INTERVAL: Duration = Duration::from_millis(5);
/// How many times the median the 99th percentile may be.
const TAIL: f64 = 20.0;
/// How much more memory there may be in the last minute than in the first. Data does not grow, but
/// what slow readers have not read yet comes and goes.
const GROWTH: f64 = 1.05;

/// What one minute was like.
struct Minute {
    latencies: Latencies,
    probe: Latencies,
    odd: u64,
    errors: u64,
    /// Mean and maximum of the memory in use, in bytes.
    memory: (u64, u64),
    descriptors: usize,
}

/// Soaks a server for some minutes; returns the figures, and whether all goals are met.
pub async fn soak(minutes: usize, flags: &[&str]) -> io::Result<(String, bool)> {
    let server = Server::rowkey(flags)?;
    let requests = Requests::new(&server);
    let before = server.descriptors()?;
    let page = Rc::new(fill(&requests).await?);

    let get = requests.get(STILL, "p", "0000007");
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        let mut socket = Socket::open(requests.host(Service::Table))?;
        socket.ask(&get)?.expect(200)?;
        idle.push(socket);
    }
    let (tally, is_over) = (Tally::default(), Rc::<Cell<bool>>::default());
    let mut workers = Vec::new();
    for service in SERVICES {
        for number in 0..CONNECTIONS[service as usize] {
            let worker = Worker::new(service, number, &requests, &tally, &page).await?;
            workers.push(spawn_local(worker.run(Rc::clone(&is_over))));
        }
    }
    let odd = Odd {
        requests: requests.clone(),
        tally: tally.clone(),
        page,
        is_over: Rc::clone(&is_over),
    };
    odd.start();
    let probe = Probe::start(requests.host(Service::Table), &get)?;

    let busy: usize = CONNECTIONS.iter().sum();
    eprintln!("{minutes} minutes, {IDLE} idle connections, {busy} busy ones");
    let mut report = Table::new(&[
        "minute",
        "requests/s",
        "odd/s",
        "errors",
        "p50 ms",
        "p99",
        "longest",
        "probe p50",
        "p99",
        "longest",
        "MiB",
        "most",
        "descriptors",
    ]);
    let mut all = Vec::new();
    for number in 1..=minutes {
        let minute = minute(&server, &tally, &probe).await?;
        let line = minute.line(number);
        eprintln!("{}", line.join("  "));
        report.row(line);
        all.push(minute);
    }
    is_over.set(true);
    for worker in workers {
        let _ = worker.await;
    }
    probe.stop()?;
    // Odd clients notice within a moment, and a slow writer's last entity is deleted.
    sleep(Duration::from_secs(2)).await;
    let late = tally.take().errors;
    let mut alive = 0;
    for socket in &mut idle {
        alive += usize::from(socket.ask(&get).is_ok_and(|answer| answer.status() == 200));
    }
    drop(idle);
    let mut after = server.descriptors()?;
    for _ in 0..50 {
        if after <= before {
            break;
        }
        sleep(Duration::from_millis(100)).await;
        after = server.descriptors()?;
    }
    let (verdict, is_met) = judge(&all, late, alive, before, after);
    Ok((format!("{}\n{verdict}", report.render()), is_met))
}

/// Creates the data to read, and returns the page that never changes.
async fn fill(requests: &Requests) -> io::Result<Vec<u8>> {
    for (service, request) in requests.setup() {
        Connection::open(requests.host(service)).await?.exchange(&request, None).await?;
    }
    let mut connection = Connection::open(requests.host(Service::Table)).await?;
    for from in (0..PAGE).step_by(100) {
        connection.exchange(&requests.inserts(STILL, "p", from..from + 100), None).await?;
    }
    let mut page = Vec::new();
    connection.exchange(&requests.page(), Some(&mut page)).await?;
    if count(&page, "\"RowKey\"") == PAGE {
        return Ok(page);
    }
    Err(io::Error::other("the page is not whole"))
}

/// Waits for a minute, and looks at the server's memory all the time.
async fn minute(server: &Server, tally: &Tally, probe: &Probe) -> io::Result<Minute> {
    let end = Instant::now() + Duration::from_secs(60);
    let mut memory = Vec::new();
    while Instant::now() < end {
        sleep_until((Instant::now() + Duration::from_millis(250)).min(end).into()).await;
        memory.push(server.memory()?);
    }
    let counts = tally.take();
    let (probed, failed) = probe.take();
    let mean = memory.iter().sum::<u64>() / memory.len().max(1) as u64;
    Ok(Minute {
        latencies: counts.latencies,
        probe: probed,
        odd: counts.odd,
        errors: counts.errors + failed,
        memory: (mean, memory.iter().copied().max().unwrap_or_default()),
        descriptors: server.descriptors()?,
    })
}

impl Minute {
    fn line(&self, number: usize) -> Vec<String> {
        let of = |latencies: &Latencies| {
            [latencies.percentile(50), latencies.percentile(99), latencies.longest()].map(figure)
        };
        let mut line = vec![
            number.to_string(),
            (self.latencies.count() / 60).to_string(),
            (self.odd / 60).to_string(),
            self.errors.to_string(),
        ];
        line.extend(of(&self.latencies));
        line.extend(of(&self.probe));
        line.extend([self.memory.0, self.memory.1].map(|bytes| figure(mib(bytes))));
        line.push(self.descriptors.to_string());
        line
    }
}

/// Compares with the goals.
fn judge(all: &[Minute], late: u64, alive: usize, before: usize, after: usize) -> (String, bool) {
    let (mut busy, mut probe) = (Latencies::default(), Latencies::default());
    for minute in all {
        busy.add(&minute.latencies);
        probe.add(&minute.probe);
    }
    let errors = all.iter().map(|minute| minute.errors).sum::<u64>() + late;
    let tail = |latencies: &Latencies| latencies.percentile(99) / latencies.percentile(50);
    let mean = |minute: Option<&Minute>| minute.map_or(0.0, |minute| mib(minute.memory.0));
    let growth = mean(all.last()) / mean(all.first());
    let goals = [
        ("errors", errors.to_string(), "0".to_owned(), errors == 0),
        ("p99 / median, busy", figure(tail(&busy)), format!("< {TAIL}"), tail(&busy) < TAIL),
        ("p99 / median, probe", figure(tail(&probe)), format!("< {TAIL}"), tail(&probe) < TAIL),
        (
            "memory, last minute / first",
            format!("{growth:.3}"),
            format!("<= {GROWTH}"),
            growth <= GROWTH,
        ),
        ("idle connections that answer", alive.to_string(), IDLE.to_string(), alive == IDLE),
        ("descriptors in the end", after.to_string(), format!("<= {before}"), after <= before),
    ];
    let mut table = Table::new(&["", "measured", "goal", ""]);
    for (what, measured, goal, is_met) in &goals {
        let verdict = if *is_met { "met" } else { "MISSED" };
        table.row(vec![(*what).to_owned(), measured.clone(), goal.clone(), verdict.to_owned()]);
    }
    (table.render(), goals.iter().all(|(.., is_met)| *is_met))
}

/// The light client on its own thread.
struct Probe {
    took: Receiver<Option<Duration>>,
    stopped: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Probe {
    fn start(host: &str, get: &[u8]) -> io::Result<Self> {
        let (sender, took) = mpsc::channel();
        let stopped = Arc::<AtomicBool>::default();
        let mut socket = Socket::open(host)?;
        let (get, is_over) = (get.to_vec(), Arc::clone(&stopped));
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(INTERVAL);
                let begin = Instant::now();
                let answer = socket.ask(&get).and_then(|answer| answer.expect(200));
                let is_right = answer.is_ok_and(|answer| answer.contains(b"\"0000007\""));
                if sender.send(is_right.then(|| begin.elapsed())).is_err() {
                    return;
                }
            }
        });
        Ok(Self { took, stopped, thread })
    }

    /// Latencies since the last time, and how many answers were wrong.
    fn take(&self) -> (Latencies, u64) {
        let (mut latencies, mut failed) = (Latencies::default(), 0);
        for took in self.took.try_iter() {
            match took {
                Some(took) => latencies.push(took),
                None => failed += 1,
            }
        }
        (latencies, failed)
    }

    fn stop(self) -> io::Result<()> {
        self.stopped.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| io::Error::other("the probe panicked"))
    }
}
