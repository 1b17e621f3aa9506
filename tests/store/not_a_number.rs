//! Numbers that are not a number do not equal themselves. What holds them is right all the same, and is stored once.

use futures_util::stream;
use rowkey::pace::Pace;
use rowkey::patterns::job::Report;
use rowkey::store::{Copies, RemoteCopies, Store, View};
use rowkey::{Entity, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

/// With a copy elsewhere that has the number.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{site}", row = "sensor_{id:4}")]
#[entity(index(name = by_serial, partition = "serial_{serial}", row = "{site}_{id}", copy(degrees)))]
struct Sensor {
    site: String,
    id: u32,
    serial: String,
    degrees: f64,
    label: String,
}

/// A place that shows the label of a sensor, and has a number of its own.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{site}", row = "{name}")]
struct Place {
    site: String,
    name: String,
    metres: f64,
    label: Option<String>,
}

/// How many sensors there are, with a number that is not of the view.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{site}", row = "summary")]
struct Summary {
    site: String,
    sensors: i64,
    share: Option<f64>,
}

fn sensor(id: u32, degrees: f64) -> Sensor {
    Sensor { site: "north".into(), id, serial: format!("s{id}"), degrees, label: "a".into() }
}

fn place(site: &str) -> Place {
    Place { site: site.into(), name: "roof".into(), metres: f64::NAN, label: None }
}

fn store(account: &StorageAccount) -> rowkey::Result<Store<Sensor>> {
    let label = |sensor: &Sensor| sensor.label.clone();
    let set = |place: &mut Place, label: Option<&String>| place.label = label.cloned();
    let near = |sensor: &Sensor| [Place::key(&sensor.site, "roof")];
    let far = |_: &Sensor| [Place::key("elsewhere", "roof")];
    let summary = |sensor: &Sensor| Some(Summary::key(&sensor.site));
    Store::builder(account.table("sensors"))
        .queue(account.queue("sensors"))
        .with(Copies::new("near", 1, near, label, set))
        .with(RemoteCopies::new("far", &account.table("places"), far, label, set))
        .with(View::new("sites", &account.table("sites"), summary).count(Summary::SENSORS))
        .build()
}

async fn start() -> TestResult<(Server, StorageAccount, Store<Sensor>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let sensors = store(&account)?;
    sensors.create_if_missing().await?;
    sensors.table().insert(&place("north")).await?;
    account.table("places").insert(&place("elsewhere")).await?;
    Ok((server, account, sensors))
}

fn assert_right(report: &Report) {
    assert!(report.is_clean() && report.total.repaired == 0, "{report:?}");
}

#[tokio::test]
async fn what_has_a_number_that_is_none_is_right_once_it_is_settled() -> TestResult {
    let (_server, account, sensors) = start().await?;
    sensors.insert(&sensor(1, f64::NAN)).await?;
    sensors.repair().run().await?;
    let sites = account.table("sites");
    let summary = sites.get(Summary::key("north")).await?.ok_or("no summary")?;
    assert_eq!(summary.entity.sensors, 1);
    let share = Summary { share: Some(f64::NAN), ..summary.entity.clone() };
    sites.merge((&share, &summary)).await?;

    assert_right(&sensors.verify().run().await?);
    assert_right(&sensors.repair().run().await?);
    Ok(())
}

#[tokio::test]
async fn a_load_whose_answers_are_lost_stores_it() -> TestResult {
    let (server, _, sensors) = start().await?;
    let all =
        || stream::iter((0..40).map(|id| sensor(id, if id % 2 == 0 { f64::NAN } else { 1.5 })));
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_after_commit());
    let pace = Pace::background();
    let before = server.journal();
    let report = sensors.load(all()).pace(pace.clone()).run().await?;
    assert_eq!((lost.hits(), report.total.right, report.is_clean()), (1, 40, true), "{report:?}");
    // With the clean-up at its end.
    assert_eq!(pace.requests().sent, server.journal().since(&before).len() as u64);
    let again = sensors.load(all()).run().await?;
    assert_eq!((again.total.right, again.is_clean()), (40, true), "{again:?}");
    Ok(())
}
