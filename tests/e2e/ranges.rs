//! Ranges mean values: what lies between two keys is what a list of all values says, in every
//! direction of the parts and with text of every length.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;
use std::time::Duration;

use rowkey::index::{IndexRange, SamePartition};
use rowkey::sas::{Sas, TablePermissions};
use rowkey::{Cost, DynamicEntity, Entity, ErrorKind, Key, Outcome, Partition, Projection, Table};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::rows::index_row;
use rowkey_tests::{Fixture, TestResult};

/// The largest first.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{shelf}", row = "{n:8,desc}")]
struct Down {
    shelf: String,
    n: u32,
}

/// Up, down and up again.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{shelf}", row = "mixed_{a:2}_{b:desc}_{c:2}")]
struct Mixed {
    shelf: String,
    a: u8,
    b: i16,
    c: u8,
}

/// Down, up and down again.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{shelf}", row = "turned_{a:2,desc}_{b:2}_{c:2,desc}")]
struct Turned {
    shelf: String,
    a: u8,
    b: u8,
    c: u8,
}

/// Text between others.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{shelf}", row = "name_{group:1}_{name}_{n:2,desc}")]
struct Named {
    shelf: String,
    group: u8,
    name: String,
    n: u8,
}

/// Text twice, the second to the end.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{shelf}", row = "{first}|{last}")]
struct Person {
    shelf: String,
    first: String,
    last: String,
}

/// What indexes make of the same.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{shelf}", row = "id_{id:3}")]
#[entity(
    index(name = by_last_name, row = "last_{last_name}", many),
    index(name = by_code, row = "code_{code:lower}"),
    index(name = by_pay, row = "pay_{pay:desc}", many),
    index(name = by_both, row = "both_{last_name}_{pay:desc}", many)
)]
struct Employee {
    shelf: String,
    id: u16,
    last_name: String,
    code: String,
    pay: i8,
}

/// Text with prefixes of one another, escapes, and characters on either side of separators.
const NAMES: [&str; 20] = [
    "", " ", "J", "JON", "JONES", "JONES JR", "JONESY", "Jones", "Jones Jr", "Jones_Jr", "Jonesy",
    "a", "a ", "a/b", "a^", "a^~", "a_", "a_b", "b", "é",
];

