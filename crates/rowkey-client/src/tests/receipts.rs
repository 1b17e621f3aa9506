//! What successful operations used: attempts, ids, bytes and time.

use rowkey_entity::{DynamicEntity, Receipt};
use rowkey_wire::auth::Service;

use super::script::{Act, Script, answer, builder, get, header, options, post, refusal};
use crate::clock::ManualClock;
use crate::cost::Meter;
use crate::options::ClientOptions;
use crate::telemetry::with_receipt;
use crate::transport::{Call, Safety};

const ID: &str = "8a1b6e3f-0002-0011-5f5c-b1d2c3000000";
const ROW: &str = r#"{"odata.etag":"W/\"1\"","PartitionKey":"p","RowKey":"1","Timestamp":"2026-03-01T12:00:00Z"}"#;

#[tokio::test]
async fn a_read_has_the_ids_of_its_last_attempt_and_the_bytes_of_all() {
    let refused = refusal("503 No", "ServerBusy");
    let Act::Answer(text) = &refused else { unreachable!() };
    let refused_bytes = text.split_once("\r\n\r\n").unwrap().1.len();
    let script = Script::start([refused, answer("200 OK", "", ROW)]);
    let (account, _) = script.account(options());
    let row = DynamicEntity::new("p", "1");
    let stored = account.table("orders").get(row.key()).await.unwrap().unwrap();
    let receipt = &stored.receipt;
    assert_eq!(receipt.attempts(), 2);
    assert_eq!(receipt.request_id().as_deref(), Some(ID));
    let requests = script.requests();
    let last = header(&requests[1], "x-ms-client-request-id");
    assert_eq!(receipt.client_request_id().as_deref(), last);
    assert_eq!(receipt.bytes_sent(), 0);
    assert_eq!(receipt.bytes_received(), (refused_bytes + ROW.len()) as u64);
    assert!(receipt.duration() > std::time::Duration::ZERO);
}

#[tokio::test]
async fn a_connection_that_is_refused_is_no_request() {
    // Bound but not listening: connections to it are refused.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let script = Script::start([answer("200 OK", "", ROW)]);
    let account = builder(&format!("http://{}/contoso", socket.local_addr().unwrap()))
        .secondary_endpoint(Service::Table, &script.url())
        .unwrap()
        .clock(ManualClock::auto_advancing("2026-03-01T12:00:00Z".parse().unwrap()))
        .options(ClientOptions { read_from_secondary: true, ..options() })
        .build()
        .unwrap();
    let meter = Meter::new();
    let row = DynamicEntity::new("p", "1");
    let read = account.with_meter(&meter).table("orders");
    let (found, receipt) = with_receipt(read.get(row.key())).await;
    let found = found.unwrap().unwrap();
    assert_eq!((meter.usage().requests(), receipt.attempts()), (1, 1));
    assert_eq!(found.receipt.attempts(), 1);
    let id = found.receipt.client_request_id();
    assert_eq!((receipt.client_request_id(), receipt.request_id()), (id, Some(ID.into())));
}

#[tokio::test]
async fn receipts_change_neither_equality_nor_json() {
    let script = Script::start([answer("200 OK", "", ROW), answer("200 OK", "", ROW)]);
    let (account, _) = script.account(options());
    let (orders, row) = (account.table("orders"), DynamicEntity::new("p", "1"));
    let one = orders.get(row.key()).await.unwrap().unwrap();
    let other = orders.get(row.key()).await.unwrap().unwrap();
    assert_ne!(one.receipt.client_request_id(), other.receipt.client_request_id());
    assert_eq!(one, other);
    let json = serde_json::to_value(&one).unwrap();
    let mut names: Vec<_> = json.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["entity", "etag", "timestamp"]);
}

#[tokio::test]
async fn rows_of_a_page_have_the_receipt_of_the_page() {
    let page = format!(r#"{{"value":[{ROW},{ROW}]}}"#);
    let next = "x-ms-continuation-NextPartitionKey: 1!4!cA--\r\n";
    let script = Script::start([answer("200 OK", next, &page), answer("200 OK", "", &page)]);
    let (account, _) = script.account(options());
    let partition = || rowkey_entity::Partition::<DynamicEntity>::new("p");
    let page = account.table("orders").query(partition()).page(4, None).await.unwrap();
    assert_eq!((page.entities.len(), page.receipt.attempts()), (4, 2));
    let of_rows: Vec<&Receipt> = page.entities.iter().map(|row| &row.receipt).collect();
    assert_eq!((of_rows[0], of_rows[2]), (of_rows[1], of_rows[3]));
    assert_eq!((of_rows[0].attempts(), of_rows[0] == of_rows[2]), (1, false));
    let bytes = of_rows[0].bytes_received() + of_rows[2].bytes_received();
    assert_eq!(page.receipt.bytes_received(), bytes);
}

#[tokio::test]
async fn a_page_that_is_requested_again_has_the_sum_of_its_responses() {
    // The service sent more than is wanted, so there is no continuation after the last wanted row.
    let page = |rows: usize| format!(r#"{{"value":[{}]}}"#, [ROW; 3][..rows].join(","));
    let script = Script::start([answer("200 OK", "", &page(3)), answer("200 OK", "", &page(2))]);
    let (account, _) = script.account(options());
    let partition = rowkey_entity::Partition::<DynamicEntity>::new("p");
    let found = account.table("orders").query(partition).page(2, None).await.unwrap();
    assert_eq!((found.entities.len(), found.receipt.attempts()), (2, 2));
    let bytes = (page(3).len() + page(2).len()) as u64;
    assert_eq!(found.receipt.bytes_received(), bytes);
    assert!(found.entities.iter().all(|row| row.receipt == found.receipt));
}

#[tokio::test]
async fn calls_within_calls_add_up_whether_they_fail_or_are_dropped() {
    let script = Script::start([
        answer("201 Created", "ETag: W/\"1\"\r\n", "{}"),
        refusal("400 No", "InvalidInput"),
        Act::Hang,
    ]);
    let (account, _) = script.account(options());
    let insert = || {
        let call = Call::new("InsertEntity", "orders", Safety::Insert);
        account.pipeline().send(post(), call)
    };
    let (inner, outer) = with_receipt(async {
        insert().await.unwrap();
        let (failed, inner) = with_receipt(insert()).await;
        assert!(failed.is_err());
        let limit = std::time::Duration::from_millis(50);
        let call = Call::new("GetEntity", "orders", Safety::Read);
        let late = tokio::time::timeout(limit, account.pipeline().send(get(), call)).await;
        assert!(late.is_err());
        inner
    })
    .await;
    assert_eq!((inner.attempts(), inner.bytes_sent()), (1, 39));
    assert_eq!((outer.attempts(), outer.bytes_sent()), (3, 78));
    assert_eq!(outer.request_id().as_deref(), Some(ID));
    assert!(outer.duration() >= inner.duration());
    let ((), nothing) = with_receipt(async {}).await;
    assert_eq!((nothing.attempts(), nothing.request_id()), (0, None));
}
