//! Which rows a query returns: those that the conditions select, however they are decided.

use rowkey::DynamicEntity;
use rowkey_datafusion::TableSource;

use crate::support::{Account, entity};

/// Keys whose order differs between SQL and the service, and others that are odd.
const KEYS: [&str; 12] = [
    "",
    " ",
    "a",
    "a'b",
    "ab",
    "a\u{d7ff}",
    "a\u{e000}",
    "a\u{ffff}",
    "a\u{10000}",
    "a\u{10ffff}",
    "b",
    "ü%_",
];

fn odd() -> Vec<DynamicEntity> {
    let rows = KEYS.iter().flat_map(|partition| KEYS.iter().map(move |row| (*partition, *row)));
    rows.map(|(partition, row)| {
        entity(partition, row, |entity| {
            entity.set("pair", format!("{partition}/{row}"));
        })
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_on_odd_keys_select_what_sql_says() {
    let account = Account::start().await;
    account.with("odd", odd()).await;
    // The same rows without push-down.
    let all = account.session.sql("SELECT * FROM odd").await.unwrap().collect().await.unwrap();
    let memory = datafusion::datasource::MemTable::try_new(all[0].schema(), vec![all]).unwrap();
    account.session.register_table("memory", std::sync::Arc::new(memory)).unwrap();
    let quoted = |key: &str| format!("'{}'", key.replace('\'', "''"));
    let mut asked = 0;
    for column in ["PartitionKey", "RowKey"] {
        let mut conditions = vec![
            format!("{column} LIKE 'a%'"),
            format!("{column} LIKE '%'"),
            format!("{column} NOT LIKE 'a%'"),
            format!("starts_with({column}, 'a\u{10000}')"),
            format!("{column} IS NULL"),
            format!("{column} = NULL"),
            format!("{column} IS DISTINCT FROM NULL"),
            format!("{column} IS NOT DISTINCT FROM 'a'"),
            format!("{column} IS DISTINCT FROM 'a'"),
            format!("{column} NOT IN ('a', 'b')"),
            format!("{column} IN ('a', 'ab', 'zz') OR {column} > 'a\u{e000}'"),
            format!("upper({column}) = 'A'"),
            format!("{column} IN ('a', 'a\u{e000}', 'a\u{10000}')"),
            format!("{column} IN ('ab', 'a\u{e000}') OR {column} BETWEEN 'a' AND 'a\u{d7ff}'"),
            format!("RowKey = 'a\u{e000}' OR (RowKey = 'a\u{10000}' AND {column} > '')"),
            format!("PartitionKey = 'a' AND ({column} >= 'a' OR {column} < ' ')"),
            format!(
                "(PartitionKey = 'a' AND RowKey = 'b') OR (PartitionKey >= 'a' AND {column} <= 'ab')"
            ),
            format!("{column} BETWEEN 'a' AND 'a\u{ffff}' AND pair <> 'a/a'"),
        ];
        for key in KEYS {
            for operator in ["=", "<>", "<", "<=", ">", ">="] {
                conditions.push(format!("{column} {operator} {}", quoted(key)));
                conditions.push(format!("pair {operator} {}", quoted(&format!("a/{key}"))));
            }
        }
        for condition in conditions {
            let sql = |table: &str| format!("SELECT pair FROM {table} WHERE {condition}");
            let found = account.rows(&sql("odd")).await;
            assert_eq!(found, account.rows(&sql("memory")).await, "{condition}");
            asked += 1;
        }
    }
    assert_eq!(asked, 2 * (18 + 12 * 12));
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_between_odd_keys_have_each_row_once_when_conditions_are_told() {
    let account = Account::start().await;
    let table = account.table("odd", odd()).await;
    // In one partition of each name, which joins find by its RowKey.
    let few = KEYS.iter().map(|key| entity("few", key, |_| ())).collect();
    account.with("few", few).await;
    for splits in [1, 2, 5, 12] {
        account.register("odd", TableSource::open(&table).splits(splits).await.unwrap());
        for sql in [
            // The least rows that were found so far are told to the scan.
            "SELECT pair FROM odd ORDER BY pair LIMIT 1000",
            "SELECT pair FROM odd ORDER BY PartitionKey DESC, RowKey DESC LIMIT 1000",
            // The keys of the other side are told to the scan.
            "SELECT pair FROM odd JOIN few ON odd.PartitionKey = few.RowKey",
            "SELECT pair FROM odd JOIN few ON odd.RowKey = few.RowKey",
            "SELECT pair FROM odd WHERE PartitionKey IN (SELECT RowKey FROM few)",
        ] {
            let sql = format!("SELECT count(*), count(DISTINCT pair) FROM ({sql}) AS found");
            assert_eq!(account.rows(&sql).await, ["144 144"], "{splits}: {sql}");
        }
        account.session.deregister_table("odd").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_properties_are_null_and_no_condition_finds_them() {
    let account = Account::start().await;
    let rows = (0..30).map(|number: i32| {
        entity("p", &format!("{number:02}"), |row| {
            match number % 3 {
                0 => row.set("qty", number),
                1 => row.set("qty", i64::from(number)),
                _ => None,
            };
            row.set("open", number % 2 == 0);
        })
    });
    account.with("parts", rows.collect()).await;
    let count = async |condition: &str| {
        let sql = format!("SELECT count(*) FROM parts WHERE {condition}");
        account.ask(&sql).await.0[0].parse::<usize>().unwrap()
    };
    assert_eq!(count("qty = 12").await, 1, "which is stored as Int32");
    assert_eq!(count("qty = 13").await, 1, "which is stored as Int64");
    assert_eq!(count("qty IS NULL").await, 10);
    assert_eq!(count("NOT (qty < 15)").await, 10);
    assert_eq!(count("qty <> 12").await, 19);
    assert_eq!(count("qty IN (1, 3, 5)").await, 2);
    assert_eq!(count("open").await, 15);
    assert_eq!(count("NOT open AND qty > 20").await, 3);
    assert_eq!(count("qty + 1 = 13").await, 1);
    assert_eq!(count("qty = 2.5").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nan_and_negative_zero_are_those_of_sql() {
    let account = Account::start().await;
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.5, -2.5];
    let rows = values.iter().enumerate().map(|(number, value)| {
        entity("p", &number.to_string(), |row| {
            row.set("x", *value);
        })
    });
    account.with("numbers", rows.collect()).await;
    let all = account.session.sql("SELECT * FROM numbers").await.unwrap().collect().await.unwrap();
    let memory = datafusion::datasource::MemTable::try_new(all[0].schema(), vec![all]).unwrap();
    account.session.register_table("memory", std::sync::Arc::new(memory)).unwrap();
    for operator in ["=", "<>", "<", "<=", ">", ">="] {
        for value in
            ["0.0", "-0.0", "1.5", "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "-3"]
        {
            for more in ["", " AND x < 100"] {
                let sql = |table: &str| {
                    format!("SELECT RowKey FROM {table} WHERE x {operator} {value}{more}")
                };
                let (found, expected) =
                    (account.rows(&sql("numbers")).await, account.rows(&sql("memory")).await);
                assert_eq!(found, expected, "x {operator} {value}{more}");
            }
        }
    }
}
