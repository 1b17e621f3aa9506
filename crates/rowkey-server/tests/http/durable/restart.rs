//! Everything that can be kept is the same after a restart.

use rowkey_server::{Server, ServerClock, Service, SyncPolicy};

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
async fn every_type_of_property_and_every_key_comes_back() {
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
async fn policies_and_properties_of_the_table_service_come_back() {
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
async fn queues_and_messages_come_back_with_their_order_receipts_and_times() {
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
async fn a_deleted_table_stays_deleted_and_its_name_blocked() {
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
async fn a_tag_is_not_given_twice_although_its_entity_was_deleted_before_the_restart() {
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
async fn what_is_restored_or_reset_is_kept_as_it_is_then_and_a_fork_keeps_nothing() {
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
async fn the_data_of_an_account_that_is_not_served_stays() {
    let directory = Directory::new();
    let serve = |names: &[&str]| {
        let mut builder = Server::builder().location(directory.path(), SyncPolicy::default());
        for name in names {
            builder = builder.account(*name, [rowkey_server::DEVELOPMENT_KEY]);
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
