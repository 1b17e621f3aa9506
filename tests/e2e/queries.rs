//! Queries: partitions, ranges, filters, pages, continuation tokens.

use futures_util::TryStreamExt;
use rowkey::{
    Column, Cost, DynamicEntity, ErrorKind, Filter, Operator, Outcome, Partition, ScanPolicy,
};
use rowkey_tests::{Fixture, TestResult};

use crate::model::{Badge, Employee, Grade, Pay, Review, employee};

#[expect(clippy::future_not_send, reason = "awaited where it is called")]
pub(crate) async fn staff(count: u32) -> TestResult<Staff> {
    let table = Fixture::new().await?.table_with_server().await?;
    for first in (1..=count).step_by(100) {
        let mut transaction = table.transaction();
        for id in first..(first + 100).min(count + 1) {
            transaction = transaction.insert(&employee(id));
        }
        transaction.submit().await?;
    }
    Ok(table)
}

pub(crate) type Staff = rowkey_tests::TestTable;

pub(crate) fn ids(found: &[rowkey::Stored<Employee>]) -> Vec<u32> {
    found.iter().map(|stored| stored.entity.id).collect()
}

#[tokio::test]
async fn a_partition_query_returns_entities_of_its_type_in_key_order() -> TestResult {
    let table = staff(12).await?;
    let badge = Badge { department: "sales".into(), number: 1, holder: "Ada".into() };
    table.insert(&badge).await?;
    let found = table.query(Employee::partition("sales")).all().await?;
    assert_eq!(ids(&found), (1..=12).collect::<Vec<_>>());
    assert_eq!(table.query(Badge::partition("sales")).all().await?[0].entity, badge);
    assert_eq!(table.query(Employee::partition("elsewhere")).all().await?.len(), 0);
    assert_eq!(table.scan::<Badge>().all().await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn key_ranges_are_half_open() -> TestResult {
    let table = staff(12).await?;
    let key = |id| Employee::key("sales", id);
    let sales = || Employee::partition("sales");
    for (partition, expected) in [
        (sales().range(key(3)..key(6)), vec![3, 4, 5]),
        (sales().range(key(3)..=key(6)), vec![3, 4, 5, 6]),
        (sales().range(key(11)..), vec![11, 12]),
        (sales().range(..key(3)), vec![1, 2]),
    ] {
        let query = table.query(partition);
        assert_eq!(query.cost()?, Cost::RangeQuery);
        assert_eq!(ids(&query.all().await?), expected);
    }
    let elsewhere = sales().range(Employee::key("other", 1)..);
    let error = table.query(elsewhere).all().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    Ok(())
}

#[tokio::test]
async fn leading_parts_of_a_compound_key_select_a_range() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    for (employee, year) in [("ann", 2011), ("ann", 2012), ("ann_b", 2012), ("anna", 2012)] {
        let (department, employee) = ("sales".into(), employee.into());
        table.insert(&Review { department, employee, year, grade: Grade::Great }).await?;
    }
    let found = table.query(Review::under_employee("sales", "ann")).all().await?;
    let years: Vec<_> = found.iter().map(|s| (s.entity.employee.as_str(), s.entity.year)).collect();
    assert_eq!(years, [("ann", 2011), ("ann", 2012)]);
    let found = table.query(Review::under_employee("sales", "ann_b")).all().await?;
    assert_eq!(found.len(), 1);
    Ok(())
}

#[tokio::test]
async fn typed_filters_select_matching_entities() -> TestResult {
    let table = staff(10).await?;
    let find = |filter: Filter| table.query(Employee::partition("sales")).filter(filter).all();
    let salary = Employee::SALARY;
    assert_eq!(ids(&find(salary.gt(8000.0)).await?), [9, 10]);
    assert_eq!(ids(&find(salary.ge(2000.0).and(salary.lt(4000.0))).await?), [2, 3]);
    assert_eq!(ids(&find(salary.is(1000.0).or(salary.is(5000.0))).await?), [1, 5]);
    assert_eq!(ids(&find(Employee::TITLE.is("Lead")).await?), [2, 4, 6, 8, 10]);
    assert_eq!(ids(&find(Employee::NAME.is("O'Neil")).await?), [0; 0]);
    assert_eq!(ids(&find(Employee::NAME.starts_with("Employee 1")).await?), [1, 10]);
    // An entity without the property matches no comparison of it, `ne` included.
    assert_eq!(ids(&find(Employee::TITLE.ne("Boss")).await?), [2, 4, 6, 8, 10]);
    assert_eq!(ids(&find(!salary.le(9000.0)).await?), [10]);
    assert_eq!(ids(&find(Filter::raw("Salary lt 2000.0 or Salary gt 9000.0")?).await?), [1, 10]);
    let timestamp = rowkey::TIMESTAMP.gt("2020-01-01T00:00:00Z".parse::<rowkey::edm::DateTime>()?);
    assert_eq!(find(timestamp).await?.len(), 10);
    Ok(())
}

#[tokio::test]
async fn filter_values_are_escaped() -> TestResult {
    let table = staff(3).await?;
    let name = "x' or Salary gt 0.0 or Name eq 'y";
    let found =
        table.query(Employee::partition("sales")).filter(Employee::NAME.is(name)).all().await?;
    assert_eq!(found.len(), 0);
    // Nor can a name.
    for name in ["Salary gt 0.0 or Name", "Name eq 'x' or RowKey", "a/b", ""] {
        let filter = Filter::dynamic(name, Operator::NotEqual, "x");
        let refused = table.query(Employee::partition("sales")).filter(filter).all().await;
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    }
    let row = Filter::dynamic("RowKey", Operator::Equal, "id_000002");
    let found = table.query(Employee::partition("sales")).filter(row).all().await?;
    assert_eq!(ids(&found), [2]);
    let error = Filter::raw("Name eq 'unfinished").unwrap_err();
    assert_eq!(rowkey::Error::from(error).kind(), ErrorKind::Invalid);
    Ok(())
}

#[tokio::test]
async fn a_list_longer_than_the_service_limit_is_split() -> TestResult {
    let table = staff(60).await?;
    let wanted: Vec<f64> = (1..=40).map(|id| f64::from(id) * 1000.0).collect();
    let query = || {
        let list = Employee::SALARY.exact().one_of(wanted.clone());
        table.query(Employee::partition("sales")).filter(list)
    };
    assert_eq!(query().explain()?.requests.len(), 4);
    // Three comparisons for each number, and three on the keys.
    let list = Employee::SALARY.one_of(wanted.clone());
    let of_any_type = table.query(Employee::partition("sales")).filter(list);
    assert_eq!(of_any_type.explain()?.requests.len(), 10);
    let mut found = ids(&of_any_type.all().await?);
    found.sort_unstable();
    assert_eq!(found, (1..=40).collect::<Vec<_>>());
    let mut found = ids(&query().all().await?);
    found.sort_unstable();
    assert_eq!(found, (1..=40).collect::<Vec<_>>());
    // `take` counts over all parts, and a token contains its part.
    assert_eq!(query().take(17).all().await?.len(), 17);
    let pages: Vec<_> = query().page_size(5).pages().try_collect().await?;
    let token = pages[3].continuation.clone().unwrap();
    let read: usize = pages[..=3].iter().map(|page| page.entities.len()).sum();
    assert_eq!(read + query().page_size(5).resume(token).all().await?.len(), 40);
    Ok(())
}

#[tokio::test]
async fn take_limits_results_across_pages() -> TestResult {
    let table = staff(50).await?;
    let query = || table.query(Employee::partition("sales"));
    assert_eq!(ids(&query().take(7).page_size(3).all().await?), (1..=7).collect::<Vec<_>>());
    assert_eq!(query().take(0).all().await?.len(), 0);
    assert_eq!(query().take(500).all().await?.len(), 50);
    assert_eq!(query().first().await?.unwrap().entity.id, 1);
    // The service filters after it counts pages: `take` requests pages until it has enough.
    let last = query().filter(Employee::SALARY.ge(48_000.0)).take(2).all().await?;
    assert_eq!(ids(&last), [48, 49]);
    Ok(())
}

#[tokio::test]
async fn a_stream_crosses_page_boundaries() -> TestResult {
    let table = staff(2345).await?;
    let mut stream = table.query(Employee::partition("sales")).stream();
    let mut next = 1;
    while let Some(stored) = stream.try_next().await? {
        assert_eq!(stored.entity.id, next);
        next += 1;
    }
    assert_eq!(next, 2346);
    let pages: Vec<_> = table.query(Employee::partition("sales")).pages().try_collect().await?;
    assert_eq!(pages[0].entities.len(), 1000);
    Ok(())
}

#[tokio::test]
async fn a_prefix_query_returns_only_rows_of_its_type() -> TestResult {
    let table = staff(12).await?;
    let badge = Badge { department: "sales".into(), number: 1, holder: "Ada".into() };
    table.insert(&badge).await?;
    let find = |prefix| table.query(Employee::partition("sales").prefix(prefix)).all();
    assert_eq!(ids(&find("id_00001").await?), [10, 11, 12]);
    assert_eq!(ids(&find("").await?).len(), 12);
    assert_eq!(ids(&find("badge_").await?), [0; 0]);
    let found = table.query(Employee::partition("sales").row_keys("a".."z")).all().await?;
    assert_eq!(found.len(), 12);
    let behind = Employee::partition("sales").row_keys("id_000010"..);
    assert_eq!(ids(&table.query(behind).all().await?), [10, 11, 12]);
    let both = Employee::partition("sales").range(Employee::key("sales", 11)..).prefix("id_00000");
    assert_eq!(ids(&table.query(both).all().await?), [0; 0]);
    Ok(())
}

#[tokio::test]
async fn text_with_any_character_is_found_by_prefix() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    for (id, name) in (1..).zip([".a", "/b", "[c", "\\d", "~e", "\u{7f}f", "\u{ffff}"]) {
        table.insert(&Employee { name: name.into(), ..employee(id) }).await?;
    }
    let find = |prefix| {
        table.query(Employee::partition("sales")).filter(Employee::NAME.starts_with(prefix)).all()
    };
    // `/`, `\\` and U+007F cannot be in keys, and come right behind `.`, `[` and `~` in text.
    for (prefix, expected) in [(".", 1), ("/", 2), ("[", 3), ("\\", 4), ("~", 5), ("\u{ffff}", 7)] {
        assert_eq!(ids(&find(prefix).await?), [expected], "{prefix:?}");
    }
    assert_eq!(ids(&find("").await?).len(), 7);
    Ok(())
}