/// The order of text in keys.
fn text(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

async fn insert<E: Entity + Sync>(table: &Table, all: &[E]) -> rowkey::Result<()> {
    for some in all.chunks(100) {
        some.iter().fold(table.transaction(), rowkey::Transaction::insert).submit().await?;
    }
    Ok(())
}

fn bound<T>(random: &mut Random, value: T) -> Bound<T> {
    match random.below(3) {
        0 => Bound::Included(value),
        1 => Bound::Excluded(value),
        _ => Bound::Unbounded,
    }
}

/// Whether the range contains `value`.
fn lies<T>(value: &T, from: &Bound<T>, to: &Bound<T>, order: impl Fn(&T, &T) -> Ordering) -> bool {
    let above = match from {
        Bound::Included(from) => order(value, from).is_ge(),
        Bound::Excluded(from) => order(value, from).is_gt(),
        Bound::Unbounded => true,
    };
    let below = match to {
        Bound::Included(to) => order(value, to).is_le(),
        Bound::Excluded(to) => order(value, to).is_lt(),
        Bound::Unbounded => true,
    };
    above && below
}

/// Asks for random ranges of `all`, some of whose ends are not stored, and compares what comes with
/// what the values say; the order is that of the stored rows.
#[expect(clippy::future_not_send, reason = "awaited where it is called")]
async fn ranges<E>(
    seed: u64,
    all: Vec<E>,
    order: impl Fn(&E, &E) -> Ordering,
    rows: impl Fn() -> Partition<E>,
) -> TestResult
where
    E: Entity + Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let _seed = Seed(seed);
    let mut random = Random(seed);
    let table = Fixture::new().await?.table_with_server().await?;
    let stored: Vec<E> = all.iter().filter(|_| !random.one_in(4)).cloned().collect();
    insert(&table, &stored).await?;
    let whole = table.query(rows()).all().await?;
    let whole: Vec<E> = whole.into_iter().map(|stored| stored.entity).collect();
    assert_eq!(whole.len(), stored.len());
    for _ in 0..50 {
        let mut end = || {
            let one = &all[usize::try_from(random.within(all.len() as u64)).unwrap()];
            bound(&mut random, one.clone())
        };
        let (from, to) = (end(), end());
        let keys = (from.as_ref().map(Key::of), to.as_ref().map(Key::of));
        let found = table.query(rows().range(keys)).all().await?;
        let found: Vec<E> = found.into_iter().map(|stored| stored.entity).collect();
        let expected: Vec<E> =
            whole.iter().filter(|it| lies(*it, &from, &to, &order)).cloned().collect();
        assert_eq!(found, expected, "{from:?} to {to:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_range_over_a_descending_part_compares_by_value() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    insert(&table, &(1..=9).map(|n| Down { shelf: "p".into(), n }).collect::<Vec<_>>()).await?;
    let key = |n| Down::key("p", n);
    let all = || Down::partition("p");
    for (rows, expected) in [
        (all().range(key(3)..key(6)), vec![5, 4, 3]),
        (all().range(key(3)..=key(6)), vec![6, 5, 4, 3]),
        (all().range(key(8)..), vec![9, 8]),
        (all().range(..key(3)), vec![2, 1]),
        (all().range((Bound::Excluded(key(3)), Bound::Included(key(6)))), vec![6, 5, 4]),
        (all().range(key(6)..key(3)), vec![]),
        (all().range(key(6)..key(6)), vec![]),
    ] {
        let query = table.query(rows);
        let found: Vec<u32> = query.all().await?.into_iter().map(|it| it.entity.n).collect();
        assert_eq!(found, expected);
    }
    assert_eq!(table.query(all().range(key(3)..key(6))).cost()?, Cost::RangeQuery);
    Ok(())
}

#[tokio::test]
async fn a_range_end_of_another_key_format_is_rejected_before_sending() -> TestResult {
    let table = Fixture::new().await?.account.table("nowhere");
    for rows in [
        Mixed::partition("p").range(Key::new("p", "mixed_1")..),
        Mixed::partition("p").range(..Key::new("p", "a")),
        Mixed::partition("p").range(Mixed::key("other", 1, 1, 1)..),
    ] {
        let error = table.query(rows).all().await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        assert!(error.to_string().contains("an end of the range"), "{error}");
    }
    // The range is empty, and no request is sent.
    let key = |a| Mixed::key("p", a, 0, 0);
    assert!(table.query(Mixed::partition("p").range(key(2)..key(1))).all().await?.is_empty());
    assert!(
        table
            .query(Mixed::partition("p").range(key(2)..key(2)))
            .page(1, None)
            .await?
            .continuation
            .is_none()
    );
    Ok(())
}

/// A signature opens the rows of the values, or is refused where they are not one range of rows.
#[tokio::test]
async fn a_sas_grants_one_range_of_rows() -> TestResult {
    let fixture = Fixture::new().await?;
    let sas = || {
        let sas = Sas::table("shelves").permissions(TablePermissions::QUERY);
        sas.valid_for(Duration::from_secs(3600))
    };
    let opened = |sas: Sas<TablePermissions>| -> rowkey::Result<Vec<String>> {
        let token = sas.sign(&fixture.account)?;
        let ends =
            token.query().split('&').filter(|it| it.starts_with("srk=") || it.starts_with("erk="));
        let mut ends: Vec<_> = ends.map(str::to_owned).collect();
        ends.sort();
        Ok(ends)
    };
    let down = |n| Down::key("p", n);
    // Of the values 3 to 6 the last is the first row.
    let expected = ["erk=99999996", "srk=99999993"];
    assert_eq!(opened(sas().keys(down(3)..=down(6)))?, expected);
    let rows = Down::partition("p").range(down(3)..=down(6));
    assert_eq!(opened(sas().partition(rows))?, expected);
    let mixed = |a, b| Mixed::key("p", a, b, 0);
    for several in [
        sas().keys(mixed(1, 5)..mixed(2, 5)),
        sas().keys(mixed(1, 5)..),
        sas().keys(down(1)..Down::key("q", 1)),
        sas().partition(Mixed::partition("p").range(mixed(1, 5)..mixed(2, 5))),
        sas().partition(Named::partition("p").range(Named::key("p", 1, "a", 1)..)),
    ] {
        let error = opened(several).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("do not lie side by side"), "{error}");
    }
    let none = opened(sas().keys(down(6)..down(3))).unwrap_err();
    assert!(none.to_string().contains("there are no keys in the range"), "{none}");
    Ok(())
}

/// Disjoint values take one query for each contiguous part.
#[tokio::test]
async fn each_contiguous_part_of_a_range_is_one_query() -> TestResult {
    let table = Fixture::new().await?.account.table("nowhere");
    let key = |a, b, c| Mixed::key("p", a, b, c);
    for (rows, parts) in [
        (Mixed::partition("p").range(key(1, 5, 3)..key(1, 5, 7)), 1),
        (Mixed::partition("p").range(key(1, 5, 3)..key(1, 7, 3)), 3),
        (Mixed::partition("p").range(key(1, 5, 3)..key(2, 5, 3)), 5),
        (Mixed::partition("p").range(key(1, 5, 3)..), 3),
        (Mixed::partition("p").range(..), 1),
    ] {
        let query = table.query(rows);
        assert_eq!((query.explain()?.requests.len(), query.cost()?), (parts, Cost::RangeQuery));
    }
    Ok(())
}

#[tokio::test]
async fn a_text_range_contains_keys_that_extend_its_start() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let names = ["", "Jones", "Jones Jr", "Jonesy", "King", "Jo"];
    let mut id = 0;
    for last_name in names {
        id += 1;
        let (last_name, code) = (last_name.to_owned(), format!("c{id}"));
        let employee = Employee { shelf: "p".into(), id, last_name, code, pay: 0 };
        table.insert(&index_row(&employee, 0)?.ok_or("in the index")?).await?;
    }
    let find = async |range: IndexRange<Employee, SamePartition>| -> rowkey::Result<Vec<String>> {
        let found = table.query(range.partition_of::<DynamicEntity>()).all().await?;
        let mut found: Vec<_> = found
            .into_iter()
            .map(|it| it.entity.get("last_name").map_or_else(String::new, |it| format!("{it:?}")))
            .map(|it| it.split('"').nth(1).unwrap_or_default().to_owned())
            .collect();
        found.sort();
        Ok(found)
    };
    let all = || Employee::by_last_name_all("p");
    let by = |name: &str| Employee::by_last_name("p", name);
    let found = find(all().range(by("Jones")..)).await?;
    assert_eq!(found, ["Jones", "Jones Jr", "Jonesy", "King"]);
    assert_eq!(find(all().range(by("Jones Jr")..)).await?, ["Jones Jr", "Jonesy", "King"]);
    assert_eq!(find(all().range(..by("Jones Jr"))).await?, ["", "Jo", "Jones"]);
    assert_eq!(find(all().range(..=by("Jones"))).await?, ["", "Jo", "Jones"]);
    assert_eq!(find(all().range(by("Jones")..by("Jonesy"))).await?, ["Jones", "Jones Jr"]);
    Ok(())
}

