//! Damaged requests are answered, and change nothing that they are not for.

use std::collections::BTreeMap;
use std::panic;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rowkey_emulator::{Server, Service};
use rowkey_tests::sweep::is_brief;

use crate::corpus::{self, NAME, Request};
use crate::exchange::{self, Access, Answer, Connection, Signer};
use crate::mutate::{self, Random};
use crate::{seed, setting};

/// The data is restored after this number of requests, so that later requests find it.
const ROUND: u64 = 16;
/// How many KiB the process may grow, once it has served a tenth of the requests.
const MAX_GROWTH: u64 = 48 * 1024;
/// What nothing but reading is ever sent to.
const UNTOUCHED: &str = "untouched";

/// Panics on threads of servers. They become answers with 500, but one may be lost with its
/// connection.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// A server that holds something, and connections to it.
struct Bench {
    server: Server,
    signer: Signer,
    connections: Vec<(Service, Connection)>,
}

impl Bench {
    fn start(server: Server) -> Self {
        let signer = Signer::new(&server);
        let services = [Service::Blob, Service::Queue, Service::Table];
        let connections = services.map(|service| (service, Connection::to(&server, service)));
        Self { server, signer, connections: connections.into() }
    }

    fn connection(&mut self, service: Service) -> &mut Connection {
        let found = self.connections.iter_mut().find(|(known, _)| *known == service);
        &mut found.unwrap().1
    }

    /// Sends a request that is as it should be.
    fn send(&mut self, request: &Request) -> Answer {
        let bytes = whole(&self.signer, request, Access::Key, false);
        self.connection(request.service).send(&bytes).unwrap()
    }

    /// Creates the resources of the recorded requests, and resources that no request uses.
    fn fill(&mut self) {
        let blob = |name: &str, kind| {
            Request::new(Service::Blob, "PUT", name, "").with("x-ms-blob-type", kind)
        };
        let mut requests = Vec::new();
        for name in [NAME, UNTOUCHED] {
            let table = format!("{{\"TableName\":\"{name}\"}}");
            let entity = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"Count\":1}";
            let message = "<QueueMessage><MessageText>text</MessageText></QueueMessage>";
            requests.extend([
                Request::new(Service::Table, "POST", "/Tables", &table),
                Request::new(Service::Table, "POST", &format!("/{name}"), entity),
                Request::new(Service::Queue, "PUT", &format!("/{name}"), ""),
                Request::new(Service::Queue, "POST", &format!("/{name}/messages"), message),
                Request::new(Service::Blob, "PUT", &format!("/{name}?restype=container"), ""),
                blob(&format!("/{name}/append"), "AppendBlob"),
                Request {
                    body: b"content".to_vec(),
                    ..blob(&format!("/{name}/block"), "BlockBlob")
                },
            ]);
        }
        for request in requests {
            let answer = self.send(&request);
            let target = request.target.escape_ascii();
            assert_eq!(answer.status, 201, "{target}: {}", answer.body.escape_ascii());
        }
    }

    /// The contents of the resources that no request uses: they must not change.
    fn untouched(&mut self) -> Vec<(u16, Option<String>, Vec<u8>)> {
        let targets = [
            (Service::Table, format!("/{UNTOUCHED}()")),
            (Service::Queue, format!("/{UNTOUCHED}/messages?peekonly=true")),
            (Service::Blob, format!("/{UNTOUCHED}/block")),
            (Service::Blob, format!("/{UNTOUCHED}?restype=container&comp=list")),
        ];
        let targets = targets.map(|(service, target)| Request::new(service, "GET", &target, ""));
        targets
            .iter()
            .map(|request| {
                let mut answer = self.send(request);
                (answer.status, answer.headers.remove("etag"), answer.body)
            })
            .collect()
    }
}

/// The environment variable of the process that sends the requests.
const ALONE: &str = "ROWKEY_DAMAGED_REQUESTS";

/// Runs in a process of its own, because panics and memory of other tests would be counted.
#[tokio::test]
async fn damaged_requests_are_answered_and_change_nothing_else() {
    if std::env::var_os(ALONE).is_some() {
        return send_damaged_requests().await;
    }
    let test = "requests::damaged_requests_are_answered_and_change_nothing_else";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the test did not run");
}

