//! Shapes of structs and enums: flattened fields, `with`, generic types, enums as numbers and with a
//! variant for all other values.

use std::borrow::Cow;
use std::sync::Arc;

use rowkey::edm::{DateTime, Value, ValueRef};
use rowkey::{DynamicEntity, EncodeError, Entity, Flatten, Projection, Properties, Property};

/// Numbers with two digits after the point, which are stored as text, as other programs store decimals.
mod decimal {
    use rowkey::edm::{Type, ValueRef};
    use rowkey::entity::PropertyError;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct Decimal(pub(super) i64);

    #[expect(clippy::unnecessary_wraps, reason = "so `with` calls it")]
    pub(super) fn to_value(value: &Decimal) -> Result<Option<ValueRef<'_>>, PropertyError> {
        let text = format!("{}.{:02}", value.0 / 100, value.0 % 100);
        Ok(Some(ValueRef::String(text.into())))
    }

    pub(super) fn from_value(value: ValueRef<'_>) -> Result<Decimal, PropertyError> {
        let ValueRef::String(text) = value else {
            return Err(PropertyError::wrong_type(Type::String, value.edm_type()));
        };
        let read = || {
            let (whole, cents) = text.split_once('.').filter(|(_, cents)| cents.len() == 2)?;
            Some(Decimal(whole.parse::<i64>().ok()? * 100 + cents.parse::<i64>().ok()?))
        };
        read().ok_or_else(|| PropertyError::new("it is no decimal"))
    }
}
use decimal::Decimal;

