//! Queues: made, listed and described; messages put, received, updated and deleted.

use std::time::Duration;

use futures_util::TryStreamExt;
use rowkey::queue::Body;
use rowkey::service::AccessPolicy;
use rowkey::{ErrorCode, ErrorKind, Outcome, Queue};
use rowkey_tests::{Arm, Fixture, TestResult, arm, unique_name};

const HALF_A_MINUTE: Duration = Duration::from_secs(30);

async fn queue(fixture: &Fixture) -> Result<Queue, rowkey::Error> {
    let queue = fixture.account.queue(&unique_name());
    queue.create().await?;
    Ok(queue)
}

#[tokio::test]
async fn a_queue_is_created_once() -> TestResult {
    let fixture = Fixture::new().await?;
    let queue = fixture.account.queue(&unique_name());
    assert!(queue.create_if_missing().await?);
    assert!(!queue.create_if_missing().await?);
    let error = queue.create().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::AlreadyExists, Outcome::Rejected));
    // One with other metadata is another answer of the service, and the same of the client.
    queue.set_metadata(&[("team", "sales")]).await?;
    assert!(!queue.create_if_missing().await?);
    assert_eq!(queue.create().await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    Ok(())
}

#[tokio::test]
async fn deleting_a_queue_returns_whether_it_existed() -> TestResult {
    let fixture = Fixture::new().await?;
    let queue = queue(&fixture).await?;
    assert!(queue.delete_queue_if_exists().await?);
    let never = fixture.account.queue(&unique_name());
    assert!(!never.delete_queue_if_exists().await?);
    let error = never.delete_queue().await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::QUEUE_NOT_FOUND));
    assert!(never.receive(1, HALF_A_MINUTE).await.unwrap_err().kind() == ErrorKind::NotFound);
    Ok(())
}

#[tokio::test]
async fn invalid_queue_names_are_rejected_before_sending() -> TestResult {
    let fixture = Fixture::new().await?;
    for name in ["", "ab", "Jobs", "a--b", "-jobs", &"x".repeat(64)] {
        let error = fixture.account.queue(name).create().await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    }
    Ok(())
}

#[tokio::test]
async fn a_message_is_received_once_and_deleted() -> TestResult {
    let fixture = Fixture::new().await?;
    let queue = queue(&fixture).await?;
    let put = queue.put(Body::text("a <b> & \"c\" 'd' ü 😀\r\n")).send().await?;
    assert_eq!(put.dequeue_count, 0);
    let expires = put.expires.ok_or("it expires")?;
    assert_eq!((expires - put.inserted).num_days(), 7);

    let peeked = queue.peek(32).await?;
    assert_eq!((peeked.len(), peeked[0].text()), (1, put.text()));
    assert_eq!((peeked[0].id.as_str(), peeked[0].dequeue_count), (put.id.as_str(), 0));

    let received = queue.receive(32, HALF_A_MINUTE).await?;
    let [message] = &received[..] else { panic!("{received:?}") };
    assert_eq!((message.text(), message.dequeue_count), (put.text(), 1));
    assert_eq!((message.id.as_str(), message.inserted), (put.id.as_str(), put.inserted));
    assert_ne!(message.pop_receipt, put.pop_receipt);
    assert!(queue.receive(1, HALF_A_MINUTE).await?.is_empty(), "it is hidden");
    assert!(queue.peek(1).await?.is_empty());
    assert_eq!(queue.approximate_count().await?, 1);

    queue.delete(message).await?;
    assert!(!queue.delete_if_exists(message).await?);
    assert_eq!(queue.approximate_count().await?, 0);
    let error = queue.delete(message).await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::MESSAGE_NOT_FOUND));
    Ok(())
}

#[tokio::test]
async fn a_new_pop_receipt_invalidates_the_previous_one() -> TestResult {
    let fixture = Fixture::new().await?;
    let queue = queue(&fixture).await?;
    let put = queue.put(Body::text("job")).send().await?;
    let received = queue.receive(1, HALF_A_MINUTE).await?.remove(0);
    let error = queue.delete(&put).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    assert_eq!(error.code(), Some(&ErrorCode::POP_RECEIPT_MISMATCH));
    assert!(queue.delete_if_exists(&put).await.is_err());
    queue.delete(&received).await?;
    Ok(())
}

#[tokio::test]
async fn an_update_changes_text_and_visibility_and_returns_a_new_receipt() -> TestResult {
    let fixture = Fixture::new().await?;
    let queue = queue(&fixture).await?;
    queue.put(Body::text("step 1")).send().await?;
    let first = queue.receive(1, HALF_A_MINUTE).await?.remove(0);

    let second =
        queue.update(&first).body(Body::text("step 2")).hidden_for(HALF_A_MINUTE).send().await?;
    assert_eq!((second.text(), second.id.as_str()), ("step 2", first.id.as_str()));
    assert_ne!(second.pop_receipt, first.pop_receipt);
    let error = queue.update(&first).send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);

    // Without a body it keeps its own, and without a time it is visible at once.
    let third = queue.update(&second).send().await?;
    assert_eq!(third.text(), "step 2");
    let again = queue.receive(1, HALF_A_MINUTE).await?.remove(0);
    assert_eq!((again.text(), again.dequeue_count), ("step 2", 2));
    Ok(())
}

