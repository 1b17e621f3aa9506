//! The output of the derives, end to end: keys, columns, request bodies, and decoding.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

use rowkey::edm::{DateTime, Guid};
use rowkey::{
    Column, DynamicEntity, Entity, EntitySet, ErrorKind, Key, KeyPart, Projection, Property, Rows,
    StorageAccount, Stored,
};
use serde::{Deserialize, Serialize};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// A response of the service to Get Entity (recorded by the Azure SDK for Python, 2020).
const RECORDED: &str = r#"{"odata.metadata":"https://storagename.table.core.windows.net/$metadata#uttablee7730dad/@Element","odata.etag":"W/\"datetime'2020-07-21T20%3A25%3A25.8660831Z'\"","PartitionKey":"pke7730dad","RowKey":"rke7730dad","Timestamp":"2020-07-21T20:25:25.8660831Z","age@odata.type":"Edm.Int64","age":"39","sex":"male","married":true,"deceased":false,"ratio":3.1,"evenratio":3.0,"large@odata.type":"Edm.Int64","large":"933311100","Birthday@odata.type":"Edm.DateTime","Birthday":"1973-10-04T00:00:00Z","birthday@odata.type":"Edm.DateTime","birthday":"1970-10-04T00:00:00Z","binary@odata.type":"Edm.Binary","binary":"YmluYXJ5","other":20,"clsid@odata.type":"Edm.Guid","clsid":"c9da6455-213d-42c9-9a79-3e9149a57833"}"#;

/// A type for [`RECORDED`]: every EDM type, the fields in its order.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "pk{suffix}", row = "rk{suffix}")]
struct Person {
    suffix: String,
    age: i64,
    sex: Sex,
    married: bool,
    deceased: bool,
    ratio: f64,
    evenratio: f64,
    large: u32,
    #[entity(rename = "Birthday")]
    born: DateTime,
    birthday: DateTime,
    binary: Vec<u8>,
    other: Option<Count>,
    nickname: Option<String>,
    clsid: Guid,
}

#[derive(Clone, Copy, Debug, PartialEq, Property)]
#[property(rename_all = "lowercase")]
enum Sex {
    Female,
    Male,
}

#[derive(Clone, Copy, Debug, PartialEq, Property)]
struct Count(i32);

/// An employee and a yearly review as the table design guide keys them.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:6}", rename_all = "PascalCase")]
pub struct Employee {
    department: String,
    id: u32,
    email_address: String,
    #[entity(rename = "kind")]
    r#type: Grade,
    #[entity(json)]
    skills: Vec<String>,
    #[entity(json)]
    note: Option<Note>,
    #[entity(json, default)]
    history: Vec<u32>,
    #[entity(default)]
    points: i64,
    #[entity(default = "five")]
    stars: i32,
    #[entity(skip)]
    cache: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "{employee:6}_{year:4}", kind = "review")]
struct Review {
    department: String,
    employee: u32,
    year: u16,
    rating: f64,
}

/// Everything a template can say, and a field that is in both keys.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(
    partition = "{{x}}{region}:{number}",
    row = "{region}_{grade}_at_{at:desc};{id:desc,4}|end"
)]
struct Visit {
    region: String,
    number: Number,
    grade: Grade,
    at: DateTime,
    id: i32,
}

#[derive(Debug, PartialEq, Entity)]
#[entity(partition = "settings", row = "main")]
struct Settings {
    enabled: bool,
}

#[derive(Debug, PartialEq, Projection)]
#[entity(rename_all = "PascalCase")]
struct Slim {
    #[entity(partition_key)]
    partition: String,
    #[entity(row_key)]
    row: Box<str>,
    #[entity(timestamp)]
    written: DateTime,
    email_address: String,
}

#[derive(Clone, Copy, Debug, PartialEq, KeyPart, Property)]
#[key_part(rename_all = "snake_case")]
#[property(rename_all = "camelCase")]
enum Grade {
    Junior,
    VerySenior,
    #[key_part(rename = "#1")]
    #[property(rename = "№ 1")]
    Best,
}

#[derive(Clone, Copy, Debug, PartialEq, KeyPart)]
struct Number {
    value: u8,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    text: String,
}

fn five() -> i32 {
    5
}

fn employee() -> Employee {
    Employee {
        department: "Marketing".into(),
        id: 123,
        email_address: "jonesj@contoso.com".into(),
        r#type: Grade::Best,
        skills: vec!["Rust".into()],
        note: None,
        history: vec![2011],
        points: 7,
        stars: 4,
        cache: Some(1),
    }
}

