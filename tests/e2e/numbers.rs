//! Values that other programs store as other types: they are read, found by filters, and written back as those
//! programs read them.

use std::cmp::Ordering;

use chrono::TimeDelta;
use rowkey::edm::{DateTime, Guid, Value};
use rowkey::sas::{Sas, TablePermissions};
use rowkey::{Column, DynamicEntity, Entity, Filter, Operator, Partition};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::{Arm, Fixture, TestResult, TestTable, arm};

/// A number as it is stored or compared.
#[derive(Clone, Copy, Debug)]
enum Number {
    Int32(i32),
    Int64(i64),
    Double(f64),
}

impl Number {
    fn value(self) -> Value {
        match self {
            Self::Int32(value) => value.into(),
            Self::Int64(value) => value.into(),
            Self::Double(value) => value.into(),
        }
    }

    /// The value as an integer, or as a double.
    fn parts(self) -> Result<i128, f64> {
        match self {
            Self::Int32(value) => Ok(value.into()),
            Self::Int64(value) => Ok(value.into()),
            Self::Double(value) => Err(value),
        }
    }
}

/// How two numbers compare, exactly; `None` if one is NaN.
fn exactly(a: Number, b: Number) -> Option<Ordering> {
    match (a.parts(), b.parts()) {
        (Ok(a), Ok(b)) => Some(a.cmp(&b)),
        (Err(a), Err(b)) => a.partial_cmp(&b),
        (Ok(whole), Err(double)) => mixed(whole, double),
        (Err(double), Ok(whole)) => mixed(whole, double).map(Ordering::reverse),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "all integers here have 64 bits at most")]
fn mixed(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    let floor = double.floor();
    let behind = if double > floor { Ordering::Less } else { Ordering::Equal };
    Some(whole.cmp(&(floor as i128)).then(behind))
}

fn number(random: &mut Random) -> Number {
    const EDGES: [i64; 12] = [
        0,
        1,
        5,
        i32::MAX as i64,
        i32::MAX as i64 + 1,
        (1 << 53) - 1,
        1 << 53,
        (1 << 53) + 1,
        (1 << 60) + 1,
        i64::MAX,
        i64::MIN,
        i64::MIN + 1,
    ];
    const DOUBLES: [f64; 9] = [
        0.5,
        -0.0,
        5.0,
        2_147_483_647.5,
        9_007_199_254_740_992.0,
        9_223_372_036_854_775_808.0,
        1e300,
        f64::INFINITY,
        f64::NAN,
    ];
    let sign = random.pick(&[1, -1]);
    let edge = random.pick(&EDGES).wrapping_mul(sign).wrapping_add(random.pick(&[-1, 0, 0, 1]));
    match random.below(4) {
        0 => {
            Number::Int32(i32::try_from(edge).unwrap_or(random.pick(&[i32::MIN, -1, 6, i32::MAX])))
        }
        1 => Number::Int64(edge),
        #[expect(clippy::cast_precision_loss, reason = "any double will do")]
        2 => Number::Double(edge as f64 + random.pick(&[0.0, 0.5])),
        _ => Number::Double(random.pick(&DOUBLES) * f64::from(i8::try_from(sign).unwrap_or(1))),
    }
}

const WHOLE: Column<i64> = Column::named("N");
const DOUBLE: Column<f64> = Column::named("N");

/// The operators in the order of [`comparisons`].
const OPERATORS: [Operator; 6] = [
    Operator::Equal,
    Operator::NotEqual,
    Operator::GreaterOrEqual,
    Operator::Greater,
    Operator::LessOrEqual,
    Operator::Less,
];

/// A filter, and the comparison that it expresses.
type Comparison = (Filter, fn(Option<Ordering>) -> bool);

/// Each operator with the orders that it holds for; `None` is that of NaN.
fn comparisons(with: Number) -> [Comparison; 6] {
    let filters = match with {
        Number::Double(n) => {
            [DOUBLE.is(n), DOUBLE.ne(n), DOUBLE.ge(n), DOUBLE.gt(n), DOUBLE.le(n), DOUBLE.lt(n)]
        }
        Number::Int32(_) | Number::Int64(_) => {
            let n = i64::try_from(with.parts().unwrap_or_default()).unwrap_or_default();
            [WHOLE.is(n), WHOLE.ne(n), WHOLE.ge(n), WHOLE.gt(n), WHOLE.le(n), WHOLE.lt(n)]
        }
    };
    let holds: [fn(Option<Ordering>) -> bool; 6] = [
        |order| order == Some(Ordering::Equal),
        |order| order != Some(Ordering::Equal),
        |order| order.is_some_and(Ordering::is_ge),
        |order| order.is_some_and(Ordering::is_gt),
        |order| order.is_some_and(Ordering::is_le),
        |order| order.is_some_and(Ordering::is_lt),
    ];
    let mut holds = holds.into_iter();
    filters.map(|filter| (filter, holds.next().unwrap()))
}

