//! Rows of other programs: keys that a template reads and would not write.

use futures_util::StreamExt as _;
use rowkey::edm::Guid;
use rowkey::{DynamicEntity, Entity, EntitySet, Error, ErrorKind, Partition, Table};
use rowkey_tests::rows::index_row;
use rowkey_tests::{Fixture, TestResult};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{owner}", row = "item_{id}", rename_all = "PascalCase")]
struct Item {
    owner: String,
    id: Guid,
    name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "notes", row = "{title}")]
struct Note {
    title: String,
}

/// Read leniently it would be written to another row: `replace` would answer 404, `upsert` make a
/// second row, and `delete_if_exists` leave this one.
#[tokio::test]
async fn a_row_with_a_foreign_key_is_skipped() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let id = "67E55044-10B1-426F-9247-BB680E5FE0C8";
    let mut stored = DynamicEntity::new("wilhelmina", format!("item_{id}"));
    stored.set("Name", "lamp");
    table.insert(&stored).await?;
    let error =
        table.query(Item::partition("wilhelmina")).all().await.err().ok_or("it is refused")?;
    assert_eq!(error.kind(), ErrorKind::Decode);
    let text = format!("{error} {error:?}");
    assert!(text.contains("RowKey") && text.contains("lower case"), "{text}");
    assert!(text.contains("DynamicEntity") && !text.contains(&id[..8]), "{text}");

    table.insert(&DynamicEntity::new("notes", "{..}")).await?;
    assert!(table.scan::<Note>().all().await.is_err());
    // The row that it would have decoded to has another key.
    let note = Note { title: "{..}".into() };
    table.insert(&note).await?;
    let own = table.get(Note::key("{..}")).await?.ok_or("its own row")?;
    assert_eq!(own.entity, note);
    let rows = table.scan::<DynamicEntity>().all().await?;
    assert_eq!(rows.len(), 3);
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{owner}", row = "job_{number:4}", rename_all = "PascalCase")]
struct Job {
    owner: String,
    number: u16,
    size: i32,
}

/// Jobs 0 to 6, of which 2 and 5 have a text for a size.
async fn jobs(table: &Table) -> TestResult {
    for number in 0..7_u16 {
        let mut row = DynamicEntity::new("wilhelmina", format!("job_{number:04}"));
        if number % 3 == 2 {
            row.set("Size", "much");
        } else {
            row.set("Size", i32::from(number));
        }
        table.insert(&row).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_undecodable_row_is_one_error_in_a_stream() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    jobs(&table).await?;
    let all = || table.query(Job::partition("wilhelmina"));
    for query in [
        all(),
        all().page_size(1),
        all().page_size(2).prefetch(),
        all().take(7),
        all().page_size(3).take(9),
        all().page_size(2).take(7).prefetch(),
        table.scan::<Job>(),
    ] {
        let mut found = Vec::new();
        let mut stream = query.stream();
        while let Some(job) = stream.next().await {
            found.push(job.map(|job| job.entity.number).ok());
        }
        assert_eq!(found, [Some(0), Some(1), None, Some(3), Some(4), None, Some(6)]);
    }
    Ok(())
}

#[tokio::test]
async fn an_error_gives_access_to_undecodable_rows_without_showing_them() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    jobs(&table).await?;
    let all = || table.query(Job::partition("wilhelmina")).page_size(2);
    let names = |error: &Error| {
        let text = format!("{error} {error:?} {:?}", error.details().failed_rows);
        assert!(["wilhelmina", "job_", "much"].iter().all(|key| !text.contains(key)), "{text}");
        assert_eq!(error.kind(), ErrorKind::Decode);
        let rows = error.details().failed_rows.iter();
        rows.map(|row| (row.partition_key.to_string(), row.row_key.to_string())).collect::<Vec<_>>()
    };
    let row = |number| ("wilhelmina".to_owned(), format!("job_000{number}"));

    let error = all().all().await.err().ok_or("two rows have no size")?;
    assert_eq!(names(&error), [row(2), row(5)]);
    assert!(error.to_string().contains("2 rows cannot be read"), "{error}");
    let error = all().fail_fast().all().await.err().ok_or("a row has no size")?;
    assert_eq!(names(&error), [row(2)]);
    let error = table.get(Job::key("wilhelmina", 5)).await.err().ok_or("it has no size")?;
    assert_eq!(names(&error), [row(5)]);
    assert!(error.to_string().contains("`Size`"), "{error}");
    let error = all().page(7, None).await.err().ok_or("a row has no size")?;
    assert_eq!(names(&error), [row(2)]);

    let stream = all().fail_fast().stream().collect::<Vec<_>>().await;
    assert_eq!(stream.len(), 3, "it ends after the error");
    assert_eq!(names(stream[2].as_ref().err().ok_or("the row has no size")?), [row(2)]);
    for query in [all(), all().prefetch(), all().take(7)] {
        let pages = query.pages().collect::<Vec<_>>().await;
        let pages = pages.iter().map(|page| page.as_ref().map(|page| page.entities.len()));
        let found: Vec<_> = pages.map(|page| page.map_err(names)).collect();
        assert_eq!(found, [Ok(2), Err(vec![row(2)]), Err(vec![row(5)]), Ok(1)]);
    }
    Ok(())
}

