//! Wide entities with everything else that a type declares.

use super::*;
use rowkey_tests::TestResult;

/// A year with what else a type declares.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 6, partition = "{city}", row = "station_{id:2}", rename_all = "PascalCase")]
#[entity(index(name = by_owner, row = "owner_{owner}", many, copy(owner, tag)))]
#[entity(index(name = by_tag_anywhere, partition = "tag_{tag}", row = "{city}_{id}", copy(tag)))]
#[entity(unique(name = by_number, value = "{number}"))]
#[entity(list(name = by_tag, value = "{tag}"))]
struct Station {
    city: String,
    id: u32,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
    #[entity(encrypt)]
    note: String,
    #[entity(encrypt)]
    plan: Vec<u8>,
    #[entity(blob)]
    photo: Vec<u8>,
    number: u32,
    owner: String,
    tag: String,
}

/// Its declared fields are in the last row.
fn station(id: u32, hours: u32) -> Station {
    Station {
        city: "leeds".into(),
        id,
        hours: (0..hours).map(|hour| (format!("H{hour:05}"), 20.5)).collect(),
        note: "under the mat".into(),
        plan: vec![7; 1000],
        photo: vec![1; 1000],
        number: id,
        owner: "ada".into(),
        tag: "new".into(),
    }
}

fn station_key(id: u32) -> Key<Station> {
    Station::key("leeds", id)
}

fn stations(account: &StorageAccount, key: &str) -> rowkey::Result<Store<Station>> {
    let ring_of = |key| KeyRing::new("stations", key, MacKey::new("records", [1; 32]));
    let old = AesKeyWrap::new("2025", [25; 32]);
    let ring = match key {
        "2025" => ring_of(old),
        _ => ring_of(AesKeyWrap::new("2026", [26; 32])).with(old),
    };
    Store::builder(account.table("stations"))
        .queue(account.queue("stations"))
        .blobs(account.container("stations"))
        .keys(ring)
        .build()
}

/// An account that reads from the secondary where it may.
fn connect(server: &Server) -> rowkey::Result<StorageAccount> {
    let account = account(server)?;
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    Ok(account.with_options(options))
}

async fn with_stations() -> TestResult<(Server, Store<Station>)> {
    let server = Server::builder().manual_clock().start().await?;
    let stations = stations(&account(&server)?, "2025")?;
    stations.create_if_missing().await?;
    Ok((server, stations))
}

/// No row contains plaintext of an encrypted field.
fn assert_sealed(snapshot: &Snapshot) {
    for row in snapshot.table("stations").unwrap().entities() {
        for (name, value) in row.properties() {
            let is_plain = value == "under the mat".into() || value == vec![7_u8; 1000].into();
            assert!(!is_plain, "{name} of {}", row.row_key());
        }
    }
}

#[tokio::test]
async fn a_wide_entity_supports_every_other_declaration() -> TestResult {
    let (server, stations_2025) = with_stations().await?;
    let stations_now = &stations_2025;
    for id in 1..4 {
        stations_now.insert(&station(id, 300 * id)).await?;
    }
    assert_sealed(&server.snapshot());
    let of_ada = stations_now.query(Station::by_owner("leeds", "ada")).all().await?;
    let of_tag = stations_now.query(Station::by_tag("leeds", "new")).all().await?;
    for found in [of_ada, of_tag] {
        let found: Vec<_> = found.into_iter().map(|found| found.entity).collect();
        assert_eq!(found, [station(1, 300), station(2, 600), station(3, 900)]);
    }
    let found = stations_now.find(Station::by_number(3_u32)).await?.unwrap();
    assert_eq!(found.entity, station(3, 900));
    let change = |station: &mut Station| {
        (station.owner, station.tag) = ("lee".into(), "old".into());
        station.hours.retain(|hour, _| hour.as_str() < "H00280");
    };
    stations_now.update(station_key(3), change).await?;
    let of_lee = stations_now.query(Station::by_owner("leeds", "lee")).all().await?;
    assert_eq!(of_lee.len(), 1);
    assert_eq!(of_lee[0].entity.hours.len(), 280);
    let old = Station::by_tag_anywhere("old", "leeds", 3_u32);
    assert!(stations_now.find(old).await?.is_some());
    // Pointers to blobs stay in the head, where a sweep looks for them.
    server.clock().advance(std::time::Duration::from_secs(3 * 86_400));
    let stations_now = &stations(&account(&server)?, "2025")?;
    assert_eq!(stations_now.sweep().run().await?.total.orphaned, 0);
    assert_eq!(stations_now.get(station_key(2)).await?.unwrap().entity, station(2, 600));
    let report = stations_now.verify().run().await?;
    assert!(report.is_clean() && report.total.drifted() == 0, "{report:?}");

    // Values in further rows are sealed anew, once.
    let with_new_key = stations(&account(&server)?, "2026")?;
    let report = with_new_key.reencrypt().run().await?;
    assert_eq!(report.part("encryption").repaired, 3, "{report:?}");
    let report = with_new_key.reencrypt().run().await?;
    assert_eq!((report.part("encryption").right, report.total.repaired), (3, 0), "{report:?}");
    assert_sealed(&server.snapshot());
    let deleted = with_new_key.delete_where(Station::partition("leeds")).run().await?;
    assert_eq!(deleted.total.right, 3);
    let snapshot = server.snapshot();
    let left = snapshot.table("stations").unwrap().entities();
    assert_eq!(left.filter(|row| row.partition_key() == "leeds").count(), 0, "nothing is left");
    Ok(())
}

