//! A rolling deploy: instances on `azure_data_tables` 0.21 and on rowkey work on one table at the same time, and each reads,
//! finds and changes the rows of the other.

use std::collections::BTreeMap;

use azure_data_tables::IfMatchCondition;
use azure_data_tables::clients::TableClient;
use azure_data_tables::operations::InsertEntityResponse;
use azure_data_tables::prelude::Filter;
use futures_util::TryStreamExt as _;
use rowkey::edm::{DateTime, Guid};
use rowkey::{Entity, ErrorKind, StorageAccount, Table};
use rowkey_interop::{Result, connection_string, service};
use serde::{Deserialize, Serialize};

/// The type of the instances that run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Old {
    #[serde(rename = "PartitionKey")]
    queue: String,
    #[serde(rename = "RowKey")]
    id: String,
    attempts: i64,
    size: u32,
    progress: f64,
    done: bool,
    owner: Option<String>,
    at: chrono::DateTime<chrono::Utc>,
    tag: uuid::Uuid,
}

/// The type of the instances that are deployed: the same fields, with the types that rowkey has for them.
#[derive(Clone, Debug, Entity, PartialEq)]
#[entity(partition = "{queue}", row = "{id}", compat = "azure_data_tables-0.21")]
struct New {
    queue: String,
    id: String,
    attempts: i64,
    size: u32,
    progress: f64,
    done: bool,
    owner: Option<String>,
    at: DateTime,
    tag: Guid,
}

impl From<New> for Old {
    fn from(new: New) -> Self {
        let New { queue, id, attempts, size, progress, done, owner, at, tag } = new;
        let at = at.to_string().parse().expect("RFC 3339");
        let tag = tag.to_string().parse().expect("a GUID");
        Self { queue, id, attempts, size, progress, done, owner, at, tag }
    }
}

/// The second of a date differs by `n`, the fraction by library: 0.21 writes as many digits as are needed.
fn date(n: i32) -> String {
    format!(
        "2024-05-06T07:08:{n:02}{}Z",
        ["", ".5", ".123", ".1234567"][n.unsigned_abs() as usize % 4]
    )
}

fn tag(n: i32) -> String {
    format!("c9da6455-213d-42c9-9a79-3e9149a578{n:02}")
}

fn old(id: &str, n: i32) -> Old {
    Old {
        queue: "mail".to_owned(),
        id: id.to_owned(),
        attempts: n.into(),
        size: n.unsigned_abs(),
        progress: f64::from(n),
        done: false,
        owner: (n % 2 == 0).then(|| "ada".to_owned()),
        at: date(n).parse().expect("RFC 3339"),
        tag: tag(n).parse().expect("a GUID"),
    }
}

fn new(id: &str, n: i32) -> New {
    let Old { queue, id, attempts, size, progress, done, owner, .. } = old(id, n);
    let at = date(n).parse().expect("RFC 3339");
    New {
        queue,
        id,
        attempts,
        size,
        progress,
        done,
        owner,
        at,
        tag: tag(n).parse().expect("a GUID"),
    }
}

async fn both(name: &str) -> Result<(TableClient, Table)> {
    let text = connection_string()?;
    let name = format!("{name}{}", uuid::Uuid::new_v4().simple());
    let table = StorageAccount::from_connection_string(&text)?.table(&name);
    table.create().await?;
    Ok((service(&text)?.table_client(name), table))
}

async fn old_rows(table: &TableClient, filter: &str) -> Result<BTreeMap<String, Old>> {
    let filter = Filter::new(format!("PartitionKey eq 'mail'{filter}"));
    let pages: Vec<_> =
        table.query().filter(filter).into_stream::<Old>().try_collect::<Vec<_>>().await?;
    Ok(pages.into_iter().flat_map(|page| page.entities).map(|e| (e.id.clone(), e)).collect())
}

async fn new_rows(table: &Table) -> Result<BTreeMap<String, Old>> {
    let rows = table.query(New::partition("mail")).all().await?;
    Ok(rows.into_iter().map(|row| (row.entity.id.clone(), row.entity.into())).collect())
}

