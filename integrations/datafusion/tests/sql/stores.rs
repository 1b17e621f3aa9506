//! Tables of stores: SQL reads the entities, not the rows that a store keeps beside them.

use rowkey::Entity;
use rowkey::encryption::{AesKeyWrap, KeyRing, MacKey};
use rowkey::store::Store;
use rowkey_datafusion::{TableSource, of};

use crate::support::Account;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "patient_{number:6}", rename_all = "PascalCase")]
#[entity(index(name = by_bed, row = "bed_{bed}"))]
#[entity(index(name = by_city, partition = "city_{city}", row = "{number:6}"))]
struct Patient {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    name: String,
    city: String,
    bed: u32,
    weight: Option<f64>,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_read_without_its_copies_and_its_sealed_fields_are_binary() {
    let account = Account::start().await;
    let table = account.storage.table("patients");
    let ring = KeyRing::new(
        "patients",
        AesKeyWrap::new("key", [26; 32]),
        MacKey::new("records", [42; 32]),
    );
    let patients = Store::<Patient>::builder(table.clone())
        .queue(account.storage.queue("patients"))
        .keys(ring)
        .build()
        .unwrap();
    patients.create_if_missing().await.unwrap();
    for number in 0..20 {
        let (ward, city) = (
            ["north", "south"][number as usize % 2].to_owned(),
            ["Leeds", "York"][number as usize % 2].to_owned(),
        );
        let name = format!("hidden {number}");
        let weight = (number % 4 == 0).then_some(50.5);
        patients.insert(&Patient { ward, number, name, city, bed: number, weight }).await.unwrap();
    }
    // The copies are rows of the table.
    account.register("raw", TableSource::open(&table).await.unwrap());
    let (rows, _) = account.ask("SELECT count(*) FROM raw").await;
    assert!(rows[0].parse::<usize>().unwrap() >= 60, "{rows:?}");

    account.register("patients", TableSource::open(&table).schema(of::<Patient>()).await.unwrap());
    assert_eq!(
        account.ask("SELECT count(*), sum(Bed), sum(Weight) FROM patients").await.0,
        ["20 190 252.5"]
    );
    let (rows, sent) =
        account.ask("SELECT count(*) FROM patients WHERE PartitionKey = 'north'").await;
    assert_eq!((&*rows, sent), (&["10".to_owned()][..], 1));
    assert_eq!(
        account.ask("SELECT count(*) FROM patients WHERE City = 'York' AND Bed < 5").await.0,
        ["2"]
    );
    let (rows, _) =
        account.ask("SELECT arrow_typeof(Name), count(*) FROM patients GROUP BY 1").await;
    assert_eq!(rows, ["Binary 20"]);
    let (rows, _) = account.ask("SELECT Name FROM patients WHERE RowKey = 'patient_000001'").await;
    assert!(rows.len() == 1 && !rows[0].contains("hidden"), "{rows:?}");
    // A row without the store's further rows would be lost for it.
    let insert = "INSERT INTO patients (PartitionKey, RowKey, City) VALUES ('north', 'patient_000099', 'York')";
    let error = account.fails(insert).await;
    assert!(
        error.contains("table patients") && error.contains("`rowkey::store::Store`"),
        "{error}"
    );
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(kind = "visit", partition = "{ward}", row = "visit_{number:6}", rename_all = "PascalCase")]
struct Visit {
    ward: String,
    number: u32,
    minutes: i32,
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_adds_the_discriminator_and_refuses_keys_of_other_types() {
    let account = Account::start().await;
    let table = account.table("visits", Vec::new()).await;
    account.register("visits", TableSource::open(&table).schema(of::<Visit>()).await.unwrap());
    let insert =
        "INSERT INTO visits (PartitionKey, RowKey, Minutes) VALUES ('north', 'visit_000001', 7)";
    assert_eq!(account.count(insert).await, 1);
    assert_eq!(account.ask("SELECT sum(Minutes) FROM visits").await.0, ["7"]);
    let found = table.get(rowkey::Key::<Visit>::new("north", "visit_000001")).await.unwrap();
    assert_eq!(found.unwrap().entity.minutes, 7);
    let other =
        "INSERT INTO visits (PartitionKey, RowKey, Minutes) VALUES ('north', 'patient_000001', 7)";
    let error = account.fails(other).await;
    assert!(error.contains("table visits") && error.contains("templates"), "{error}");
    assert_eq!(account.stored("visits"), 1);
}
