//! Compound keys: parts make the key and come back from it, leading parts are ranges, and the order
//! of the rows is the order of the parts.

use std::collections::BTreeMap;

use rowkey::edm::DateTime;
use rowkey::{DynamicEntity, Entity, EntitySet, Filter, Key, KeyPart, Partition, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::{Fixture, TestResult};

use rowkey_tests::random::{Random, seeds};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:6}", kind = "Employee")]
struct Employee {
    department: String,
    id: u32,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{employee:6}_{year:4}", kind = "Review")]
struct Review {
    department: String,
    employee: u32,
    year: u16,
    rating: i32,
}

#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Record {
    Employee(Employee),
    Review(Review),
}

/// Three parts of different kinds, the second largest first, the third any text.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{site}", row = "visit_{level}_{at:desc}_{who}")]
struct Visit {
    site: String,
    level: Level,
    at: DateTime,
    who: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, KeyPart)]
struct Level(i16);

fn review(employee: u32, year: u16) -> Review {
    Review { department: "sales".into(), employee, year, rating: 4 }
}

#[tokio::test]
async fn employee_and_reviews_have_the_keys_of_the_design_guide() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let ada = Employee { department: "sales".into(), id: 123 };
    table.transaction().insert(&ada).insert(&review(123, 2012)).submit().await?;
    let rows = table.query(Partition::<DynamicEntity>::new("sales")).all().await?;
    let mut employee = DynamicEntity::new("sales", "empid_000123");
    employee.set("EntityType", "Employee");
    let mut golden = DynamicEntity::new("sales", "empid_000123_2012");
    golden.set("EntityType", "Review");
    golden.set("rating", 4);
    let rows: Vec<_> = rows.into_iter().map(|stored| stored.entity).collect();
    assert_eq!(rows, [employee, golden]);
    Ok(())
}

#[tokio::test]
async fn leading_parts_select_exactly_their_range() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let mut transaction = table.transaction();
    for id in [12, 122, 123, 124, 1230] {
        transaction = transaction.insert(&Employee { department: "sales".into(), id });
        for year in [2011, 2012, 2013] {
            transaction = transaction.insert(&review(id, year));
        }
    }
    transaction.submit().await?;

    let found = table.query(Review::under_employee("sales", 123)).all().await?;
    let found: Vec<_> = found.into_iter().map(|stored| stored.entity).collect();
    assert_eq!(found, [review(123, 2011), review(123, 2012), review(123, 2013)]);

    let family = Partition::<Record>::beginning_with(Employee::key("sales", 123));
    let found = table.query(family).all().await?;
    assert_eq!(found.len(), 4, "and not those of 1230: numbers have a width");
    assert!(matches!(&found[0].entity, Record::Employee(employee) if employee.id == 123));

    let range = |from, to| Review::key("sales", 123, from)..Review::key("sales", 123, to);
    let some = table.query(Review::partition("sales").range(range(2011, 2013))).all().await?;
    assert_eq!(some.len(), 2);
    let from = Review::key("sales", 123, 2013)..;
    let rest = table.query(Review::partition("sales").range(from)).all().await?;
    assert_eq!(rest.len(), 1 + 3 + 3, "to the end of the reviews of all employees");

    // The bounds that some editions of the guide print: the upper one is below the lower one.
    let printed = "RowKey ge 'empid_000123' and RowKey lt '000123_2012'";
    let whole = Employee::partition("sales").whole::<DynamicEntity>();
    let nothing = table.query(whole.clone()).filter(Filter::raw(printed)?).all().await?;
    assert_eq!(nothing.len(), 0);
    let right = "RowKey ge 'empid_000123' and RowKey lt 'empid_000124'";
    assert_eq!(table.query(whole).filter(Filter::raw(right)?).all().await?.len(), 4);
    Ok(())
}

/// What is stored comes in the order of its parts, and every range of leading parts holds what a
/// filter of a plain list would.
#[tokio::test]
async fn rows_sort_by_their_parts_and_ranges_agree_with_a_model() -> TestResult {
    const NAMES: [&str; 9] = ["", "a", "a_", "_", "a/b", "a.b", "O'Neil", "é", "\u{FFFD}😀"];
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    for seed in seeds(40) {
        let context = format!("with seed {seed}");
        let mut random = Random(seed);
        let table = account.table(&format!("visits{seed}"));
        table.create().await?;
        let levels = [i16::MIN, -10, -9, -1, 0, 1, 9, 10, i16::MAX].map(Level);
        let day =
            |day: u64| -> DateTime { format!("2026-01-{:02}T00:00:00Z", day + 1).parse().unwrap() };
        let mut model = BTreeMap::new();
        while model.len() < 40 {
            let level = levels[usize::try_from(random.within(9))?];
            let at = day(random.within(4));
            let who = NAMES[usize::try_from(random.within(9))?];
            let visit = Visit { site: "north_1".into(), level, at, who: who.into() };
            // Dates run backwards, text by its UTF-16 units.
            let order = (level, -at.ticks(), who.encode_utf16().collect::<Vec<_>>());
            model.insert(order, visit);
        }
        let transaction = model.values().fold(table.transaction(), rowkey::Transaction::upsert);
        transaction.submit().await?;

        let read = async |partition: Partition<Visit>| -> rowkey::Result<Vec<Visit>> {
            let all = table.query(partition).all().await?;
            Ok(all.into_iter().map(|stored| stored.entity).collect())
        };
        let kept = |keep: &dyn Fn(&Visit) -> bool| -> Vec<Visit> {
            model.values().filter(|visit| keep(visit)).cloned().collect()
        };
        let site = "north_1";
        assert_eq!(read(Visit::partition(site)).await?, kept(&|_| true), "{context}");
        for level in levels {
            let found = read(Visit::under_level(site, level)).await?;
            assert_eq!(found, kept(&|visit| visit.level == level), "{context}: {level:?}");
            let at = day(random.within(4));
            let found = read(Visit::under_at(site, level, at)).await?;
            let expected = kept(&|visit| (visit.level, visit.at) == (level, at));
            assert_eq!(found, expected, "{context}: {level:?} {at}");
        }
        let visits: Vec<_> = model.values().collect();
        let (low, high) = (random.within(20), 20 + random.within(20));
        let (low, high) = (visits[usize::try_from(low)?], visits[usize::try_from(high)?]);
        // By the values: the earlier date is the lower one, although it comes later.
        let value = |visit: &Visit| {
            (visit.level, visit.at.ticks(), visit.who.encode_utf16().collect::<Vec<_>>())
        };
        let (low, high) = if value(low) < value(high) { (low, high) } else { (high, low) };
        let found = read(Visit::partition(site).range(Key::of(low)..Key::of(high))).await?;
        let expected = kept(&|visit| (value(low)..value(high)).contains(&value(visit)));
        assert_eq!(found, expected, "{context}: {low:?} to {high:?}");
        for visit in visits {
            let key = Key::of(visit);
            let (partition_key, row_key) = key.parts().map_err(Clone::clone)?;
            let parts = Visit::parse_key(partition_key, row_key)?;
            assert_eq!(parts, (visit.site.clone(), visit.level, visit.at, visit.who.clone()));
        }
    }
    Ok(())
}
