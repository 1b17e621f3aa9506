//! `Projection::TYPES`: the properties of a type and the EDM types that they are stored as.

use std::collections::BTreeMap;

use rowkey::edm::Type::{Binary, Boolean, DateTime, Double, Guid, Int32, Int64, String as Text};
use rowkey::edm::{self, Type, Value};
use rowkey::table::Keyed;
use rowkey::{
    BlobRef, DynamicEntity, Entity, FailedRow, Flatten, Projection, Properties, Property,
};

type Types = &'static [(&'static str, Option<Type>)];

/// An alias: the derive cannot know the type by its spelling.
type Count = u16;
type Note = Option<String>;

#[derive(Clone, Copy, Debug, PartialEq, Property)]
struct Cents(i64);

#[derive(Clone, Debug, PartialEq, Property)]
#[property(rename_all = "lowercase")]
enum State {
    Open,
    Paid,
}

#[derive(Clone, Copy, Debug, PartialEq, Property)]
#[property(repr = "Int32")]
enum Level {
    Low = 1,
    High,
}

#[derive(Entity)]
#[entity(partition = "{tenant}", row = "order_{id:6}", rename_all = "PascalCase")]
struct Order {
    at: edm::DateTime,
    tenant: String,
    count: Count,
    id: u32,
    cents: Cents,
    note: Note,
    #[entity(rename = "paid_by")]
    payer: Option<edm::Guid>,
    state: State,
    level: Option<Level>,
    is_gift: bool,
    image: Vec<u8>,
    #[entity(default)]
    weight: f32,
    any: Value,
    #[entity(skip)]
    #[expect(dead_code, reason = "the derive does not read it")]
    cache: u8,
    #[entity(rest)]
    others: Properties,
}

#[test]
fn properties_are_listed_in_field_order_with_the_types_of_their_values() {
    let expected: Types = &[
        ("At", Some(DateTime)),
        ("Count", Some(Int32)),
        ("Cents", Some(Int64)),
        ("Note", Some(Text)),
        ("paid_by", Some(Guid)),
        ("State", Some(Text)),
        ("Level", Some(Int32)),
        ("IsGift", Some(Boolean)),
        ("Image", Some(Binary)),
        ("Weight", Some(Double)),
        ("Any", None),
    ];
    assert_eq!(Order::TYPES, expected);
}

mod decimal {
    use rowkey::edm::{Type, ValueRef};
    use rowkey::entity::PropertyError;

    #[expect(clippy::unnecessary_wraps, reason = "so `with` calls it")]
    pub(super) fn to_value(value: &u8) -> Result<Option<ValueRef<'_>>, PropertyError> {
        Ok(Some(ValueRef::String(value.to_string().into())))
    }

    pub(super) fn from_value(value: ValueRef<'_>) -> Result<u8, PropertyError> {
        let ValueRef::String(text) = value else {
            return Err(PropertyError::wrong_type(Type::String, value.edm_type()));
        };
        text.parse().map_err(|_| PropertyError::new("it is no number"))
    }
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{tenant}", row = "{id}", kind = "stored", version = 2)]
struct Stored {
    tenant: String,
    id: u32,
    #[entity(as = "Int32")]
    cents: Cents,
    #[entity(as = "Double")]
    bytes: Option<u64>,
    #[entity(as = "String", exact)]
    reference: edm::Guid,
    #[entity(json)]
    tags: Vec<i32>,
    #[entity(json, rename = "Details")]
    details: Option<BTreeMap<String, i32>>,
    #[entity(with = "decimal")]
    price: u8,
}

#[test]
fn attributes_choose_the_stored_type() {
    let expected: Types = &[
        ("cents", Some(Int32)),
        ("bytes", Some(Double)),
        ("reference", Some(Text)),
        ("tags", Some(Text)),
        ("Details", Some(Text)),
        ("price", None),
    ];
    assert_eq!(Stored::TYPES, expected);
}

