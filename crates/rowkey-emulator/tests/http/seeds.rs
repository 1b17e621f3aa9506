//! Seeds: what JSON gives a server, what a running server gets, and the places that errors name.

use rowkey_emulator::{Seed, Server, Service};
use rowkey_wire::edm::Value;

use crate::support::Client;

const JSON: &str = r#"{
  "tables": {
    "orders": [
      {"PartitionKey": "contoso", "RowKey": "1", "Price": 3.5, "Count": 7, "Text": "größe", "Is": true, "None": null},
      {"RowKey": "", "PartitionKey": "", "At": "2026-02-28T12:00:00Z", "At@odata.type": "Edm.DateTime",
       "Long@odata.type": "Edm.Int64", "Long": "9223372036854775807", "Bytes": "AAEC", "Bytes@odata.type": "Edm.Binary",
       "Id": "c9da6455-213d-42c9-9a79-3e9149a57833", "Id@odata.type": "Edm.Guid",
       "Timestamp": "2001-01-01T00:00:00Z", "odata.etag": "W/\"x\""}
    ],
    "empty": []
  },
  "queues": {"work": ["first", "zweite ä"], "idle": []},
  "containers": {
    "invoices": {
      "dir/a.txt": {"text": "hello wörld", "contentType": "text/plain", "metadata": {"Owner": "größe"}},
      "b": {"base64": "AAEC"}
    },
    "nothing": {}
  }
}"#;

fn error(json: &str) -> (String, String) {
    let error = Seed::from_json(json).unwrap_err();
    (error.place().to_owned(), error.to_string())
}

#[tokio::test]
async fn json_for_people_is_there_when_the_server_starts() {
    let seed = Seed::from_json(JSON).unwrap();
    let server = Server::builder().manual_clock().seed(seed).start().await.unwrap();
    let stored = server.snapshot();
    let orders = stored.table("orders").unwrap();
    assert!(orders.len() == 2 && stored.table("empty").unwrap().is_empty());
    let first = orders.entity("contoso", "1").unwrap();
    let found: Vec<_> = first.properties().collect();
    let expected = [
        ("Price", Value::Double(3.5)),
        ("Count", Value::Int32(7)),
        ("Text", Value::String("größe".into())),
        ("Is", Value::Boolean(true)),
    ];
    assert_eq!(found, expected);
    let typed = orders.entity("", "").unwrap();
    assert_eq!(typed.get("Long"), Some(Value::Int64(i64::MAX)));
    assert_eq!(typed.get("At"), Some(Value::DateTime("2026-02-28T12:00:00Z".parse().unwrap())));
    assert_eq!(typed.get("Bytes"), Some(Value::Binary(vec![0, 1, 2])));
    assert!(matches!(typed.get("Id"), Some(Value::Guid(_))));
    assert!(typed.timestamp() >= server.clock().now() && typed.properties().count() == 4);
    let work = stored.queue("work").unwrap();
    let texts: Vec<_> = work.messages().map(|message| message.text().to_owned()).collect();
    assert_eq!(texts, ["first", "zweite ä"]);
    assert_eq!(stored.queue("idle").unwrap().messages().count(), 0);
    assert_eq!(stored.blob("invoices", "b").unwrap(), [0, 1, 2]);

    let mut blobs = Client::to(&server, Service::Blob);
    let answer = blobs.send("GET", "/invoices/dir/a.txt", &[], "");
    assert_eq!((answer.status, &*answer.body), (200, "hello wörld"));
    assert_eq!(answer.header("content-type"), Some("text/plain"));
    assert_eq!(answer.header("content-md5"), Some("jG4V33Q6A4Cqom5XQXlNew=="));
    assert!(answer.spelled.iter().any(|name| name == "x-ms-meta-Owner"), "{answer:?}");
    let mut queues = Client::to(&server, Service::Queue);
    let answer = queues.send("GET", "/work/messages", &[], "");
    assert!(answer.body.contains("<MessageText>first<"), "{answer:?}");
}

