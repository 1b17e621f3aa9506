//! Buckets in PartitionKeys: computed for each key, checked when a row is read, never parts of ranges.

use rowkey::key::bucket_of;
use rowkey::{DynamicEntity, Entity, KeyPart, Result};

/// The bucket of a part of the RowKey.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{day:8}_{device:bucket(12)}", row = "at_{device}_{second:5}")]
struct Event {
    day: u32,
    device: String,
    second: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, KeyPart, rowkey::Property)]
struct Account(i64);

/// The bucket of a property, and of one in an index.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{account:bucket(100)}", row = "payment_{id}")]
#[entity(index(name = by_payer, partition = "payer_{payer:bucket(3)}", row = "{payer}", many))]
struct Payment {
    account: Account,
    id: u32,
    payer: Option<String>,
}

fn row<E: Entity>(entity: &E) -> Result<DynamicEntity> {
    Ok(DynamicEntity::of(entity)?)
}

#[test]
fn a_key_computes_the_bucket_of_its_value() -> Result<()> {
    let event = Event { day: 20_260_101, device: "a/b_c".into(), second: 7 };
    // The text itself is hashed, not its escaped form in a key.
    let bucket = bucket_of("a/b_c", 12);
    let row = row(&event)?;
    assert_eq!(row.partition_key, format!("20260101_{bucket:02}"));
    let key = Event::key(20_260_101, "a/b_c", 7);
    assert_eq!(key.parts(), Ok((&*row.partition_key, &*row.row_key)));
    assert_eq!(row.read_as::<Event>()?, event);
    // Parsing a key returns the values of its parts.
    let values = (20_260_101, "a/b_c".to_owned(), 7);
    assert_eq!(Event::parse_key(&row.partition_key, &row.row_key), Ok(values));
    Ok(())
}

#[test]
fn a_property_that_selects_the_bucket_is_still_stored() -> Result<()> {
    let payment = Payment { account: Account(-5), id: 1, payer: Some("ada".into()) };
    let row = row(&payment)?;
    assert_eq!(row.partition_key, format!("{:02}", bucket_of("-9999999999999999995", 100)));
    assert!(row.get("account").is_some(), "the bucket does not tell it");
    assert_eq!(row.read_as::<Payment>()?, payment);
    assert_eq!(Payment::key(Account(-5), 1).parts(), Ok((&*row.partition_key, &*row.row_key)));
    let in_index = format!("payer_{}", bucket_of("ada", 3));
    assert_eq!(
        Payment::by_payer("ada").partition_of::<DynamicEntity>().partition_key(),
        Ok(&*in_index)
    );
    Ok(())
}

#[test]
fn a_row_in_the_wrong_bucket_is_rejected() -> Result<()> {
    let mut other = row(&Payment { account: Account(7), id: 1, payer: None })?;
    let right = other.partition_key.clone();
    for bucket in (0..100).map(|bucket| format!("{bucket:02}")) {
        let is_right = bucket == right;
        other.partition_key = bucket;
        assert_eq!(other.read_as::<Payment>().is_ok(), is_right);
    }
    for text in ["", "7", "100", "+1", "1a"] {
        text.clone_into(&mut other.partition_key);
        assert!(other.read_as::<Payment>().is_err(), "{text}");
    }
    Ok(())
}

#[test]
fn partitions_returns_every_bucket() {
    let partitions = Event::partitions(20_260_101);
    let texts: Vec<_> = partitions.iter().map(rowkey::Partition::partition_key).collect();
    let expected: Vec<_> = (0..12).map(|bucket| format!("20260101_{bucket:02}")).collect();
    assert_eq!(texts, expected.iter().map(|text| Ok(&**text)).collect::<Vec<_>>());
    let of_device = Event::partition(20_260_101, "door");
    assert!(texts.contains(&of_device.partition_key()));
}