async fn send_damaged_requests() {
    count_panics();
    let times = setting("ROWKEY_MUTATIONS", if is_brief() { 1_000 } else { 5_000 });
    let mut random = Random(seed());
    let own = corpus::own();
    let recorded = corpus::recorded();
    let mut bench = Bench::start(Server::builder().journal(false).start().await.unwrap());
    bench.fill();
    replay(&mut bench, &own);
    let snapshot = bench.server.snapshot();
    let untouched = bench.untouched();
    assert!(untouched.iter().all(|(status, ..)| *status == 200), "{untouched:?}");

    let mut faults = Vec::new();
    let mut statuses = BTreeMap::<u16, u64>::new();
    let mut settled = None;
    for number in 0..times {
        let requests = if recorded.is_empty() || random.one_in(2) { &own } else { &recorded };
        let mut request = requests[random.below(requests.len())].clone();
        for _ in 0..=random.below(3) {
            mutate::request(&mut random, &mut request, requests);
        }
        let access = match random.below(20) {
            0 => Access::None,
            1..=3 => Access::Sas,
            _ => Access::Key,
        };
        let fault = if !exchange::is_whole(&request) || random.one_in(8) {
            let bytes = broken(&mut random, &bench.signer, &request, access);
            let answers = bench.connection(request.service).send_broken(&bytes);
            (match answers {
                Ok(answers) => check_broken(&answers).err(),
                Err(error) => Some(format!("no end: {error}")),
            })
            .map(|fault| (fault, bytes))
        } else {
            let chunked = !request.body.is_empty() && random.one_in(20);
            let bytes = whole(&bench.signer, &request, access, chunked);
            (match bench.connection(request.service).send(&bytes) {
                Ok(answer) => {
                    *statuses.entry(answer.status).or_default() += 1;
                    check(&answer).err()
                }
                Err(error) => Some(format!("no answer: {error}")),
            })
            .map(|fault| (fault, bytes))
        };
        if let Some((fault, bytes)) = fault {
            let shown = &bytes[..bytes.len().min(4_000)];
            faults.push(format!("{number} ({:?}): {fault}\n{}", request.service, show(shown)));
        }
        if number % ROUND == ROUND - 1 {
            assert_eq!(bench.untouched(), untouched, "after request {number}");
            bench.server.restore(&snapshot);
        }
        if number == times / 10 {
            settled = resident();
        }
        if faults.len() == 20 {
            break;
        }
    }
    let (count, seed) = (faults.len(), seed());
    assert!(count == 0, "{count} faults with ROWKEY_SEED={seed}:\n{}", faults.join("\n\n"));
    let panics = PANICS.load(Ordering::Relaxed);
    assert_eq!(panics, 0, "the server panicked with ROWKEY_SEED={seed}");
    // Otherwise the requests would all end at the same gate.
    let count =
        |first: u16| statuses.range(first * 100..(first + 1) * 100).map(|(_, n)| n).sum::<u64>();
    assert!(count(2) > times / 10 && count(4) > times / 10, "answers by status: {statuses:?}");
    assert!(statuses.get(&403).is_none_or(|n| *n < times / 8), "answers by status: {statuses:?}");
    if let (Some(before), Some(after)) = (settled, resident()) {
        let (before, after) = (before >> 10, after >> 10);
        let report = format!("{before} KiB after a tenth, {after} KiB at the end");
        eprintln!("{times} requests, answers by status {statuses:?}, {report}");
        assert!(after.saturating_sub(before) <= MAX_GROWTH, "memory grew: {report}");
    }
}

/// Sends the requests as they were recorded, but those that take something away.
fn replay(bench: &mut Bench, requests: &[Request]) {
    let mut done = 0;
    let mut sent = 0;
    for request in requests {
        let is_lease = request.target.windows(10).any(|part| part == b"comp=lease");
        if request.method == "DELETE" || is_lease {
            continue;
        }
        let answer = bench.send(request);
        let body = answer.body.escape_ascii();
        let target = request.target.escape_ascii();
        assert!(!matches!(answer.status, 403 | 500), "{} {target}: {body}", request.method);
        sent += 1;
        done += usize::from(answer.status < 300);
    }
    assert!(done * 2 > sent, "{done} of {sent} recorded requests succeed");
}