#[tokio::test]
async fn a_message_is_updated_by_id_and_receipt_from_another_process() -> TestResult {
    let fixture = Fixture::new().await?;
    let queue = queue(&fixture).await?;
    queue.put(Body::text("archive")).send().await?;
    let received = queue.receive(1, HALF_A_MINUTE).await?.remove(0);

    let mut message = queue.message_ref(&received.id, &received.pop_receipt);
    let visible = message.update(Some(Body::text("archive 7")), Duration::ZERO).await?;
    assert!(visible <= received.next_visible);
    assert_ne!(message.pop_receipt, received.pop_receipt);
    let old = queue.message_ref(&received.id, &received.pop_receipt);
    assert!(old.delete().await.unwrap_err().kind() == ErrorKind::Conflict);
    assert_eq!(queue.peek(1).await?[0].text(), "archive 7");
    assert!(message.delete_if_exists().await?);
    assert!(!message.delete_if_exists().await?);
    assert_eq!(message.delete().await.unwrap_err().kind(), ErrorKind::NotFound);

    // Without an id the address would be that of all messages.
    for (id, receipt) in [("", "x"), (&*received.id, "")] {
        let error = queue.message_ref(id, receipt).delete().await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    }
    let shown = format!("{message:?}");
    assert!(shown.contains(&received.id) && !shown.contains(&message.pop_receipt));
    Ok(())
}

#[tokio::test]
async fn messages_are_received_in_insertion_order() -> TestResult {
    let fixture = Fixture::new().await?;
    let queue = queue(&fixture).await?;
    for i in 0..5 {
        queue.put(Body::text(i.to_string())).send().await?;
    }
    let texts: Vec<_> =
        queue.receive(3, HALF_A_MINUTE).await?.iter().map(|m| m.text().to_owned()).collect();
    assert_eq!(texts, ["0", "1", "2"]);
    assert_eq!(queue.peek(32).await?.len(), 2);
    queue.clear().await?;
    assert_eq!(queue.approximate_count().await?, 0);
    Ok(())
}

#[tokio::test]
async fn time_to_live_and_visibility_timeout_are_applied() -> TestResult {
    let fixture = Fixture::new().await?;
    let queue = queue(&fixture).await?;
    let forever = queue.put(Body::text("forever")).ttl(None).send().await?;
    assert_eq!(forever.expires, None);
    let long = queue.put(Body::text("long")).ttl(Duration::from_secs(30 * 86_400)).send().await?;
    assert_eq!((long.expires.ok_or("it expires")? - long.inserted).num_days(), 30);
    let later = queue.put(Body::text("later")).hidden_for(Duration::from_secs(3600)).send().await?;
    assert_eq!((later.next_visible - later.inserted).num_seconds(), 3600);
    let texts: Vec<_> = queue.peek(32).await?.iter().map(|m| m.text().to_owned()).collect();
    assert_eq!(texts, ["forever", "long"]);
    // The writer of a message can delete it again.
    queue.delete(&later).await?;
    Ok(())
}

#[tokio::test]
async fn invalid_arguments_are_rejected_before_sending() -> TestResult {
    let fixture = Fixture::new().await?;
    let queue = queue(&fixture).await?;
    let (second, week) = (Duration::from_secs(1), Duration::from_secs(604_800));
    let text = || Body::text("x");
    for error in [
        queue.receive(0, second).await.unwrap_err(),
        queue.receive(33, second).await.unwrap_err(),
        queue.receive(1, Duration::ZERO).await.unwrap_err(),
        queue.receive(1, week + second).await.unwrap_err(),
        queue.peek(0).await.unwrap_err(),
        queue.put(text()).ttl(Duration::ZERO).send().await.unwrap_err(),
        queue.put(text()).ttl(second).hidden_for(second).send().await.unwrap_err(),
        queue.put(text()).hidden_for(week).send().await.unwrap_err(),
        queue.put(Body::text("\u{1}")).send().await.unwrap_err(),
        queue.set_metadata(&[("a-b", "1")]).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        assert_eq!(error.details().attempts, 0);
    }
    let error = queue.put(Body::text("x".repeat(65_537))).send().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    assert!(queue.peek(1).await?.is_empty());

    // What just fits does.
    queue.put(Body::text("x".repeat(65_536))).send().await?;
    queue.put(Body::bytes(vec![0xFF; 49_152])).send().await?;
    let received = queue.receive(2, second * 30).await?;
    assert_eq!(received[0].text().len(), 65_536);
    assert_eq!(received[1].bytes()?, vec![0xFF; 49_152]);
    Ok(())
}

