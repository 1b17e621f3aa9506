//! Clients that keep connections and do nothing, that take their time, that close one half of a
//! connection or leave in the middle of an answer: everybody is answered all the same, and in the
//! end nothing is left of them.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::num::NonZeroUsize;
use std::thread;

use rowkey_emulator::{Server, Service};

use crate::corpus::Request;
use crate::exchange::{Access, Answer, Connection, Signer};
use crate::requests::whole;

/// Connections that are kept, and those that are used meanwhile.
const IDLE: usize = 1_000;
const ACTIVE: usize = 16;
/// Of a server that has more than one.
const THREADS: NonZeroUsize = NonZeroUsize::new(3).unwrap();
/// Entities of the table that is read: more than a step of a scan, and than a page.
const ENTITIES: usize = 5_000;
/// Bytes of an entity's text: a page of them is longer than what sockets hold.
const TEXT: usize = 4_096;

/// A server with a large table, and requests for it.
struct Bench {
    server: Server,
    signer: Signer,
}

impl Bench {
    async fn start() -> Self {
        Self::with_threads(NonZeroUsize::MIN).await
    }

    async fn with_threads(threads: NonZeroUsize) -> Self {
        // As a program it keeps no journal, and takes no client for gone that may still listen.
        let server = Server::builder().journal(false).threads(threads).start().await.unwrap();
        let signer = Signer::new(&server);
        Self { server, signer }
    }

    async fn with_entities() -> Self {
        let bench = Self::start().await;
        bench.ask("POST", "/Tables", "{\"TableName\":\"large\"}");
        let text = "t".repeat(TEXT);
        let mut connection = bench.connection();
        for number in 0..ENTITIES {
            let body = format!(
                "{{\"PartitionKey\":\"p\",\"RowKey\":\"{number:06}\",\"Number\":{number},\
                 \"Text\":\"{text}\"}}"
            );
            let answer = connection.send(&bench.request("POST", "/large", &body)).unwrap();
            assert_eq!(answer.status, 201);
        }
        bench
    }

    fn connection(&self) -> Connection {
        Connection::to(&self.server, Service::Table)
    }

    fn request(&self, method: &str, target: &str, body: &str) -> Vec<u8> {
        let request = Request::new(Service::Table, method, target, body);
        whole(&self.signer, &request, Access::Key, false)
    }

    /// Over a connection of its own.
    fn ask(&self, method: &str, target: &str, body: &str) -> Answer {
        let answer = self.connection().send(&self.request(method, target, body)).unwrap();
        assert!(matches!(answer.status, 200..300), "{target}: {}", answer.body.escape_ascii());
        answer
    }

    /// A query that looks at more than one step's entities and finds the last.
    fn scan(&self) -> Vec<u8> {
        self.request("GET", &format!("/large()?$filter=Number%20eq%20{}", ENTITIES - 1), "")
    }

    /// A query for a page that no socket holds.
    fn page(&self) -> Vec<u8> {
        self.request("GET", "/large()", "")
    }

    /// Waits until no client is connected any more. A server that never forgets a connection makes
    /// this fail rather than hang.
    fn forgets_all_connections(&self) {
        for _ in 0..100_000 {
            match self.server.connections() {
                0 => return,
                _ => thread::yield_now(),
            }
            // Each of these gives the server a turn.
            if self.server.connections() > 0 {
                self.ask("GET", "/Tables", "");
            }
        }
        panic!("{} connections are left", self.server.connections());
    }
}

fn is_page(answer: &Answer) -> bool {
    let rows = answer.body.windows(8).filter(|window| window == b"\"RowKey\"").count();
    answer.status == 200 && rows == 1_000 && answer.body.len() > 1_000 * TEXT
}

#[tokio::test]
async fn a_thousand_idle_connections_are_kept_while_others_work() {
    allow_descriptors();
    for threads in [NonZeroUsize::MIN, THREADS] {
        idle_and_active(&Bench::with_threads(threads).await);
    }
}

fn idle_and_active(bench: &Bench) {
    bench.ask("POST", "/Tables", "{\"TableName\":\"busy\"}");
    let read = bench.request("GET", "/Tables", "");
    let mut idle: Vec<Connection> = (0..IDLE).map(|_| bench.connection()).collect();
    for connection in &mut idle {
        assert_eq!(connection.send(&read).unwrap().status, 200);
    }
    assert_eq!(bench.server.connections(), IDLE);
    thread::scope(|scope| {
        for worker in 0..ACTIVE {
            scope.spawn(move || {
                let mut connection = bench.connection();
                for number in 0..50 {
                    let body =
                        format!("{{\"PartitionKey\":\"p{worker}\",\"RowKey\":\"{number}\"}}");
                    let insert = bench.request("POST", "/busy", &body);
                    assert_eq!(connection.send(&insert).unwrap().status, 201);
                    let target = format!("/busy(PartitionKey='p{worker}',RowKey='{number}')");
                    let get = bench.request("GET", &target, "");
                    assert_eq!(connection.send(&get).unwrap().status, 200);
                }
            });
        }
    });
    for connection in &mut idle {
        assert!(connection.is_open(), "a connection that was kept was closed");
        assert_eq!(connection.send(&read).unwrap().status, 200);
    }
    drop(idle);
    bench.forgets_all_connections();
}

