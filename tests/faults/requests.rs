//! `assert_requests`: what counts, and what a failure says.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use futures_util::future::join;
use rowkey::queue::Body;
use rowkey_emulator::{Fault, Operation, Server, Service, assert_requests};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

use crate::{Counter, counter, start};

/// The message of the panic of a future that panics.
async fn message(future: impl Future<Output = ()>) -> String {
    let Err(panic) = AssertUnwindSafe(future).catch_unwind().await else {
        return "no panic".to_owned();
    };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or("not a text", |text| *text).to_owned(),
    }
}

#[tokio::test]
async fn requests_of_a_future_are_counted_and_its_output_is_returned() -> TestResult {
    let (server, account, table) = start().await?;
    table.insert(&counter("a", 1)).await?;
    let found = assert_requests!(server, 1, async { table.get(Counter::key("a", 1)).await })?;
    assert_eq!(found.map(|found| found.entity), Some(counter("a", 1)));
    // A future, a reference to the server, ranges, none.
    let get = || table.get(Counter::key("a", 2));
    assert_requests!(&server, 1..=1, get())?;
    assert_requests!(server, ..=1, get())?;
    assert_requests!(server, 1.., get(),)?;
    assert_requests!(server, 0, async {});
    // `?` and `return` belong to the future.
    let refused: rowkey::Result<()> = assert_requests!(server, 1, async {
        table.insert(&counter("a", 1)).await?;
        Ok(())
    });
    assert!(refused.is_err());
    // One of an operation, of a service, of a table.
    let queue = account.queue("tasks");
    queue.create().await?;
    let both = async || {
        queue.approximate_count().await?;
        queue.put(Body::text("one")).send().await?;
        table.upsert(&counter("a", 2)).await
    };
    assert_requests!(server, Operation::PutMessage => 1, both())?;
    assert_requests!(server, Service::Queue => 2, both())?;
    assert_requests!(server, "counters" => 1, both())?;
    assert_requests!(server, "others" => 0, both())?;
    Ok(())
}

#[tokio::test]
async fn every_attempt_counts() -> TestResult {
    let (server, _, table) = start().await?;
    let _busy = server.inject(Fault::on(Operation::UpdateEntity).times(2).close_before_commit());
    let _busy = server.inject(
        Fault::on(Operation::InsertOrReplaceEntity)
            .times(2)
            .reject(rowkey_emulator::ErrorCode::SERVER_BUSY),
    );
    assert_requests!(server, 3, table.upsert(&counter("a", 1)))?;
    Ok(())
}

#[tokio::test]
async fn a_failure_lists_the_requests_without_keys() -> TestResult {
    let (server, account, table) = start().await?;
    let container = account.container("letters");
    let work = async || -> TestResult {
        container.create().await?;
        table.insert(&counter("secret", 1)).await?;
        for id in 1..4 {
            table.get(Counter::key("secret", id)).await?;
        }
        let twice = table.transaction().insert(&counter("secret", 1)).insert(&counter("secret", 2));
        assert!(twice.submit().await.is_err());
        container.blob("secret/1").put("text").send().await?;
        Ok(())
    };
    let said = message(async { assert_requests!(server, 3, work()).unwrap() }).await;
    assert_eq!(
        said,
        "requests: expected 3, received 7\n  \
         1. CreateContainer letters: 201\n  \
         2. InsertEntity counters: 204\n  \
         3. GetEntity counters: 200\n  \
         4 to 5. GetEntity counters: 404\n  \
         6. Transaction counters: 202, changed nothing\n  \
         7. PutBlob letters: 201"
    );
    let get = || table.get(Counter::key("secret", 1));
    let said =
        message(async { drop(assert_requests!(server, "letters" => 2..=4, get()).unwrap()) }).await;
    assert_eq!(said, "requests about `letters`: expected 2 to 4, received 0, and 1 of other kinds");
    let most = message(async { drop(assert_requests!(server, ..=0, get()).unwrap()) }).await;
    assert_eq!(most, "requests: expected 0, received 1\n  1. GetEntity counters: 200");
    let put = async { drop(assert_requests!(server, Operation::PutBlob => 1.., get()).unwrap()) };
    let said = message(put).await;
    assert_eq!(said, "requests PutBlob: expected at least 1, received 0, and 1 of other kinds");
    let blob = async { drop(assert_requests!(server, Service::Blob => 1, get()).unwrap()) };
    let said = message(blob).await;
    assert_eq!(said, "requests to the Blob service: expected 1, received 0, and 1 of other kinds");
    // A request whose response is lost.
    let _lost = server.inject(Fault::on(Operation::InsertEntity).times(1).close_after_commit());
    let insert = async { drop(assert_requests!(server, 2, table.insert(&counter("b", 1)))) };
    let said = message(insert).await;
    assert_eq!(said, "requests: expected 2, received 1\n  1. InsertEntity counters: no response");
    Ok(())
}

#[tokio::test]
async fn servers_count_apart_and_other_tasks_of_one_server_together() -> TestResult {
    let (one, _, first) = start().await?;
    let (other, _, second) = start().await?;
    let get = |table: rowkey::Table, times| async move {
        for id in 0..times {
            table.get(Counter::key("a", id)).await?;
        }
        Ok::<_, rowkey::Error>(())
    };
    let (three, five) = join(async { assert_requests!(one, 3, get(first.clone(), 3)) }, async {
        assert_requests!(other, 5, get(second.clone(), 5))
    })
    .await;
    three?;
    five?;
    // A task that is not in the future.
    let mut beside = None;
    assert_requests!(one, 2, async {
        #[expect(clippy::disallowed_methods, reason = "a task of the program")]
        let task = tokio::spawn(get(first.clone(), 1));
        beside = Some(task);
        if let Some(beside) = &mut beside {
            beside.await??;
        }
        get(first, 1).await?;
        TestResult::Ok(())
    })?;
    Ok(())
}

#[tokio::test]
async fn more_requests_than_the_journal_holds_are_counted() -> TestResult {
    let server = Server::start().await?;
    let table = account(&server)?.table("none");
    table.create().await?;
    let many = async || {
        for id in 0..10_100 {
            table.get(Counter::key("a", id % 100)).await?;
        }
        Ok::<_, rowkey::Error>(())
    };
    // Counted three times at once: of a kind, wrongly, and rightly.
    let (mut of_a_kind, mut wrongly) = (String::new(), String::new());
    assert_requests!(server, 10_100, async {
        wrongly = message(async {
            assert_requests!(server, 1, async {
                let filtered =
                    async { assert_requests!(server, "none" => 10_100, many()).unwrap() };
                of_a_kind = message(filtered).await;
            });
        })
        .await;
    });
    // A filter cannot say what the forgotten requests were.
    assert!(
        of_a_kind.starts_with("10100 requests arrived and the journal holds only the last 10000"),
        "{of_a_kind}"
    );
    assert_eq!(
        wrongly,
        "requests: expected 1, received 10100\n  the first 100 are no longer in the journal\n  101 to \
         10100. GetEntity none: 404"
    );
    Ok(())
}

#[tokio::test]
async fn a_server_without_a_journal_is_refused() -> TestResult {
    let server = Server::builder().journal(false).start().await?;
    let said = message(async { assert_requests!(server, 0, async {}) }).await;
    assert!(said.starts_with("the server has no journal"), "{said}");
    Ok(())
}
