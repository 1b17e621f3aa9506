//! Random operations, some of whose requests fail, against a plain map.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream;
use rowkey::{Match, Outcome, Result};
use rowkey_server::{ErrorCode, Fault};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};

use super::{GUARD, Photo, blobs, key, named, noise, photo, photos, start};

#[tokio::test]
async fn whatever_fails_entities_are_what_a_map_says_and_no_blob_is_left() -> TestResult {
    for seed in seeds(25) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let (server, large) = start().await?;
        // Some programs compress, and repeat nothing.
        let once = photos(&rowkey_tests::sweep::once(large.table().account())).compress();
        let mut model: BTreeMap<u32, Photo> = BTreeMap::new();
        for _ in 0..30 {
            let number = random.below(3) + 1;
            let large = if random.one_in(3) { &once } else { &large };
            let image = match random.below(4) {
                0 => None,
                1 => Some(vec![7; 3000]),
                _ => Some(noise(random.next(), random.below(3000) as usize)),
            };
            let notes = "so ".repeat(random.below(700) as usize);
            let new = Photo { image, notes, ..photo(number) };
            let before = model.get(&number).cloned();
            let injected = random.one_in(3).then(|| {
                let requests = Fault::any().nth(u64::from(random.below(6)) + 1).times(1);
                server.inject(match random.below(4) {
                    0 => requests.close_before_commit(),
                    1 => requests.close_after_commit(),
                    2 => requests.reject(ErrorCode::SERVER_BUSY),
                    _ => requests.reject(ErrorCode::INTERNAL_ERROR),
                })
            });
            let (after, result): (Option<Photo>, Result<()>) = match random.below(7) {
                0 if before.is_none() => {
                    let result = large.insert(&new).await.map(drop);
                    (Some(new), result)
                }
                1 if before.is_some() => {
                    let result = large.delete(key(number), Match::Any).await;
                    (None, result)
                }
                2 if before.is_some() => {
                    let titled = Photo { title: "Snow".into(), ..before.clone().unwrap() };
                    let change = |photo: &mut Photo| photo.title = "Snow".into();
                    let result = large.update(key(number), change).await.map(drop);
                    (Some(titled), result)
                }
                3 if before.is_some() => {
                    let result = large.update(key(number), |photo| *photo = new.clone()).await;
                    (Some(new), result.map(drop))
                }
                4 if before.is_some() => {
                    let bytes = noise(random.next(), 2000);
                    let content = Bytes::from(bytes.clone());
                    let pieces = stream::iter([Ok::<_, std::io::Error>(content)]);
                    let result = large.write(key(number), "Image", pieces).await.map(drop);
                    (Some(Photo { image: Some(bytes), ..before.clone().unwrap() }), result)
                }
                5 if before.is_some() => match large.get(key(number)).await {
                    Ok(stored) => {
                        let stored = stored.unwrap().map(|photo| *photo = new.clone());
                        (Some(new), large.replace(&stored).await.map(drop))
                    }
                    Err(error) => (before.clone(), Err(error)),
                },
                _ => {
                    let result = large.upsert(&new).await.map(drop);
                    (Some(new), result)
                }
            };
            drop(injected);
            named(&server.snapshot());
            let now = large.get(key(number)).await?.map(|stored| stored.entity);
            match result {
                Ok(()) => assert_eq!(now, after),
                Err(error) if error.outcome() == Outcome::Unknown => {
                    assert!(now == before || now == after, "{error}");
                }
                Err(error) => assert_eq!(now, before, "{error}"),
            }
            match now {
                Some(now) => model.insert(number, now),
                None => model.remove(&number),
            };
        }
        server.clock().advance(GUARD * 2);
        large.sweep().page_size(3).run().await?;
        assert_eq!(named(&server.snapshot()), blobs(&server.snapshot()));
        for number in 1..=3 {
            let stored = large.get(key(number)).await?.map(|stored| stored.entity);
            assert_eq!(stored.as_ref(), model.get(&number));
        }
    }
    Ok(())
}