/// The bytes of a request that is framed as HTTP wants it.
pub(crate) fn whole(signer: &Signer, request: &Request, access: Access, chunked: bool) -> Vec<u8> {
    let mut bytes = signer.head(request, access);
    if chunked {
        bytes.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        for piece in request.body.chunks(1 + request.body.len() / 3) {
            bytes.extend_from_slice(format!("{:x};a=b\r\n", piece.len()).as_bytes());
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
    } else {
        bytes.extend_from_slice(
            format!("content-length: {}\r\n\r\n", request.body.len()).as_bytes(),
        );
        bytes.extend_from_slice(&request.body);
    }
    bytes
}

/// The bytes of a request with wrong or damaged framing.
fn broken(random: &mut Random, signer: &Signer, request: &Request, access: Access) -> Vec<u8> {
    let mut head = signer.head(request, access);
    let length = request.body.len();
    let add = |head: &mut Vec<u8>, text: String| head.extend_from_slice(text.as_bytes());
    match random.below(12) {
        0 => add(&mut head, format!("content-length: {}\r\n", length + 1 + random.below(1 << 30))),
        1 => add(&mut head, format!("content-length: {}\r\n", length / 2)),
        2 => {
            let lies =
                ["-1", "18446744073709551616", "9223372036854775807", "x", "1, 2", "0x10", ""];
            add(&mut head, format!("content-length: {}\r\n", random.pick(&lies)));
        }
        3 => add(&mut head, format!("content-length: {length}\r\ncontent-length: 3\r\n")),
        4 => {
            let framing =
                ["gzip, chunked", "chunked, gzip", "identity", "chunked\r\ncontent-length: 5"];
            add(&mut head, format!("transfer-encoding: {}\r\n", random.pick(&framing)));
        }
        5 | 6 => {
            let long = "f".repeat(random.below(40));
            let extension = ";".repeat(20_000);
            let sizes = ["-1", "zz", "", "ffffffffffffffff", "7fffffffffffffff", "5", "5 ", &long];
            let size = random.pick(&sizes);
            let extension = if random.one_in(4) { &extension } else { "" };
            let end = random.pick(&["\r\n", "\n", "", "\r"]);
            add(&mut head, format!("transfer-encoding: chunked\r\n\r\n{size}{extension}{end}"));
            head.extend_from_slice(&request.body);
            add(&mut head, random.pick(&["\r\n0\r\n\r\n", "0\r\nA: b\r\n\r\n", ""]).to_owned());
            return head;
        }
        7 => {
            for number in 0..random.below(400) {
                add(&mut head, format!("x-ms-meta-m{number}: v\r\n"));
            }
        }
        8 => add(&mut head, format!("x-ms-meta-long: {}\r\n", "v".repeat(random.below(800_000)))),
        9 => {
            // The head as such is damaged.
            for _ in 0..=random.below(4) {
                mutate::bytes(random, &mut head, &[]);
            }
        }
        10 => {
            head.truncate(random.below(head.len() + 1));
            return head;
        }
        // Two at once, the second of which is cut off.
        _ => {
            let first = whole(signer, request, access, false);
            let end = random.below(first.len() + 1);
            return [&first, &first[..end]].concat();
        }
    }
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(&request.body);
    head
}

/// Whether the answer is one, and no confession.
fn check(answer: &Answer) -> Result<(), String> {
    match answer.status {
        500 | 0..=199 | 600.. => {
            Err(format!("answered with {}: {}", answer.status, answer.body.escape_ascii()))
        }
        _ => Ok(()),
    }
}

/// The same for what comes before a connection is ended, which may be nothing.
fn check_broken(answers: &[u8]) -> Result<(), String> {
    if answers.is_empty() {
        return Ok(());
    }
    let beginning = answers.get(..12).unwrap_or(answers);
    // A damaged request may say that it is of version 1.0, and is answered in that version.
    let versions = ["HTTP/1.1 ", "HTTP/1.0 "];
    let status = versions.iter().find_map(|version| beginning.strip_prefix(version.as_bytes()));
    let status = status.and_then(|status| status.first());
    let is_confession = answers.windows(12).any(|part| {
        part.ends_with(b" 500") && versions.iter().any(|v| part.starts_with(v.as_bytes()))
    });
    if !matches!(status, Some(b'1'..=b'5')) || is_confession {
        return Err(format!("answered with {}", answers[..answers.len().min(600)].escape_ascii()));
    }
    Ok(())
}

/// The bytes as text, a line a line.
fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\r\\n", "\n")
}

fn count_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if thread::current().name() == Some("rowkey-server") {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        usual(info);
    }));
}

/// The memory of this process in bytes; `None` if the system does not report it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}