#[tokio::test]
async fn a_running_server_gets_all_of_a_seed_or_nothing_of_it() {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let seed = Seed::from_json(JSON).unwrap();
    let seeded = server.seed(&seed).unwrap();
    let shown = "2 entities in 2 tables, 2 messages in 2 queues, 2 blobs in 2 containers";
    assert_eq!(seeded.to_string(), shown);

    // Again: entities and blobs are replaced, messages are added.
    assert_eq!(server.seed(&seed).unwrap(), seeded);
    let stored = server.snapshot();
    assert_eq!(stored.table("orders").unwrap().len(), 2);
    assert_eq!(stored.queue("work").unwrap().messages().count(), 4);
    assert_eq!(stored.blobs("invoices").count(), 2);

    // The last part fails: the blob has a lease.
    let mut blobs = Client::to(&server, Service::Blob);
    let lease = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1")];
    assert_eq!(blobs.send("PUT", "/invoices/b?comp=lease", &lease, "").status, 201);
    let json = r#"{
      "tables": {"new": [{"PartitionKey": "p", "RowKey": "r"}]}, "queues": {"work": ["more"], "new": []},
      "containers": {"new": {}, "invoices": {"c": {"text": "c"}, "b": {"text": "b"}}}
    }"#;
    let error = server.seed(&Seed::from_json(json).unwrap()).unwrap_err();
    assert_eq!(error.place(), "containers.invoices.b");
    assert!(error.to_string().contains("LeaseIdMissing"), "{error}");
    let after = server.snapshot();
    assert!(after.table("new").is_none() && after.queue("new").is_none());
    assert_eq!(after.queue("work").unwrap().messages().count(), 4);
    assert_eq!(after.blobs("invoices").count(), 2);
    assert_eq!(blobs.send("GET", "/new?restype=container", &[], "").status, 404);
}

#[tokio::test]
async fn entities_and_tables_can_be_added_one_by_one() {
    let mut seed = Seed::new();
    seed.add_table("Orders").unwrap();
    let price = vec![("Price".to_owned(), Value::Double(3.5))];
    seed.add_entity("Orders", "contoso", "1", price).unwrap();
    assert_eq!(seed.add_table("no").unwrap_err().place(), "tables.no");
    let server = Server::start().await.unwrap();
    assert_eq!(server.seed(&seed).unwrap().entities, 1);
    let stored = server.snapshot();
    let entity = stored.table("orders").unwrap().entity("contoso", "1").unwrap();
    assert_eq!(entity.get("Price"), Some(Value::Double(3.5)));

    // The limits are those of the server.
    let many = (0..253).map(|at| (format!("p{at}"), Value::Int32(at))).collect();
    let mut wide = Seed::new();
    wide.add_entity("wide", "p", "r", many).unwrap();
    let error = server.seed(&wide).unwrap_err();
    assert!(error.place() == "tables.wide[0]" && error.to_string().contains("TooManyProperties"));
    assert!(server.snapshot().table("wide").is_none());
    let loose = Server::builder().loose().seed(wide).start().await.unwrap();
    assert_eq!(loose.snapshot().table("wide").unwrap().len(), 1);
    for (partition_key, name) in [("a/b", "ok"), ("p", "not ok"), ("p", "")] {
        let mut seed = Seed::new();
        let properties = vec![(name.to_owned(), Value::Int32(1))];
        seed.add_entity("orders", partition_key, "r", properties).unwrap();
        let error = server.seed(&seed).unwrap_err().to_string();
        assert!(error.starts_with("tables.orders[0]: ") && !error.contains("a/b"), "{error}");
    }
}

