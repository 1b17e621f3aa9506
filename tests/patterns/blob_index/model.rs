//! Random operations, some of whose requests fail, against a plain map.

use std::collections::BTreeMap;

use rowkey::Outcome;
use rowkey_server::{ErrorCode, Fault};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};

use super::{Employee, GUARD, blobs, employee, found, key, start};

#[tokio::test]
async fn whatever_fails_lookups_find_what_a_map_says() -> TestResult {
    for seed in seeds(15) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let (server, staff) = start().await?;
        let staff = staff.chunk_keys(2 + random.below(3) as usize);
        let mut model: BTreeMap<u32, Employee> = BTreeMap::new();
        for _ in 0..40 {
            let id = random.below(12);
            let name = random.pick(&["Jones", "King"]);
            let injected = random.one_in(3).then(|| {
                let requests = Fault::any().nth(u64::from(random.below(9)) + 1);
                server.inject(match random.below(4) {
                    0 => requests.close_before_commit(),
                    1 => requests.close_after_commit(),
                    2 => requests.reject(ErrorCode::SERVER_BUSY),
                    _ => requests.reject(ErrorCode::INTERNAL_ERROR),
                })
            });
            let before = model.get(&id).cloned();
            let (after, result) = match random.below(3) {
                0 => (None, staff.delete(key(id)).await.map(drop)),
                1 if before.is_some() => {
                    let change = |e: &mut Employee| e.last_name = Some(name.into());
                    (Some(employee(id, name)), staff.update(key(id), change).await.map(drop))
                }
                _ if before.is_none() => {
                    (Some(employee(id, name)), staff.insert(&employee(id, name)).await.map(drop))
                }
                _ => (before.clone(), Ok(())),
            };
            drop(injected);
            let now = staff.table().get(key(id)).await?.map(|stored| stored.entity);
            match result {
                Ok(()) => assert_eq!(now, after),
                Err(error) if error.outcome() == Outcome::Unknown => {
                    assert!(now == before || now == after, "{error}");
                }
                Err(error) => assert_eq!(now, before, "{error}"),
            }
            match now {
                Some(now) => model.insert(id, now),
                None => model.remove(&id),
            };
            for name in ["Jones", "King"] {
                let named = model.values().filter(|e| e.last_name.as_deref() == Some(name));
                let expected: Vec<_> = named.map(|e| e.id).collect();
                assert_eq!(found(&staff, name).await?, expected);
            }
        }
        server.clock().advance(GUARD * 2);
        let report = staff.repair().await?;
        assert_eq!((report.missing, report.damaged), (0, 0));
        assert!(staff.verify().await?.is_sound());
        for id in 0..12 {
            staff.delete(key(id)).await?;
        }
        staff.repair().await?;
        assert_eq!(blobs(&server.snapshot()), [""; 0]);
    }
    Ok(())
}