fn visit() -> Visit {
    Visit {
        region: "north_west".into(),
        number: Number { value: 7 },
        grade: Grade::VerySenior,
        at: "2017-11-10T00:00:00Z".parse().unwrap(),
        id: -3,
    }
}

/// The body of the request that inserts `entity`.
async fn inserted(entity: &(impl Entity + Sync)) -> String {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(204).insert_header("ETag", "W/\"1\"");
    Mock::given(method("POST")).respond_with(answer).mount(&server).await;
    table(&server).insert(entity).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    String::from_utf8(requests[0].body.clone()).unwrap()
}

/// Decodes `body` as the response to a request for one entity.
async fn read<P: Projection>(body: &str) -> rowkey::Result<Stored<P>> {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(200)
        .set_body_raw(body.to_owned(), "application/json;odata=minimalmetadata");
    Mock::given(method("GET")).respond_with(answer).mount(&server).await;
    let stored = table(&server).get_as(DynamicEntity::new("p", "r").key()).await;
    stored.map(Option::unwrap)
}

fn table(server: &MockServer) -> rowkey::Table {
    let account = StorageAccount::from_connection_string(&format!(
        "AccountName=a;AccountKey=a2V5;TableEndpoint={}/a",
        server.uri()
    ));
    account.unwrap().table("staff")
}

