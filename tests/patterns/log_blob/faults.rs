//! What remains of a log when a request of its writer fails, when a flush is dropped, and when the
//! program stops.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use rowkey::patterns::log_blob::{BlobLog, LogWriter};
use rowkey::{ManualClock, StorageAccount};
use rowkey_emulator::{Fault, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, once, sweep};

use super::{after, lines};

fn log(account: &StorageAccount) -> BlobLog {
    // Small enough that blobs are left for their size, too.
    BlobLog::new(account.container("logs"), "web").max_blob(150)
}

async fn start() -> TestResult<Server> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    account.container("logs").create().await?;
    // Another writer has the first number of each hour.
    let other = log(&account).writer()?;
    for hour in 0..2 {
        other.log_at(after(hour * 3600), "other").await?;
    }
    other.close().await?;
    Ok(server)
}

/// What a program does: some flushes, over an hour and the size of a blob, and an orderly end. Returns
/// how many lines were written for certain, and the first error.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn program(writer: &LogWriter, flushed: &Cell<usize>) -> rowkey::Result<()> {
    for line in 0..5 {
        writer.log_at(after(line * 600 + 1), &format!("line {line} {}", "x".repeat(30))).await?;
        writer.flush().await?;
        flushed.set(flushed.get() + 1);
    }
    writer.close().await
}

/// Every line at most once and in order, the first `certain` of them for certain.
fn assert_lines(read: &[String], certain: usize) {
    let own: Vec<_> = read.iter().filter(|text| *text != "other").collect();
    assert_eq!(read.len(), own.len() + 2, "the other's are there");
    for (number, text) in own.iter().enumerate() {
        assert!(text.starts_with(&format!("line {number} ")), "{own:?}");
    }
    assert!((certain..=5).contains(&own.len()), "{certain} certain of {own:?}");
}

#[tokio::test]
async fn no_line_is_lost_or_duplicated_if_any_request_fails() -> TestResult {
    let server = start().await?;
    for repeats in [true, false] {
        let runs = sweep(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                let writer = log(&account).writer()?;
                let flushed = Cell::new(0);
                let first = program(&writer, &flushed).await;
                Ok::<_, rowkey::Error>((writer, flushed.get(), first.err()))
            },
            async |account, result| {
                let (writer, flushed, error) = result.as_ref().map_err(ToString::to_string)?;
                let texts = async || -> rowkey::Result<Vec<String>> {
                    Ok(lines(&log(account)).await?.into_iter().map(|line| line.text).collect())
                };
                assert!(error.is_none() || !repeats, "{error:?}");
                // If the program stops there, acknowledged lines are stored.
                assert_lines(&texts().await?, *flushed);
                // If it continues, none of its lines is missing.
                let logged = *flushed + usize::try_from(writer.waiting().lines)?;
                writer.close().await?;
                assert_lines(&texts().await?, logged);
                Ok(())
            },
            |_, _| {},
        )
        .await?;
        assert!(runs.requests > 12, "{runs}");
    }
    Ok(())
}

/// A flush is dropped while its request is on its way: held before it is executed, or executed and never
/// answered. Then the program ends, or it goes on and flushes again.
#[tokio::test]
async fn a_dropped_flush_resumes_where_it_stopped() -> TestResult {
    let server = start().await?;
    let clean = server.fork().await?;
    program(&log(&account(&clean)?).writer()?, &Cell::new(0)).await?;
    let requests = u64::try_from(clean.journal().len())?;
    let mut runs = 0;
    for request in 1..=requests {
        for (executed, goes_on) in [(false, false), (false, true), (true, false), (true, true)] {
            let server = server.fork().await?;
            let read = async || -> rowkey::Result<Vec<String>> {
                let log = log(&account(&server)?);
                Ok(lines(&log).await?.into_iter().map(|line| line.text).collect())
            };
            let fault = Fault::any().nth(request);
            let hour = Duration::from_secs(3600);
            let stopped = server.inject(if executed { fault.delay(hour) } else { fault.hold() });
            let writer = log(&patient(&server)?).writer()?;
            let flushed = Cell::new(0);
            {
                let program = pin!(program(&writer, &flushed));
                let hit = pin!(stopped.wait_until_hit(1));
                let Either::Right(_) = select(program, hit).await else {
                    panic!("request {request} was not met");
                };
            }
            // Dropping it lets the held request go on, if the server has not seen that it is alone.
            if goes_on {
                let logged = flushed.get() + usize::try_from(writer.waiting().lines)?;
                writer.flush().await?;
                assert_lines(&read().await?, logged);
                drop(stopped);
                writer.close().await?;
                flushed.set(logged);
            } else {
                drop(stopped);
                let waiting = writer.waiting();
                assert!(waiting.lines <= 1 && waiting.bytes <= 100, "{waiting:?}");
            }
            assert_lines(&read().await?, flushed.get());
            runs += 1;
        }
    }
    eprintln!("{requests} requests, {runs} runs with a dropped flush");
    Ok(())
}

/// An account that waits for answers as long as it takes.
fn patient(server: &Server) -> rowkey::Result<StorageAccount> {
    StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::new(server.clock().now().to_chrono()))
        .build()
}

#[tokio::test]
async fn reads_are_complete_or_fail_and_deletion_is_repeatable() -> TestResult {
    let server = start().await?;
    program(&log(&account(&server)?).writer()?, &Cell::new(0)).await?;
    for repeats in [true, false] {
        let runs = sweep(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                let read = lines(&log(&account)).await?;
                // Both hours, of which the second may have begun.
                let deleted = log(&account).delete_before(after(5400)).await;
                Ok::<_, rowkey::Error>((read.len(), deleted))
            },
            async |account, result| {
                match result {
                    Ok((read, deleted)) => {
                        assert_eq!(*read, 7);
                        assert!(deleted.is_ok() || !repeats);
                    }
                    Err(error) => assert!(!repeats, "{error}"),
                }
                log(account).delete_before(after(5400)).await?;
                assert_eq!(lines(&log(account)).await?, []);
                Ok(())
            },
            |_, _| {},
        )
        .await?;
        assert!(runs.requests > 8, "{runs}");
    }
    Ok(())
}