#[tokio::test]
async fn any_range_with_mixed_directions_agrees_with_a_model() -> TestResult {
    let all = || (0..4).flat_map(|a| (0..4).flat_map(move |b| (0..3).map(move |c| (a, b, c))));
    let shelf = || "p".to_owned();
    for seed in seeds(3) {
        let mixed = all().map(|(a, b, c)| Mixed { shelf: shelf(), a, b: i16::from(b) - 2, c });
        let order = |x: &Mixed, y: &Mixed| (x.a, x.b, x.c).cmp(&(y.a, y.b, y.c));
        ranges(seed, mixed.collect(), order, || Mixed::partition("p")).await?;
        let turned = all().map(|(a, b, c)| Turned { shelf: shelf(), a, b, c });
        let order = |x: &Turned, y: &Turned| (x.a, x.b, x.c).cmp(&(y.a, y.b, y.c));
        ranges(seed, turned.collect(), order, || Turned::partition("p")).await?;
        let under = all().map(|(_, b, c)| Turned { shelf: shelf(), a: 2, b, c });
        let mut under: Vec<_> = under.collect();
        under.dedup();
        under.sort_by_key(|it| (it.b, it.c));
        under.dedup();
        ranges(seed, under, order, || Turned::under_a("p", 2)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn any_text_range_agrees_with_a_model() -> TestResult {
    for seed in seeds(4) {
        let all = NAMES.into_iter().flat_map(|name| {
            (0..2).flat_map(move |group| (0..2).map(move |n| (group, name.to_owned(), n)))
        });
        let all = all.map(|(group, name, n)| Named { shelf: "p".into(), group, name, n }).collect();
        let order = |x: &Named, y: &Named| {
            x.group.cmp(&y.group).then(text(&x.name, &y.name)).then(x.n.cmp(&y.n))
        };
        ranges(seed, all, order, || Named::partition("p")).await?;
        let some = ["", "JONES", "JONES JR", "a", "a{", "a|", "a}", "a~"];
        let all = some.into_iter().flat_map(|first| {
            let last = some.into_iter();
            last.map(move |last| Person {
                shelf: "p".into(),
                first: first.into(),
                last: last.into(),
            })
        });
        let order = |x: &Person, y: &Person| text(&x.first, &y.first).then(text(&x.last, &y.last));
        ranges(seed, all.collect(), order, || Person::partition("p")).await?;
    }
    Ok(())
}

/// Ranges of an index: from all rows of one value to all rows of another.
#[tokio::test]
async fn any_index_range_agrees_with_a_model() -> TestResult {
    for seed in seeds(3) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let table = Fixture::new().await?.table_with_server().await?;
        let mut all: BTreeMap<String, Employee> = BTreeMap::new();
        for id in 0..60 {
            let last_name = random.pick(&NAMES).to_owned();
            let pay = i8::try_from(random.below(5))? - 2;
            let code = format!("{}{id}", random.pick(&NAMES));
            let employee = Employee { shelf: "p".into(), id, last_name, code, pay };
            let mut rows = table.transaction();
            for position in 0..Employee::DECLARED.indexes.len() {
                let row = index_row(&employee, position)?.ok_or("in the index")?;
                all.insert(row.row_key.clone(), employee.clone());
                rows = rows.insert(&row);
            }
            rows.submit().await?;
        }
        let check = async |range: IndexRange<Employee, SamePartition>,
                           keep: &(dyn Fn(&Employee) -> bool + Sync)|
               -> TestResult {
            let head = range.index().row_head;
            let found = table.query(range.partition_of::<DynamicEntity>()).all().await?;
            let found: Vec<String> = found.into_iter().map(|it| it.entity.row_key).collect();
            let mut expected: Vec<&String> = all
                .iter()
                .filter(|(row, it)| row.starts_with(head) && keep(it))
                .map(|it| it.0)
                .collect();
            expected.sort_by(|a, b| text(a, b));
            assert_eq!(found.iter().collect::<Vec<_>>(), expected);
            Ok(())
        };
        for _ in 0..30 {
            let (low, high) = (random.pick(&NAMES).to_owned(), random.pick(&NAMES).to_owned());
            let names = (bound(&mut random, low), bound(&mut random, high));
            let by = |name: &String| Employee::by_last_name("p", name);
            let ends = (names.0.as_ref().map(by), names.1.as_ref().map(by));
            let within = |it: &Employee| lies(&it.last_name, &names.0, &names.1, |a, b| text(a, b));
            check(Employee::by_last_name_all("p").range(ends), &within).await?;

            let pays = [0, 0].map(|_: u8| i8::try_from(random.below(5)).unwrap_or_default() - 2);
            let pays = (bound(&mut random, pays[0]), bound(&mut random, pays[1]));
            let by = |pay: &i8| Employee::by_pay("p", *pay);
            let ends = (pays.0.as_ref().map(by), pays.1.as_ref().map(by));
            let within = |it: &Employee| lies(&it.pay, &pays.0, &pays.1, Ord::cmp);
            check(Employee::by_pay_all("p").range(ends), &within).await?;

            let codes = names.clone();
            let by = |name: &String| Employee::by_code("p", name);
            let ends = (codes.0.as_ref().map(by), codes.1.as_ref().map(by));
            let within = |it: &Employee| {
                lies(&it.code, &codes.0, &codes.1, |a, b| {
                    text(&a.to_lowercase(), &b.to_lowercase())
                })
            };
            check(Employee::by_code_all("p").range(ends), &within).await?;

            let both = (random.pick(&NAMES), i8::try_from(random.below(5))? - 2);
            let other = (random.pick(&NAMES), i8::try_from(random.below(5))? - 2);
            let both = (bound(&mut random, both), bound(&mut random, other));
            let by = |(name, pay): &(&str, i8)| Employee::by_both("p", *name, *pay);
            let ends = (both.0.as_ref().map(by), both.1.as_ref().map(by));
            let within = |it: &Employee| {
                let order = |a: &(&str, i8), b: &(&str, i8)| text(a.0, b.0).then(a.1.cmp(&b.1));
                lies(&(&*it.last_name, it.pay), &both.0, &both.1, order)
            };
            check(Employee::by_both_all("p").range(ends), &within).await?;
        }
    }
    Ok(())
}
