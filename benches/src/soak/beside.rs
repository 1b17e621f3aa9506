//! Point gets among a million entities, alone and beside a client that reads all of them: how much
//! longer do they take?

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::socket::Socket;
use crate::load::{Load, Operation, percentile};
use crate::model::Reading;
use crate::process::{Server, Service};
use crate::report::{Goal, Rounds, Table, figure, judged};
use crate::requests::{PER_PARTITION, Writer};
use crate::servers::workloads::scattered;
use crate::servers::{micros, seed};

const ENTITIES: usize = 1_000_000;
/// Gets of a round over eight connections, as fast as they are answered.
const GETS: usize = 40_000;
const CONNECTIONS: usize = 8;
/// Gets of a round over one connection, at intervals.
const PACED: usize = 1_500;
const INTERVAL: Duration = Duration::from_millis(1);
/// How much longer gets may take beside a reader of everything.
const GOAL: Goal = Goal::AtMost(3.0);

/// Who else is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    None,
    /// Asks for one entity of all by a property that is no key.
    Query,
    /// Reads everything, a page of a thousand after the other.
    Pages,
}

const OTHERS: [Other; 3] = [Other::None, Other::Query, Other::Pages];

impl Other {
    fn name(self) -> &'static str {
        match self {
            Self::None => "alone",
            Self::Query => "beside a query over all",
            Self::Pages => "beside pages of 1,000",
        }
    }
}

/// The measurements of gets.
#[derive(Default)]
struct Measured {
    p50: Rounds,
    p99: Rounds,
    longest: Rounds,
}

/// Fills a server with a million entities and measures for `rounds` rounds.
pub async fn compare(rounds: usize) -> io::Result<String> {
    let server = Server::rowkey(&[])?;
    let host = server.host(Service::Table);
    let writer = Writer::new(host.to_owned());
    let mut load = Load::open(host, 4).await?;
    load.ask(&writer.create_table("many")).await?;
    eprintln!("beside: seeding {ENTITIES}");
    seed(&mut load, &writer, "many", ENTITIES, PER_PARTITION).await?;
    let mut load = Load::open(host, CONNECTIONS).await?;
    let gets: Vec<Vec<u8>> = (0..GETS)
        .map(|number| writer.get("many", scattered(number, ENTITIES), PER_PARTITION))
        .collect();
    let operations: Vec<Operation> = gets.iter().cloned().map(Operation::from).collect();

    let mut measured = <[[Measured; OTHERS.len()]; 2]>::default();
    let mut read = [0; OTHERS.len()];
    // The first round warms up.
    for round in 0..=rounds {
        eprintln!("beside: round {round}");
        for (at, other) in OTHERS.into_iter().enumerate() {
            let reader = Reader::start(other, &writer)?;
            let closed = load.run(&operations).await?;
            let paced = paced(host, &gets)?;
            let times = reader.stop()?;
            if round > 0 {
                read[at] += times;
                for (measured, mut took) in measured.iter_mut().zip([closed, paced]) {
                    let measured = &mut measured[at];
                    measured.p50.push(micros(percentile(&mut took, 50)));
                    measured.p99.push(micros(percentile(&mut took, 99)));
                    measured.longest.push(micros(percentile(&mut took, 100)));
                }
            }
        }
    }
    let mut table = Table::new(&[
        "point gets among 1,000,000",
        "p50 us",
        "p99 us",
        "longest us",
        "p99 / alone",
        "read meanwhile",
    ]);
    let ways = ["8 connections, closed loop", "1 connection, one a ms"];
    for (way, measured) in ways.into_iter().zip(&measured) {
        for ((other, this), read) in OTHERS.into_iter().zip(measured).zip(read) {
            let ratio = this.p99.over(&measured[0].p99);
            let goal = if other == Other::None { Goal::None } else { GOAL };
            table.row(vec![
                format!("{way}, {}", other.name()),
                figure(this.p50.median()),
                figure(this.p99.median()),
                figure(this.longest.median()),
                judged(&ratio, goal),
                match other {
                    Other::None => String::new(),
                    Other::Query => format!("{read} queries"),
                    Other::Pages => format!("{read} pages"),
                },
            ]);
        }
    }
    Ok(table.render())
}

/// One get after the other with time between them, as from a client that is not busy. On this
/// thread alone: nothing but the server is between a get and its answer.
fn paced(host: &str, gets: &[Vec<u8>]) -> io::Result<Vec<Duration>> {
    let mut socket = Socket::open(host)?;
    let mut took = Vec::with_capacity(PACED);
    for get in gets.iter().take(PACED) {
        thread::sleep(INTERVAL);
        let begin = Instant::now();
        socket.ask(get)?.expect(200)?;
        took.push(begin.elapsed());
    }
    Ok(took)
}

/// A client that reads everything over and over, on a thread of its own.
struct Reader {
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
    /// Queries that were answered, or pages.
    answers: Arc<AtomicUsize>,
}

impl Reader {
    fn start(other: Other, writer: &Writer) -> io::Result<Self> {
        let (stopped, answers) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut socket = Socket::open(&writer.host)?;
        let thread = thread::spawn({
            let (stopped, answers, writer) =
                (Arc::clone(&stopped), Arc::clone(&answers), writer.clone());
            move || {
                let one = Reading::numbered(ENTITIES / 7 * 5, PER_PARTITION).name;
                let query = writer.everything("many", Some(&format!("Name eq '{one}'")), None);
                let mut page = writer.everything("many", None, None);
                while !stopped.load(Ordering::Relaxed) {
                    match other {
                        Other::None => return Ok(()),
                        Other::Query => {
                            let answer = socket.ask(&query)?.expect(200)?;
                            // A page may end early, but only with a continuation token.
                            if answer.next().is_none() && !answer.contains(one.as_bytes()) {
                                return Err(io::Error::other("the query does not find its entity"));
                            }
                        }
                        Other::Pages => {
                            let answer = socket.ask(&page)?.expect(200)?;
                            page = writer.everything("many", None, answer.next());
                        }
                    }
                    answers.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        });
        Ok(Self { stopped, thread, answers })
    }

    /// Returns how many answers it got.
    fn stop(self) -> io::Result<usize> {
        // Long queries are to be seen to their end once, so that there is one in each round.
        self.stopped.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| io::Error::other("the reader panicked"))??;
        Ok(self.answers.load(Ordering::Relaxed))
    }
}
