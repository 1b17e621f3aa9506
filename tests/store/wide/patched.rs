//! Patches of entities in parts beside other features: versions, other writers, encrypted entries, and copies.

use super::*;

use futures_util::future::join_all;
use rowkey::store::RemoteCopies;

/// A year in the rows of its properties.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 9, parts, partition = "{city}", row = "span_{number:4}")]
struct Span {
    city: String,
    number: u16,
    unit: Option<String>,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

/// The same rows in a program without parts.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 9, partition = "{city}", row = "span_{number:4}")]
struct Plain {
    city: String,
    number: u16,
    unit: Option<String>,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

fn span() -> Span {
    let Year { city, number, unit, hours } = year(600, 1.0);
    Span { city, number, unit: Some(unit), hours }
}

fn at() -> Key<Span> {
    Span::key("leeds", 2026)
}

fn spans(account: &StorageAccount) -> rowkey::Result<Store<Span>> {
    Store::builder(account.table("years")).build()
}

async fn is_clean(spans: &Store<Span>) -> TestResult {
    let report = spans.verify().run().await?;
    assert!(report.is_clean() && report.total.drifted() == 0, "{report:?}");
    Ok(())
}

#[tokio::test]
async fn a_patch_under_an_old_version_changes_nothing_whatever_wrote_the_new_one() -> TestResult {
    let (server, account, _) = start().await?;
    let spans = spans(&account)?;
    spans.insert(&span()).await?;
    let plain = Store::<Plain>::builder(account.table("years")).build()?;
    for way in 0..5 {
        let read = spans.get(at()).await?.unwrap();
        match way {
            0 => drop(spans.patch(at()).set_named("H00009", 2.0).send().await?),
            1 => drop(spans.update(at(), |span| span.unit = Some("K".into())).await?),
            2 => {
                let key = Plain::key("leeds", 2026);
                plain.update(key, |span| span.unit = Some("F".into())).await?;
            }
            3 => drop(spans.upsert(&span()).await?),
            _ => drop(spans.delete(at()).await?),
        }
        let rows = server.snapshot();
        let old = spans.patch(at()).set_named("H00007", 9.5).if_version(&read.version);
        let error = old.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{way}: {error}");
        assert_eq!(layout(&server.snapshot()), layout(&rows), "{way}");
        if let Some(now) = spans.get(at()).await? {
            assert_eq!(now.entity.hours.get("H00007"), Some(&1.0), "{way}");
            let patch = spans.patch(at()).set_named("H00007", 1.0).if_version(&now.version);
            let patched = patch.send().await?;
            let chained = spans.patch(at()).set_named("H00008", 3.0).if_version(&patched);
            chained.send().await?;
        }
        is_clean(&spans).await?;
    }
    Ok(())
}

#[tokio::test]
async fn patches_of_different_parts_at_the_same_time_are_all_kept() -> TestResult {
    let (_server, account, _) = start().await?;
    let spans = Store::<Span>::builder(account.table("years")).reads_copies().build()?;
    spans.insert(&span()).await?;
    let patches = (0..24).map(|hour| {
        let patch = spans.patch(at()).set_named(format!("H{hour:05}"), 7.0);
        patch.set_named(format!("H{:05}", 599 - hour), 8.0).send()
    });
    for patched in join_all(patches).await {
        patched?;
    }
    let mut expected = span();
    for hour in 0..24 {
        expected.hours.insert(format!("H{hour:05}"), 7.0);
        expected.hours.insert(format!("H{:05}", 599 - hour), 8.0);
    }
    assert_eq!(spans.get(at()).await?.unwrap().entity, expected);
    is_clean(&spans).await
}

/// Properties that a part has no room for, in a patch that writes other parts, too.
#[tokio::test]
async fn a_patch_that_fills_a_part_beyond_its_room_changes_nothing() -> TestResult {
    let (_server, account, _) = start().await?;
    let spans = spans(&account)?;
    spans.insert(&span()).await?;
    let patch = (0..1400)
        .fold(spans.patch(at()), |patch, hour| patch.set_named(format!("X{hour:05}"), 1.0));
    let error = patch.send().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::Invalid), "{error}");
    assert_eq!(spans.get(at()).await?.unwrap().entity, span());
    is_clean(&spans).await
}

/// A department whose name is copied into entities in parts.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "cities", row = "city_{name}")]
struct City {
    name: String,
    unit: String,
}

/// A copy and a patch at the same time: before each request of the write of the source, an hour is patched.
#[tokio::test]
async fn patches_of_targets_in_parts_and_their_copies_are_both_kept() -> TestResult {
    for nth in 1.. {
        let (server, account, _) = start().await?;
        let spans = spans(&account)?;
        let copies = RemoteCopies::through(
            "unit",
            &spans,
            |city: &City| [Span::partition(&city.name)],
            |city| city.unit.clone(),
            |span: &mut Span, unit| span.unit = unit.cloned(),
        );
        let cities = Store::<City>::builder(account.table("cities"))
            .queue(account.queue("cities"))
            .with(copies)
            .build()?;
        cities.create_if_missing().await?;
        spans.insert(&span()).await?;
        cities.insert(&City { name: "leeds".into(), unit: "K".into() }).await?;
        let held = server.inject(Fault::any().nth(nth).hold());
        let other = self::spans(&rowkey_tests::sweep::account(&server)?)?;
        let rival = async {
            held.wait_until_held().await;
            let patched = other.patch(at()).set_named("H00007", 9.5).send().await;
            held.release();
            patched
        };
        let change = |city: &mut City| city.unit = "F".into();
        let mut write = pin!(cities.update(City::key("leeds"), change));
        let Either::Right((patched, _)) = select(&mut write, pin!(rival)).await else { break };
        patched?;
        write.await?;
        let now = spans.get(at()).await?.unwrap().entity;
        assert_eq!((now.unit.as_deref(), now.hours["H00007"]), (Some("F"), 9.5), "request {nth}");
        assert_eq!(now.hours.len(), 600);
        is_clean(&spans).await?;
    }
    Ok(())
}
