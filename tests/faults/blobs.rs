//! The sweep over a staged upload: blocks one by one, then the list that makes them a blob.

use std::io;

use bytes::Bytes;
use futures_util::stream;
use rowkey::blob::Check;
use rowkey::{Outcome, StorageAccount};
use rowkey_emulator::{Fault, JournalEntry, Operation, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{Runs, once, sweep_all};

use crate::start;

const BEFORE: &[u8] = b"what was there before";
const AFTER: &[u8] = b"first block second blocklast";

async fn upload(account: &StorageAccount) -> rowkey::Result<()> {
    let pieces = AFTER.chunks(5).map(|piece| Ok::<_, io::Error>(Bytes::copy_from_slice(piece)));
    let blob = account.container("logs").blob("today");
    // One block at a time, so that the requests come in the same order every time.
    blob.upload(stream::iter(pieces)).block_size(12).concurrency(1).send().await?;
    Ok(())
}

fn content(snapshot: &Snapshot) -> Vec<u8> {
    snapshot.blob("logs", "today").unwrap_or_default()
}

#[tokio::test]
async fn a_staged_upload_is_atomic() -> TestResult {
    let (server, account, _) = start().await?;
    account.container("logs").create().await?;
    account.container("logs").blob("today").put(BEFORE).send().await?;
    let before = server.journal();
    let runs = sweep_all(
        &server,
        upload,
        async |_, _| Ok(()),
        |snapshot, result| {
            assert!(result.is_ok(), "{result:?}");
            assert_eq!(content(snapshot), AFTER);
        },
    )
    .await?;
    assert_eq!(runs, Runs { requests: 4, failures: 16 });

    let runs = sweep_all(
        &server,
        async |account| upload(&once(account)).await,
        // A program uploads again after an error, over the remains of the first attempt.
        async |account, result| {
            if result.is_err() {
                upload(account).await?;
            }
            Ok(())
        },
        |snapshot, _| assert_eq!(content(snapshot), AFTER),
    )
    .await?;
    assert_eq!(runs.failures, 16);
    let no_recovery = sweep_all(
        &server,
        async |account| upload(&once(account)).await,
        async |_, _| Ok(()),
        |snapshot, result| match result.as_ref().map_err(rowkey::Error::outcome) {
            Ok(()) => assert_eq!(content(snapshot), AFTER),
            Err(Outcome::NotSent | Outcome::Rejected) => assert_eq!(content(snapshot), BEFORE),
            Err(Outcome::Unknown) => assert!([BEFORE, AFTER].contains(&&*content(snapshot))),
        },
    )
    .await?;
    assert_eq!(no_recovery, runs);
    assert!(server.journal().since(&before).is_empty(), "only copies were written to");
    Ok(())
}

#[tokio::test]
async fn the_journal_contains_blocks_and_the_committing_list() -> TestResult {
    let (server, account, _) = start().await?;
    account.container("logs").create().await?;
    upload(&account).await?;
    let journal = server.journal().about("logs/today");
    let operations: Vec<_> = journal.iter().map(JournalEntry::operation).collect();
    assert_eq!(
        operations,
        [Operation::PutBlock, Operation::PutBlock, Operation::PutBlock, Operation::PutBlockList]
    );
    assert_eq!(journal.committed().len(), 4);
    Ok(())
}

#[tokio::test]
async fn the_checksum_of_a_resumed_range_covers_the_whole_range() -> TestResult {
    let (server, account, _) = start().await?;
    let container = account.container("checked");
    container.create().await?;
    let content: Vec<u8> = (0..=250).cycle().take(5 << 20).collect();
    container.blob("large").put(content.clone()).send().await?;
    for check in [Check::Crc64, Check::Md5] {
        let before = server.journal();
        let _fault = server.inject(Fault::on(Operation::GetBlob).nth(1).truncate(100_000));
        let read = container.blob("large").read().range(1..).check(check).bytes().await?;
        assert!(read.ok_or("just put")?.bytes == content[1..], "{check:?}");
        // Two parts, and the rest of the first.
        assert_eq!(server.journal().since(&before).count(Operation::GetBlob), 3, "{check:?}");
    }
    Ok(())
}