#[tokio::test]
async fn an_empty_list_returns_no_entities_and_sends_no_request() -> TestResult {
    // There is no such table, and nobody is asked.
    let table = Fixture::new().await?.account.table("nowhere");
    let query = || {
        let none = Employee::NAME.one_of(Vec::<String>::new());
        table.query(Employee::partition("sales")).filter(Employee::SALARY.gt(1.0)).filter(none)
    };
    assert_eq!(query().all().await?.len(), 0);
    assert!(query().pages().try_next().await?.is_none());
    assert_eq!(query().explain()?.requests.len(), 0);
    assert_eq!(query().cost()?, Cost::RangeQuery);
    Ok(())
}

#[tokio::test]
async fn a_query_with_an_oversized_key_is_too_large() -> TestResult {
    let table = Fixture::new().await?.account.table("nowhere");
    let long = Employee::partition("x".repeat(600));
    let error = table.query(long).all().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    assert_eq!(error.to_string().matches("split it").count(), 1, "{error}");
    Ok(())
}

#[tokio::test]
async fn table_scans_obey_the_scan_policy() -> TestResult {
    let table = staff(3).await?;
    assert_eq!(table.scan::<Employee>().cost()?, Cost::TableScan);
    let error = table.scan::<Employee>().scan_policy(ScanPolicy::Deny).all().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    let strict = rowkey::ClientOptions { scan_policy: ScanPolicy::Deny, ..Default::default() };
    let strict = table.with_options(strict);
    assert!(strict.scan::<Employee>().all().await.is_err());
    assert_eq!(strict.scan::<Employee>().scan_policy(ScanPolicy::Allow).all().await?.len(), 3);
    assert_eq!(strict.query(Employee::partition("sales")).all().await?.len(), 3);
    Ok(())
}

#[tokio::test]
async fn projections_and_selections_include_keys_and_etags() -> TestResult {
    let table = staff(3).await?;
    let pay = table.query(Employee::partition("sales")).project::<Pay>().all().await?;
    assert_eq!(pay[1].entity, Pay { salary: 2000.0 });
    let whole = table.query(Employee::partition("sales")).all().await?;
    assert_eq!(pay[1].etag, whole[1].etag);
    assert_eq!(pay[1].timestamp, whole[1].timestamp);

    let some = table
        .query(Partition::<DynamicEntity>::new("sales"))
        .select(["Name", "Missing"])
        .all()
        .await?;
    assert_eq!(some[0].entity.row_key, "id_000001");
    assert_eq!(some[0].entity.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["Name"]);
    Ok(())
}

#[tokio::test]
async fn dynamic_columns_filter_like_typed_columns() -> TestResult {
    let table = staff(5).await?;
    let salary: Column<f64> = Column::named("Salary");
    let query = table.query(Partition::<DynamicEntity>::new("sales")).filter(salary.gt(3000.0));
    assert_eq!(query.cost()?, Cost::PartitionScan);
    assert_eq!(query.all().await?.len(), 2);
    Ok(())
}
