//! Writers, readers and sweeps that meet: what each does when another was between its requests.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use futures_util::{StreamExt as _, stream};
use rowkey::{ClientOptions, Clock, ErrorKind, ManualClock, Match, RetryOptions, StorageAccount};
use rowkey_large::Large;
use rowkey_server::{Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};

use super::{GUARD, Photo, blobs, key, named, noise, photo, photos, start};

#[tokio::test]
async fn a_reader_whose_blob_is_freed_reads_the_version_that_took_its_place() -> TestResult {
    let (server, photos) = start().await?;
    photos.insert(&photo(1)).await?;
    let held = server.inject(Fault::on(Operation::GetBlob).nth(1).hold());
    let (read, ()) = join(photos.get(key(1)), async {
        held.wait_until_held().await;
        let image = Some(noise(9, 50_000));
        photos.upsert(&Photo { image, ..photo(1) }).await.unwrap();
        held.release();
    })
    .await;
    assert_eq!(read?.unwrap().entity.image.unwrap().len(), 50_000);
    assert_eq!(server.journal().count(Operation::GetBlob), 2);
    Ok(())
}

/// An account whose clock is moved together with the server's.
async fn clocked() -> Result<(Server, ManualClock, Large<Photo>), Box<dyn std::error::Error>> {
    let (server, _) = start().await?;
    let clock = ManualClock::new(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    Ok((server, clock, photos(&account)))
}

#[tokio::test]
async fn a_slow_writer_makes_its_blobs_young_again() -> TestResult {
    let (server, clock, photos) = clocked().await?;
    photos.insert(&photo(1)).await?;
    // The upload takes three quarters of the guard.
    let slow = stream::once(async {
        clock.advance(GUARD / 4 * 3);
        server.clock().advance(GUARD / 4 * 3);
        Ok::<_, std::io::Error>(Bytes::from(vec![7; 50_000]))
    });
    let held = server.inject(Fault::on(Operation::UpdateEntity).nth(1).hold());
    let sweep = async {
        held.wait_until_held().await;
        server.clock().advance(GUARD / 2);
        let swept = photos.sweep().run().await.unwrap();
        held.release();
        swept
    };
    let (written, swept) = join(photos.write(key(1), "Image", slow.boxed()), sweep).await;
    written?;
    assert_eq!((swept.young, swept.in_use, swept.freed), (1, 1, 0));
    assert_eq!(server.journal().count(Operation::SetBlobMetadata), 1);
    assert_eq!(named(&server.snapshot()), blobs(&server.snapshot()));
    assert_eq!(photos.get(key(1)).await?.unwrap().entity.image.unwrap(), vec![7; 50_000]);
    Ok(())
}

#[tokio::test]
async fn a_writer_whose_blobs_were_swept_does_not_write_its_row() -> TestResult {
    let (server, clock, photos) = clocked().await?;
    photos.insert(&photo(1)).await?;
    let slow = stream::iter([Bytes::from_static(b"a"), Bytes::new()]).then(|piece| {
        let (clock, server) = (clock.clone(), &server);
        async move {
            clock.advance(GUARD);
            server.clock().advance(GUARD);
            Ok::<_, std::io::Error>(piece)
        }
    });
    let held = server.inject(Fault::on(Operation::SetBlobMetadata).nth(1).hold());
    let sweep = async {
        held.wait_until_held().await;
        server.clock().advance(GUARD * 2);
        let swept = photos.sweep().run().await.unwrap();
        held.release();
        swept
    };
    let (written, swept) = join(photos.write(key(1), "Image", slow.boxed()), sweep).await;
    assert_eq!((swept.in_use, swept.freed), (1, 1));
    let error = written.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("swept because its row was not written"), "{error}");
    assert_eq!(photos.get(key(1)).await?.unwrap().entity, photo(1));
    assert_eq!(named(&server.snapshot()), blobs(&server.snapshot()));
    Ok(())
}

#[tokio::test]
async fn a_sweep_does_not_free_what_was_made_young_after_it_was_listed() -> TestResult {
    let (server, photos) = start().await?;
    let two = photos.stow(&photo(2)).await?;
    server.clock().advance(GUARD * 2);
    let held = server.inject(Fault::on(Operation::DeleteBlob).nth(1).hold());
    let (swept, ()) = join(photos.sweep().run(), async {
        held.wait_until_held().await;
        let name = blobs(&server.snapshot()).remove(0);
        let blob = photos.container().blob(&name);
        let metadata = blob.properties().await.unwrap().unwrap().metadata;
        let pairs: Vec<_> = metadata.iter().map(|(name, value)| (&**name, &**value)).collect();
        blob.set_metadata(&pairs).await.unwrap();
        photos.table().insert(&two).await.unwrap();
        held.release();
    })
    .await;
    assert_eq!(swept?.changed, 1);
    assert_eq!(photos.get(key(2)).await?.unwrap().entity, photo(2));
    Ok(())
}

