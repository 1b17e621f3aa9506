//! Blobs that are deleted together by one request.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use rowkey::blob::Conditions;
use rowkey::sas::{BlobPermissions, Sas};
use rowkey::{Blob, Container, ErrorCode, ErrorKind, Outcome, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::sweep::account;
use rowkey_tests::{Arm, Fixture, TestResult, arm, unique_name};

async fn container(account: &StorageAccount) -> Result<Container, rowkey::Error> {
    let container = account.container(&unique_name());
    container.create().await?;
    Ok(container)
}

async fn put(container: &Container, names: &[&str]) -> Result<Vec<Blob>, rowkey::Error> {
    let blobs: Vec<_> = names.iter().map(|name| container.blob(name)).collect();
    for blob in &blobs {
        blob.put("x").send().await?;
    }
    Ok(blobs)
}

async fn names(container: &Container) -> Result<BTreeSet<String>, rowkey::Error> {
    let blobs: Vec<_> = container.blobs().stream().try_collect().await?;
    Ok(blobs.into_iter().map(|blob| blob.name).collect())
}

#[tokio::test]
async fn each_blob_has_its_own_result() -> TestResult {
    let fixture = Fixture::new().await?;
    let container = container(&fixture.account).await?;
    let odd = "a b/ü%41+&=?#'\"/😀.txt";
    let blobs = put(&container, &[odd, "changed", "leased", "mine", "plain", "kept"]).await?;
    let [odd, changed, leased, mine, plain, kept] = <[Blob; 6]>::try_from(blobs).unwrap();
    let read = changed.get().await?.unwrap();
    changed.put("another").send().await?;
    let lease = |blob: &Blob| {
        let blob = blob.clone();
        async move { blob.acquire_lease(Duration::from_secs(15)).await }
    };
    let of_other = lease(&leased).await?.unwrap();
    let own = lease(&mine).await?.unwrap();
    let results = container
        .delete_blobs(&[
            odd,
            container.blob("missing"),
            changed.with_conditions(&read.properties.etag),
            leased,
            mine.with_lease(&own),
            plain.with_conditions(Conditions::from(plain.get().await?.unwrap().properties.etag)),
        ])
        .await?;
    let kinds: Vec<_> =
        results.iter().map(|result| result.as_ref().map_err(rowkey::Error::kind)).collect();
    assert_eq!(
        kinds,
        [
            Ok(&true),
            Ok(&false),
            Err(ErrorKind::Conflict),
            Err(ErrorKind::Leased),
            Ok(&true),
            Ok(&true)
        ]
    );
    let refused = results[2].as_ref().unwrap_err();
    assert_eq!(refused.outcome(), Outcome::Rejected);
    assert_eq!(refused.details().operation_index, Some(2));
    assert_eq!(refused.code(), Some(&ErrorCode::CONDITION_NOT_MET));
    let left = ["changed", kept.name(), "leased"].map(str::to_owned);
    assert_eq!(names(&container).await?, left.into());
    of_other.release().await?;
    Ok(())
}

#[tokio::test]
async fn snapshots_are_deleted_alone_and_a_blob_with_snapshots_is_not() -> TestResult {
    let fixture = Fixture::new().await?;
    let container = container(&fixture.account).await?;
    let blob = put(&container, &["a"]).await?.remove(0);
    let snapshot = blob.at_snapshot(&blob.snapshot().await?);
    let results = container.delete_blobs(std::slice::from_ref(&blob)).await?;
    assert_eq!(results[0].as_ref().unwrap_err().code(), Some(&ErrorCode::SNAPSHOTS_PRESENT));
    if arm() == Arm::Azurite {
        // It does not decode the parameters of requests in a batch, such as the colons of a snapshot.
        return Ok(());
    }
    assert!(matches!(container.delete_blobs(&[snapshot, blob]).await?[..], [Ok(true), Ok(true)]));
    Ok(())
}

#[tokio::test]
async fn a_batch_takes_256_blobs_of_one_container_and_one_request() -> TestResult {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let container = container(&account).await?;
    let blobs: Vec<_> = (0..257).map(|n| container.blob(&format!("{n:03}"))).collect();
    for blob in &blobs {
        blob.put("x").send().await?;
    }
    assert!(container.delete_blobs(&[]).await?.is_empty());
    let error = container.delete_blobs(&blobs).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    for other in [account.container("others").blob("a"), container.blob("a/../b")] {
        let error = container.delete_blobs(&[blobs[0].clone(), other]).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    }
    let text = "AccountName=other;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/other";
    let elsewhere = StorageAccount::from_connection_string(text)?.container(container.name());
    let error = container.delete_blobs(&[elsewhere.blob("000")]).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));

    let before = server.journal();
    let results = container.delete_blobs(&blobs[..256]).await?;
    assert!(results.len() == 256 && results.iter().all(|result| matches!(result, Ok(true))));
    let sent = server.journal().since(&before);
    assert_eq!((sent.len(), sent.count(Operation::BlobBatch)), (1, 1));
    assert_eq!(names(&container).await?, ["256".to_owned()].into());
    Ok(())
}

