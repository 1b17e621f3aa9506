//! A server that is stopped and opened again at random answers as one in memory that never was.
//!
//! Both get the same random requests by the same clock. After each opening everything that can be
//! asked for is compared, and in between every answer.

#![expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use rowkey_emulator::{Server, ServerClock, SyncPolicy};

use super::program::Directory;
use super::requests::{self, Known, MESSAGE, QUEUES, Request, SERVICES};
use super::worker::Random;
use crate::support::{Answer, Client};

/// How many seeds are tried of each kind, unless `ROWKEY_SEEDS` says so, or neither that nor `ROWKEY_SWEEP` is
/// set, as in CI.
const SEEDS: u64 = 100;
const FEW_SEEDS: u64 = 10;
/// How often a server is opened, and the most requests in between.
const LIVES: u32 = 3;
const REQUESTS: u32 = 40;

/// How a life of the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// As when the process is killed: the next one gets the directory as it is at that moment.
    Abandoned,
    Stopped,
}

#[tokio::test]
async fn a_server_stopped_at_any_point_resumes_with_all_data() {
    try_seeds(End::Stopped).await;
}

#[tokio::test]
async fn a_server_abandoned_at_any_point_resumes_with_all_data() {
    try_seeds(End::Abandoned).await;
}

async fn try_seeds(end: End) {
    let seeds = match std::env::var("ROWKEY_SEEDS") {
        Ok(seeds) => seeds.parse().unwrap(),
        Err(_) if std::env::var_os("ROWKEY_SWEEP").is_none() => FEW_SEEDS,
        Err(_) => SEEDS,
    };
    for seed in 0..seeds {
        println!("{end:?}, seed {seed}");
        try_seed(seed, end).await;
    }
}

async fn try_seed(seed: u64, end: End) {
    let clock = ServerClock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    // Neighbours begin alike otherwise.
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut directory = Directory::new();
    let mut kept = Side::new(open(&directory, &clock).await);
    let mut memory = Side::new(Server::builder().clock(clock.clone()).start().await.unwrap());
    let mut known = Known::default();
    for request in requests::preparation() {
        let answer = compare(&request, &mut kept, &mut memory);
        assert_eq!(answer.status, 201, "{request:?}: {answer:?}");
    }
    let mostly = SERVICES[random.below(3) as usize];
    for life in 0..LIVES {
        for _ in 0..random.below(REQUESTS) {
            let request = requests::any(&mut random, &known, mostly);
            let answer = compare(&request, &mut kept, &mut memory);
            if answer.status < 300 {
                known.learn(&request, |name| answer.headers.get(name));
            }
            known.messages = memory.messages.iter().map(|message| message.queue.clone()).collect();
            let seconds = match random.below(60) {
                0 => 8 * 86_400,
                number @ 1..10 => u64::from(number).pow(2),
                _ => continue,
            };
            pass(&clock, seconds, [&mut kept, &mut memory]);
        }
        println!("life {life} ends");
        if end == End::Abandoned {
            let left = directory.copy();
            drop(kept.server.take());
            directory = left;
        }
        drop(kept.server.take());
        kept.connect(open(&directory, &clock).await);
        // Rejected writes may have used ETags that no response contained, and that are free again.
        pass(&clock, 1, [&mut kept, &mut memory]);
        compare_all(&known, &mut kept, &mut memory);
    }
}

async fn open(directory: &Directory, clock: &ServerClock) -> Server {
    let builder = Server::builder().location(directory.path(), SyncPolicy::default());
    builder.clock(clock.clone()).start().await.unwrap()
}

/// Lets seconds pass on both sides.
fn pass(clock: &ServerClock, seconds: u64, sides: [&mut Side; 2]) {
    clock.advance(Duration::from_secs(seconds));
    for Side { server, clients, .. } in sides {
        for client in clients {
            client.set_date(server.as_ref().unwrap());
        }
    }
}

/// Sends a request to both sides, whose answers must not differ.
fn compare(request: &Request, kept: &mut Side, memory: &mut Side) -> Seen {
    let (answer, expected) = (kept.ask(request), memory.ask(request));
    assert!(answer == expected, "{request:?}\n{answer:?}\nin memory:\n{expected:?}");
    expected
}

