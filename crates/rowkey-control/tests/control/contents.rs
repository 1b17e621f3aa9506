//! Snapshots, forks, resets, and all contents as one file.

use rowkey_control::{Options, Plane};
use rowkey_emulator::{Server, Service, StoredTable};
use serde_json::json;

use crate::support::Client;
use crate::{Control, send};

const ROW: &str = r#"{"PartitionKey":"a","RowKey":"1","At@odata.type":"Edm.DateTime","At":"2026-01-01T00:00:00.1234567Z"}"#;

/// Puts something into each service.
fn fill(control: &Control) {
    let mut tables = control.client(Service::Table);
    tables.create("orders");
    assert_eq!(tables.send("POST", "/orders", &[], ROW).status, 201);
    let mut queues = control.client(Service::Queue);
    assert_eq!(queues.send("PUT", "/work", &[("x-ms-meta-a", "b")], "").status, 201);
    let text = "<QueueMessage><MessageText>a</MessageText></QueueMessage>";
    assert_eq!(queues.send("POST", "/work/messages", &[], text).status, 201);
    let mut blobs = control.client(Service::Blob);
    assert_eq!(blobs.send("PUT", "/files?restype=container", &[], "").status, 201);
    let block = [("x-ms-blob-type", "BlockBlob")];
    assert_eq!(blobs.send("PUT", "/files/b", &block, "content").status, 201);
    assert_eq!(blobs.send("PUT", "/files/empty", &block, "").status, 201);
}

