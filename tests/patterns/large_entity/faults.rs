//! Every request of every operation fails in every way, and every operation is stopped at each of its
//! requests: no row names a blob that is not there, and after a sweep there is no blob that no row names.

use bytes::Bytes;
use futures_util::stream;
use rowkey::{Match, Outcome, Result, StorageAccount};
use rowkey_large::Large;
use rowkey_server::{Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{once, stopped_at_every_request, sweep};

use super::{Photo, blobs, key, named, noise, photo, photos, start};

fn before() -> Photo {
    Photo { notes: "long".repeat(500), ..photo(1) }
}

fn after() -> Photo {
    Photo { image: Some(noise(9, 3000)), title: "Snow".into(), ..before() }
}

/// All names lead somewhere, and nothing else is there.
fn nothing_is_left(snapshot: &Snapshot) {
    assert_eq!(named(snapshot), blobs(snapshot));
}

/// What a row names is there already before anybody has swept.
async fn nothing_dangles(account: &StorageAccount) -> TestResult {
    photos(account).get(key(1)).await?;
    Ok(())
}

/// Sweeps an operation that changes the photo to `after`; `None`: it is deleted.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn survives(
    server: &Server,
    before: Option<Photo>,
    after: Option<Photo>,
    operation: impl AsyncFn(Large<Photo>) -> Result<()>,
) -> TestResult {
    let recover = async |account: &StorageAccount, result: &Result<()>| {
        nothing_dangles(account).await?;
        let photos = photos(account);
        let now = photos.get(key(1)).await?.map(|stored| stored.entity);
        match result {
            Ok(()) => assert_eq!(now, after),
            Err(error) if error.outcome() == Outcome::Unknown => {
                assert!(now == before || now == after);
            }
            Err(error) => assert_eq!(now, before, "{error}"),
        }
        photos.sweep().run().await?;
        Ok(())
    };
    let invariants = |snapshot: &Snapshot, _: &Result<()>| nothing_is_left(snapshot);
    let scenario = async |account: &StorageAccount| operation(photos(account)).await;
    sweep(server, scenario, recover, invariants).await?;
    let scenario = async |account: &StorageAccount| operation(photos(&once(account))).await;
    sweep(server, scenario, recover, invariants).await?;

    let scenario = async |account: &StorageAccount| operation(photos(account)).await;
    let recover = async |account: &StorageAccount| {
        nothing_dangles(account).await?;
        let photos = photos(account);
        let now = photos.get(key(1)).await?.map(|stored| stored.entity);
        assert!(now == before || now == after);
        photos.sweep().run().await?;
        Ok(())
    };
    stopped_at_every_request(server, scenario, recover, nothing_is_left).await?;
    Ok(())
}

async fn with_one() -> std::result::Result<(Server, Large<Photo>), Box<dyn std::error::Error>> {
    let (server, photos) = start().await?;
    photos.insert(&before()).await?;
    Ok((server, photos))
}

#[tokio::test]
async fn whatever_request_of_an_insert_fails_no_address_dangles() -> TestResult {
    let (server, _) = start().await?;
    survives(&server, None, Some(after()), async |photos| photos.insert(&after()).await.map(drop))
        .await
}

#[tokio::test]
async fn whatever_request_of_a_replace_fails_no_address_dangles() -> TestResult {
    let (server, photos) = with_one().await?;
    let stored = photos.get(key(1)).await?.unwrap().map(|photo| *photo = after());
    survives(&server, Some(before()), Some(after()), async |photos| {
        photos.replace(&stored).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn whatever_request_of_an_update_fails_no_address_dangles() -> TestResult {
    let (server, _) = with_one().await?;
    survives(&server, Some(before()), Some(after()), async |photos| {
        photos.update(key(1), |photo| *photo = after()).await.map(drop)
    })
    .await?;
    let titled = Photo { title: "Snow".into(), ..before() };
    survives(&server, Some(before()), Some(titled), async |photos| {
        photos.update(key(1), |photo| photo.title = "Snow".into()).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn whatever_request_of_an_upsert_fails_no_address_dangles() -> TestResult {
    let upsert = async |photos: Large<Photo>| photos.upsert(&after()).await.map(drop);
    let (server, _) = start().await?;
    survives(&server, None, Some(after()), upsert).await?;
    let (server, _) = with_one().await?;
    survives(&server, Some(before()), Some(after()), upsert).await
}

#[tokio::test]
async fn whatever_request_of_a_delete_fails_no_address_dangles() -> TestResult {
    let (server, _) = with_one().await?;
    survives(&server, Some(before()), None, async |photos| photos.delete(key(1), Match::Any).await)
        .await
}

#[tokio::test]
async fn whatever_request_of_a_streamed_write_fails_no_address_dangles() -> TestResult {
    let (server, _) = with_one().await?;
    let image = noise(3, 4000);
    let after = Photo { image: Some(image.clone()), ..before() };
    let bytes = Bytes::from(image);
    survives(&server, Some(before()), Some(after), async |photos| {
        let pieces = stream::iter([Ok::<_, std::io::Error>(bytes.clone())]);
        photos.write(key(1), "Image", pieces).await.map(drop)
    })
    .await
}

#[tokio::test]
async fn whatever_request_of_a_sweep_fails_the_next_one_finishes() -> TestResult {
    let (server, photos) = with_one().await?;
    photos.insert(&photo(2)).await?;
    photos.table().delete(key(2), Match::Any).await?;
    server.clock().advance(super::GUARD * 2);
    let run = async |account: &StorageAccount| photos_sweep(account).await;
    let recover = async |account: &StorageAccount, _: &Result<()>| {
        nothing_dangles(account).await?;
        Ok(photos_sweep(account).await?)
    };
    sweep(&server, run, recover, |snapshot, _| nothing_is_left(snapshot)).await?;
    let recover = async |account: &StorageAccount| Ok(photos_sweep(account).await?);
    stopped_at_every_request(&server, run, recover, nothing_is_left).await?;
    Ok(())
}

async fn photos_sweep(account: &StorageAccount) -> Result<()> {
    photos(account).sweep().page_size(2).run().await.map(drop)
}