#[tokio::test]
async fn a_seed_is_for_one_account_and_a_fork_has_its_data_once() {
    let builder = || Server::builder().account("one", ["a2V5"]).account("two", ["a2V5"]);
    let json = r#"{"account": "two", "queues": {"work": ["a"]}}"#;
    let (first, second) = (
        Seed::from_json(r#"{"queues": {"work": ["b"]}}"#).unwrap(),
        Seed::from_json(json).unwrap(),
    );
    let server = builder().seed(first.clone()).seed(second.clone()).start().await.unwrap();
    let fork = server.fork().await.unwrap();
    for server in [&server, &fork] {
        let stored = server.snapshot();
        for (account, text) in [("one", "b"), ("two", "a")] {
            let account = stored.account(account).unwrap();
            let texts: Vec<_> =
                account.queue("work").unwrap().messages().map(|m| m.text().to_owned()).collect();
            assert_eq!(texts, [text]);
        }
    }
    let other = first.clone().account("three");
    let error = server.seed(&other).unwrap_err();
    assert!(error.to_string().contains("no account three"), "{error}");
    assert!(error.to_string().contains("--accounts"), "{error}");
    // The second seed fails, so the first is not kept either, and the server does not start.
    assert!(builder().seed(first).seed(other).start().await.is_err());
}

#[test]
fn each_mistake_is_named_with_its_place() {
    let entity = |text: &str| {
        format!(r#"{{"tables": {{"orders": [{{"PartitionKey": "p", "RowKey": "r"{text}}}]}}}}"#)
    };
    let blob = |text: &str| format!(r#"{{"containers": {{"invoices": {{"a.txt": {text}}}}}}}"#);
    let long = format!(r#"{{"queues": {{"work": ["{}"]}}}}"#, "x".repeat(65_537));
    let cases = [
        ("", "", "not JSON: EOF"),
        ("{\"tables\": {}\n", "", "line 2"),
        ("[]", "", "not an object"),
        (r#"{"tabels": {}}"#, "tabels", "known are tables, queues, containers and account"),
        (r#"{"tables": {}, "tables": {}}"#, "tables", "twice"),
        (r#"{"tables": []}"#, "tables", "not an object"),
        (r#"{"tables": {"orders": {}}}"#, "tables.orders", "not a list"),
        (r#"{"tables": {"a": []}}"#, "tables.a", "not the name of a table"),
        (r#"{"tables": {"orders": ["x"]}}"#, "tables.orders[0]", "not an object"),
        (
            r#"{"tables": {"orders": [{"PartitionKey": "p"}]}}"#,
            "tables.orders[0]",
            "RowKey is missing",
        ),
        (
            r#"{"tables": {"orders": [{"PartitionKey": 7, "RowKey": "r"}]}}"#,
            "tables.orders[0]",
            "are strings",
        ),
        (r#"{"queues": {"work": [7]}}"#, "queues.work[0]", "not text"),
        (r#"{"queues": {"Work": []}}"#, "queues.Work", "not the name of a queue"),
        (r#"{"queues": {"work": ["\u0001"]}}"#, "queues.work[0]", "control character"),
        (&long, "queues.work[0]", "more than 64 KiB"),
        (r#"{"containers": {"a": {}}}"#, "containers.a", "not the name of a container"),
        (
            r#"{"containers": {"invoices": {"": {"text": ""}}}}"#,
            "containers.invoices.",
            "not the name of a blob",
        ),
        (r#"{"account": 7}"#, "account", "not text"),
    ];
    for (json, place, what) in cases {
        let (found, shown) = error(json);
        assert!(found == place && shown.contains(what), "{json}: {found}: {shown}");
    }
    for (text, place, what) in [
        (r#", "A": {}"#, ".A", "object"),
        (r#", "A": "x", "A@odata.type": "Edm.DateTime""#, ".A", "Edm.DateTime"),
        (r#", "A": "x", "A@odata.type": "Edm.Text""#, ".A", "type"),
        (r#", "A@odata.type": "Edm.Int64""#, ".A@odata.type", "no such member"),
        (r#", "A": 1, "A@odata.tpye": "Edm.Int64""#, ".A@odata.tpye", "no such member"),
        (r#", "A": 1, "A": 2"#, ".A", "twice"),
        (r#", "A b": 1"#, "", "name"),
    ] {
        let (found, shown) = error(&entity(text));
        assert!(found == format!("tables.orders[0]{place}"), "{text}: {found}: {shown}");
        assert!(shown.contains(what), "{text}: {shown}");
    }
    for (text, place, what) in [
        ("{}", "", "one of text, base64 and file"),
        (r#"{"text": "a", "base64": ""}"#, "", "one of text, base64 and file"),
        (r#"{"base64": "?"}"#, ".base64", "not base64"),
        (r#"{"file": "a"}"#, ".file", "has no folder"),
        (r#"{"tetx": "a"}"#, ".tetx", "known are text"),
        (r#"{"text": "a", "contentType": "a\nb"}"#, ".contentType", "header"),
        (r#"{"text": "a", "metadata": {"a-b": "x"}}"#, ".metadata", "not permitted"),
    ] {
        let (found, shown) = error(&blob(text));
        assert!(found == format!("containers.invoices.a.txt{place}"), "{text}: {found}: {shown}");
        assert!(shown.contains(what), "{text}: {shown}");
    }
}

#[tokio::test]
async fn damage_at_any_place_of_a_seed_is_refused_or_applied() {
    let (mut applied, mut refused) = (0, 0);
    let server = Server::start().await.unwrap();
    for at in 0..JSON.len() {
        let mut damaged = JSON.as_bytes().to_vec();
        damaged[at] = b"\"{}[],:0x"[at % 9];
        let Ok(damaged) = String::from_utf8(damaged) else { continue };
        match Seed::from_json(&damaged).and_then(|seed| server.seed(&seed)) {
            Ok(_) => applied += 1,
            Err(error) => {
                assert!(!error.to_string().contains("contoso"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(applied > 100 && refused > 100, "{applied} applied, {refused} refused");
}
