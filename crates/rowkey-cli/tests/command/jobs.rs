//! What all commands that run a job share, by the example of `rowkey count`.

use std::fs;
#[cfg(unix)]
use std::process::Child;
use std::time::Duration;

use futures_util::stream;
use rowkey::patterns::job::Job;
use rowkey::{Clock as _, DynamicEntity, StorageAccount, SystemClock};
#[cfg(unix)]
use rowkey_emulator::Injected;
use rowkey_emulator::{ErrorCode, Fault, Operation};

use crate::support::Account;
#[cfg(unix)]
use crate::support::{signalled, started};

/// Three pages of one partition.
const ROWS: u32 = 2_500;

async fn filled() -> Account {
    let account = Account::with_orders().await;
    let storage = StorageAccount::from_connection_string(account.server.connection_string());
    let orders = storage.unwrap().table("orders");
    let rows = (0..ROWS).map(|row| DynamicEntity::new("hidden", format!("{row:04}")));
    Job::upsert(&orders, stream::iter(rows)).run().await.unwrap();
    account
}

/// One partition, so that no range is split by further requests.
const COUNT: [&str; 6] = ["count", "orders", "--partition", "hidden", "--checkpoint", "position"];
const COUNTED: &str = "{\"table\":\"orders\",\"entities\":2500}\n";

/// Starts the program, and returns when it waits for the answer to its second page.
#[cfg(unix)]
async fn stuck(account: &Account, args: &[&str]) -> (Child, Injected) {
    started(account, args, Fault::on(Operation::QueryEntities).nth(2).hold()).await
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_job_stops_at_a_signal_and_goes_on_from_its_checkpoint() {
    use std::os::unix::fs::PermissionsExt as _;

    let account = filled().await;
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let done = signalled(stuck(&account, &COUNT).await, signal);
        assert_eq!((done.code, &*done.out), (code, ""), "{done:?}");
        assert_eq!(done.err, "rowkey: stopped; the same command goes on from position\n");
        let mode = fs::metadata(account.path("position")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        let before = account.server.journal();
        let done = account.run(COUNT);
        assert_eq!((done.code, &*done.out), (0, COUNTED), "{done:?}");
        assert_eq!(done.err, "rowkey: goes on from position, after 1000 entities\n");
        let queries = account.server.journal().since(&before).count(Operation::QueryEntities);
        assert_eq!(queries, 2, "the first page is not read again");
        assert!(!account.path("position").exists(), "the job is done");
    }
    let done = signalled(stuck(&account, &COUNT[..4]).await, "-INT");
    assert_eq!(done.code, 130);
    assert!(done.err.contains("begins again; with --checkpoint FILE it would go on"), "{done:?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_killed_goes_on_from_its_checkpoint() {
    let account = filled().await;
    let done = signalled(stuck(&account, &COUNT).await, "-KILL");
    assert_eq!((done.code, &*done.out, &*done.err), (-1, "", ""));
    let done = account.run(COUNT);
    assert_eq!((done.code, &*done.out), (0, COUNTED), "{done:?}");
    assert!(done.err.contains("after 1000 entities"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_does_not_answer_ends_a_job_which_goes_on_later() {
    let account = filled().await;
    let busy = Fault::on(Operation::QueryEntities).nth(3).times(u64::MAX);
    let busy = account.server.inject(busy.reject(ErrorCode::SERVER_BUSY));
    let error = account.fails(6, COUNT.iter().chain(&["--timeout", "1"]));
    let advice = "; try again later, or allow more time by --timeout; the same command goes on from position";
    assert!(error.contains(advice), "{error}");
    drop(busy);
    let done = account.run(COUNT);
    assert_eq!((done.code, &*done.out), (0, COUNTED), "{done:?}");
    assert!(done.err.contains("after 2000 entities"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_of_another_job_is_refused_and_kept() {
    let account = filled().await;
    account.ok(["tables", "create", "others"]);
    let denied = Fault::on(Operation::QueryEntities).nth(2);
    let denied = account.server.inject(denied.reject(ErrorCode::AUTHENTICATION_FAILED));
    let error = account.fails(5, COUNT);
    assert!(error.contains("the same command goes on from position"), "{error}");
    drop(denied);

    let stored = fs::read(account.path("position")).unwrap();
    let sent = account.server.count_requests(Operation::QueryEntities);
    let file = ["--checkpoint", "position"];
    for (args, reason) in [
        (&["count", "others", "--partition", "hidden"][..], "belongs to the table orders"),
        (&["count", "orders"], "another `partition`"),
    ] {
        let error = account.fails(2, args.iter().chain(&file));
        assert!(error.contains(reason) && !error.contains("hidden"), "{error}");
        assert!(error.contains("or remove the file to begin again"), "{error}");
        assert_eq!(fs::read(account.path("position")).unwrap(), stored);
    }
    fs::write(account.path("position"), "secret").unwrap();
    let error = account.fails(2, COUNT);
    assert!(error.contains("position: ") && !error.contains("secret"), "{error}");
    let error = account.fails(1, ["count", "orders", "--checkpoint", "absent/position"]);
    assert!(error.contains("the checkpoint absent/position cannot be written"), "{error}");
    sent.check(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maximum_rate_slows_a_job_down() {
    let account = filled().await;
    let begun = SystemClock.elapsed();
    let counted =
        account.ok(COUNT[..4].iter().chain(&["--max-rate", "4000", "--concurrency", "1"]));
    assert_eq!(counted, COUNTED);
    // The third page waits until the rate allows the first two.
    assert!(SystemClock.elapsed().saturating_sub(begun) >= Duration::from_millis(450));
    for wrong in [["--max-rate", "0"], ["--concurrency", "0"], ["--concurrency", "257"]] {
        account.fails(2, ["count", "orders"].iter().chain(&wrong));
    }
}
