//! A wide entity: every hour of a year in one entity, 8,759 properties where a row is limited to 252. It is
//! written and read as a single entity. In parts, each hour has a known row, and is read and corrected alone.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use rowkey::store::Store;
use rowkey::{Entity, StorageAccount};
use rowkey_emulator::{Operation, Server};

// ANCHOR: declare
/// A year of one city. The names of the hours are data: `H07011200` is noon of the first of July.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 40, partition = "{city}", row = "year_{year:4}", rename_all = "PascalCase")]
struct Temperatures {
    city: String,
    year: u16,
    unit: String,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}
// ANCHOR_END: declare

// ANCHOR: declare_parts
/// The same year in parts: the name of an hour determines its row.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(
    store,
    wide = 64,
    parts,
    partition = "{city}",
    row = "year_{year:4}",
    rename_all = "PascalCase"
)]
struct ByHour {
    city: String,
    year: u16,
    unit: String,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}
// ANCHOR_END: declare_parts

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let rows =
        || server.snapshot().table("temperatures").map_or(0, rowkey_emulator::StoredTable::len);

    // ANCHOR: write
    let years = Store::<Temperatures>::builder(account.table("temperatures")).build()?;
    years.create_if_missing().await?;

    let year =
        Temperatures { city: "Seattle".into(), year: 2010, unit: "F".into(), hours: read()? };
    years.insert(&year).await?;
    println!("{} hours in {} rows", year.hours.len(), rows());
    assert_eq!((year.hours.len(), rows()), (8759, 36));

    // The head and one range query bring all of it, of one version.
    let key = || Temperatures::key("Seattle", 2010);
    let stored = years.get(key()).await?.ok_or("it is there")?;
    assert_eq!(stored.entity, year);
    println!("at noon of the first of July: {:?}", stored.entity.hours.get("H07011200"));

    // A correction, under the version of no one else's write in between.
    let correct = |year: &mut Temperatures| {
        year.hours.insert("H07011200".into(), 61.5);
    };
    years.update(key(), correct).await?;
    let error = years.replace_if(&year, &stored.version).await.err().ok_or("it has changed")?;
    assert!(error.kind() == rowkey::ErrorKind::Conflict);
    println!("{error}");

    // The first quarter alone: surplus rows go in the same transaction.
    let shortened = |year: &mut Temperatures| year.hours.retain(|hour, _| hour.as_str() < "H04");
    println!("{}", years.explain().update(key(), shortened).await?);
    let spring = years.update(key(), shortened).await?;
    assert_eq!((spring.entity.hours.len(), rows()), (2159, 9));

    assert!(years.delete(key()).await?);
    assert_eq!(rows(), 0);
    // ANCHOR_END: write

    // Insert, two updates and delete: one transaction each. (The lost race was detected by the version.)
    assert_eq!(server.journal().count(Operation::Transaction), 4);

    // ANCHOR: parts
    let years = Store::<ByHour>::builder(account.table("temperatures")).build()?;
    let year = ByHour { city: "Seattle".into(), year: 2010, unit: "F".into(), hours: read()? };
    let inserted = years.insert(&year).await?.version;
    assert_eq!(rows(), 64);

    // A correction of one hour: one request, which changes the head and the row of this hour.
    let begun = server.journal();
    let key = || ByHour::key("Seattle", 2010);
    let correction = years.patch(key()).set_named("H07011200", 61.5);
    println!("{}", correction.explain().await?);
    let correct = || years.patch(key()).set_named("H07011200", 61.5).if_version(&inserted);
    let corrected = correct().send().await?;

    // Noon of the first of July: one request, which reads one row.
    let read = years.get_properties(key(), ["H07011200"]).await?.ok_or("it is there")?;
    assert_eq!(read.get("H07011200"), Some(&61.5.into()));
    assert_eq!(server.journal().since(&begun).len(), 2);

    // The entity has another version now.
    let error = correct().send().await.err().ok_or("it has changed")?;
    assert!(error.kind() == rowkey::ErrorKind::Conflict);
    let whole = years.get(key()).await?.ok_or("it is there")?;
    assert_eq!(whole.version, corrected);
    assert_eq!((whole.entity.hours.len(), whole.entity.hours["H07011200"]), (8759, 61.5));
    // ANCHOR_END: parts
    Ok(())
}

/// The hours of the file: `H` with month, day and time, and the temperature.
fn read() -> Result<BTreeMap<String, f64>, csv::Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/seattle-temps.csv");
    let mut hours = BTreeMap::new();
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (at, fahrenheit): (String, f64) = record?;
        let digits = at.chars().skip(4).filter(char::is_ascii_digit);
        hours.insert(format!("H{}", digits.collect::<String>()), fahrenheit);
    }
    Ok(hours)
}
