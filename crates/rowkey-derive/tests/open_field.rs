//! Open fields, `#[entity(rest)]`: properties whose names are data.

use std::collections::BTreeMap;

use rowkey::edm::Value;
use rowkey::{DynamicEntity, EncodeError, Entity, EntitySet, Projection, Properties};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{city}", row = "year_{number:4}", kind = "year")]
struct Year {
    city: String,
    number: u16,
    #[entity(rename = "Unit")]
    unit: String,
    #[entity(rest)]
    hours: BTreeMap<String, f64>,
}

fn year(hours: &[(&str, f64)]) -> Year {
    let hours = hours.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Year { city: "Seattle".into(), number: 2010, unit: "F".into(), hours }
}

#[test]
fn each_map_entry_is_stored_as_a_property() {
    let stored = DynamicEntity::of(&year(&[("H00", 39.5), ("H01", 40.0)])).unwrap();
    let names: Vec<_> = stored.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["EntityType", "Unit", "H00", "H01"]);
    assert_eq!(stored.get("H01"), Some(&40.0.into()));
    assert_eq!(stored.read_as::<Year>().unwrap(), year(&[("H00", 39.5), ("H01", 40.0)]));
    assert_eq!(<Year as Projection>::COLUMNS, None, "all columns are asked for");
}

#[test]
fn properties_of_the_service_the_type_and_the_store_are_not_map_entries() {
    let mut stored = DynamicEntity::of(&year(&[("H00", 39.5)])).unwrap();
    for name in ["EntityOp", "EntityParts", "EntityRows", "IndexName", "PrimaryRowKey", "RowFormat"]
    {
        stored.set(name, "x");
    }
    assert_eq!(stored.read_as::<Year>().unwrap(), year(&[("H00", 39.5)]));
}

#[test]
fn a_map_entry_with_a_reserved_name_is_rejected() {
    for name in ["Unit", "PartitionKey", "Timestamp", "EntityType", "EntityOp", "EntityRows"] {
        let entity = year(&[("H00", 1.0), (name, 2.0)]);
        for error in [
            DynamicEntity::of(&entity).unwrap_err(),
            DynamicEntity::of_any_size(&entity).unwrap_err(),
        ] {
            assert!(matches!(error, EncodeError::Property { .. }), "{error:?}");
            let said = error.to_string();
            assert!(said.contains(name) && said.contains("another name"), "{said}");
        }
    }
    // An invalid property name is rejected, as for any property.
    let error = DynamicEntity::of(&year(&[("no name", 1.0)])).unwrap_err();
    assert_eq!(error, EncodeError::InvalidName { name: "no name".into() });
}

#[test]
fn a_type_mismatch_names_the_property_and_not_the_value() {
    let mut stored = DynamicEntity::of(&year(&[])).unwrap();
    stored.set("H07", "secret");
    let said = stored.read_as::<Year>().unwrap_err().to_string();
    assert!(said.contains("`H07`") && !said.contains("secret"), "{said}");
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "bags", row = "bag_{id}")]
struct Bag {
    id: u32,
    #[entity(rest)]
    entries: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Thing {
    Year(Year),
    Bag(Bag),
}

#[test]
fn maps_hold_values_of_any_type_and_work_in_entity_sets() {
    let entries = [("Name", Value::from("Ada")), ("Size", 7.into()), ("Large", 7_i64.into())];
    let entries = entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let bag = Bag { id: 1, entries };
    let stored = DynamicEntity::of(&bag).unwrap();
    assert_eq!(stored.read_as::<Thing>().unwrap(), Thing::Bag(bag));
}

/// The type of an older program.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "bags", row = "bag_{id}")]
struct Known {
    id: u32,
    name: String,
    #[entity(rest)]
    others: Properties,
}

#[test]
fn properties_captures_the_other_properties_with_types_and_order() {
    let mut stored = DynamicEntity::new("bags", "bag_0000000001");
    stored.set("name", "Ada");
    stored.set("Large", 7_i64);
    stored.set("Small", 7_i32);
    stored.set("Whole", 7.0);
    let known: Known = stored.read_as().unwrap();
    let names: Vec<_> = known.others.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Large", "Small", "Whole"]);
    assert_eq!(known.others.get("Small"), Some(&Value::Int32(7)));
    assert_eq!(DynamicEntity::of(&known).unwrap(), stored);

    let mut known = known;
    known.others.set("name", "Bob");
    let error = DynamicEntity::of(&known).unwrap_err();
    assert!(matches!(error, EncodeError::Property { .. }), "a field has this name: {error:?}");
}