#[tokio::test]
async fn numeric_filters_match_rows_of_every_numeric_type() -> TestResult {
    if arm() != Arm::Ours {
        return Ok(()); // Azurite compares integers as doubles.
    }
    let table = Fixture::new().await?.table_with_server().await?;
    for seed in seeds(2) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let partition = format!("p{seed}");
        let stored: Vec<_> = (0..60).map(|_| number(&mut random)).collect();
        for (at, number) in stored.iter().enumerate() {
            let mut row = DynamicEntity::new(&*partition, format!("{at:03}"));
            row.set("N", number.value());
            table.insert(&row).await?;
        }
        let mut text = DynamicEntity::new(&*partition, "text");
        text.set("N", "5");
        table.insert(&text).await?;
        let find = async |filter: Filter| -> Result<Vec<String>, rowkey::Error> {
            let rows = table.query(Partition::<DynamicEntity>::new(&*partition)).filter(filter);
            Ok(rows.all().await?.into_iter().map(|row| row.entity.row_key).collect())
        };
        for _ in 0..40 {
            let with = number(&mut random);
            for (operator, (filter, holds)) in comparisons(with).into_iter().enumerate() {
                let rows = stored.iter().enumerate();
                let expected = rows.filter(|(_, number)| holds(exactly(**number, with)));
                let expected: Vec<_> = expected.map(|(at, _)| format!("{at:03}")).collect();
                let found = find(filter.clone()).await?;
                assert_eq!(found, expected, "{operator}: {with:?} {filter:?}");
                // The same of a column that is known at run time alone, and of the filter's text.
                let dynamic = Filter::number("N", OPERATORS[operator], with.value());
                assert_eq!(find(dynamic).await?, expected, "{operator}: {with:?}");
                let again = Filter::raw(&filter.to_odata()?)?;
                assert_eq!(find(again).await?, expected, "{operator}: {filter:?}");
            }
        }
        let list: Vec<i64> = (-5..15).chain([i64::MAX, 1 << 53]).collect();
        let mut found = find(WHOLE.one_of(list.clone())).await?;
        found.sort_unstable();
        let is_listed = |number: Number| {
            list.iter().any(|one| exactly(number, Number::Int64(*one)) == Some(Ordering::Equal))
        };
        let rows = stored.iter().enumerate().filter(|(_, number)| is_listed(**number));
        assert_eq!(found, rows.map(|(at, _)| format!("{at:03}")).collect::<Vec<_>>());
    }
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{shop}", row = "{id}", compat = "azure_data_tables-0.21")]
struct Sale {
    shop: String,
    id: String,
    size: u32,
    ratio: f64,
    at: DateTime,
    customer: Guid,
    #[entity(as = "String", default)]
    number: i64,
}

const CUSTOMER: &str = "c9da6455-213d-42c9-9a79-3e9149a57833";

/// What each library sends for the same sale: serde's text of a struct, Python's and JavaScript's plain
/// values, .NET's annotated ones.
const BODIES: [(&str, &str); 4] = [
    (
        "dotnet",
        r#""size":"5","size@odata.type":"Edm.Int64","ratio":2.0,"at":"2026-11-20T09:00:00.0000000Z",
        "at@odata.type":"Edm.DateTime","customer":"c9da6455-213d-42c9-9a79-3e9149a57833",
        "customer@odata.type":"Edm.Guid","number":"41","number@odata.type":"Edm.Int64""#,
    ),
    (
        "javascript",
        r#""size":5,"ratio":2,"at":"2026-11-20T09:00:00.000Z","at@odata.type":"Edm.DateTime",
        "customer":"c9da6455-213d-42c9-9a79-3e9149a57833","customer@odata.type":"Edm.Guid","number":41"#,
    ),
    (
        "legacy",
        r#""size":5,"ratio":2.0,"at":"2026-11-20T09:00:00Z",
        "customer":"c9da6455-213d-42c9-9a79-3e9149a57833","number":"41""#,
    ),
    (
        "python",
        r#""size":5,"ratio":2.0,"at":"2026-11-20T09:00:00.000000Z",
        "at@odata.type":"Edm.DateTime","ratio@odata.type":"Edm.Double",
        "customer":"c9da6455-213d-42c9-9a79-3e9149a57833","customer@odata.type":"Edm.Guid","number":41"#,
    ),
];

fn sale(id: &str) -> Sale {
    Sale {
        shop: "s".into(),
        id: id.into(),
        size: 5,
        ratio: 2.0,
        at: "2026-11-20T09:00:00Z".parse().unwrap(),
        customer: CUSTOMER.parse().unwrap(),
        number: 41,
    }
}

