//! Everything that can be kept is the same after a restart.

use rowkey_emulator::{Seed, Server, ServerClock, Service, SyncPolicy};

use super::program::Directory;
use crate::support::Client;

/// Everything that a server says of its tables.
fn tables(server: &Server) -> Vec<String> {
    let snapshot = server.snapshot();
    let mut all = Vec::new();
    for table in snapshot.tables() {
        all.push(table.name().to_owned());
        for entity in table.entities() {
            let properties: Vec<_> = entity.properties().collect();
            let (partition_key, row_key) = (entity.partition_key(), entity.row_key());
            let timestamp = entity.timestamp();
            all.push(format!("{partition_key} {row_key} {timestamp} {properties:?}"));
        }
    }
    all
}

#[tokio::test]
async fn every_property_type_and_key_survives_a_restart() {
    let directory = Directory::new();
    let server = directory.serve().await;
    let mut client = Client::of(&server);
    client.create("Things");
    client.create("empty");
    let properties = r#","z":"größe \"q\"","a":true,"b@odata.type":"Edm.Binary","b":"AP8H",
        "c@odata.type":"Edm.DateTime","c":"2026-01-01T00:00:00.1234567Z",
        "d@odata.type":"Edm.Double","d":"NaN","e":0.1,"f@odata.type":"Edm.Guid",
        "f":"00000000-0000-0000-0000-00000000002a","g":-1,"h@odata.type":"Edm.Int64",
        "h":"-9223372036854775808","i":"""#;
    for keys in [("", ""), ("p", ""), ("", "r"), ("😀", "ﬀ"), ("p r", "p")] {
        assert_eq!(client.insert("things", keys, properties).status, 201);
    }
    assert_eq!(client.insert("things", ("p", "bare"), "").status, 201);
    let before = tables(&server);
    assert_eq!(before.len(), 8);
    drop(server);
    let server = directory.serve().await;
    assert_eq!(tables(&server), before);
}

#[tokio::test]
async fn table_policies_and_properties_survive_a_restart() {
    let directory = Directory::new();
    let server = directory.serve().await;
    let mut client = Client::of(&server);
    client.create("things");
    let policies = "<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers>\
        <SignedIdentifier><Id>one</Id><AccessPolicy><Start>2026-01-01T00:00:00.0000000Z</Start>\
        <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    let xml = [("content-type", "application/xml"), ("accept", "application/xml")];
    assert_eq!(client.send("PUT", "/things?comp=acl", &xml, policies).status, 204);
    let properties = "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><Cors>\
        <CorsRule><AllowedOrigins>http://a</AllowedOrigins><AllowedMethods>GET</AllowedMethods>\
        <MaxAgeInSeconds>5</MaxAgeInSeconds><ExposedHeaders></ExposedHeaders>\
        <AllowedHeaders></AllowedHeaders></CorsRule></Cors></StorageServiceProperties>";
    let target = "/?restype=service&comp=properties";
    assert_eq!(client.send("PUT", target, &xml, properties).status, 202);
    let ask = |client: &mut Client| {
        ["/things?comp=acl", target].map(|target| client.send("GET", target, &xml, "").body)
    };
    let before = ask(&mut client);
    assert!(before[0].contains("one") && before[1].contains("http://a"), "{before:?}");
    drop(server);
    let server = directory.serve().await;
    assert_eq!(ask(&mut Client::of(&server)), before);
}

#[tokio::test]
async fn queues_and_messages_survive_a_restart_with_order_receipts_and_times() {
    let directory = Directory::new();
    let clock = ServerClock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let serve = async || {
        let builder = Server::builder().location(directory.path(), SyncPolicy::Always);
        let server = builder.clock(clock.clone()).start().await.unwrap();
        let client = Client::to(&server, Service::Queue);
        (server, client)
    };
    let (server, mut client) = serve().await;
    let xml = [("content-type", "application/xml"), ("accept", "application/xml")];
    let described = [xml[0], xml[1], ("X-MS-Meta-Color", "Red"), ("x-ms-meta-size", "1")];
    assert_eq!(client.send("PUT", "/jobs", &described, "").status, 201);
    assert_eq!(client.send("PUT", "/cleared", &xml, "").status, 201);
    assert_eq!(client.send("PUT", "/gone", &xml, "").status, 201);
    let put = |client: &mut Client, queue: &str, text: &str, options: &str| {
        let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
        let answer = client.send("POST", &format!("/{queue}/messages{options}"), &xml, &body);
        assert_eq!(answer.status, 201, "{answer:?}");
    };
    for text in ["one", "two", "three"] {
        put(&mut client, "jobs", text, "");
        put(&mut client, "cleared", text, "");
        put(&mut client, "gone", text, "");
    }
    put(&mut client, "jobs", "short", "?messagettl=60");
    put(&mut client, "jobs", "late", "?visibilitytimeout=30");
    let gotten = client.send("GET", "/jobs/messages?visibilitytimeout=20", &xml, "").body;
    assert!(gotten.contains("<MessageText>one<"), "{gotten}");
    assert_eq!(client.send("DELETE", "/cleared/messages", &xml, "").status, 204);
    put(&mut client, "cleared", "after", "");
    assert_eq!(client.send("DELETE", "/gone", &xml, "").status, 204);
    drop(server);

    let (server, mut client) = serve().await;
    let texts = |client: &mut Client, queue: &str| {
        let peeked = format!("/{queue}/messages?peekonly=true&numofmessages=32");
        let body = client.send("GET", &peeked, &xml, "").body;
        let texts = body.split("<MessageText>").skip(1);
        texts.map(|rest| rest.split('<').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&mut client, "jobs"), ["two", "three", "short"]);
    assert_eq!(texts(&mut client, "cleared"), ["after"]);
    let described = client.send("GET", "/jobs?comp=metadata", &xml, "");
    assert_eq!(described.header("x-ms-meta-color"), Some("Red"));
    assert!(described.spelled.iter().any(|name| name == "X-MS-Meta-Color"), "{described:?}");
    let again = client.send("PUT", "/gone", &xml, "");
    assert_eq!((again.status, again.code()), (409, "QueueBeingDeleted"));
    // The receipt from before is good, and good once.
    let field = |name: &str| {
        let (_, rest) = gotten.split_once(&format!("<{name}>")).unwrap();
        rest.split('<').next().unwrap().replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
    };
    let handle =
        format!("/jobs/messages/{}?popreceipt={}", field("MessageId"), field("PopReceipt"));
    assert_eq!(client.send("DELETE", &handle, &xml, "").status, 204);
    clock.advance(std::time::Duration::from_secs(60));
    client.set_date(&server);
    assert_eq!(texts(&mut client, "jobs"), ["two", "three", "late"], "one has expired");
    drop(server);

    let (_server, mut client) = serve().await;
    assert_eq!(texts(&mut client, "jobs"), ["two", "three", "late"]);
    assert_eq!(client.send("PUT", "/gone", &xml, "").status, 201);
}

#[tokio::test]
async fn containers_and_blobs_survive_a_restart_with_all_properties() {
    let directory = Directory::new();
    let clock = ServerClock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let serve = async || {
        let builder = Server::builder().location(directory.path(), SyncPolicy::Always);
        let server = builder.clock(clock.clone()).start().await.unwrap();
        let client = Client::to(&server, Service::Blob);
        (server, client)
    };
    let (server, mut client) = serve().await;
    let ask = |client: &mut Client, method: &str, target: &str, headers: &[_], body: &str| {
        let answer = client.send(method, target, headers, body);
        assert!((200..300).contains(&answer.status), "{method} {target}: {answer:?}");
        answer
    };
    let long = "0123456789".repeat(30_000);
    let container = "/box?restype=container";
    let public = [("x-ms-blob-public-access", "blob"), ("x-ms-meta-A", "1")];
    ask(&mut client, "PUT", container, &public, "");
    ask(&mut client, "PUT", "/gone?restype=container", &[], "");
    let block = ("x-ms-blob-type", "BlockBlob");
    let described = [
        block,
        ("x-ms-blob-content-language", "de"),
        ("x-ms-meta-Note", "x"),
        ("content-type", "t/u"),
    ];
    ask(&mut client, "PUT", "/box/plain", &described, "hello");
    ask(&mut client, "PUT", "/box/long", &[block], &long);
    ask(&mut client, "PUT", "/gone/long", &[block], &long);
    ask(&mut client, "PUT", "/box/log", &[("x-ms-blob-type", "AppendBlob")], "");
    ask(&mut client, "PUT", "/box/log?comp=appendblock", &[], "one,");
    let snapshot = ask(&mut client, "PUT", "/box/log?comp=snapshot", &[], "");
    let snapshot = snapshot.header("x-ms-snapshot").unwrap().replace(':', "%3A");
    ask(&mut client, "PUT", "/box/log?comp=appendblock", &[], "two,");
    let source = ("x-ms-copy-source", "http://localhost/devstoreaccount1/box/log");
    ask(&mut client, "PUT", "/box/copy", &[source], "");
    ask(&mut client, "PUT", "/box/log?comp=appendblock", &[], "three");
    ask(&mut client, "PUT", "/box/copy?comp=appendblock", &[], "drei");
    for (id, content) in [("AAAA", "a"), ("AAAB", &*long), ("AAAC", "c")] {
        ask(&mut client, "PUT", &format!("/box/blocks?comp=block&blockid={id}"), &[], content);
    }
    let list = |ids: &[&str]| {
        let ids = ids.join("</Latest><Latest>");
        format!("<BlockList><Latest>{ids}</Latest></BlockList>")
    };
    let blocks = "/box/blocks?comp=blocklist";
    ask(&mut client, "PUT", blocks, &[], &list(&["AAAC", "AAAB", "AAAA"]));
    ask(&mut client, "PUT", "/box/blocks?comp=block&blockid=AAAD", &[], "d");
    let lease = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "60")];
    let held = ask(&mut client, "PUT", "/box/plain?comp=lease", &lease, "");
    ask(&mut client, "PUT", "/box?restype=container&comp=lease", &lease, "");
    ask(&mut client, "DELETE", "/gone?restype=container", &[], "");
    let look = |client: &mut Client| {
        let list =
            format!("{container}&comp=list&include=snapshots,metadata,uncommittedblobs,copy");
        let targets = [
            container,
            &list,
            "/box/plain",
            "/box/long",
            "/box/log",
            &format!("/box/log?snapshot={snapshot}"),
            "/box/copy",
            "/box/blocks",
            "/box/blocks?comp=blocklist&blocklisttype=all",
        ];
        targets.map(|target| {
            let mut answer = client.send("GET", target, &[], "");
            answer.headers.remove("x-ms-request-id");
            let headers: std::collections::BTreeMap<_, _> = answer.headers.into_iter().collect();
            (target.to_owned(), answer.status, headers, answer.spelled, answer.body)
        })
    };
    let before = look(&mut client);
    assert_eq!(before[4].4, "one,two,three");
    assert_eq!(before[5].4, "one,");
    assert_eq!(before[6].4, "one,two,drei");
    assert_eq!(before[7].4, format!("c{long}a"));
    drop(server);

    let (server, mut client) = serve().await;
    for (now, before) in look(&mut client).iter().zip(&before) {
        assert!(now == before, "{} {:?}: {:?}", now.0, now.2, before.2);
    }
    let again = client.send("PUT", "/gone?restype=container", &[], "");
    assert_eq!((again.status, again.code()), (409, "ContainerBeingDeleted"));
    let refused = client.send("PUT", "/box/plain?comp=metadata", &[], "");
    assert_eq!((refused.status, refused.code()), (412, "LeaseIdMissing"));
    let id = held.header("x-ms-lease-id").unwrap();
    ask(&mut client, "PUT", "/box/plain?comp=metadata", &[("x-ms-lease-id", id)], "");
    // Existing data behaves as before: blocks, staged blocks, appends, shared chunks.
    ask(&mut client, "PUT", blocks, &[], &list(&["AAAD", "AAAA"]));
    ask(&mut client, "PUT", "/box/log?comp=appendblock", &[], ",four");
    ask(&mut client, "DELETE", "/box/copy", &[], "");
    drop(server);

    let (_server, mut client) = serve().await;
    let now = look(&mut client);
    assert_eq!(now[4].4, "one,two,three,four");
    assert_eq!(now[5].4, "one,");
    assert_eq!(now[6].1, 404);
    assert_eq!(now[7].4, "da");
}

#[tokio::test]
async fn a_deleted_table_stays_deleted_and_its_name_stays_blocked() {
    let directory = Directory::new();
    let clock = ServerClock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let serve = || {
        let builder = Server::builder().location(directory.path(), SyncPolicy::Always);
        builder.clock(clock.clone()).start()
    };
    let server = serve().await.unwrap();
    let mut client = Client::of(&server);
    client.create("things");
    let tag = client.insert("things", ("p", "r"), "").header("etag").unwrap().to_owned();
    assert_eq!(client.send("DELETE", "/Tables('things')", &[], "").status, 204);
    drop(server);

    let server = serve().await.unwrap();
    let mut client = Client::of(&server);
    let again = client.send("POST", "/Tables", &[], r#"{"TableName":"things"}"#);
    assert_eq!((again.status, again.code()), (409, "TableBeingDeleted"));
    clock.advance(std::time::Duration::from_secs(40));
    client.set_date(&server);
    client.create("things");
    drop(server);

    let server = serve().await.unwrap();
    assert!(server.snapshot().table("things").unwrap().is_empty(), "its entities are gone");
    let mut client = Client::of(&server);
    let other = client.insert("things", ("p", "r"), "").header("etag").unwrap().to_owned();
    assert_ne!(other, tag);
}

#[tokio::test]
async fn an_etag_is_not_reused_after_deletion_and_restart() {
    let directory = Directory::new();
    let clock = ServerClock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let mut tags = Vec::new();
    for _ in 0..3 {
        let builder = Server::builder().location(directory.path(), SyncPolicy::default());
        let server = builder.clock(clock.clone()).start().await.unwrap();
        let mut client = Client::of(&server);
        if tags.is_empty() {
            client.create("things");
        }
        tags.push(client.insert("things", ("p", "r"), "").header("etag").unwrap().to_owned());
        let any = [("if-match", "*")];
        let address = "/things(PartitionKey='p',RowKey='r')";
        assert_eq!(client.send("DELETE", address, &any, "").status, 204);
    }
    tags.dedup();
    assert_eq!(tags.len(), 3, "{tags:?}");
}

#[tokio::test]
async fn restore_and_reset_are_durable_and_a_fork_is_not() {
    let directory = Directory::new();
    let server = directory.serve().await;
    let mut client = Client::of(&server);
    client.create("things");
    client.insert("things", ("p", "1"), "");
    let snapshot = server.snapshot();
    let before = tables(&server);
    client.create("others");
    client.insert("things", ("p", "2"), "");
    let fork = server.fork().await.unwrap();
    Client::of(&fork).insert("things", ("p", "3"), "");
    drop(fork);
    server.restore(&snapshot);
    drop(server);

    let server = directory.serve().await;
    assert_eq!(tables(&server), before);
    server.reset();
    Client::of(&server).create("new");
    drop(server);
    assert_eq!(tables(&directory.serve().await), ["new"]);
}

#[tokio::test]
async fn a_seed_of_a_running_server_is_durable_and_a_refused_one_leaves_nothing() {
    let directory = Directory::new();
    let server = directory.serve().await;
    Client::of(&server).create("things");
    let seed = |json: &str| Seed::from_json(json).unwrap();
    let json = r#"{
      "tables": {"things": [{"PartitionKey": "p", "RowKey": "1"}], "others": []},
      "queues": {"work": ["a", "b"]},
      "containers": {"invoices": {"a.txt": {"text": "hello"}}}
    }"#;
    server.seed(&seed(json)).unwrap();
    let before = tables(&server);
    // The last entity is refused, after others were put.
    let refused = r#"{
      "tables": {"things": [{"PartitionKey": "p", "RowKey": "2"}], "new": [{"PartitionKey": "p", "RowKey": "1", "a": "TEXT"}]},
      "queues": {"work": ["c"]}
    }"#;
    let refused = refused.replace("TEXT", &"x".repeat(40_000));
    assert_eq!(server.seed(&seed(&refused)).unwrap_err().place(), "tables.new[0]");
    drop(server);

    let server = directory.serve().await;
    assert_eq!(tables(&server), before);
    let stored = server.snapshot();
    assert_eq!(stored.table("things").unwrap().len(), 1);
    let texts: Vec<_> =
        stored.queue("work").unwrap().messages().map(|message| message.text().to_owned()).collect();
    assert_eq!(texts, ["a", "b"]);
    assert_eq!(stored.blob("invoices", "a.txt").unwrap(), b"hello");
}

#[tokio::test]
async fn the_data_of_an_unserved_account_is_kept() {
    let directory = Directory::new();
    let serve = |names: &[&str]| {
        let mut builder = Server::builder().location(directory.path(), SyncPolicy::default());
        for name in names {
            builder = builder.account(*name, [rowkey_emulator::DEVELOPMENT_KEY]);
        }
        builder.start()
    };
    let server = serve(&["devstoreaccount1", "other"]).await.unwrap();
    Client::of(&server).create("things");
    Client::of(&server).insert("things", ("p", "1"), "");
    drop(server);
    drop(serve(&["other"]).await.unwrap());
    let server = serve(&["other", "devstoreaccount1"]).await.unwrap();
    let snapshot = server.snapshot();
    assert!(snapshot.table("things").is_none(), "it is another account's");
    let snapshot = snapshot.account("devstoreaccount1").unwrap();
    assert_eq!(snapshot.table("things").unwrap().len(), 1);
}
