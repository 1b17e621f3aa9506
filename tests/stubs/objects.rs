//! Stubs of queues, tasks and blobs.

use rowkey::answers::{self, Stubs};
use rowkey::blob::CopyStatus;
use rowkey::queue::Body;
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{ErrorCode, ErrorKind};
use rowkey_tests::TestResult;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use wiremock::{Mock, MockServer, matchers};

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

impl Task for Mail {
    const KIND: &'static str = "mail";
}

#[tokio::test]
async fn a_worker_receives_the_task_that_a_stub_holds() -> TestResult {
    let server = MockServer::start().await;
    let account = crate::account_at(&server.uri()).build()?;
    let tasks = Tasks::<Mail>::new(account.queue("mails"));
    let stubs = Stubs::new().holding(tasks.put(&Mail { to: "ada".into() })).await?;
    assert!(server.received_requests().await.unwrap().is_empty());
    stubs.mount(&server).await;
    let worker = Worker::new(tasks.clone(), |mail: Mail, _: Attempt| async move {
        assert_eq!(mail.to, "ada");
        Ok(Done::Applied)
    });
    assert_eq!(Box::pin(worker.step()).await?, Step::Handled);
    assert_eq!(Box::pin(worker.step()).await?, Step::Idle);

    // A new task is no part of the plan.
    let error = tasks.put(&Mail { to: "bob".into() }).await.unwrap_err();
    assert!(error.to_string().contains("(request POST /mails/messages)"), "{error}");
    assert_eq!(stubs.unanswered(), ["POST /mails/messages"]);
    server.reset().await;
    Ok(())
}

#[tokio::test]
async fn messages_and_blobs_are_single_answers_as_well() -> TestResult {
    let server = MockServer::start().await;
    let account = crate::account_at(&server.uri()).build()?;
    let (queue, blob) = (account.queue("mails"), account.container("texts").blob("a"));
    let bodies = [Body::text("a <b> & c"), Body::base64("two")];
    let get = |path| Mock::given(matchers::method("GET")).and(matchers::path(path));
    get("/mails/messages").respond_with(answers::messages(&bodies)).mount(&server).await;
    get("/texts/a").respond_with(answers::blob("a long text")).mount(&server).await;
    let received = queue.receive(2, Duration::from_secs(30)).await?;
    let texts: Vec<_> = received.iter().map(rowkey::queue::Message::text).collect();
    assert_eq!((texts.as_slice(), received[0].dequeue_count), (&["a <b> & c", "dHdv"][..], 1));
    let read = blob.get().await?.unwrap();
    assert_eq!((&*read.bytes, read.properties.length), (b"a long text".as_slice(), 11));
    assert_eq!(answers::messages(&[]).status, 200);
    Ok(())
}

#[tokio::test]
async fn blobs_and_messages_are_kept_under_their_conditions() -> TestResult {
    let server = MockServer::start().await;
    let account = crate::account_at(&server.uri()).build()?;
    let container = account.container("texts");
    let (blob, queue) = (container.blob("a b"), account.queue("mails"));
    let stubs = Stubs::new()
        .holding(container.create())
        .await?
        .planning(async {
            blob.put("one").metadata(&[("author", "ada")]).send().await?;
            queue.put(Body::text("x")).send().await
        })
        .await?;
    assert_eq!(stubs.plan(), ["PUT /texts/a%20b", "POST /mails/messages"]);
    stubs.mount(&server).await;

    assert!(blob.get().await?.is_none());
    blob.put("two").metadata(&[("author", "ada")]).send().await?;
    let read = blob.get().await?.unwrap();
    assert_eq!((&*read.bytes, &*read.properties.metadata["author"]), (b"two".as_slice(), "ada"));
    assert_eq!(&*blob.read().range(1..).bytes().await?.unwrap().bytes, b"wo");
    let stale = blob.with_conditions(rowkey::blob::Conditions::missing());
    assert_eq!(stale.put("three").send().await.unwrap_err().kind(), ErrorKind::AlreadyExists);

    queue.put(Body::text("x")).send().await?;
    let message = queue.receive(1, Duration::from_secs(30)).await?.remove(0);
    assert!(queue.receive(1, Duration::from_secs(30)).await?.is_empty());
    let newer = queue.update(&message).hidden_for(Duration::ZERO).send().await?;
    let error = queue.delete(&message).await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::POP_RECEIPT_MISMATCH));
    queue.delete(&newer).await?;
    Ok(())
}