/// `body` with the tag and the time that every answer has.
fn answer(body: &str) -> String {
    body.replacen('{', r#"{"odata.etag":"W/\"1\"","Timestamp":"2017-11-10T00:00:00Z","#, 1)
}

#[tokio::test]
async fn a_recorded_entity_with_every_type_round_trips() {
    let stored = read::<Person>(RECORDED).await.unwrap();
    assert_eq!(
        stored.entity,
        Person {
            suffix: "e7730dad".into(),
            age: 39,
            sex: Sex::Male,
            married: true,
            deceased: false,
            ratio: 3.1,
            evenratio: 3.0,
            large: 933_311_100,
            born: "1973-10-04T00:00:00Z".parse().unwrap(),
            birthday: "1970-10-04T00:00:00Z".parse().unwrap(),
            binary: b"binary".to_vec(),
            other: Some(Count(20)),
            nickname: None,
            clsid: Guid::parse_str("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap(),
        }
    );
    let body = inserted(&stored.entity).await;
    let recorded = RECORDED.split_once(r#""age@odata.type""#).unwrap().1;
    let written = body.split_once(r#""age@odata.type""#).unwrap().1;
    assert_eq!(written, recorded);
}

#[tokio::test]
async fn field_attributes_rename_default_skip_and_store_json() {
    let body = inserted(&employee()).await;
    assert_eq!(
        body,
        r#"{"PartitionKey":"Marketing","RowKey":"empid_000123","EmailAddress":"jonesj@contoso.com","kind":"№ 1","Skills":"[\"Rust\"]","History":"[2011]","Points@odata.type":"Edm.Int64","Points":"7","Stars":4}"#
    );
    let stored = read::<Employee>(&answer(&body)).await.unwrap();
    assert_eq!(stored.entity, Employee { cache: None, ..employee() });

    let short = r#"{"PartitionKey":"Marketing","RowKey":"empid_000123","EmailAddress":"jonesj@contoso.com","kind":"junior","Skills":"[]","Note":"{\"text\":\"new\"}"}"#;
    let stored = read::<Employee>(&answer(short)).await.unwrap();
    assert_eq!(
        stored.entity,
        Employee {
            r#type: Grade::Junior,
            skills: vec![],
            note: Some(Note { text: "new".into() }),
            history: vec![],
            points: 0,
            stars: 5,
            cache: None,
            ..employee()
        }
    );
}

#[tokio::test]
async fn a_decode_error_does_not_contain_entity_data() {
    let body = answer(&inserted(&employee()).await);
    for (from, to, what) in [
        ("№ 1", "secret", "property `kind`: the text is not a variant of `Grade`"),
        ("empid_", "secret_", r#"RowKey: it is not what the template makes: expected "empid_""#),
        (r#""Skills""#, r#""Talents""#, "property `Skills`: it is absent"),
        (
            r#""[\"Rust\"]""#,
            r#""secret""#,
            "property `Skills`: its JSON is not of the field's type",
        ),
        (r#""Stars":4"#, r#""Stars":"secret""#, "property `Stars`: it is Edm.String"),
    ] {
        let changed = body.replace(from, to);
        assert_ne!(changed, body);
        let error = read::<Employee>(&changed).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{from}");
        assert!(format!("{error:#}{error:?}").contains(what), "{error:?}");
        assert!(!format!("{error}{error:?}").contains("secret"), "{error:?}");
    }
}

/// A type and a set as another program tells them apart.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{shop}", row = "{id:4}", kind = "sale", discriminator = "Kind")]
struct Sale {
    shop: String,
    id: u16,
    cents: i32,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{shop}", row = "{id:4}", kind = "refund", discriminator = "Kind")]
struct Refund {
    shop: String,
    id: u16,
}

#[derive(Clone, Debug, PartialEq, EntitySet)]
#[entity_set(discriminator = "Kind")]
enum Booking {
    Sale(Sale),
    Refund(Refund),
}

#[tokio::test]
async fn the_kind_is_stored_in_the_named_property() {
    let sale = Sale { shop: "leeds".into(), id: 7, cents: 995 };
    let body = inserted(&sale).await;
    assert_eq!(body, r#"{"PartitionKey":"leeds","RowKey":"0007","Kind":"sale","cents":995}"#);
    assert_eq!(Sale::DISCRIMINATOR, "Kind");
    assert_eq!(read::<Sale>(&answer(&body)).await.unwrap().entity, sale);
    let found = read::<Booking>(&answer(&body)).await.unwrap().entity;
    assert_eq!(found, Booking::Sale(sale));
    let refund = answer(&body.replace("\"sale\"", "\"refund\""));
    assert!(matches!(read::<Booking>(&refund).await.unwrap().entity, Booking::Refund(_)));
    for other in [body.replace("sale", "gift"), body.replace("Kind", "EntityType")] {
        let error = read::<Sale>(&answer(&other)).await.unwrap_err();
        assert!(error.to_string().contains("`Kind`"), "{error}");
        let error = read::<Booking>(&answer(&other)).await.unwrap_err();
        assert!(error.to_string().contains("`Kind`"), "{error}");
    }
}

/// Another program's column of this name makes no copy of a row.
#[tokio::test]
async fn an_entity_set_skips_only_index_copies() {
    let row = |more: &str| {
        answer(&format!(r#"{{"PartitionKey":"leeds","RowKey":"courier_0007","name":"kim"{more}}}"#))
    };
    let read_it = async |more: &str| read::<Dispatch>(&row(more)).await;
    let expected = Dispatch::Courier(Courier { city: "leeds".into(), id: 7, name: "kim".into() });
    for more in ["", r#","PrimaryRowKey":"x""#, r#","PrimaryRowKey":"x","IndexName":"by_age""#] {
        assert_eq!(read_it(more).await.unwrap().entity, expected, "{more}");
    }
    for more in
        [r#","PrimaryRowKey":"x","IndexName":"by_name""#, r#","PrimaryRowKey":"x","RowFormat":1"#]
    {
        let error = read_it(more).await.unwrap_err();
        assert!(error.to_string().contains("a copy that an index keeps"), "{error}");
    }
}

#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Dispatch {
    Courier(Courier),
    #[entity_set(unknown)]
    Other(DynamicEntity),
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{city}", row = "courier_{id:4}")]
#[entity(index(name = by_name, row = "name_{name}"))]
struct Courier {
    city: String,
    id: u16,
    name: String,
}

#[tokio::test]
async fn a_kind_is_written_and_checked() {
    let review = Review { department: "Marketing".into(), employee: 123, year: 2012, rating: 4.5 };
    let body = inserted(&review).await;
    assert_eq!(
        body,
        r#"{"PartitionKey":"Marketing","RowKey":"000123_2012","EntityType":"review","rating":4.5}"#
    );
    assert_eq!(<Review as Entity>::KIND, Some("review"));
    assert_eq!(read::<Review>(&answer(&body)).await.unwrap().entity, review);
    let other = body.replace(r#":"review""#, r#":"salary""#);
    assert!(read::<Review>(&answer(&other)).await.is_err());
    let none = body.replace("EntityType", "Other");
    assert!(read::<Review>(&answer(&none)).await.is_err());
}

#[tokio::test]
async fn a_projection_selects_its_columns_and_the_keys() {
    let body = answer(&inserted(&employee()).await);
    let stored = read::<Slim>(&body).await.unwrap();
    assert_eq!(
        stored.entity,
        Slim {
            partition: "Marketing".into(),
            row: "empid_000123".into(),
            written: "2017-11-10T00:00:00Z".parse().unwrap(),
            email_address: "jonesj@contoso.com".into(),
        }
    );
    let columns = ["PartitionKey", "RowKey", "Timestamp", "EmailAddress"];
    assert_eq!(Slim::COLUMNS, Some(&columns[..]));
}

#[test]
fn keys_accept_values_and_references() {
    let expected = Ok(("Marketing", "empid_000123"));
    assert_eq!(Employee::key("Marketing", 123).parts(), expected);
    let department = "Marketing".to_owned();
    assert_eq!(Employee::key(&department, 123).parts(), expected);
    assert_eq!(Employee::key(department, 123).parts(), expected);
    let settings: Key<Settings> = Settings::key();
    assert_eq!(settings.parts(), Ok(("settings", "main")));
    assert!(Employee::key("Marketing", 1_000_000).parts().is_err(), "seven digits");
}

#[test]
fn parse_key_returns_values_in_template_order() {
    let v = visit();
    let key = Visit::key(&v.region, v.number, v.grade, v.at, v.id);
    let (partition, row) = key.parts().unwrap();
    // 2518920287999999999 is DateTime.MaxValue.Ticks - new DateTime(2017, 11, 10).Ticks in .NET;
    // `_` in a value is `^~` where it ends the part.
    assert_eq!(partition, "{x}north_west:007");
    assert_eq!(row, "north^~west_very^~senior_at_2518920287999999999;0002|end");
    let read = Visit::parse_key(partition, row).unwrap();
    assert_eq!(read, (v.region.clone(), v.number, v.grade, v.at, v.id));
    let best = Visit::key(&v.region, v.number, Grade::Best, v.at, v.id);
    let (partition, row) = best.parts().unwrap();
    assert!(row.contains("_\"~1_"), "`#` must not stand in a key: {row}");
    assert_eq!(Visit::parse_key(partition, row).unwrap().2, Grade::Best);
    assert_eq!(Settings::parse_key("settings", "main"), Ok(()));
}

#[test]
fn a_key_that_does_not_match_the_template_is_rejected() {
    let v = visit();
    let key = Visit::key(&v.region, v.number, v.grade, v.at, v.id);
    let (partition, row) = key.parts().unwrap();
    for (partition, row) in [
        (partition, row.strip_suffix("end").unwrap()),
        (partition, &format!("{row}s")[..]),
        (&partition.replace(":007", ":07"), row),
        (&partition.replace("007", "256"), row),
        (partition, &row.replace("very", "fairly")),
        (&partition.replace("north", "south"), row),
        (partition, ""),
        // A leniently parsed key would write another row.
        (partition, &row.replace("north^~", "north^}~")),
    ] {
        assert!(Visit::parse_key(partition, row).is_err(), "{partition} {row}");
    }
    assert!(Settings::parse_key("settings", "main2").is_err());
    assert!(Settings::parse_key("", "main").is_err());
}

#[test]
fn the_template_gives_the_range_of_rows_of_a_type() {
    assert_eq!(Employee::ROWS, Rows::Head("empid_"));
    assert_eq!(Employee::PARTITIONS, Rows::All);
    assert_eq!(Review::ROWS, Rows::All);
    assert_eq!(Settings::ROWS, Rows::One("main"));
}

#[test]
fn leading_row_parts_select_a_range_of_the_partition() {
    let shown = |partition| format!("{partition:?}");
    let expected = shown(Review::partition("Marketing").prefix("000123_"));
    assert_eq!(shown(Review::under_employee("Marketing", 123)), expected);

    let v = visit();
    let all = || Visit::partition(&v.region, v.number);
    let shown = |partition| format!("{partition:?}");
    assert_eq!(
        shown(Visit::under_region(&v.region, v.number)),
        shown(all().prefix("north^~west_"))
    );
    assert_eq!(
        shown(Visit::under_grade(&v.region, v.number, Grade::Junior)),
        shown(all().prefix("north^~west_junior_at_"))
    );
    assert_eq!(
        shown(Visit::under_at(&v.region, v.number, Grade::Junior, v.at)),
        shown(all().prefix("north^~west_junior_at_2518920287999999999;"))
    );
}

#[test]
fn columns_have_the_type_and_the_stored_name_of_their_property() {
    let email: Column<String> = Employee::EMAIL_ADDRESS;
    let grade: Column<Grade> = Employee::TYPE;
    let nickname: Column<String> = Person::NICKNAME;
    let other: Column<Count> = Person::OTHER;
    let names = [email.name(), grade.name(), nickname.name(), other.name()];
    assert_eq!(names, ["EmailAddress", "kind", "nickname", "other"]);
    assert_eq!(format!("{:?}", Employee::TYPE.is(Grade::Best)), "Filter(\"kind eq '№ 1'\")");
}

#[test]
fn every_stored_property_is_selected() {
    let columns = ["PartitionKey", "RowKey", "Timestamp", "EntityType", "rating"];
    assert_eq!(Review::COLUMNS, Some(&columns[..]));
}

macro_rules! reading {
    ($name:ident { $key:ident: $part:ty, $($field:ident: $property:ty),* }) => {
        #[derive(Debug, PartialEq, Entity)]
        #[entity(partition = "{station}", row = "{at}")]
        struct $name {
            $key: $part,
            at: DateTime,
            $($field: $property),*
        }
    };
}

reading!(Reading { station: String, warm: Option<f64>, cold: f64 });

#[test]
fn a_struct_declared_by_a_macro_derives_entity() {
    let warm: Column<f64> = Reading::WARM;
    assert_eq!((warm.name(), Reading::COLD.name()), ("warm", "cold"));
    let at: DateTime = "2017-11-10T00:00:00Z".parse().unwrap();
    assert_eq!(Reading::key("north", at).parts(), Ok(("north", "0636458688000000000")));
}

/// Names that shadow the ones the derives mean.
mod shadowed {
    use rowkey::{
        Entity as EntityDerive, EntitySet, KeyPart as KeyPartDerive, Property as PropertyDerive,
    };

    #[derive(Debug, PartialEq)]
    struct Result;
    #[derive(Debug, PartialEq)]
    struct Option;
    #[derive(Debug, PartialEq)]
    struct String;
    #[expect(dead_code, non_snake_case, reason = "only there to be in the way")]
    fn Ok() {}
    #[expect(dead_code, non_upper_case_globals, reason = "only there to be in the way")]
    const None: () = ();
    mod core {}
    mod std {}

    trait Arg {
        fn into_arg(self) -> Option;
    }

    impl<T> Arg for T {
        fn into_arg(self) -> Option {
            Option
        }
    }

    #[derive(EntityDerive)]
    #[entity(partition = "{partition}", row = "{row}_{out}")]
    struct Entity {
        partition: Part,
        row: Level,
        out: u8,
        value: Level,
        #[entity(json, default)]
        reader: u8,
    }

    #[derive(EntityDerive)]
    #[entity(partition = "{partition}", row = "{row}_{out}", version = 2)]
    struct Newer {
        partition: Part,
        row: Level,
        out: u8,
    }

    impl From<Entity> for Newer {
        fn from(Entity { partition, row, out, .. }: Entity) -> Self {
            Self { partition, row, out }
        }
    }

    #[derive(EntitySet)]
    enum Set {
        #[entity_set(older(Entity))]
        Some(Newer),
        #[entity_set(unknown)]
        None(::rowkey::DynamicEntity),
    }

    #[derive(KeyPartDerive, PropertyDerive)]
    struct Part(u8);

    #[derive(Clone, KeyPartDerive, PropertyDerive)]
    enum Level {
        Some,
        Err,
    }

    #[test]
    fn derives_are_hygienic() {
        assert_eq!((Result, String, 1.into_arg()), (Result, String, Option));
        let entity =
            Entity { partition: Part(7), row: Level::Err, out: 1, value: Level::Some, reader: 1 };
        let key = Entity::key(entity.partition, entity.row, entity.out);
        assert!(key.parts().is_ok_and(|parts| parts == ("007", "Err_001")));
        assert!(matches!((entity.value, entity.reader), (Level::Some, 1)));
        assert!(<Set as rowkey::Projection>::COLUMNS.is_none());
    }
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{ward}", row = "id_{id}", rename_all = "PascalCase")]
struct Patient {
    ward: String,
    id: u32,
    #[entity(encrypt)]
    name: String,
    #[entity(json, encrypt)]
    history: Vec<String>,
    admitted: i32,
}

#[test]
fn encrypted_properties_are_listed_and_require_a_store() {
    assert_eq!(Patient::DECLARED.encrypted, ["Name", "History"]);
    assert_eq!(Person::DECLARED.encrypted, [""; 0]);
    const { assert!(Patient::STORE && <Patient as Projection>::DECLARED.is_opened()) };
    assert_eq!(Patient::NAME.name(), "Name", "to patch it");
    let patient = Patient {
        ward: "a".into(),
        id: 1,
        name: "Ada".into(),
        history: vec!["fever".into()],
        admitted: 3,
    };
    let bag = DynamicEntity::of(&patient).unwrap();
    assert_eq!(bag.get("Name"), Some(&"Ada".into()), "the bag is what is to be encrypted");
    assert_eq!(bag.read_as::<Patient>().unwrap(), patient);
    assert_eq!(DynamicEntity::of_any_size(&patient).unwrap(), bag);
    // A row that is encoded past the store is refused.
    let error = rowkey::table::EncodedRow::of(&patient).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        text.contains("property `Name`: it is to be encrypted") && !text.contains("Ada"),
        "{text}"
    );
}