#[tokio::test]
async fn a_client_that_has_closed_its_half_is_answered() {
    let bench = Bench::with_entities().await;
    let get = bench.request("GET", "/large(PartitionKey='p',RowKey='000007')", "");
    // At once, after several steps, and with more than a socket takes at a time.
    for (request, is_right) in [
        (get, (|answer| answer.status == 200) as fn(&Answer) -> bool),
        (bench.scan(), |answer| answer.body.windows(8).any(|part| part == b"\"004999\"")),
        (bench.page(), is_page),
    ] {
        let mut connection = bench.connection();
        let stream = connection.stream().unwrap();
        stream.write_all(&request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let answer = connection.receive().unwrap();
        assert!(is_right(&answer), "{}: {} bytes", answer.status, answer.body.len());
        let mut more = Vec::new();
        connection.stream().unwrap().read_to_end(&mut more).unwrap();
        assert_eq!(more, b"", "the server ends its half when it has answered");
    }
    bench.forgets_all_connections();
}

#[tokio::test]
async fn slow_readers_do_not_delay_other_clients() {
    let bench = Bench::with_entities().await;
    let mut slow: Vec<Connection> = (0..12).map(|_| bench.connection()).collect();
    for connection in &mut slow {
        connection.stream().unwrap().write_all(&bench.page()).unwrap();
        // The answer has begun, and does not fit.
        connection.stream().unwrap().read_exact(&mut [0; 9]).unwrap();
    }
    for number in 0..200 {
        bench.ask("GET", &format!("/large(PartitionKey='p',RowKey='{number:06}')"), "");
    }
    for connection in &mut slow[..4] {
        let mut answer = Vec::new();
        let stream = connection.stream().unwrap();
        let mut buffer = [0; 700];
        while answer.len() < 1_000 * TEXT {
            let read = stream.read(&mut buffer).unwrap();
            assert_ne!(read, 0, "the answer breaks off");
            answer.extend_from_slice(&buffer[..read]);
        }
    }
    // The others leave in the middle.
    drop(slow);
    bench.forgets_all_connections();
}

#[tokio::test]
async fn slow_writers_are_answered_and_stalled_ones_are_dropped() {
    let bench = Bench::start().await;
    bench.ask("POST", "/Tables", "{\"TableName\":\"slowly\"}");
    let insert = |row: &str| {
        bench.request(
            "POST",
            "/slowly",
            &format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}"),
        )
    };
    let mut slow: Vec<(Connection, Vec<u8>)> =
        (0..8).map(|row| (bench.connection(), insert(&row.to_string()))).collect();
    // Each stops somewhere: in the first line, in the head, in the body.
    let mut stopped: Vec<Connection> = Vec::new();
    for share in 0..8 {
        let request = insert("never");
        let mut connection = bench.connection();
        let length = request.len() * share / 8;
        connection.stream().unwrap().write_all(&request[..length]).unwrap();
        stopped.push(connection);
    }
    let longest = slow.iter().map(|(_, request)| request.len()).max().unwrap();
    for at in 0..longest {
        for (connection, request) in &mut slow {
            if let Some(byte) = request.get(at..=at) {
                connection.stream().unwrap().write_all(byte).unwrap();
            }
        }
    }
    for (connection, _) in &mut slow {
        assert_eq!(connection.receive().unwrap().status, 201);
    }
    drop((slow, stopped));
    bench.forgets_all_connections();
    let rows = bench.ask("GET", "/slowly()", "").body;
    assert_eq!(rows.windows(8).filter(|window| window == b"\"RowKey\"").count(), 8);
}

#[tokio::test]
async fn short_lived_connections_leak_nothing() {
    let bench = Bench::with_entities().await;
    let (get, page, scan) = (bench.request("GET", "/Tables", ""), bench.page(), bench.scan());
    for round in 0..300 {
        let mut connection = bench.connection();
        let request = [&get, &page, &scan][round % 3];
        let stream = connection.stream().unwrap();
        match round % 4 {
            // Nothing is said at all.
            0 => {}
            1 => stream.write_all(&request[..request.len() / 2]).unwrap(),
            // The answer is not waited for.
            2 => stream.write_all(request).unwrap(),
            _ => {
                stream.write_all(request).unwrap();
                stream.read_exact(&mut [0; 100]).unwrap();
            }
        }
    }
    bench.forgets_all_connections();
    assert!(is_page(&bench.connection().send(&page).unwrap()));
}

/// Both ends of a thousand connections are in this process.
fn allow_descriptors() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