#[tokio::test]
async fn loads_fill_transactions_with_wide_entities() -> TestResult {
    let (server, _, years) = start().await?;
    let all = |value| {
        let of = move |number| Year { number, ..year(700, value) };
        stream::iter((0..60).map(of).collect::<Vec<_>>())
    };
    let begun = server.journal();
    let report = years.load(all(1.0)).run().await?;
    assert!(report.is_clean() && report.total.right == 60, "{report:?}");
    // 3 rows each, 33 to a transaction.
    assert_eq!(sent(&server, &begun)[2], 2);
    let report = years.load_over(all(2.0)).run().await?;
    assert!(report.is_clean() && report.total.right == 60, "{report:?}");
    let last = years.get(Year::key("leeds", 59)).await?.unwrap().entity;
    assert_eq!(last, Year { number: 59, ..year(700, 2.0) });
    assert_eq!(layout(&server.snapshot()).len(), 180);
    assert_eq!(years.delete_where(Year::partition("leeds")).run().await?.total.right, 60);
    assert_eq!(layout(&server.snapshot()), []);
    Ok(())
}

#[tokio::test]
async fn entities_with_a_common_key_prefix_are_unaffected() -> TestResult {
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, wide = 5, partition = "all", row = "n_{name}")]
    struct Named {
        name: String,
        #[entity(rest)]
        numbers: BTreeMap<String, i32>,
    }

    let (server, account, _) = start().await?;
    let all = Store::<Named>::builder(account.table("years")).build()?;
    let named = |name: &str, count: i32| {
        let numbers = (0..count).map(|number| (format!("N{number}"), number)).collect();
        Named { name: name.into(), numbers }
    };
    let mut names = vec![("a", 300), ("a_01", 400), ("a_0", 500), ("b", 600), ("a_", 700)];
    for (name, count) in &names {
        all.insert(&named(name, *count)).await?;
    }
    while let Some((name, _)) = names.pop() {
        assert!(all.delete(Named::key(name)).await?);
        for (left, count) in &names {
            let entity = all.get(Named::key(*left)).await?.unwrap().entity;
            assert_eq!(entity, named(left, *count), "{left} after {name}");
        }
    }
    assert_eq!(layout(&server.snapshot()), []);
    Ok(())
}

/// Every request of every write is rejected, lost before, lost after, and the caller dropped at it, with a
/// secondary that lags.
#[tokio::test]
async fn the_rows_of_an_entity_have_one_version_after_any_fault() -> TestResult {
    let (server, stations_now) = with_stations().await?;
    stations_now.insert(&station(1, 600)).await?;
    let grown = || Station { tag: "old".into(), ..station(1, 900) };
    let shrunk = || Station { owner: "lee".into(), ..station(1, 280) };
    let report = brief(Sweep::new(&server).lagging_secondary())
        .run(
            async |server| Ok(stations(&connect(server)?, "2025")?),
            async |stations| {
                // Inserts and deletions are swept with each pair of declarations.
                let results = [
                    stations.upsert(&grown()).await.map(drop),
                    stations.update(station_key(1), |at| *at = shrunk()).await.map(drop),
                ];
                results.into_iter().collect::<rowkey::Result<()>>()
            },
            async |stations| {
                stations.drain_backlog().await?;
                assert_eq!(stations.work_once().await?.failed, 0);
                Ok(())
            },
            async |server, stations, result| {
                let report = stations.verify().run().await?;
                assert!(report.is_clean() && report.total.drifted() == 0, "{report:?}");
                // A blob of a write that was just given up is left alone for now.
                assert_eq!(stations.sweep().run().await?.total.orphaned, 0);
                let now = stations.get(station_key(1)).await?.unwrap().entity;
                assert!([station(1, 600), grown(), shrunk()].contains(&now), "one of them");
                assert!(!matches!(result, Some(Ok(()))) || now == shrunk());
                assert_sealed(&server.snapshot());
                Ok(())
            },
        )
        .await?;
    eprintln!("{report}");
    Ok(())
}

#[tokio::test]
async fn a_transaction_may_mix_wide_and_other_entities() -> TestResult {
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(store, partition = "{city}", row = "city_{city}")]
    #[entity(index(name = by_mayor, row = "mayor_{mayor}"))]
    struct City {
        city: String,
        mayor: String,
    }

    let (server, account, years) = start().await?;
    let cities = Store::<City>::builder(account.table("years")).build()?;
    let city = City { city: "leeds".into(), mayor: "kim".into() };
    let (one, other) = (year(300, 1.0), Year { number: 2027, ..year(600, 2.0) });
    let begun = server.journal();
    let submitted =
        years.transaction().insert(&one).insert(&other).with(&cities, &city).submit().await?;
    assert_eq!(sent(&server, &begun), [0, 0, 1, 0]);
    let stored = years.get(key()).await?.unwrap();
    assert_eq!((&stored.entity, submitted.versions[0].as_ref()), (&one, Some(&stored.version)));
    assert_eq!(cities.find(City::by_mayor("leeds", "kim")).await?.unwrap().entity, city);
    // All or nothing, under the version of each.
    let next = year(10, 3.0);
    let change = || years.transaction().replace_if(&next, stored.version.clone());
    change()
        .delete_if(&Year::key("leeds", 2027), submitted.versions[1].clone().unwrap())
        .submit()
        .await?;
    assert_eq!(change().submit().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(years.get(key()).await?.unwrap().entity, next);
    assert_eq!(layout(&server.snapshot()).len(), 3);
    Ok(())
}