#[tokio::test]
async fn a_shared_access_signature_must_permit_deletion() -> TestResult {
    let fixture = Fixture::new().await?;
    let container = container(&fixture.account).await?;
    put(&container, &["a", "b c"]).await?;
    let with = |permissions| -> TestResult<Container> {
        let sas = Sas::container(container.name()).permissions(permissions);
        let sas = sas.valid_for(Duration::from_secs(600));
        let token = sas.sign(&fixture.account)?;
        let account = StorageAccount::from_connection_string(&token.connection_string())?;
        Ok(account.container(container.name()))
    };
    let reader = with(BlobPermissions::READ)?;
    let refused = match reader.delete_blobs(&[reader.blob("a")]).await {
        Ok(mut results) => results.remove(0).unwrap_err(),
        // Azurite refuses the batch.
        Err(error) => error,
    };
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::Auth, Outcome::Rejected));
    let deleter = with(BlobPermissions::DELETE)?;
    let results = deleter.delete_blobs(&[deleter.blob("a"), deleter.blob("b c")]).await?;
    assert!(matches!(results[..], [Ok(true), Ok(true)]), "{results:?}");
    Ok(())
}

#[tokio::test]
async fn a_missing_container_is_no_missing_blob() -> TestResult {
    let fixture = Fixture::new().await?;
    let container = fixture.account.container(&unique_name());
    let error = match container.delete_blobs(&[container.blob("a")]).await {
        Ok(mut results) => results.remove(0).unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.code(), Some(&ErrorCode::CONTAINER_NOT_FOUND));
    Ok(())
}

#[tokio::test]
async fn a_batch_whose_answer_is_lost_is_repeated() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let container = container(&account).await?;
    let blobs = put(&container, &["a", "b"]).await?;
    let lost = server.inject(Fault::on(Operation::BlobBatch).times(1).close_after_commit());
    // Whether it existed is unknown then, and it counts as deleted.
    assert!(matches!(container.delete_blobs(&blobs).await?[..], [Ok(true), Ok(true)]));
    assert_eq!(lost.hits(), 1);
    assert!(names(&container).await?.is_empty());

    // A condition that does not hold any more is in doubt, too: the first attempt may have deleted the blob.
    let blobs = put(&container, &["a"]).await?;
    let stale = blobs[0].with_conditions(rowkey::ETag::new("\"0x1\""));
    let lost = server.inject(Fault::on(Operation::BlobBatch).times(1).close_after_commit());
    let results = container.delete_blobs(&[stale]).await?;
    assert_eq!(lost.hits(), 1);
    assert_eq!(results[0].as_ref().unwrap_err().outcome(), Outcome::Unknown);

    // Nothing answers.
    let _lost = server.inject(Fault::on(Operation::BlobBatch).close_before_commit());
    let error = container.delete_blobs(&blobs).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
    assert_eq!(names(&container).await?.len(), 1);
    Ok(())
}
