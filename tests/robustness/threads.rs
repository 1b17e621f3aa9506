//! Many clients of a server that answers with several threads: what one request does is done once,
//! and is seen whole or not at all.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rowkey_emulator::{Server, Service};

use crate::corpus::Request;
use crate::exchange::{Access, Connection, Signer};
use crate::requests::whole;

const THREADS: NonZeroUsize = NonZeroUsize::new(3).unwrap();
const CLIENTS: usize = 8;
const ROUNDS: usize = 100;

/// A server with a table `shared`.
async fn start() -> (Server, Signer) {
    let server = Server::builder().journal(false).threads(THREADS).start().await.unwrap();
    let signer = Signer::new(&server);
    let create = Request::new(Service::Table, "POST", "/Tables", "{\"TableName\":\"shared\"}");
    let mut connection = Connection::to(&server, Service::Table);
    let create = whole(&signer, &create, Access::Key, false);
    assert_eq!(connection.send(&create).unwrap().status, 201);
    (server, signer)
}

fn request(signer: &Signer, method: &str, target: &str, body: &str) -> Vec<u8> {
    whole(signer, &Request::new(Service::Table, method, target, body), Access::Key, false)
}

/// A transaction that gives both rows of the partition the same number.
fn pair(signer: &Signer, number: usize) -> Vec<u8> {
    let part = |row: &str| {
        format!(
            "--c\r\nContent-Type: application/http\r\n\r\n\
             PUT /shared(PartitionKey='pair',RowKey='{row}') HTTP/1.1\r\n\
             Content-Type: application/json\r\n\r\n{{\"Number\":{number}}}\r\n"
        )
    };
    let body = format!(
        "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{}{}--c--\r\n--b--\r\n",
        part("a"),
        part("b")
    );
    let mut batch = Request::new(Service::Table, "POST", "/$batch", &body);
    batch.headers.retain(|(name, _)| name != "content-type");
    let batch = batch.with("content-type", "multipart/mixed; boundary=b");
    whole(signer, &batch, Access::Key, false)
}

#[tokio::test]
async fn one_of_several_concurrent_inserts_succeeds() {
    let (server, signer) = start().await;
    let inserted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = Connection::to(&server, Service::Table);
                for row in 0..ROUNDS {
                    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
                    let insert = request(&signer, "POST", "/shared", &body);
                    match connection.send(&insert).unwrap().status {
                        201 => inserted.fetch_add(1, Ordering::Relaxed),
                        status => {
                            assert_eq!(status, 409);
                            0
                        }
                    };
                }
            });
        }
    });
    assert_eq!(inserted.into_inner(), ROUNDS);
}

#[tokio::test]
async fn readers_never_see_a_partial_transaction() {
    let (server, signer) = start().await;
    let first = Connection::to(&server, Service::Table).send(&pair(&signer, 0)).unwrap();
    assert_eq!(first.status, 202);
    let read = request(&signer, "GET", "/shared()?$filter=PartitionKey%20eq%20'pair'", "");
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, signer, read) = (&server, &signer, &read);
            scope.spawn(move || {
                let mut connection = Connection::to(server, Service::Table);
                for round in 0..ROUNDS {
                    if client % 2 == 0 {
                        let answer =
                            connection.send(&pair(signer, client * ROUNDS + round)).unwrap();
                        let text = String::from_utf8(answer.body).unwrap();
                        assert_eq!(text.matches("HTTP/1.1 204").count(), 2, "{text}");
                        continue;
                    }
                    let answer = connection.send(read).unwrap();
                    let text = String::from_utf8(answer.body).unwrap();
                    let numbers: Vec<&str> = text
                        .split("\"Number\":")
                        .skip(1)
                        .filter_map(|rest| rest.split(['}', ',']).next())
                        .collect();
                    assert!(numbers.len() == 2 && numbers[0] == numbers[1], "{text}");
                }
            });
        }
    });
}
