//! `as`, `compat` and `exact`: what other libraries store, and how it is compared.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use rowkey::edm::{DateTime, Guid, Value};
use rowkey::{DynamicEntity, Entity, Filter, Projection, Property};

#[derive(Clone, Copy, Debug, PartialEq, Property)]
struct Cents(i64);

#[derive(Clone, Debug, PartialEq, Property)]
enum State {
    Open,
    Paid,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{tenant}", row = "{id}")]
struct Order {
    tenant: String,
    id: u32,
    #[entity(as = "Int32")]
    cents: Cents,
    #[entity(as = "Double")]
    bytes: Option<u64>,
    #[entity(as = "Int64")]
    weight: f64,
    #[entity(as = "String", default = "seven")]
    number: i64,
    #[entity(as = "String")]
    at: DateTime,
    #[entity(as = "String", rename = "Ref")]
    reference: Option<Guid>,
    #[entity(exact)]
    size: i32,
}

fn seven() -> i64 {
    7
}

const GUID: &str = "c9da6455-213d-42c9-9a79-3e9149a57833";

fn order() -> Order {
    Order {
        tenant: "contoso".into(),
        id: 1,
        cents: Cents(1999),
        bytes: Some(1 << 40),
        weight: 12.0,
        number: -5,
        at: "2026-11-20T09:00:00.25Z".parse().unwrap(),
        reference: Some(GUID.parse().unwrap()),
        size: 3,
    }
}

fn stored<E: Entity>(entity: &E) -> Vec<(String, Value)> {
    let row = DynamicEntity::of(entity).unwrap();
    row.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

fn values(expected: &[(&str, Value)]) -> Vec<(String, Value)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn raw(odata: &str) -> Filter {
    Filter::raw(odata).unwrap()
}

#[test]
fn as_sets_the_stored_type_of_a_field() {
    let expected = [
        ("cents", Value::Int32(1999)),
        ("bytes", Value::Double(1_099_511_627_776.0)),
        ("weight", Value::Int64(12)),
        ("number", "-5".into()),
        ("at", "2026-11-20T09:00:00.250Z".into()),
        ("Ref", GUID.into()),
        ("size", Value::Int32(3)),
    ];
    assert_eq!(stored(&order()), values(&expected));
    let row = DynamicEntity::of(&order()).unwrap();
    assert_eq!(row.read_as::<Order>().unwrap(), order());
}

#[test]
fn a_field_with_as_still_reads_its_own_types() {
    let mut row = DynamicEntity::of(&order()).unwrap();
    row.set("cents", 1999_i64);
    row.remove("bytes");
    row.set("weight", 12.0);
    row.remove("number");
    row.set("at", order().at);
    row.set("Ref", GUID.to_ascii_uppercase());
    let expected = Order { bytes: None, number: 7, ..order() };
    assert_eq!(row.read_as::<Order>().unwrap(), expected);
    for (name, wrong) in
        [("number", Value::from("+5")), ("at", "yesterday".into()), ("cents", "1999".into())]
    {
        let mut wrong_row = row.clone();
        wrong_row.set(name, wrong);
        let error = wrong_row.read_as::<Order>().unwrap_err();
        assert!(format!("{error:#}").contains(&format!("`{name}`")), "{error:#}");
    }
}

#[test]
fn a_value_outside_the_range_of_the_stored_type_fails_to_encode() {
    let refused = |order: Order, property: &str, types: [&str; 2]| {
        let error = DynamicEntity::of(&order).unwrap_err();
        assert!(matches!(error, rowkey::EncodeError::Property { .. }), "{error:?}");
        let text = error.to_string();
        for part in [property, types[0], types[1], "as = "] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("2147483648") && !text.contains("9007199254740993"), "{text}");
    };
    let int32 = ["Edm.Int64", "Edm.Int32"];
    refused(Order { cents: Cents(2_147_483_648), ..order() }, "`cents`", int32);
    let double = ["Edm.Int64", "Edm.Double"];
    refused(Order { bytes: Some(9_007_199_254_740_993), ..order() }, "`bytes`", double);
    refused(Order { weight: 0.5, ..order() }, "`weight`", ["Edm.Double", "Edm.Int64"]);
}

#[test]
fn a_comparison_covers_every_type_that_stored_rows_may_have() {
    let cents = Order::CENTS;
    assert_eq!(cents.ge(Cents(5)), raw("cents ge 5 or cents ge 5L or cents ge 5.0"));
    assert_eq!(cents.exact().lt(Cents(1 << 40)), raw("cents le 2147483647"));
    assert_eq!(Order::SIZE.ne(5), raw("size ne 5"));
    let number = Order::NUMBER;
    let expected = "number eq '5' or number eq 5L or number eq 5 or number eq 5.0";
    assert_eq!(number.is(5), raw(expected));
    assert_eq!(number.exact().ne(5), raw("number ne '5'"));

    let noon: DateTime = "2026-11-20T12:00:00Z".parse().unwrap();
    let at = Order::AT;
    let native = "datetime'2026-11-20T12:00:00Z'";
    assert_eq!(at.is(noon), raw(&format!("at eq '2026-11-20T12:00:00Z' or at eq {native}")));
    assert_eq!(at.ge(noon), raw(&format!("at ge '2026-11-20T12:00:00' or at ge {native}")));
    assert_eq!(at.exact().lt(noon), raw("at lt '2026-11-20T12:00:00'"));

    let guid: Guid = GUID.parse().unwrap();
    let upper = GUID.to_ascii_uppercase();
    let reference = Order::REFERENCE;
    let expected = format!("Ref eq '{GUID}' or Ref eq '{upper}' or Ref eq guid'{GUID}'");
    assert_eq!(reference.is(guid), raw(&expected));
    let expected = format!("Ref ne '{GUID}' and Ref ne '{upper}' or Ref ne guid'{GUID}'");
    assert_eq!(reference.ne(guid), raw(&expected));
}

#[test]
fn ordering_filters_are_rejected_if_the_stored_text_sorts_differently() {
    let noon: DateTime = "2026-11-20T12:00:00Z".parse().unwrap();
    let later: DateTime = "2026-11-20T12:00:00.5Z".parse().unwrap();
    let guid: Guid = GUID.parse().unwrap();
    for (filter, what) in [
        (Order::NUMBER.ge(5), "numbers"),
        (Order::NUMBER.exact().lt(5), "numbers"),
        (Order::AT.gt(noon), "whole seconds"),
        (Order::AT.le(noon), "whole seconds"),
        (Order::AT.ge(later), "whole seconds"),
        (Order::REFERENCE.lt(guid), "GUIDs"),
    ] {
        assert_eq!(filter.columns().count(), 0);
        assert!(format!("{filter:?}").contains(what), "{filter:?}");
    }
}

/// What an entity has under a profile, written out by hand.
macro_rules! profile {
    ($name:ident, $compat:literal) => {
        #[derive(Clone, Debug, PartialEq, Entity)]
        #[entity(partition = "{tenant}", row = "{id}", compat = $compat)]
        struct $name {
            tenant: String,
            id: u32,
            small: u8,
            count: u32,
            cents: Option<Cents>,
            #[entity(as = "Int64")]
            long: i64,
            ratio: f64,
            at: DateTime,
            reference: Guid,
            bytes: Vec<u8>,
            on: bool,
            state: State,
            any: Value,
            #[entity(json)]
            list: Vec<u64>,
        }

        impl $name {
            fn new() -> Self {
                Self {
                    tenant: "contoso".into(),
                    id: 1,
                    small: 1,
                    count: 2,
                    cents: Some(Cents(3)),
                    long: 4,
                    ratio: 0.5,
                    at: "2026-11-20T09:00:00Z".parse().unwrap(),
                    reference: GUID.parse().unwrap(),
                    bytes: vec![1],
                    on: true,
                    state: State::Paid,
                    any: Value::Int64(6),
                    list: vec![5],
                }
            }
        }
    };
}

profile!(Legacy, "azure_data_tables-0.21");
profile!(DotNet, "dotnet");
profile!(Python, "python");
profile!(JavaScript, "javascript");

#[test]
fn a_profile_sets_stored_types_unless_a_field_overrides_it() {
    let at: DateTime = "2026-11-20T09:00:00Z".parse().unwrap();
    let guid: Guid = GUID.parse().unwrap();
    let of = |integers: [Value; 2], at: Value, guid: Value| {
        let [count, cents] = integers;
        values(&[
            ("small", Value::Int32(1)),
            ("count", count),
            ("cents", cents),
            ("long", Value::Int64(4)),
            ("ratio", Value::Double(0.5)),
            ("at", at),
            ("reference", guid),
            ("bytes", Value::Binary(vec![1])),
            ("on", Value::Boolean(true)),
            ("state", "Paid".into()),
            ("any", Value::Int64(6)),
            ("list", "[5]".into()),
        ])
    };
    let int32 = || [Value::Int32(2), Value::Int32(3)];
    let int64 = [Value::Int64(2), Value::Int64(3)];
    let text = of(int32(), "2026-11-20T09:00:00Z".into(), GUID.into());
    assert_eq!(stored(&Legacy::new()), text);
    assert_eq!(stored(&DotNet::new()), of(int64, at.into(), guid.into()));
    assert_eq!(stored(&Python::new()), of(int32(), at.into(), guid.into()));
    assert_eq!(stored(&JavaScript::new()), of(int32(), at.into(), guid.into()));

    let row = DynamicEntity::of(&Legacy::new()).unwrap();
    assert_eq!(row.read_as::<Legacy>().unwrap(), Legacy::new());
    // Rows of one library are read under the profile of another.
    let row = DynamicEntity::of(&DotNet::new()).unwrap();
    assert_eq!(row.read_as::<Legacy>().unwrap(), Legacy::new());
    let large = Legacy { count: 1 << 31, ..Legacy::new() };
    let error = DynamicEntity::of(&large).unwrap_err().to_string();
    assert!(error.contains("`count`") && error.contains("Edm.Int32"), "{error}");
}

#[test]
fn columns_of_a_profile_are_compared_as_their_stored_types() {
    let noon: DateTime = "2026-11-20T12:00:00Z".parse().unwrap();
    let native = "datetime'2026-11-20T12:00:00Z'";
    assert_eq!(Legacy::AT.ge(noon), raw(&format!("at ge '2026-11-20T12:00:00' or at ge {native}")));
    assert_eq!(DotNet::AT.ge(noon), raw(&format!("at ge {native}")));
    assert_eq!(Legacy::COUNT.exact().is(5), raw("count eq 5"));
    assert_eq!(DotNet::COUNT.exact().is(5), raw("count eq 5L"));
    assert_eq!(Legacy::STATE.is(State::Open), raw("state eq 'Open'"));
}

#[test]
fn projections_use_the_stored_types_of_the_entity() {
    #[derive(Debug, PartialEq, Projection)]
    #[entity(compat = "azure_data_tables-0.21")]
    struct Times {
        at: DateTime,
        #[entity(as = "String")]
        count: Option<i64>,
    }
    let mut row = DynamicEntity::of(&Legacy::new()).unwrap();
    row.set("count", "12");
    let at = Legacy::new().at;
    assert_eq!(row.read_as::<Times>().unwrap(), Times { at, count: Some(12) });
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{tenant}", row = "{id}", exact)]
struct Exact {
    tenant: String,
    id: u32,
    count: i64,
    #[entity(as = "Double")]
    size: u32,
    name: String,
}

#[test]
fn exact_types_are_compared_as_one_type() {
    assert_eq!(Exact::COUNT.ge(5), raw("count ge 5L"));
    assert_eq!(Exact::SIZE.ge(5_u32), raw("size ge 5.0"));
    assert_eq!(Exact::NAME.is("x"), raw("name eq 'x'"));
}
