//! Data series: a year of hourly temperatures, one entity per day and one property per hour.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::patterns::series::Series;
use rowkey::{Entity, StorageAccount};
use rowkey_emulator::{Operation, Server};

/// A day of a station, `seattle | 20100314`. Its only properties are the slots of its hours.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{station}", row = "{date:8}")]
struct Day {
    station: String,
    date: u32,
}

/// An hour of a station, `seattle | 20100314_02`, with a slot for each minute.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{station}", row = "{date:8}_{number:2}")]
struct Hour {
    station: String,
    date: u32,
    number: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("temperatures");
    table.create_if_missing().await?;

    // ANCHOR: write
    // 24 slots, t000 to t023. More than 252 slots are an error that suggests wide entities.
    let hours = Series::<f64>::new(table.clone(), "t", 24)?;

    // A year takes 365 requests, one for each day, eight at a time.
    let days = read()?;
    let writes = days.iter().map(|(day, values)| {
        let values = values.iter().map(|(hour, fahrenheit)| (*hour, *fahrenheit));
        hours.set_all(Day::key("seattle", *day), values)
    });
    stream::iter(writes).buffer_unordered(8).try_collect::<()>().await?;
    assert_eq!(server.journal().count(Operation::InsertOrMergeEntity), 365);
    // ANCHOR_END: write

    // ANCHOR: read
    // A day is one point query. The clocks went forward at three, so that hour is a gap.
    let changed = hours.get(Day::key("seattle", 20_100_314)).await?.ok_or("not there")?;
    assert_eq!(changed.entity.slots[2..5], [Some(43.0), None, Some(42.2)]);

    // A correction merges one slot, without a read and without a change of other hours.
    let before = server.journal();
    hours.set(Day::key("seattle", 20_100_314), 3, 42.6).await?;
    assert_eq!(server.journal().since(&before).len(), 1);

    // January as one ordered series of 744 hours, over 31 entities.
    let january = Day::partition("seattle").prefix("201001");
    let points: Vec<_> = hours.points(january).try_collect().await?;
    assert_eq!(points.len(), 31 * 24);
    assert!(points.is_sorted_by_key(|point| (point.entity.date, point.slot)));
    // ANCHOR_END: read
    let values: Vec<f64> = points.iter().filter_map(|point| point.value).collect();
    let coldest = values.iter().copied().fold(f64::INFINITY, f64::min);
    assert!((coldest - 38.6).abs() < 0.05, "{coldest}");

    // ANCHOR: overflow
    // The 1,440 minutes of a day do not fit into an entity. They are in 24, of which one transaction sets some
    // and one query reads all.
    let minutes = Series::<f64>::new(table.clone(), "m", 60)?;
    let before = server.journal();
    let of_hour = |hour| Hour::key("minutes", 20_100_314, hour);
    let falling =
        (0..1_440_u32).map(|minute| (u64::from(minute), 45.0 - f64::from(minute) / 1_440.0));
    minutes.set_numbered(of_hour, falling).await?;
    let day = Hour::partition("minutes").prefix("20100314");
    let points: Vec<_> = minutes.points(day).try_collect().await?;
    assert_eq!((points.len(), points[720].value), (1_440, Some(44.5)));
    assert_eq!(server.journal().since(&before).len(), 2);
    // ANCHOR_END: overflow

    // ANCHOR: count
    // Counters: eight concurrent increments, and none is lost.
    let visits = Series::<i64>::new(table, "v", 24)?;
    let today = Day::key("visits", 20_260_101);
    stream::iter((0..40).map(|_| visits.increment(today.clone(), 9, 1)))
        .buffer_unordered(8)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let today = visits.get(today).await?.ok_or("not there")?;
    assert_eq!(today.entity.slots[9], Some(40));
    // ANCHOR_END: count

    println!("365 days in 365 requests; coldest hour of January: {coldest} °F; 40 visits counted");
    Ok(())
}

/// The hours of each day, with their temperatures.
type Days = BTreeMap<u32, Vec<(usize, f64)>>;

/// Lines such as `2010/03/14 02:00,43.0`.
fn read() -> Result<Days, Box<dyn std::error::Error>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/seattle-temps.csv");
    let mut days = Days::new();
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (date, fahrenheit): (String, f64) = record?;
        let (day, time) = date.split_once(' ').ok_or("a date has a time")?;
        let (hour, _) = time.split_once(':').ok_or("a time has an hour")?;
        days.entry(day.replace('/', "").parse()?).or_default().push((hour.parse()?, fahrenheit));
    }
    Ok(days)
}