#[tokio::test]
async fn results_yields_an_entity_or_an_error_per_row() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    jobs(&table).await?;
    let results = || table.query(Job::partition("wilhelmina")).results();
    let all = results().all().await?;
    let numbers: Vec<_> = all.iter().map(|row| row.entity.as_ref().map(|job| job.number)).collect();
    let failed: Vec<_> = numbers.iter().filter_map(|row| row.err()).collect();
    assert_eq!(numbers.iter().filter_map(|row| row.ok()).collect::<Vec<_>>(), [0, 1, 3, 4, 6]);
    assert_eq!(
        failed.iter().map(|row| &*row.row_key).collect::<Vec<_>>(),
        ["job_0002", "job_0005"]
    );
    assert!(failed[0].to_string().contains("`Size`") && !failed[0].to_string().contains("much"));

    // The page contains them, and the next page continues after its last row.
    let first = results().page(3, None).await?;
    assert_eq!((first.entities.len(), first.entities[2].entity.is_err()), (3, true));
    let second = results().page(4, first.continuation).await?;
    assert_eq!(second.entities[0].entity.as_ref().map(|job| job.number), Ok(3));
    assert_eq!(second.entities.len(), 4);
    // A conditional write repairs the row that did not decode.
    let mut mended = DynamicEntity::new("wilhelmina", "job_0002");
    mended.set("Size", 2_i32);
    table.replace((&mended, first.entities[2].etag.clone())).await?;
    assert_eq!(table.get(Job::key("wilhelmina", 2)).await?.ok_or("it is there")?.entity.size, 2);
    Ok(())
}

#[tokio::test]
async fn any_other_error_ends_the_stream() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.account.table("doesnotexist");
    let found = table.query(Job::partition("wilhelmina")).stream().collect::<Vec<_>>().await;
    assert_eq!(found.len(), 1);
    let error = found[0].as_ref().err().ok_or("there is no table")?;
    assert!(
        error.kind() == ErrorKind::NotFound && error.details().failed_rows.is_empty(),
        "{error}"
    );
    let found = table.query(Job::partition("wilhelmina")).pages().collect::<Vec<_>>().await;
    assert_eq!(found.len(), 1);
    Ok(())
}

/// A type with copies, in a set with a variant for unknown rows.
#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Anything {
    Courier(Courier),
    #[entity_set(unknown)]
    Other(DynamicEntity),
}

#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Known {
    Courier(Courier),
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
async fn an_entity_set_skips_only_index_copies() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let courier = Courier { city: "leeds".into(), id: 7, name: "kim".into() };
    table.insert(&courier).await?;
    table.insert(&index_row(&courier, 0)?.ok_or("it is in the index")?).await?;
    // Another program has a column of this name, and an index of its own.
    let mut other = DynamicEntity::new("leeds", "row_1");
    other.set("PrimaryRowKey", "x");
    table.insert(&other).await?;
    let mut indexed = DynamicEntity::new("leeds", "row_2");
    indexed.set("PrimaryRowKey", "x");
    indexed.set("IndexName", "by_age");
    table.insert(&indexed).await?;

    let all = table.query(Partition::<Anything>::new("leeds")).all().await?;
    let found: Vec<_> = all.into_iter().map(|row| row.entity).collect();
    let expected = [
        Anything::Courier(courier.clone()),
        Anything::Other(other.clone()),
        Anything::Other(indexed.clone()),
    ];
    assert_eq!(found, expected);
    let streamed = table.query(Partition::<Anything>::new("leeds")).stream();
    assert_eq!(streamed.collect::<Vec<_>>().await.len(), 3);
    let error = table.query(Partition::<Known>::new("leeds")).all().await.err();
    let error = error.ok_or("two rows are of no type of the set")?;
    let rows: Vec<_> = error.details().failed_rows.iter().map(|row| &*row.row_key).collect();
    assert_eq!(rows, ["row_1", "row_2"]);
    Ok(())
}