#[tokio::test]
async fn both_libraries_read_query_and_update_each_others_rows() -> Result {
    let (before, after) = both("rolling").await?;
    for n in 0..20 {
        let _: InsertEntityResponse<Old> =
            before.insert(old(&format!("old-{n}"), n))?.into_future().await?;
        after.insert(&new(&format!("new-{n}"), n)).await?;
    }
    let all = old_rows(&before, "").await?;
    assert_eq!(all.len(), 40, "0.21 reads all rows");
    assert_eq!(new_rows(&after).await?, all, "rowkey reads the same");

    // Filters of both libraries find the same rows, by numbers and by text, before and after each has changed all.
    let filters = |more: i64| {
        let (low, tag) = (10 + more, tag(5));
        let (at, is_at) = ("2024-05-06T07:08:03.123456700Z", date(3));
        let is_low = New::ATTEMPTS.lt(low);
        [
            (
                format!("attempts ge {low} and progress lt 15.0"),
                10,
                (!is_low.clone()).and(New::PROGRESS.lt(15.0)),
            ),
            (format!("attempts lt {low}"), 20, is_low),
            ("size eq 7 or size gt 17".to_owned(), 6, New::SIZE.is(7_u32).or(New::SIZE.gt(17_u32))),
            ("owner eq 'ada'".to_owned(), 20, New::OWNER.is("ada")),
            (format!("at eq '{at}'"), 2, New::AT.is(is_at.parse::<DateTime>().expect("a date"))),
            (format!("tag eq '{tag}'"), 2, New::TAG.is(tag.parse::<Guid>().expect("a GUID"))),
        ]
    };
    let same = async |more| -> Result {
        for (text, count, filter) in filters(more) {
            let found = old_rows(&before, &format!(" and ({text})")).await?;
            let ours = after.query(New::partition("mail")).filter(filter).all().await?;
            assert_eq!((found.len(), ours.len()), (count, count), "{text}");
            let ours: Vec<_> = ours.into_iter().map(|row| row.entity.id).collect();
            assert_eq!(ours, found.into_keys().collect::<Vec<_>>(), "{text}");
        }
        Ok(())
    };
    same(0).await?;

    // Each changes all rows; the other sees it.
    let rows = before.partition_key_client("mail");
    for (id, row) in all {
        let changed = Old { attempts: row.attempts + 100, progress: row.progress - 0.5, ..row };
        let client = rows.entity_client(&id);
        client.update(changed, IfMatchCondition::Any)?.into_future().await?;
        after.update(New::key("mail", &id), |row| row.progress += 0.75).await?;
    }
    let all = old_rows(&before, "").await?;
    assert_eq!(all.len(), 40);
    assert_eq!(new_rows(&after).await?, all);
    for row in all.values() {
        assert!((row.progress - f64::from(row.size) - 0.25).abs() < f64::EPSILON);
        assert_eq!(row.attempts, i64::from(row.size) + 100);
    }
    same(100).await?;
    after.delete_table().await?;
    Ok(())
}

#[tokio::test]
async fn etags_are_interchangeable_between_the_libraries() -> Result {
    let (before, after) = both("etags").await?;
    after.insert(&new("1", 1)).await?;
    let client = before.partition_key_client("mail").entity_client("1");
    let read = client.get::<Old>().into_future().await?;
    let stored = after.get(New::key("mail", "1")).await?.ok_or("a row")?;

    client.update(&read.entity, IfMatchCondition::Etag(read.etag))?.into_future().await?;
    let error = after.replace(&stored).await.expect_err("0.21 was faster");
    assert_eq!(error.kind(), ErrorKind::Conflict);

    let read = client.get::<Old>().into_future().await?;
    after.update(New::key("mail", "1"), |row| row.attempts += 1).await?;
    let late = client.update(&read.entity, IfMatchCondition::Etag(read.etag))?.into_future().await;
    assert!(late.expect_err("rowkey was faster").to_string().contains("412"));
    after.delete_table().await?;
    Ok(())
}

#[tokio::test]
async fn a_new_column_survives_an_update_by_the_older_type() -> Result {
    /// The next version of [`New`].
    #[derive(Clone, Debug, Entity, PartialEq)]
    #[entity(partition = "{queue}", row = "{id}", compat = "azure_data_tables-0.21")]
    struct Newer {
        queue: String,
        id: String,
        attempts: i64,
        lane: Option<String>,
    }
    let (before, after) = both("columns").await?;
    let _: InsertEntityResponse<Old> = before.insert(old("1", 1))?.into_future().await?;
    after.update(Newer::key("mail", "1"), |row| row.lane = Some("fast".into())).await?;
    after.update(New::key("mail", "1"), |row| row.done = true).await?;
    let client = before.partition_key_client("mail").entity_client("1");
    let read = client.get::<Old>().into_future().await?.entity;
    assert_eq!(
        (read.done, read.progress, read.attempts),
        (true, 1.0, 1),
        "0.21 finds all of its own"
    );
    client.merge(&Old { attempts: 2, ..read }, IfMatchCondition::Any)?.into_future().await?;
    let newer = after.get(Newer::key("mail", "1")).await?.ok_or("a row")?.entity;
    assert_eq!((newer.lane.as_deref(), newer.attempts), (Some("fast"), 2));
    after.delete_table().await?;
    Ok(())
}

/// Statements of the migration guide about 0.21.
#[tokio::test]
async fn statements_of_the_guide_about_azure_data_tables_hold() -> Result {
    #[derive(Clone, Debug, Entity)]
    #[entity(partition = "{queue}", row = "{id}")]
    struct Long {
        queue: String,
        id: String,
        attempts: i64,
    }

    let (before, after) = both("guide").await?;
    let rows = before.partition_key_client("mail");
    after.insert(&new("1", 1)).await?;
    let missing = rows.entity_client("0").get::<Old>().into_future().await.expect_err("no row");
    assert!(missing.to_string().contains("404"));

    let refused =
        rows.transaction().insert(old("2", 2))?.insert(old("1", 1))?.into_future().await?;
    assert!(!refused.operation_responses.iter().all(|one| one.status_code.is_success()));
    assert!(after.get(New::key("mail", "2")).await?.is_none(), "Ok, and nothing was stored");

    let quoted = rows.entity_client("o'brien");
    quoted.insert_or_replace(old("o'brien", 1))?.into_future().await.expect_err("a quote");

    // Without the profile: an Int64 is text in JSON, which serde refuses for an integer.
    after.upsert_merge(&Long { queue: "mail".into(), id: "1".into(), attempts: 7 }).await?;
    rows.entity_client("1").get::<Old>().into_future().await.expect_err("text for an i32");
    assert_eq!(after.get(New::key("mail", "1")).await?.ok_or("a row")?.entity.attempts, 7);
    after.delete_table().await?;
    Ok(())
}