#[tokio::test]
async fn blobs_are_deleted_together() -> TestResult {
    let server = MockServer::start().await;
    let account = crate::account_at(&server.uri()).build()?;
    let container = account.container("texts");
    let blobs = ["a b", "c", "d"].map(|name| container.blob(name));
    let stubs = Stubs::new()
        .holding(async {
            blobs[0].put("one").send().await?;
            blobs[1].put("two").send().await
        })
        .await?
        .planning(container.delete_blobs(&blobs))
        .await?;
    let plan = "POST /texts [DELETE /texts/a%20b, DELETE /texts/c, DELETE /texts/d]";
    assert_eq!(stubs.plan(), [plan]);
    stubs.mount(&server).await;
    let stale = blobs[1].with_conditions(rowkey::ETag::new("\"0x7\""));
    let results = container.delete_blobs(&[blobs[2].clone(), stale, blobs[0].clone()]).await?;
    assert!(matches!(results[..], [Ok(false), Err(_), Ok(true)]), "{results:?}");
    assert_eq!(results[1].as_ref().unwrap_err().kind(), ErrorKind::Conflict);
    assert!(blobs[0].get().await?.is_none() && blobs[1].get().await?.is_some());

    // A blob that the plan does not have.
    let error = container.delete_blobs(&[container.blob("e")]).await.unwrap_err();
    assert_eq!(error.code().unwrap().as_str(), "NoStubAnswers");
    server.reset().await;
    Ok(())
}

#[tokio::test]
async fn leases_copies_and_appends_are_answered() -> TestResult {
    let server = MockServer::start().await;
    let account = crate::account_at(&server.uri()).build()?;
    let container = account.container("texts");
    let (text, copy, log) =
        (container.blob("a b"), container.blob("copy"), container.blob("a.log"));
    let writes = async || {
        let lease = text.acquire_lease(Duration::from_secs(30)).await?.unwrap();
        text.with_lease(&lease).put("two").send().await?;
        copy.copy_from(&text).await?;
        log.create_append().await?;
        log.append("one").send().await?;
        log.set_metadata(&[("by", "ada")]).await?;
        lease.release().await
    };
    let holding = Stubs::new().holding(text.put("one").send()).await?;
    let stubs = Box::pin(holding.planning(writes())).await?;
    stubs.mount(&server).await;

    let mut lease = text.acquire_lease(Duration::from_secs(30)).await?.ok_or("it is held")?;
    assert!(text.acquire_lease(Duration::from_secs(30)).await?.is_none());
    assert_eq!(text.put("two").send().await.unwrap_err().kind(), ErrorKind::Leased);
    assert_eq!(text.get().await?.unwrap().bytes, "one");
    text.with_lease(&lease).put("two").send().await?;
    lease.renew().await?;
    lease.change().await?;
    let of_another = text.lease("00000000-1111-2222-3333-444444444444")?;
    assert_eq!(of_another.renew().await.unwrap_err().kind(), ErrorKind::Leased);
    assert!(lease.release().await?);
    assert_eq!(text.break_lease(Duration::ZERO).await?, None);
    let lease = text.acquire_lease(None).await?.ok_or("it is held")?;
    assert_eq!(text.break_lease(Duration::ZERO).await?, Some(Duration::ZERO));
    assert!(lease.renew().await.is_err());

    let copied = copy.copy_from(&text).await?;
    assert_eq!(copied.status, CopyStatus::Success);
    let read = copy.get().await?.unwrap();
    assert_eq!(
        (&*read.bytes, read.properties.copy_id),
        (b"two".as_slice(), Some(copied.id.clone()))
    );
    assert!(!copy.abort_copy(&copied.id).await?);
    assert_eq!(copy.copy_from(&log).await.unwrap_err().kind(), ErrorKind::NotFound);

    log.create_append().await?;
    let first = log.append("one ").at(0).send().await?;
    let second = log.append("two").at(4).max_size(100).send().await?;
    assert_eq!((first.offset, second.offset, second.blocks), (0, 4, 2));
    assert_eq!(log.append("two").at(4).send().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(log.append("three").max_size(10).send().await.is_err());
    log.set_metadata(&[("by", "bob")]).await?;
    let read = log.get().await?.unwrap();
    assert_eq!(read.bytes, "one two");
    assert_eq!(read.properties.metadata.get("by").map(String::as_str), Some("bob"));
    assert!(stubs.unanswered().is_empty());
    Ok(())
}
