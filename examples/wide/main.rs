//! A wide entity: every hour of a year in one logical entity, 8,759 properties where an entity may
//! have 252. It is written as one, read as one, and corrected an hour at a time.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::error::Error;
use std::path::Path;

use rowkey::{Entity, StorageAccount};
use rowkey_patterns::wide::{Wide, WideEntity};
use rowkey_server::{Operation, Server};

/// Where it was measured: a part of the wide entity that has a type. Its templates are the keys of
/// the whole.
#[derive(Debug, PartialEq, Entity)]
#[entity(partition = "{city}", row = "{year:4}", rename_all = "PascalCase")]
struct Station {
    city: String,
    year: u16,
    unit: String,
    elevation: i32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("temperatures");
    table.create().await?;
    let years = Wide::new(table);

    let station = Station { city: "Seattle".into(), year: 2010, unit: "F".into(), elevation: 56 };
    let mut year = WideEntity::new("Seattle", "2010");
    year.add(&station)?;
    for (hour, fahrenheit) in read()? {
        year.set(hour, fahrenheit);
    }
    years.insert(&year).await?;
    let rows = server.snapshot().table("temperatures").map_or(0, rowkey_server::StoredTable::len);
    println!("{} properties in {rows} rows", year.len());
    assert_eq!((year.len(), rows), (8761, 35));

    // One query brings all of it, of one version.
    let key = Station::key("Seattle", 2010);
    let mut stored = years.get(key.clone()).await?.ok_or("it is there")?;
    assert_eq!(stored.entity.read_as::<Station>()?, station);
    println!("at noon of the first of July: {:?}", stored.entity.get("H07011200"));
    let mut other = stored.clone();

    // A correction sends one property and the version.
    years.merge(&mut stored, [("H07011200", 61.5)]).await?;
    // Whoever read before is told so, whichever hour it is about.
    let error = years.merge(&mut other, [("H12312300", 30.0)]).await.err().ok_or("changed")?;
    assert!(error.is_conflict());
    println!("{error}");

    // The spring alone: surplus rows go in the same transaction.
    let names: Vec<_> = stored.entity.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names.iter().filter(|name| name.starts_with('H') && name.as_str() >= "H04") {
        stored.entity.remove(name);
    }
    years.replace(&mut stored).await?;
    let rows = server.snapshot().table("temperatures").map_or(0, rowkey_server::StoredTable::len);
    println!("{} properties in {rows} rows", stored.entity.len());
    assert_eq!((stored.entity.len(), rows), (2161, 9));

    assert!(years.delete_if_exists(key).await?);
    // Insert, merge, the merge that lost, replace and delete: a transaction each.
    assert_eq!(server.journal().count(Operation::Transaction), 5);
    Ok(())
}

/// The hours of the file: `H` with month, day and time, and the temperature.
fn read() -> Result<Vec<(String, f64)>, csv::Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/seattle-temps.csv");
    let mut hours = Vec::new();
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (at, fahrenheit): (String, f64) = record?;
        let digits = at.chars().skip(4).filter(char::is_ascii_digit);
        hours.push((format!("H{}", digits.collect::<String>()), fahrenheit));
    }
    Ok(hours)
}