#[tokio::test]
async fn an_insert_is_never_repeated_even_if_inserts_may_be() -> TestResult {
    let (server, _) = start().await?;
    let account = rowkey_tests::sweep::account(&server)?;
    let retry = RetryOptions { repeat_inserts: true, ..RetryOptions::default() };
    let account = account.with_options(ClientOptions { retry, ..account.options().clone() });
    let photos = photos(&account);
    let lost = server.inject(Fault::on(Operation::InsertEntity).close_after_commit());
    photos.insert(&photo(1)).await?;
    assert_eq!(lost.hits(), 1);
    assert_eq!(server.journal().count(Operation::InsertEntity), 1, "it was read back");

    drop(lost);
    // Had it been repeated, the row would come back after somebody deleted it and freed its blobs.
    let lost = server.inject(Fault::on(Operation::InsertEntity).close_before_commit());
    let error = photos.insert(&photo(2)).await.unwrap_err();
    assert_eq!(lost.hits(), 1);
    assert_eq!(error.outcome(), rowkey::Outcome::Unknown);
    assert_eq!(photos.get(key(2)).await?, None);
    assert_eq!(blobs(&server.snapshot()).len(), 2, "left to the sweep");
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_does_not_hide_what_somebody_else_wrote_after() -> TestResult {
    let (server, photos) = start().await?;
    photos.insert(&photo(1)).await?;
    let stored = photos.get(key(1)).await?.unwrap();
    let replaced = stored.map(|photo| photo.image = Some(noise(9, 50_000)));
    let _lost = server.inject(Fault::on(Operation::UpdateEntity).nth(1).close_after_commit());
    let again = server.inject(Fault::on(Operation::UpdateEntity).nth(1).hold());
    let (written, ()) = join(photos.replace(&replaced), async {
        again.wait_until_held().await;
        // The first attempt was applied. Another writer keeps its image, and alters the title.
        photos.update(key(1), |photo| photo.title = "Snow".into()).await.unwrap();
        again.release();
    })
    .await;
    let error = written.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Conflict, rowkey::Outcome::Unknown));
    let now = photos.get(key(1)).await?.unwrap().entity;
    assert_eq!((&*now.title, now.image.unwrap().len()), ("Snow", 50_000));
    server.clock().advance(GUARD * 2);
    photos.sweep().run().await?;
    assert_eq!(named(&server.snapshot()), blobs(&server.snapshot()));
    Ok(())
}

/// Writers of a few photos, and sweeps, all at once; what a reader finds at any time is whole.
#[tokio::test]
async fn writers_readers_and_sweeps_at_once_never_leave_an_address_that_dangles() -> TestResult {
    let mut freed = 0;
    for seed in seeds(25) {
        let _seed = Seed(seed);
        let (server, photos) = start().await?;
        for number in 1..=3 {
            photos.stow(&photo(number)).await?;
        }
        server.clock().advance(GUARD * 2);
        let writers = (0..4).map(|writer| {
            let photos = photos.clone();
            let mut random = Random(seed * 10 + writer);
            async move {
                for _ in 0..12 {
                    write_something(&photos, &mut random).await;
                }
            }
        });
        let sweeps = async {
            let mut freed = 0;
            for _ in 0..6 {
                freed += photos.sweep().page_size(2).run().await.unwrap().freed;
                named(&server.snapshot());
            }
            freed
        };
        let readers = async {
            for n in 0..20 {
                photos.get(key(n % 3 + 1)).await.unwrap();
                named(&server.snapshot());
            }
        };
        let (_, (sweep, ())) = join(join_all(writers), join(sweeps, readers)).await;
        freed += sweep;
        server.clock().advance(GUARD * 2);
        photos.sweep().run().await?;
        assert_eq!(named(&server.snapshot()), blobs(&server.snapshot()));
    }
    assert!(freed > 0, "sweeps had nothing to do");
    Ok(())
}

async fn write_something(photos: &Large<Photo>, random: &mut Random) {
    let number = random.below(3) + 1;
    let image = noise(random.next(), 1500);
    let written = match random.below(6) {
        0 => photos.insert(&Photo { image: Some(image), ..photo(number) }).await.map(drop),
        1 => photos.upsert(&Photo { image: Some(image), ..photo(number) }).await.map(drop),
        2 => photos.update(key(number), |photo| photo.image = Some(image.clone())).await.map(drop),
        3 => photos.update(key(number), |photo| photo.title.push('!')).await.map(drop),
        4 => {
            let bytes = Bytes::from(image);
            let pieces = stream::iter([Ok::<_, std::io::Error>(bytes)]);
            photos.write(key(number), "Image", pieces).await.map(drop)
        }
        _ => photos.delete(key(number), Match::Any).await,
    };
    if let Err(error) = written {
        let expected = [ErrorKind::AlreadyExists, ErrorKind::Conflict, ErrorKind::NotFound];
        assert!(expected.contains(&error.kind()), "{error}");
    }
}

#[tokio::test]
async fn a_clock_that_is_wrong_frees_nothing_young() -> TestResult {
    let (server, photos) = start().await?;
    photos.stow(&photo(1)).await?;
    let clock = ManualClock::new(server.clock().now().to_chrono() + Duration::from_secs(600));
    assert!(clock.now() > server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock)
        .build()?;
    let swept = super::photos(&account).sweep().run().await?;
    assert_eq!((swept.young, swept.freed), (1, 0));
    Ok(())
}