/// The numbers of entities, messages and blobs.
fn count(server: &Server) -> (usize, usize, usize) {
    let stored = server.snapshot();
    (
        stored.table("orders").map_or(0, StoredTable::len),
        stored.queue("work").map_or(0, |queue| queue.messages().count()),
        stored.blobs("files").count(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_restored() {
    let control = Control::start().await;
    fill(&control);
    let taken = control.done("POST", "/v1/snapshots", "").json();
    assert_eq!(taken["id"], 1);
    let mut tables = control.client(Service::Table);
    assert_eq!(tables.send("DELETE", "/Tables('orders')", &[], "").status, 204);
    assert_eq!(count(control.plane.server()).0, 0);
    control.done("POST", "/v1/snapshots/1/restore", "");
    assert_eq!(count(control.plane.server()), (1, 1, 2));
    assert_eq!(control.get("/v1/snapshots").json()["snapshots"][0]["id"], 1);
    control.done("DELETE", "/v1/snapshots/1", "");
    for (method, path) in [("POST", "/v1/snapshots/1/restore"), ("DELETE", "/v1/snapshots/1")] {
        assert_eq!(control.send(method, path, "").status, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_another_server_with_the_same_contents() {
    let control = Control::start().await;
    fill(&control);
    let fork = control.done("POST", "/v1/forks", "").json();
    let (table, plane) = (fork["table"].as_str().unwrap(), fork["control"].as_str().unwrap());
    let mut there = Client::at(Service::Table, table, control.plane.server().clock()).unwrap();
    let found = there.send("GET", "/orders(PartitionKey='a',RowKey='1')", &[], "");
    assert!(found.status == 200 && found.body.contains("00.1234567Z"), "{found:?}");
    assert_eq!(there.send("DELETE", "/Tables('orders')", &[], "").status, 204);
    assert_eq!(count(control.plane.server()), (1, 1, 2), "the two are independent");
    assert_eq!(send(plane, "GET", "/v1/journal", &[], b"").json()["received"], 2);
    assert_eq!(control.get("/v1/forks").json()["forks"][0]["control"], plane);
    control.done("DELETE", "/v1/forks/1", "");
    assert_eq!(control.get("/v1/forks").json(), json!({"forks": []}));
    let table = table.split('/').nth(2).unwrap();
    assert!(std::net::TcpStream::connect(table).is_err());
    assert_eq!(control.send("DELETE", "/v1/forks/1", "").status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_ends_although_a_request_waits_and_by_its_own_control_plane() {
    let control = Control::start().await;
    let start = || {
        let fork = control.done("POST", "/v1/forks", "").json();
        let of = |name: &str| fork[name].as_str().unwrap().to_owned();
        (of("table").split('/').nth(2).unwrap().to_owned(), of("control"))
    };
    let (table, plane) = start();
    send(&plane, "POST", "/v1/faults", &[], br#"{"action":"hold"}"#);
    let waiting = {
        let plane = plane.clone();
        std::thread::spawn(move || send(&plane, "GET", "/v1/faults/1/wait?hits=1", &[], b"").status)
    };
    // A request whose body does not arrive.
    let mut half = std::net::TcpStream::connect(plane.strip_prefix("http://").unwrap()).unwrap();
    let head = b"POST /v1/reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n";
    std::io::Write::write_all(&mut half, head).unwrap();
    control.done("DELETE", "/v1/forks/1", "");
    assert!(std::net::TcpStream::connect(table).is_err());
    // It ended before it waited, or while it did.
    let _ = waiting.join();

    let (table, plane) = start();
    assert_eq!(send(&plane, "POST", "/v1/shutdown", &[], b"").status, 202);
    while control.get("/v1/forks").json() != json!({"forks": []}) {
        tokio::task::yield_now().await;
    }
    while std::net::TcpStream::connect(&table).is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_of_one_service_loses_no_write_to_another() {
    let control = Control::start().await;
    control.client(Service::Table).create("orders");
    let mut tables = control.client(Service::Table);
    let writing = std::thread::spawn(move || {
        for row in 0..500 {
            let row = format!(r#"{{"PartitionKey":"a","RowKey":"{row}"}}"#);
            assert_eq!(tables.send("POST", "/orders", &[], &row).status, 201);
        }
    });
    while !writing.is_finished() {
        control.done("POST", "/v1/reset", r#"{"service":"queue"}"#);
    }
    writing.join().unwrap();
    assert_eq!(count(control.plane.server()).0, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_find_the_old_contents_or_the_new_ones_of_a_state() {
    let control = Control::start().await;
    fill(&control);
    let file = control.done("GET", "/v1/state", "").body;
    let mut tables = control.client(Service::Table);
    let reading = std::thread::spawn(move || {
        for _ in 0..500 {
            let found = tables.send("GET", "/orders(PartitionKey='a',RowKey='1')", &[], "");
            assert_eq!(found.status, 200, "{found:?}");
        }
    });
    while !reading.is_finished() {
        assert_eq!(control.send_with("PUT", "/v1/state", &[], &file).status, 204);
    }
    reading.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_deletes_all_or_one_service() {
    let control = Control::start().await;
    fill(&control);
    control.done("POST", "/v1/faults", r#"{"action":"closeBeforeCommit","operation":"GetBlob"}"#);
    control.done("POST", "/v1/reset", r#"{"service":"queue"}"#);
    assert_eq!(count(control.plane.server()), (1, 0, 2));
    control.done("POST", "/v1/reset", r#"{"account":"devstoreaccount1","service":"table"}"#);
    assert_eq!(count(control.plane.server()), (0, 0, 2));
    assert_eq!(control.get("/v1/faults").json()["faults"].as_array().unwrap().len(), 1);
    assert_eq!(control.post("/v1/reset", r#"{"account":"other"}"#).status, 404);
    assert_eq!(control.post("/v1/reset", r#"{"services":"queue"}"#).status, 400);
    control.done("POST", "/v1/reset", "");
    assert_eq!(count(control.plane.server()), (0, 0, 0));
    assert_eq!(control.get("/v1/faults").json(), json!({"faults": []}));
    assert_eq!(control.get("/v1/journal").json()["entries"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_is_put_in_whole_or_not_at_all() {
    let control = Control::start().await;
    let seed =
        r#"{"tables":{"orders":[{"PartitionKey":"a","RowKey":"1"}]},"queues":{"work":["a","b"]}}"#;
    let seeded = control.done("POST", "/v1/seed", seed).json();
    let expected = json!({
        "tables": 1, "entities": 1, "queues": 1, "messages": 2, "containers": 0, "blobs": 0,
    });
    assert_eq!(seeded, expected);
    for (wrong, why) in [
        (r#"{"tables":{"lines":[]},"queues":{"work":[1.5]}}"#, "queues.work"),
        (r#"{"containers":{"files":{"a":{"file":"/etc/hostname"}}}}"#, "file"),
        ("", "EOF"),
    ] {
        let refused = control.post("/v1/seed", wrong);
        assert_eq!((refused.status, refused.detail().contains(why)), (400, true), "{refused:?}");
    }
    assert!(control.plane.server().snapshot().table("lines").is_none());
    assert_eq!(count(control.plane.server()), (1, 2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_contents_go_through_one_file_into_another_server() {
    let control = Control::start().await;
    fill(&control);
    let file = control.done("GET", "/v1/state", "").body;
    let other = Control::start().await;
    other.client(Service::Table).create("gone");
    let put = |file: &[u8]| other.send_with("PUT", "/v1/state", &[], file);
    for (wrong, status) in [(&file[..file.len() - 1], 400), (b"x", 400), (b"", 400)] {
        assert_eq!(put(wrong).status, status);
    }
    let mut damaged = file.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    assert!(put(&damaged).detail().contains("damaged"));
    assert!(other.plane.server().snapshot().table("gone").is_some(), "nothing was changed");
    assert_eq!(put(&file).status, 204);
    assert_eq!(count(other.plane.server()), (1, 1, 2));
    assert!(other.plane.server().snapshot().table("gone").is_none());
    let mut tables = other.client(Service::Table);
    let found = tables.send("GET", "/orders(PartitionKey='a',RowKey='1')", &[], "");
    assert!(found.body.contains("00.1234567Z"), "{found:?}");
    let read = other.client(Service::Blob).send("GET", "/files/b", &[], "");
    assert_eq!(read.body, "content");
    assert_eq!(other.done("GET", "/v1/state", "").body.len(), file.len());

    let server = Server::builder().account("shop", ["a2V5"]).start().await.unwrap();
    let shop = Control { plane: Plane::start(server, Options::default()).await.unwrap() };
    let refused = shop.send_with("PUT", "/v1/state", &[], &file);
    assert_eq!(refused.status, 409);
    assert!(refused.detail().contains("devstoreaccount1"), "{refused:?}");
    let shown = shop.get("/v1/server").json()["connectionString"].as_str().unwrap().to_owned();
    assert!(shown.contains("AccountName=shop") && !shown.contains("a2V5"), "{shown}");
}