#[test]
fn types_are_those_of_the_rows() {
    let entity = Stored {
        tenant: "contoso".into(),
        id: 7,
        cents: Cents(5),
        bytes: Some(8),
        reference: edm::Guid::from_bytes([7; 16]),
        tags: vec![1],
        details: Some(BTreeMap::new()),
        price: 3,
    };
    let row = DynamicEntity::of(&entity).unwrap();
    let stored: Vec<_> = row.iter().map(|(name, value)| (name, Some(value.edm_type()))).collect();
    let own = [("EntityType", Some(Text)), ("EntityVersion", Some(Int32))];
    let known = Stored::TYPES.iter().map(|&(name, ty)| (name, ty.or(Some(Text))));
    assert_eq!(stored, own.into_iter().chain(known).collect::<Vec<_>>());
}

macro_rules! compatible {
    ($name:ident, $library:literal) => {
        #[derive(Entity)]
        #[entity(partition = "{tenant}", row = "{id}", compat = $library)]
        struct $name {
            tenant: String,
            id: u32,
            large: Option<Cents>,
            at: edm::DateTime,
            reference: edm::Guid,
            text: String,
            any: Value,
            #[entity(as = "Int64")]
            chosen: i64,
        }
    };
}

compatible!(OfRust, "azure_data_tables-0.21");
compatible!(OfDotNet, "dotnet");
compatible!(OfPython, "python");

#[test]
fn compat_chooses_the_types_of_the_library() {
    let types = |large, at, reference| {
        [
            ("large", Some(large)),
            ("at", Some(at)),
            ("reference", Some(reference)),
            ("text", Some(Text)),
            ("any", None),
            ("chosen", Some(Int64)),
        ]
    };
    assert_eq!(OfRust::TYPES, types(Int32, Text, Text));
    assert_eq!(OfDotNet::TYPES, types(Int64, DateTime, Guid));
    assert_eq!(OfPython::TYPES, types(Int32, DateTime, Guid));
}

#[derive(Entity)]
#[entity(store, partition = "{ward}", row = "id_{id}", rename_all = "PascalCase")]
struct Patient {
    ward: String,
    id: u32,
    #[entity(encrypt)]
    name: Option<String>,
    #[entity(json, encrypt)]
    history: Vec<String>,
    #[entity(blob)]
    scan: Vec<u8>,
    #[entity(blob, threshold = 1024)]
    letter: String,
    #[entity(blob, json, threshold = 1024)]
    doses: Vec<i32>,
    #[entity(blob, encrypt)]
    genome: Vec<u8>,
    #[entity(blob)]
    film: Option<BlobRef>,
    admitted: i32,
}

#[test]
fn encrypted_fields_are_binary_and_fields_in_blobs_are_what_the_row_has() {
    let expected: Types = &[
        ("Name", Some(Binary)),
        ("History", Some(Binary)),
        ("Scan_Blob", Some(Text)),
        ("Letter", Some(Text)),
        ("Letter_Blob", Some(Text)),
        ("Doses", Some(Text)),
        ("Doses_Blob", Some(Text)),
        ("Genome", Some(Binary)),
        ("Genome_Blob", Some(Text)),
        ("Film", Some(Text)),
        ("Film_Length", Some(Int64)),
        ("Film_Sha256", Some(Text)),
        ("Film_ContentType", Some(Text)),
        ("Admitted", Some(Int32)),
    ];
    assert_eq!(Patient::TYPES, expected);
}

#[derive(Clone, Debug, Flatten)]
#[entity(rename_all = "PascalCase")]
struct Address {
    city: String,
    #[entity(rename = "Straße")]
    street: Option<String>,
    #[entity(as = "Int64")]
    floor: i32,
    #[entity(json)]
    tags: Vec<String>,
}

#[derive(Clone, Debug, Flatten)]
struct Pair<T> {
    first: T,
    second: Option<T>,
}