/// Sends the requests of other libraries, and decodes with their rules.
struct Other {
    client: reqwest::Client,
    address: String,
    query: String,
}

impl Other {
    fn new(table: &TestTable) -> TestResult<Self> {
        let token = Sas::table(table.name())
            .permissions(TablePermissions::QUERY | TablePermissions::ADD)
            .expires(table.account().clock().now() + TimeDelta::minutes(10))
            .sign(table.account())?;
        let url = token.url();
        let (address, query) = url.split_once('?').ok_or("a signature")?;
        let client = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { client, address: address.to_owned(), query: query.to_owned() })
    }

    async fn insert(&self, id: &str, properties: &str) -> TestResult {
        let body = format!(r#"{{"PartitionKey":"s","RowKey":"{id}",{properties}}}"#);
        let request = self.client.post(format!("{}?{}", self.address, self.query));
        let request = request.header("accept", "application/json;odata=nometadata");
        let answer = request.header("content-type", "application/json").body(body).send().await?;
        assert!(answer.status().is_success(), "{id}: {}", answer.text().await?);
        Ok(())
    }

    async fn get(&self, id: &str) -> TestResult<serde_json::Value> {
        let address = format!("{}(PartitionKey='s',RowKey='{id}')?{}", self.address, self.query);
        let request =
            self.client.get(address).header("accept", "application/json;odata=nometadata");
        Ok(serde_json::from_str(&request.send().await?.text().await?)?)
    }
}

#[tokio::test]
async fn rows_are_exchanged_with_other_libraries() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let other = Other::new(&table)?;
    for (id, properties) in BODIES {
        other.insert(id, properties).await?;
    }
    table.insert(&sale("rowkey")).await?;
    let ids = ["dotnet", "javascript", "legacy", "python", "rowkey"];
    let rows = table.query(Sale::partition("s")).all().await?;
    let rows: Vec<_> = rows.into_iter().map(|row| row.entity).collect();
    assert_eq!(rows, ids.map(sale));

    let (at, customer) = (sale("").at, sale("").customer);
    for (filter, is_found) in [
        (Sale::SIZE.is(5_u32), true),
        (Sale::SIZE.ge(5_u32), true),
        (Sale::SIZE.gt(4_u32), true),
        (Sale::SIZE.lt(6_u32), true),
        (Sale::SIZE.ne(6_u32), true),
        (Sale::SIZE.one_of([4_u32, 5, 6, 7, 8, 9]), true),
        (Sale::SIZE.ne(5_u32), false),
        (Sale::SIZE.gt(5_u32), false),
        (Sale::SIZE.le(4_u32), false),
        (Sale::RATIO.gt(1.5), true),
        (Sale::RATIO.is(2.0), true),
        (Sale::RATIO.lt(2.5), true),
        (Sale::RATIO.ge(2.5), false),
        (Sale::RATIO.ne(2.0), false),
        (Sale::AT.ge(at), true),
        (Sale::AT.lt(at), false),
        (Sale::CUSTOMER.is(customer), true),
        (Sale::CUSTOMER.ne(customer), false),
        (Sale::NUMBER.is(41), true),
        (Sale::NUMBER.ne(41), false),
        (Sale::NUMBER.is(40), false),
    ] {
        if arm() == Arm::Azurite && filter == Sale::CUSTOMER.ne(customer) {
            continue; // Azurite compares a GUID with text.
        }
        let query = table.query(Sale::partition("s")).filter(filter.clone());
        let mut found: Vec<_> = query.all().await?.into_iter().map(|row| row.entity.id).collect();
        found.sort_unstable();
        let expected = if is_found { &ids[..] } else { &[] };
        assert_eq!(found, expected, "{filter:?}");
    }
    let explained = table.query(Sale::partition("s")).filter(Sale::SIZE.ge(5_u32)).explain()?;
    assert_eq!(explained.compared["size"].len(), 3);
    let shown = explained.to_string();
    let expected = "`size` is compared as Edm.Double, Edm.Int32, Edm.Int64; `#[entity(exact)]`";
    assert!(shown.contains(expected), "{shown}");

    // As serde reads it into the struct of a program that runs on azure_data_tables 0.21.
    for id in ["rowkey", "dotnet"] {
        if id == "dotnet" {
            let stored = table.get(Sale::key("s", id)).await?.ok_or("it is there")?;
            table.replace(&stored).await?;
        }
        let row = other.get(id).await?;
        assert_eq!(row["size"].as_u64(), Some(5));
        assert_eq!(row["ratio"].as_f64(), Some(2.0));
        assert_eq!(row["at"], "2026-11-20T09:00:00Z");
        assert_eq!(row["customer"], CUSTOMER);
        assert_eq!(row["number"], "41");
    }
    Ok(())
}
