//! The blobs that a job frees are deleted together, and one by one where that is not possible.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::stream;
use rowkey::edm::Value;
use rowkey::store::Store;
use rowkey::{Entity, ErrorCode, StorageAccount};
use rowkey_emulator::{Fault, Journal, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sweep_every_way};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "photo_{id:4}")]
struct Photo {
    tenant: String,
    id: u32,
    #[entity(blob)]
    image: Vec<u8>,
    #[entity(blob)]
    note: Option<String>,
}

fn photo(tenant: &str, id: u32) -> Photo {
    let note = id.is_multiple_of(2).then(|| format!("note {id}"));
    Photo { tenant: tenant.into(), id, image: vec![7; 100], note }
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Photo>> {
    let store = Store::builder(account.table("photos")).queue(account.queue("photos"));
    store.blobs(account.container("photos")).build()
}

/// A server with photos of two tenants.
async fn start(count: u32) -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let photos = store(&account)?;
    photos.create_if_missing().await?;
    let all = ["contoso", "fabrikam"].map(|tenant| (0..count).map(move |id| photo(tenant, id)));
    let report = photos.load(stream::iter(all.into_iter().flatten())).run().await?;
    assert!(report.is_clean());
    Ok((server, account))
}

/// Deletes the photos of a tenant, and returns the requests.
async fn delete(server: &Server, account: &StorageAccount, count: u64) -> TestResult<Journal> {
    let before = server.journal();
    let report = store(account)?.delete_where(Photo::partition("contoso")).run().await?;
    assert!(report.is_clean() && report.total.right == count, "{report:?}");
    Ok(server.journal().since(&before))
}

/// The names of the stored blobs, and those that the photos name.
fn blobs(snapshot: &Snapshot) -> (BTreeSet<String>, BTreeSet<String>) {
    let stored = snapshot.blobs("photos").map(str::to_owned).collect();
    let rows = snapshot.table("photos").unwrap();
    let named = rows.entities().flat_map(|row| {
        ["image_Blob", "note_Blob"].into_iter().filter_map(move |pointer| {
            let Some(Value::String(pointer)) = row.get(pointer) else { return None };
            let pointer: serde_json::Value = serde_json::from_str(&pointer).unwrap();
            Some(pointer["blob"].as_str().unwrap().to_owned())
        })
    });
    (stored, named.collect())
}

/// Asserts that the photos of the other tenant have their blobs, and that there are no others.
fn agreed(snapshot: &Snapshot, photos: usize) {
    let (stored, named) = blobs(snapshot);
    assert_eq!(stored, named);
    assert_eq!(stored.len(), photos + photos.div_ceil(2));
}

#[tokio::test]
async fn a_job_deletes_blobs_by_one_request_for_each_transaction() -> TestResult {
    // 300 blobs of 200 photos in three transactions of at most 99.
    let (server, account) = start(200).await?;
    let sent = delete(&server, &account, 200).await?;
    assert_eq!(sent.count(Operation::BlobBatch), 3);
    assert_eq!(sent.count(Operation::DeleteBlob), 0);
    agreed(&server.snapshot(), 200);
    assert_eq!(server.snapshot().queue("photos").unwrap().messages().count(), 0);

    // A single write deletes its blob as before.
    let before = server.journal();
    let one = Photo { note: None, ..photo("fabrikam", 0) };
    store(&account)?.upsert(&one).await?;
    let sent = server.journal().since(&before);
    assert_eq!((sent.count(Operation::BlobBatch), sent.count(Operation::DeleteBlob)), (0, 1));
    Ok(())
}

#[tokio::test]
async fn a_service_without_batches_is_asked_once() -> TestResult {
    for code in [
        ErrorCode::new("NotImplemented"),
        ErrorCode::INVALID_INPUT,
        ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH,
    ] {
        let (server, account) = start(120).await?;
        let _refused = server.inject(Fault::on(Operation::BlobBatch).reject(code));
        let sent = delete(&server, &account, 120).await?;
        assert_eq!((sent.count(Operation::BlobBatch), sent.count(Operation::DeleteBlob)), (1, 180));
        agreed(&server.snapshot(), 120);
    }
    Ok(())
}

#[tokio::test]
async fn blobs_that_a_batch_does_not_delete_are_deleted_one_by_one() -> TestResult {
    // The batch is not answered, whether it took effect or not, and the next one is sent all the same.
    for lost in [true, false] {
        let (server, account) = start(120).await?;
        let batch = Fault::on(Operation::BlobBatch).times(4);
        let lost = server.inject(if lost {
            batch.close_after_commit()
        } else {
            batch.close_before_commit()
        });
        let sent = delete(&server, &account, 120).await?;
        assert_eq!((lost.hits(), sent.count(Operation::BlobBatch)), (4, 5));
        assert!(sent.count(Operation::DeleteBlob) > 100);
        agreed(&server.snapshot(), 120);
    }

    // One blob has a lease: its deletion stays with the worker, and the others are deleted.
    let (server, account) = start(4).await?;
    let (stored, _) = blobs(&server.snapshot());
    let photos = account.container("photos");
    let mut lease = None;
    for name in &stored {
        let metadata = photos.blob(name).properties().await?.ok_or("it is stored")?.metadata;
        // `contoso` in hexadecimal.
        if metadata["partitionkey"] == "636f6e746f736f" && lease.is_none() {
            lease = photos.blob(name).acquire_lease(Duration::from_secs(15)).await?;
        }
    }
    let sent = delete(&server, &account, 4).await?;
    assert_eq!(sent.count(Operation::BlobBatch), 1);
    assert!(sent.count(Operation::DeleteBlob) >= 1);
    let (left, named) = blobs(&server.snapshot());
    assert_eq!(left.difference(&named).count(), 1);
    lease.ok_or("it was taken")?.release().await?;
    server.clock().advance(Duration::from_secs(61));
    assert_eq!(store(&account)?.work_once().await?.failed, 0);
    agreed(&server.snapshot(), 4);
    Ok(())
}

#[tokio::test]
async fn no_live_blob_is_lost_and_none_is_left_after_any_fault_or_crash() -> TestResult {
    let (server, _) = start(3).await?;
    let deleted = async |account: &StorageAccount| {
        let all = store(account)?.delete_where(Photo::partition("contoso"));
        all.run().await.map_err(rowkey::Error::from)
    };
    let recover = async |account: &StorageAccount| {
        let photos = store(account)?;
        for _ in 0..3 {
            photos.drain_backlog().await?;
            assert_eq!(photos.work_once().await?.failed, 0);
        }
        deleted(account).await?;
        for _ in 0..3 {
            photos.drain_backlog().await?;
            assert_eq!(photos.work_once().await?.failed, 0);
        }
        Ok(())
    };
    sweep_every_way(
        &server,
        async |account| deleted(account).await.is_ok(),
        recover,
        |snapshot| agreed(snapshot, 3),
    )
    .await
}