#[derive(Entity)]
#[entity(partition = "{tenant}", row = "customer_{id}")]
struct Customer {
    #[entity(flatten)]
    address: Address,
    tenant: String,
    id: u32,
    name: String,
    #[entity(flatten, prefix = "Billing_")]
    billing: Address,
    #[entity(flatten, prefix = "Limit_")]
    limits: Pair<Cents>,
    score: f64,
    #[entity(rest)]
    others: BTreeMap<String, i32>,
}

#[test]
fn flattened_fields_are_listed_with_their_prefix() {
    let expected: Types = &[
        ("City", Some(Text)),
        ("Straße", Some(Text)),
        ("Floor", Some(Int64)),
        ("Tags", Some(Text)),
        ("name", Some(Text)),
        ("Billing_City", Some(Text)),
        ("Billing_Straße", Some(Text)),
        ("Billing_Floor", Some(Int64)),
        ("Billing_Tags", Some(Text)),
        ("Limit_first", Some(Int64)),
        ("Limit_second", Some(Int64)),
        ("score", Some(Double)),
    ];
    assert_eq!(Customer::TYPES, expected);
    assert_eq!(<Address as Flatten>::TYPES, &expected[..4]);
}

#[derive(Debug, Projection)]
#[expect(dead_code, reason = "only its types are read")]
struct Bill {
    #[entity(partition_key)]
    tenant: String,
    #[entity(row_key)]
    row: String,
    #[entity(timestamp)]
    at: edm::DateTime,
    #[entity(flatten, prefix = "Billing_")]
    to: Address,
    score: Option<f64>,
}

#[test]
fn projections_have_types_without_the_properties_of_the_service() {
    let names: Vec<_> = Bill::TYPES.iter().map(|(name, _)| *name).collect();
    let expected = ["Billing_City", "Billing_Straße", "Billing_Floor", "Billing_Tags", "score"];
    assert_eq!(names, expected);
    assert_eq!(Bill::TYPES[4].1, Some(Double));
}

#[derive(Entity)]
#[entity(partition = "{cache}", row = "entry_{name}")]
struct Expiring<T, U: Clone, const N: usize> {
    cache: String,
    name: String,
    value: T,
    #[entity(json)]
    details: U,
    #[entity(flatten, prefix = "To_")]
    to: Address,
}

#[derive(Entity)]
#[entity(partition = "{cache}", row = "entry_{name}")]
struct Parts<T> {
    cache: String,
    name: String,
    #[entity(flatten, prefix = "Part_")]
    value: T,
    #[entity(flatten)]
    pair: Pair<i32>,
}

#[test]
fn generic_types_have_those_of_their_arguments() {
    let names = ["value", "details", "To_City", "To_Straße", "To_Floor", "To_Tags"];
    let types = |value| {
        names.into_iter().zip([value, Some(Text), Some(Text), Some(Text), Some(Int64), Some(Text)])
    };
    let list = |types: Types| types.to_vec();
    assert_eq!(
        list(Expiring::<Option<i64>, Vec<i32>, 3>::TYPES),
        types(Some(Int64)).collect::<Vec<_>>()
    );
    assert_eq!(list(Expiring::<State, u8, 3>::TYPES), types(Some(Text)).collect::<Vec<_>>());
    assert_eq!(list(Expiring::<Value, u8, 3>::TYPES), types(None).collect::<Vec<_>>());
    // The fields of a type parameter are left out.
    assert_eq!(Parts::<Address>::TYPES, [("first", Some(Int32)), ("second", Some(Int32))]);
}

#[derive(Entity)]
#[entity(partition = "all", row = "{id}")]
struct KeysAlone {
    id: u32,
}

#[test]
fn types_that_read_another_one_have_its_types_and_others_none() {
    const NONE: Types = &[];
    const { assert!(Order::TYPES.len() == 11, "tools can use it at compile time") };
    assert_eq!(Result::<Order, FailedRow>::TYPES, Order::TYPES);
    assert_eq!(Keyed::<Order>::TYPES, Order::TYPES);
    assert_eq!(KeysAlone::TYPES, NONE);
    assert_eq!(DynamicEntity::TYPES, NONE);
}
