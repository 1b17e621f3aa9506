//! The exact bytes of requests to the Queue service.

use std::time::Duration;

use rowkey::queue::Body;
use rowkey::service::AccessPolicy;
use rowkey::{Credential, ManualClock, Queue, StorageAccount};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use crate::requests::received as line;

async fn jobs(answer: ResponseTemplate) -> (MockServer, Queue) {
    let stub = MockServer::start().await;
    Mock::given(matchers::any()).respond_with(answer).mount(&stub).await;
    let start = "2026-11-20T12:00:00Z".parse::<rowkey::edm::DateTime>().unwrap();
    let account = StorageAccount::builder()
        .name("acct")
        .endpoint(rowkey::service::Service::Queue, &stub.uri())
        .unwrap()
        .credential(Credential::shared_key("acct", "a2V5").unwrap())
        .clock(ManualClock::auto_advancing(start.into()))
        .build()
        .unwrap();
    (stub, account.queue("jobs"))
}

const MESSAGE: &str = "<MessageId>0a1b</MessageId><InsertionTime>Fri, 20 Nov 2026 12:00:00 GMT\
    </InsertionTime><ExpirationTime>Fri, 27 Nov 2026 12:00:00 GMT</ExpirationTime>\
    <PopReceipt>Ag+/==</PopReceipt><TimeNextVisible>Fri, 20 Nov 2026 12:00:30 GMT\
    </TimeNextVisible>";

/// An answer with one message, as the service words it.
fn one_message(rest: &str) -> ResponseTemplate {
    let body = format!(
        "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList><QueueMessage>\
         {MESSAGE}{rest}</QueueMessage></QueueMessagesList>"
    );
    ResponseTemplate::new(200).set_body_string(body)
}

#[tokio::test]
async fn a_message_is_put_as_escaped_text() {
    let (stub, jobs) = jobs(one_message("")).await;
    let put = jobs.put(Body::text("a<b>&\"c\"\r\n ü"));
    let message = put.ttl(Duration::from_secs(90)).hidden_for(Duration::from_millis(1500));
    let message = message.send().await.unwrap();
    assert_eq!((message.id.as_str(), message.pop_receipt.as_str()), ("0a1b", "Ag+/=="));
    assert_eq!(
        line(&stub, &["content-type", "x-ms-version", "x-ms-date"]).await,
        "POST /jobs/messages?visibilitytimeout=2&messagettl=90\ncontent-type: application/xml\n\
         x-ms-version: 2022-11-02\nx-ms-date: Fri, 20 Nov 2026 12:00:00 GMT\n\
         <?xml version='1.0' encoding='utf-8'?>\n<QueueMessage><MessageText>a&lt;b&gt;&amp;\"c\"\
         &#xD;\n ü</MessageText></QueueMessage>"
    );
}

#[tokio::test]
async fn an_infinite_time_to_live_is_sent_as_minus_one() {
    let (stub, jobs) = jobs(one_message("")).await;
    jobs.put(Body::bytes([1, 2])).ttl(None).send().await.unwrap();
    assert_eq!(
        line(&stub, &[]).await,
        "POST /jobs/messages?messagettl=-1\n<?xml version='1.0' encoding='utf-8'?>\n\
         <QueueMessage><MessageText>AQI=</MessageText></QueueMessage>"
    );
}

#[tokio::test]
async fn message_requests_have_their_documented_form() {
    let full = "<DequeueCount>2</DequeueCount><MessageText>x &amp; y</MessageText>";
    let (stub, jobs) = jobs(one_message(full)).await;
    let message = jobs.receive(5, Duration::from_secs(30)).await.unwrap().remove(0);
    assert_eq!((message.text(), message.dequeue_count), ("x & y", 2));
    let asked = line(&stub, &[]).await;
    assert_eq!(asked, "GET /jobs/messages?numofmessages=5&visibilitytimeout=30\n");

    stub.reset().await;
    let answer = ResponseTemplate::new(204)
        .insert_header("x-ms-popreceipt", "BBBB")
        .insert_header("x-ms-time-next-visible", "Fri, 20 Nov 2026 12:01:00 GMT");
    Mock::given(matchers::any()).respond_with(answer).mount(&stub).await;
    let updated = jobs.update(&message).hidden_for(Duration::from_secs(60)).send().await.unwrap();
    assert_eq!((updated.pop_receipt.as_str(), updated.text()), ("BBBB", "x & y"));
    assert_eq!(
        line(&stub, &["content-length"]).await,
        "PUT /jobs/messages/0a1b?popreceipt=Ag%2B%2F%3D%3D&visibilitytimeout=60\n\
         content-length: 0\n"
    );
    stub.reset().await;
    Mock::given(matchers::any()).respond_with(ResponseTemplate::new(204)).mount(&stub).await;
    jobs.delete(&message).await.unwrap();
    let asked = line(&stub, &[]).await;
    assert_eq!(asked, "DELETE /jobs/messages/0a1b?popreceipt=Ag%2B%2F%3D%3D\n");
}

#[tokio::test]
async fn policies_are_sent_as_xml() {
    let (stub, jobs) = jobs(ResponseTemplate::new(204)).await;
    let policy =
        AccessPolicy { id: "w".into(), permission: Some("p".into()), ..AccessPolicy::default() };
    jobs.set_access_policies(&[policy]).await.unwrap();
    assert_eq!(
        line(&stub, &[]).await,
        "PUT /jobs?comp=acl\n<?xml version='1.0' encoding='utf-8'?>\n<SignedIdentifiers>\
         <SignedIdentifier><Id>w</Id><AccessPolicy><Permission>p</Permission></AccessPolicy>\
         </SignedIdentifier></SignedIdentifiers>"
    );
}