/// Compares everything that can be asked for.
fn compare_all(known: &Known, kept: &mut Side, memory: &mut Side) {
    for request in requests::overview() {
        compare(&request, kept, memory);
    }
    for (list, parts) in requests::of_containers(known) {
        let list = compare(&list, kept, memory);
        // Entries missing from the list do not exist.
        let is_listed = |request: &Request| {
            let name = request.target.rsplit('/').next().unwrap();
            let (name, instant) = name.split_once('?').unwrap_or((name, ""));
            let instant = instant.strip_prefix("snapshot=").map(|text| text.replace("%3A", ":"));
            list.body.contains(&format!("<Name>{name}</Name>"))
                && instant.is_none_or(|instant| list.body.contains(&instant))
        };
        for request in parts.iter().filter(|request| is_listed(request)) {
            compare(request, kept, memory);
        }
    }
    assert_eq!(kept.hidden(), memory.hidden());
}

/// What does not differ in answers of two servers that hold the same.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    headers: BTreeMap<String, String>,
    spelled: Vec<String>,
    body: String,
}

/// A server, the operations on it, and the names that it generated.
struct Side {
    server: Option<Server>,
    /// In the order of [`SERVICES`].
    clients: Vec<Client>,
    /// Messages that were put or gotten, with their latest receipts.
    messages: Vec<Message>,
    /// Ids in the order of their appearance.
    ids: HashMap<String, usize>,
}

/// A message that was put or gotten.
struct Message {
    /// The target of its queue.
    queue: String,
    id: String,
    receipt: String,
}

impl Side {
    fn new(server: Server) -> Self {
        let mut side =
            Self { server: None, clients: Vec::new(), messages: Vec::new(), ids: HashMap::new() };
        side.connect(server);
        side
    }

    fn connect(&mut self, server: Server) {
        self.clients = SERVICES.map(|service| Client::to(&server, service)).into();
        self.server = Some(server);
    }

    fn ask(&mut self, request: &Request) -> Seen {
        let target = match self.messages.get(request.message) {
            Some(Message { id, receipt, .. }) => {
                request.target.replace(MESSAGE, &format!("{id}?popreceipt={receipt}"))
            }
            None => request.target.clone(),
        };
        let headers: Vec<_> =
            request.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let client = SERVICES.iter().position(|service| *service == request.service).unwrap();
        let answer = self.clients[client].send(request.method, &target, &headers, &request.body);
        self.note_messages(request, &answer);
        let Answer { status, mut headers, spelled, body } = answer;
        // Errors repeat it.
        let id = headers.remove("x-ms-request-id").unwrap();
        let body = body.replace(&id, "");
        let headers = headers.into_iter().map(|(name, value)| (name, self.unnamed(&value)));
        let headers = headers.collect();
        Seen { status, headers, spelled, body: self.unnamed(&body) }
    }

    fn note_messages(&mut self, request: &Request, answer: &Answer) {
        let escaped =
            |receipt: &str| receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        if let Some(receipt) = answer.header("x-ms-popreceipt") {
            self.messages[request.message].receipt = escaped(receipt);
        }
        for message in answer.body.split("<QueueMessage>").skip(1) {
            let field = |name: &str| {
                let (_, rest) = message.split_once(&format!("<{name}>"))?;
                rest.split_once('<').map(|(value, _)| value.to_owned())
            };
            if let (Some(id), Some(receipt)) = (field("MessageId"), field("PopReceipt")) {
                let (queue, _) = request.target.split_once("/messages").unwrap();
                let (queue, receipt) = (queue.to_owned(), escaped(&receipt));
                self.messages.push(Message { queue, id, receipt });
            }
        }
    }

    /// A text with a number in the place of each id.
    fn unnamed(&mut self, text: &str) -> String {
        const LENGTH: usize = 36;
        let is_id = |text: &str| {
            text.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
        };
        let mut out = String::new();
        let mut rest = text;
        while let Some(dash) = rest.find('-') {
            let id = dash.checked_sub(8).and_then(|at| rest.get(at..at + LENGTH));
            if let Some(id) = id.filter(|id| is_id(id)) {
                let next = self.ids.len();
                let number = *self.ids.entry(id.to_owned()).or_insert(next);
                out.push_str(&rest[..dash - 8]);
                write!(out, "id {number}").unwrap();
                rest = &rest[dash - 8 + LENGTH..];
            } else {
                out.push_str(&rest[..=dash]);
                rest = &rest[dash + 1..];
            }
        }
        out + rest
    }

    /// Messages that no request shows, because they are hidden: text, dequeue count, when visible.
    fn hidden(&self) -> Vec<(String, u32, i64)> {
        let snapshot = self.server.as_ref().unwrap().snapshot();
        let mut all = Vec::new();
        for queue in QUEUES.into_iter().filter_map(|name| snapshot.queue(name)) {
            all.extend(queue.messages().map(|message| {
                let visible = message.visible_at().ticks();
                (message.text().to_owned(), message.dequeue_count(), visible)
            }));
        }
        all
    }
}
