//! Verifying, mending and building indexes elsewhere.

use rowkey::{Key, Match, Table};
use rowkey_patterns::verify::IndexReport;
use rowkey_tests::random::{Random, Seed, seeds};

use super::*;

fn copy(partition: &str, row: &str) -> Key<DynamicEntity> {
    Key::new(partition, row)
}

async fn alter(table: &Table, key: Key<DynamicEntity>, name: &str, value: &str) -> Result<()> {
    let mut row = table.get(key).await?.unwrap().entity;
    row.set(name, value);
    table.replace((&row, Match::Any)).await.map(drop)
}

#[tokio::test]
async fn drift_of_every_kind_is_found_and_mended() -> TestResult {
    let (server, account, staff) = start().await?;
    let others = account.table("others");
    for id in 1..=5 {
        let email = format!("e{id}@x.org");
        let badge = Some(format!("B{id}"));
        staff.insert(&Employee { badge, ..employee("it", id, "King", &email) }).await?;
    }
    settle(&staff).await?;
    assert_no_drift(&account).await?;

    others.delete(copy("email", "e1@x.org"), Match::Any).await?;
    staff.table().delete(copy("city_Leeds", "King_it_000002"), Match::Any).await.ok();
    staff.table().delete(copy("city_Leeds", "King_it_id_000002"), Match::Any).await?;
    alter(&others, copy("badge", "B3"), "FirstName", "Bob").await?;
    alter(staff.table(), copy("pay", "-9999999999999999899_it_id_000003"), "More", "x").await?;
    // Deleted past the source: four copies elsewhere are left.
    staff.table().delete(key("it", 4), Match::Any).await?;
    staff.table().delete(copy("it", "last_King_id_000004"), Match::Any).await?;
    // Changed past the source: one copy is missing, and one is left.
    let five = Employee {
        email: "new@x.org".into(),
        badge: Some("B5".into()),
        ..employee("it", 5, "King", "")
    };
    staff.table().replace((&five, Match::Any)).await?;
    alter(staff.table(), copy("it", "last_King_id_000005"), "Email", "new@x.org").await?;

    let verify = index(&account).verify();
    let mut check = verify.check();
    let report = check.run().await?;
    let of = |name: &str| {
        let IndexReport { missing, orphan, stale, .. } = report.index(name).unwrap();
        (*missing, *orphan, *stale)
    };
    assert_eq!(of("by_email"), (2, 2, 0));
    assert_eq!(of("by_city"), (1, 1, 1), "a whole copy of what was changed is stale");
    assert_eq!(of("by_badge"), (0, 1, 1));
    assert_eq!(of("by_pay"), (0, 1, 1));
    assert_eq!(report.index("by_last_name").unwrap().copies, 0, "that is the source's own");

    let mut repair = verify.repair();
    let report = repair.run().await?;
    assert!(report.is_in_step(), "{report:?}");
    assert_eq!(report.indexes.iter().map(|index| index.mended).sum::<u64>(), 11);
    assert_no_drift(&account).await?;
    assert_eq!(assert_in_step(&server.snapshot()).len(), 4);
    Ok(())
}

#[tokio::test]
async fn what_no_worker_has_carried_on_yet_may_be_mended_before() -> TestResult {
    let (server, account, staff) = start().await?;
    staff.insert(&employee("it", 1, "King", "a@x.org")).await?;
    let mut check = index(&account).verify().check();
    assert_eq!(check.run().await?.index("by_email").unwrap().missing, 1);
    let mut repair = index(&account).verify().repair();
    assert_eq!(repair.run().await?.index("by_email").unwrap().mended, 1);
    // The worker finds nothing to do.
    assert_eq!(staff.worker().step().await?, Step::Suppressed);
    assert_in_step(&server.snapshot());
    Ok(())
}

/// Changes at random, of values that are unique to the round.
async fn write(staff: &Source<Employee>, seed: u64, writer: u32) -> Result<()> {
    let mut random = Random(seed * 100 + u64::from(writer));
    for round in 0..10 {
        // Entities that are there, and some that all writers write.
        let id = if random.one_in(2) { random.below(40) } else { 900 + random.below(3) };
        let email = format!("w{writer}r{round}@x.org");
        let entity = Employee {
            badge: random.one_in(2).then(|| format!("W{writer}R{round}")),
            cents: i64::from(random.below(3)),
            ..employee("it", id, random.pick(&["King", "Noel"]), &email)
        };
        let done = match random.below(4) {
            0 => staff.delete_if_exists(key("it", id)).await.map(drop),
            1 => staff.update(key("it", id), |e| *e = entity.clone()).await.map(drop),
            _ => staff.upsert(&entity).await.map(drop),
        };
        match done {
            Err(error) if error.is_not_found() => {}
            done => done?,
        }
    }
    Ok(())
}

#[tokio::test]
async fn indexes_are_built_while_eight_writers_and_two_workers_go_on() -> TestResult {
    for seed in seeds(4) {
        let _seed = Seed(seed);
        let (server, account, staff) = start().await?;
        // Stored before there were indexes elsewhere.
        let none: [Follower<Employee>; 0] = [];
        let before = Source::new(account.table("staff"), account.queue("staff-changes"), none)?;
        for id in 0..40 {
            before.insert(&employee("it", id, "Byron", &format!("e{id}@x.org"))).await?;
        }
        let done = std::cell::Cell::new(false);
        let workers = (0..2).map(|_| async {
            let worker = staff.worker();
            loop {
                let ended = done.get();
                if worker.step().await? == Step::Idle && ended {
                    return Ok::<_, Error>(());
                }
            }
        });
        let writers = (0..8).map(|writer| write(&staff, seed, writer));
        let writing = async {
            let written = futures_util::future::try_join_all(writers).await;
            done.set(true);
            written
        };
        let build = async {
            let mut built = Vec::new();
            for name in ["by_email", "by_city", "by_badge", "by_pay"] {
                let mut build = index(&account).verify().page_size(10).build(name);
                while build.step().await? {}
                built.push(build.report().index(name).unwrap().mended);
            }
            Ok::<_, Error>(built)
        };
        let all = async { tokio::join!(writing, build, futures_util::future::join_all(workers)) };
        let (written, built, worked) = Box::pin(all).await;
        written?;
        worked.into_iter().collect::<Result<()>>()?;
        assert!(built?[0] > 0, "it was built, and not only written");
        server.clock().advance(Duration::from_secs(3600));
        let account = rowkey_tests::sweep::account(&server)?;
        work_off(&account).await?;
        assert_no_drift(&account).await?;
        assert_in_step(&server.snapshot());
    }
    Ok(())
}