#[tokio::test]
async fn text_base64_and_bytes_are_explicit_choices() -> TestResult {
    let fixture = Fixture::new().await?;
    let queue = queue(&fixture).await?;
    queue.put(Body::base64("café \u{0}")).send().await?;
    let message = queue.receive(1, HALF_A_MINUTE).await?.remove(0);
    assert_eq!(message.text(), "Y2Fmw6kgAA==");
    assert_eq!(message.base64()?, "café \u{0}");
    assert_eq!(message.bytes()?, "café \u{0}".as_bytes());
    Ok(())
}

#[tokio::test]
async fn metadata_and_policies_round_trip() -> TestResult {
    let fixture = Fixture::new().await?;
    let queue = queue(&fixture).await?;
    assert!(queue.metadata().await?.is_empty());
    queue.set_metadata(&[("team", "sales"), ("owner", "ada lovelace")]).await?;
    let metadata = queue.metadata().await?;
    assert_eq!(metadata["owner"], "ada lovelace");
    queue.set_metadata(&[("team", "ops")]).await?;
    assert_eq!(
        queue.metadata().await?.into_iter().collect::<Vec<_>>(),
        [("team".to_owned(), "ops".to_owned())]
    );

    let policies = [AccessPolicy {
        id: "workers".into(),
        start: Some("2026-01-01T00:00:00Z".parse()?),
        expiry: Some("2036-01-01T00:00:00Z".parse()?),
        permission: Some("p".into()),
    }];
    queue.set_access_policies(&policies).await?;
    assert_eq!(queue.access_policies().await?, policies);
    let six = vec![AccessPolicy::default(); 6];
    assert_eq!(queue.set_access_policies(&six).await.unwrap_err().kind(), ErrorKind::TooLarge);
    Ok(())
}

#[tokio::test]
async fn a_queue_is_created_with_metadata_and_its_policies_are_updated_individually() -> TestResult
{
    let fixture = Fixture::new().await?;
    let queue = fixture.account.queue(&unique_name());
    queue.create_with(&[("kind", "inbox")]).await?;
    assert_eq!(queue.metadata().await?["kind"], "inbox");
    for metadata in [&[("kind", "inbox")], &[("kind", "other")]] {
        assert!(queue.create_with(metadata).await.unwrap_err().kind() == ErrorKind::AlreadyExists);
    }
    let policy = |id: &str| AccessPolicy {
        id: id.to_owned(),
        permission: Some("p".to_owned()),
        ..AccessPolicy::default()
    };
    queue.set_access_policy(policy("one")).await?;
    queue.set_access_policy(policy("two")).await?;
    queue.rotate_access_policy("one", policy("three")).await?;
    let same = queue.rotate_access_policy("two", policy("two")).await.unwrap_err();
    assert_eq!(same.kind(), ErrorKind::Invalid);
    assert!(queue.revoke_access_policy("two").await?);
    let ids: Vec<_> = queue.access_policies().await?.into_iter().map(|policy| policy.id).collect();
    assert_eq!(ids, ["three"]);
    Ok(())
}

#[tokio::test]
async fn queues_are_listed_by_prefix_and_page() -> TestResult {
    let fixture = Fixture::new().await?;
    let prefix = unique_name();
    for letter in ["a", "b", "c", "d", "e"] {
        let queue = fixture.account.queue(&format!("{prefix}-{letter}"));
        queue.create().await?;
        queue.set_metadata(&[("letter", letter)]).await?;
    }
    let service = &fixture.account;
    let found: Vec<_> = service
        .queues()
        .starting_with(&format!("{prefix}-"))
        .with_metadata()
        .page_size(2)
        .stream()
        .try_collect()
        .await?;
    let letters: Vec<_> = found.iter().map(|queue| queue.metadata["letter"].as_str()).collect();
    assert_eq!(letters, ["a", "b", "c", "d", "e"]);
    let plain = service.queues().starting_with(&format!("{prefix}-c")).all().await?;
    assert_eq!((plain.len(), plain[0].metadata.len()), (1, 0));
    assert!(service.queues().page_size(5001).all().await.is_err());
    Ok(())
}

#[tokio::test]
async fn queue_statistics_are_read_from_the_secondary() -> TestResult {
    if arm() != Arm::Ours {
        return Ok(()); // Needs an account with a secondary.
    }
    let fixture = Fixture::new().await?;
    assert!(
        fixture
            .account
            .service_statistics(rowkey::service::Service::Queue)
            .await?
            .last_sync
            .is_some()
    );
    Ok(())
}