#[derive(Clone, Debug, PartialEq, Flatten)]
#[entity(rename_all = "PascalCase")]
struct Address {
    city: String,
    street: Option<String>,
    #[entity(default)]
    floor: i32,
    #[entity(json)]
    tags: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{tenant}", row = "customer_{id:6}")]
struct Customer {
    tenant: Cow<'static, str>,
    id: u32,
    name: Arc<str>,
    #[entity(flatten)]
    address: Address,
    #[entity(flatten, prefix = "Billing_")]
    billing: Address,
    #[entity(with = "decimal")]
    price: Decimal,
    #[entity(with = "decimal", rename = "Old")]
    old_price: Option<Decimal>,
    #[entity(with = "decimal", default)]
    discount: Decimal,
    #[entity(rest)]
    others: Properties,
}

fn address(city: &str) -> Address {
    Address { city: city.into(), street: None, floor: 3, tags: vec!["a".into()] }
}

fn customer() -> Customer {
    Customer {
        tenant: "contoso".into(),
        id: 7,
        name: "Ada".into(),
        address: address("Leeds"),
        billing: Address { street: Some("Main".into()), ..address("York") },
        price: Decimal(1999),
        old_price: None,
        discount: Decimal(5),
        others: [("Weight", 8.0)].into_iter().collect(),
    }
}

#[test]
fn fields_of_a_flattened_struct_are_properties_of_the_entity() {
    let stored = DynamicEntity::of(&customer()).unwrap();
    let found: Vec<_> = stored.iter().map(|(name, _)| name).collect();
    let expected = [
        "name",
        "City",
        "Floor",
        "Tags",
        "Billing_City",
        "Billing_Street",
        "Billing_Floor",
        "Billing_Tags",
        "price",
        "discount",
        "Weight",
    ];
    assert_eq!(found, expected);
    assert_eq!(stored.get("price"), Some(&"19.99".into()));
    assert_eq!(stored.read_as::<Customer>().unwrap(), customer());
    assert_eq!(<Customer as Projection>::COLUMNS, None);
    assert_eq!((Address::CITY.name(), Address::STREET.name()), ("City", "Street"));
}

#[test]
fn errors_name_the_property_with_its_prefix() {
    let mut stored = DynamicEntity::of(&customer()).unwrap();
    stored.set("Billing_City", 1);
    let error = stored.read_as::<Customer>().unwrap_err().to_string();
    assert!(error.contains("`Billing_City`: it is Edm.Int32"), "{error}");
    stored.remove("Billing_City");
    let error = stored.read_as::<Customer>().unwrap_err().to_string();
    assert!(error.contains("`Billing_City`: it is absent"), "{error}");
    let mut other = customer();
    other.others.set("Billing_Floor", 1);
    assert!(matches!(DynamicEntity::of(&other), Err(EncodeError::Property { .. })));
}

#[test]
fn with_converts_and_an_absent_property_is_none_or_the_default() {
    let mut stored = DynamicEntity::of(&customer()).unwrap();
    stored.set("Old", "0.50");
    stored.remove("discount");
    let read = stored.read_as::<Customer>().unwrap();
    assert_eq!((read.old_price, read.discount), (Some(Decimal(50)), Decimal(0)));
    stored.set("price", 1.5);
    let error = stored.read_as::<Customer>().unwrap_err().to_string();
    assert!(error.contains("property `price`: it is Edm.Double"), "{error}");
    stored.remove("price");
    let error = stored.read_as::<Customer>().unwrap_err().to_string();
    assert!(error.contains("property `price`: it is absent"), "{error}");
}

#[derive(Debug, PartialEq, Projection)]
struct Bill {
    #[entity(flatten, prefix = "Billing_")]
    to: Address,
}

#[test]
fn projections_support_flattened_fields() {
    let stored = DynamicEntity::of(&customer()).unwrap();
    assert_eq!(stored.read_as::<Bill>().unwrap(), Bill { to: customer().billing });
}

/// What expires, of any type that a property has.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{cache}", row = "entry_{name}")]
struct Expiring<T> {
    cache: String,
    name: String,
    value: T,
    expires: DateTime,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{cache}", row = "entry_{name}")]
struct ExpiringParts<T: Clone, U>
where
    U: Clone,
{
    cache: String,
    name: String,
    #[entity(flatten)]
    value: T,
    #[entity(json)]
    details: Option<U>,
    #[entity(skip)]
    seen: Option<T>,
    expires: DateTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Property)]
struct Tagged<T>(T);

#[test]
fn generic_types_derive_entity_and_property() {
    let expires: DateTime = "2030-01-01T00:00:00Z".parse().unwrap();
    let (cache, name) = ("c".to_owned(), "n".to_owned());
    let entry = Expiring { cache, name, value: Tagged(7_i64), expires };
    let stored = DynamicEntity::of(&entry).unwrap();
    assert_eq!(stored.get("value"), Some(&Value::Int64(7)));
    assert_eq!(stored.read_as::<Expiring<Tagged<i64>>>().unwrap(), entry);
    assert_eq!(stored.read_as::<Expiring<Option<i64>>>().unwrap().value, Some(7));
    assert_eq!(Expiring::<i64>::key("c", "n").parts(), Ok(("c", "entry_n")));
    assert_eq!(Expiring::<i64>::VALUE.name(), "value");

    let (cache, name) = ("c".to_owned(), "n".to_owned());
    let (value, details) = (address("Leeds"), Some(vec![1, 2]));
    let entry = ExpiringParts { cache, name, value, details, seen: None, expires };
    let stored = DynamicEntity::of(&entry).unwrap();
    assert_eq!(stored.read_as::<ExpiringParts<Address, Vec<i32>>>().unwrap(), entry);
}

/// With numbers of another program, `HttpStatusCode` for instance.
#[derive(Clone, Copy, Debug, PartialEq, Property)]
#[property(repr = "Int32")]
enum Level {
    Low = -1,
    Middle,
    High = 10,
}

#[derive(Clone, Debug, PartialEq, Property)]
#[property(repr = "Int64")]
enum Size {
    Small,
    Large,
    #[property(other)]
    Other(i64),
}

#[derive(Clone, Debug, PartialEq, Property)]
#[property(rename_all = "lowercase")]
enum State {
    Open,
    #[property(rename = "finished")]
    Done,
    #[property(other)]
    Other(String),
}

fn value<P: Property>(property: &P) -> Option<Value> {
    property.to_value().ok().flatten().map(ValueRef::into_owned)
}

fn read<P: Property>(value: impl Into<Value>) -> Result<P, String> {
    P::from_value(value.into().as_ref()).map_err(|error| error.to_string())
}

#[test]
fn an_enum_is_stored_as_its_discriminants() {
    for (level, number) in [(Level::Low, -1), (Level::Middle, 0), (Level::High, 10)] {
        assert_eq!(value(&level), Some(Value::Int32(number)));
        assert_eq!(read(number), Ok(level));
    }
    assert_eq!(read(10_i64), Ok(Level::High), "as any integer field reads it");
    assert!(read::<Level>(7).unwrap_err().contains("not a variant of `Level`"));
    assert!(read::<Level>("High").is_err());
    assert_eq!(<Level as Property>::TYPE, Some(rowkey::edm::Type::Int32));
}

#[test]
fn the_catch_all_variant_holds_unknown_values() {
    assert_eq!(read("open"), Ok(State::Open));
    assert_eq!(read("finished"), Ok(State::Done));
    assert_eq!(read("paused"), Ok(State::Other("paused".into())));
    assert_eq!(value(&State::Other("paused".into())), Some(Value::from("paused")));
    let error = State::Other("finished".into()).to_value().unwrap_err().to_string();
    assert!(error.contains("another variant"), "{error}");
    assert!(read::<State>(1).is_err());

    assert_eq!(read(1_i64), Ok(Size::Large));
    assert_eq!(read(0), Ok(Size::Small));
    assert_eq!(read(7_i64), Ok(Size::Other(7)));
    assert!(Size::Other(1).to_value().is_err());
    assert_eq!(value(&Size::Other(7)), Some(Value::Int64(7)));
    assert_eq!(value(&Size::Large), Some(Value::Int64(1)));
}
