//! Messages: visibility by the manual clock, and lost responses.

use std::time::Duration;

use rowkey::queue::Body;
use rowkey_emulator::{Fault, Operation};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sweep_all};

use crate::start;

const HIDDEN: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_message_reappears_after_its_visibility_timeout() -> TestResult {
    let (server, account, _) = start().await?;
    let jobs = account.queue("jobs");
    jobs.create().await?;
    jobs.put(Body::text("one")).ttl(Duration::from_secs(100)).send().await?;
    assert_eq!(jobs.receive(1, HIDDEN).await?.len(), 1);
    server.clock().advance(Duration::from_secs(29));
    assert_eq!(jobs.receive(1, HIDDEN).await?.len(), 0);
    server.clock().advance(Duration::from_secs(1));
    assert_eq!(jobs.receive(1, HIDDEN).await?[0].text(), "one");
    server.clock().advance(Duration::from_secs(70));
    assert_eq!(jobs.receive(1, HIDDEN).await?.len(), 0, "it has expired");
    Ok(())
}

#[tokio::test]
async fn a_delete_with_a_lost_response_has_deleted_the_message() -> TestResult {
    let (server, account, _) = start().await?;
    let jobs = account.queue("jobs");
    jobs.create().await?;
    jobs.put(Body::text("one")).send().await?;
    let message = jobs.receive(1, HIDDEN).await?.remove(0);
    let lost = server.inject(Fault::on(Operation::DeleteMessage).times(1).close_after_commit());
    assert!(jobs.delete_if_exists(&message).await?);
    assert_eq!((lost.hits(), server.journal().count(Operation::DeleteMessage)), (1, 2));
    server.clock().advance(Duration::from_secs(31));
    assert_eq!(jobs.receive(1, HIDDEN).await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn every_message_is_processed_at_least_once() -> TestResult {
    let (server, client, _) = start().await?;
    client.queue("jobs").create().await?;
    let work = async |account: &rowkey::StorageAccount| {
        let (jobs, table) = (account.queue("jobs"), account.table("counters"));
        for message in jobs.receive(1, HIDDEN).await? {
            let id = message.text().parse().unwrap_or_default();
            table.upsert(&crate::counter("done", id)).await?;
            jobs.delete(&message).await?;
        }
        Ok::<_, rowkey::Error>(())
    };
    client.queue("jobs").put(Body::text("7")).send().await?;
    let runs = sweep_all(
        &server,
        async |account| work(account).await,
        async |account, _| Ok(work(account).await?),
        |snapshot, _| {
            let done: Vec<_> = snapshot.table("counters").unwrap().entities().collect();
            assert_eq!(done.len(), 1);
            assert_eq!(done[0].row_key(), "0007");
            assert_eq!(snapshot.queue("jobs").unwrap().messages().count(), 0);
        },
    )
    .await?;
    assert_eq!(runs.requests, 3);
    assert_eq!(account(&server)?.queue("jobs").approximate_count().await?, 1);
    Ok(())
}
