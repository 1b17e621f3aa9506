//! Indexes and lists over parts in the formats of other programs: their rows, lookups, ranges and moves.

use chrono::{DateTime, TimeDelta, Utc};
use rowkey::Entity;
use rowkey::edm::Guid;
use rowkey::store::Store;
use rowkey_emulator::Server;
use rowkey_tests::TestResult;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{shop}-{year:4}", row = "sale_{id:N,upper}")]
#[entity(index(name = by_number, row = "number_{number:unpadded}"))]
#[entity(index(name = by_day, row = "day_{at:yyyyMMdd}-{open:True}", many, copy(at)))]
#[entity(list(name = by_code, value = "{code:X4}"))]
struct Sale {
    shop: u32,
    year: u16,
    id: Guid,
    number: u32,
    at: DateTime<Utc>,
    open: bool,
    code: u16,
}

fn sale(number: u32, at: &str) -> Sale {
    let at = at.parse().expect("an instant");
    let id = Guid::from_u128(u128::from(number));
    Sale { shop: 7, year: 2026, id, number, at, open: number.is_multiple_of(2), code: 255 }
}

#[tokio::test]
async fn index_keys_use_the_formats_of_their_templates() -> TestResult {
    let server = Server::start().await?;
    let table = rowkey_tests::sweep::account(&server)?.table("sales");
    table.create().await?;
    let sales = Store::<Sale>::builder(table).build()?;
    for number in [9, 10, 100] {
        sales.insert(&sale(number, "2026-11-23T04:45:06.5Z")).await?;
    }
    let partition = "0000000007-2026";
    let rows = || {
        let snapshot = server.snapshot();
        let rows = snapshot.table("sales").unwrap().partition(partition);
        rows.map(|row| row.row_key().to_owned()).collect::<Vec<_>>()
    };
    let id = |number: u32| format!("{number:032X}");
    let mut expected = vec!["list_sale_by_code_00FF".to_owned()];
    expected.extend([9, 10, 100].map(|n| format!("number_{n}")));
    expected.extend([9, 10, 100].map(|n| format!("sale_{}", id(n))));
    let open = |n: u32| if n.is_multiple_of(2) { "True" } else { "False" };
    expected.extend([9, 10, 100].map(|n| format!("day_20261123-{}_sale_{}", open(n), id(n))));
    expected.sort();
    assert_eq!(rows(), expected);

    let found = sales.find(Sale::by_number(7_u32, 2026_u16, 10_u32)).await?.unwrap();
    assert_eq!(
        found.entity,
        sale(10, "2026-11-23T04:45:06.5Z"),
        "a copy has what its key cuts off"
    );
    let numbers = async |range| {
        let found = sales.query(range).all().await?;
        Ok::<_, rowkey::Error>(found.iter().map(|sale| sale.entity.number).collect::<Vec<_>>())
    };
    let all = || Sale::by_number_all(7_u32, 2026_u16);
    let number = |number: u32| Sale::by_number(7_u32, 2026_u16, number);
    assert_eq!(
        numbers(all().range(number(9)..=number(10))).await?,
        [10, 9],
        "in the order of rows"
    );
    assert_eq!(numbers(all().range(number(11)..)).await?, [100]);
    let day = "2026-11-23T23:00:00Z".parse::<DateTime<Utc>>()?;
    assert_eq!(numbers(Sale::by_day(7_u32, 2026_u16, day, true)).await?, [10, 100]);

    // A change of an hour leaves the row of the day, one of the day moves it.
    let key = || Sale::key(7_u32, 2026_u16, Guid::from_u128(10));
    sales.update(key(), |sale| sale.at += TimeDelta::hours(1)).await?;
    assert_eq!(rows(), expected);
    sales.update(key(), |sale| sale.at += TimeDelta::days(1)).await?;
    assert_ne!(rows(), expected);
    assert_eq!(numbers(Sale::by_day(7_u32, 2026_u16, day, true)).await?, [100]);
    assert!(sales.verify().run().await?.is_clean());
    Ok(())
}
