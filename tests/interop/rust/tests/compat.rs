//! `azure_data_tables` 0.21 reads, finds and changes what rowkey wrote with its profile, and rowkey reads that again.

use azure_data_tables::IfMatchCondition;
use azure_data_tables::prelude::Filter;
use futures_util::TryStreamExt as _;
use rowkey::{DynamicEntity, StorageAccount};
use rowkey_interop::profiles::{KIND, Profile as _, ROWS, RustRow, check_updated, write};
use rowkey_interop::{Result, connection_string, service};
use serde::{Deserialize, Serialize};

/// The type of a program on 0.21. It has no bytes: those are not readable there without annotations, and a merge keeps them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Old {
    #[serde(rename = "PartitionKey")]
    kind: String,
    #[serde(rename = "RowKey")]
    row: String,
    count: i64,
    small: i16,
    size: u64,
    ratio: f64,
    flag: bool,
    text: String,
    level: OldLevel,
    at: chrono::DateTime<chrono::Utc>,
    id: uuid::Uuid,
    big: f64,
    note: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum OldLevel {
    Low,
    High,
}

#[expect(clippy::cast_precision_loss, reason = "exact: no integer here is beyond 2^53")]
fn old(row: &RustRow) -> Result<Old> {
    Ok(Old {
        kind: row.kind.clone(),
        row: format!("{:08}", row.number),
        count: row.count,
        small: row.small,
        size: row.size,
        ratio: row.ratio,
        flag: row.flag,
        text: row.text.clone(),
        level: match row.level {
            rowkey_interop::profiles::Level::Low => OldLevel::Low,
            rowkey_interop::profiles::Level::High => OldLevel::High,
        },
        at: row.at.to_string().parse()?,
        id: row.id.to_string().parse()?,
        big: row.big as f64,
        note: row.note.clone(),
    })
}

#[tokio::test]
async fn azure_data_tables_reads_finds_and_changes_rows_of_rowkey() -> Result {
    let text = connection_string()?;
    let name = format!("compat{}", uuid::Uuid::new_v4().simple());
    let table = StorageAccount::from_connection_string(&text)?.table(&name);
    write::<RustRow>(&table).await?;
    let before = service(&text)?.table_client(name);
    let partition = KIND.replace('\'', "''");
    let find = async |filter: &str| -> Result<Vec<Old>> {
        let filter = Filter::new(format!("PartitionKey eq '{partition}'{filter}"));
        let pages = before.query().filter(filter).into_stream::<Old>();
        let pages: Vec<_> = pages.try_collect().await?;
        Ok(pages.into_iter().flat_map(|page| page.entities).collect())
    };

    let mut expected = Vec::new();
    for number in 1..=ROWS {
        expected.push(old(&RustRow::row(number)?)?);
    }
    let read = find("").await?;
    assert_eq!(read, expected, "0.21 reads every property as its own type");

    for (filter, numbers) in [
        ("count ge 0", &[2, 3, 4][..]),
        ("count eq -2147483648", &[1]),
        ("size gt 5 and small lt 100", &[2, 3]),
        ("ratio gt 0.4", &[1, 2, 4]),
        ("flag eq true", &[2, 4]),
        ("level eq 'high'", &[2]),
        ("text eq 'plain' or text eq '42'", &[3, 4]),
        ("at eq '2026-11-22T09:00:00.123Z'", &[2]),
        ("id eq '0d391d16-97f1-4b9a-be68-4cc871f90003'", &[3]),
        ("big eq 9007199254740992.0", &[1]),
        ("note eq 'there'", &[2, 4]),
    ] {
        let found = find(&format!(" and ({filter})")).await?;
        let found: Vec<_> = found.into_iter().map(|row| row.row).collect();
        let rows: Vec<_> = numbers.iter().map(|number| format!("{number:08}")).collect();
        assert_eq!(found, rows, "{filter}");
    }

    // 0.21 puts keys into addresses as they are: the program doubles the quote.
    let rows = before.partition_key_client(&partition);
    for (number, row) in (1..=ROWS).zip(read) {
        let changed = old(&RustRow::row(number)?.updated())?;
        let client = rows.entity_client(&row.row);
        client.merge(&changed, IfMatchCondition::Any)?.into_future().await?;
        // Bytes are out of its type.
        let mut bytes = DynamicEntity::new(KIND, &*row.row);
        bytes.set("data", RustRow::row(number)?.updated().data);
        table.upsert_merge(&bytes).await?;
    }
    check_updated::<RustRow>(&table).await?;
    table.delete_table().await?;
    Ok(())
}
