//! Tables: created, listed, deleted.

use futures_util::TryStreamExt;
use rowkey::{ErrorCode, ErrorKind, Outcome};
use rowkey_tests::{Arm, Fixture, TestResult, arm, unique_name};

#[tokio::test]
async fn a_table_is_created_once() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.account.table(&unique_name());
    assert!(table.create_if_missing().await?);
    assert!(!table.create_if_missing().await?);
    let error = table.create().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(error.code(), Some(&ErrorCode::TABLE_ALREADY_EXISTS));
    assert_eq!(error.outcome(), Outcome::Rejected);
    Ok(())
}

#[tokio::test]
async fn deleting_a_table_returns_whether_it_existed() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    assert!(table.delete_table_if_exists().await?);
    let never = fixture.account.table(&unique_name());
    assert!(!never.delete_table_if_exists().await?);
    assert_eq!(never.delete_table().await.unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}

#[tokio::test]
async fn the_name_of_a_deleted_table_is_blocked_temporarily() -> TestResult {
    if arm() == Arm::Azurite {
        return Ok(()); // It gives the name back at once.
    }
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    table.delete_table().await?;
    let once = rowkey::ClientOptions {
        retry: rowkey::RetryOptions { max_attempts: 1, ..Default::default() },
        ..Default::default()
    };
    let error = table.with_options(once).create_if_missing().await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::TABLE_BEING_DELETED));
    assert!(error.is_retryable());
    Ok(())
}

#[tokio::test]
async fn invalid_table_names_are_rejected_before_sending() -> TestResult {
    let fixture = Fixture::new().await?;
    for name in ["", "ab", "1abc", "a-b-c", "tables", &"x".repeat(64)] {
        let error = fixture.account.table(name).create().await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    }
    Ok(())
}

#[tokio::test]
async fn tables_are_listed_by_prefix_and_page() -> TestResult {
    let fixture = Fixture::new().await?;
    let prefix = format!("{}x", unique_name());
    for letter in ["a", "b", "c", "d", "e"] {
        fixture.account.table(&format!("{prefix}{letter}")).create().await?;
    }
    let service = &fixture.account;
    let names: Vec<String> =
        service.tables().starting_with(&prefix).page_size(2).stream().try_collect().await?;
    let expected: Vec<_> = ["a", "b", "c", "d", "e"].map(|l| format!("{prefix}{l}")).into();
    assert_eq!(names, expected);
    let all = service.tables().all().await?;
    assert!(expected.iter().all(|name| all.contains(name)));

    // From where an earlier listing ended, of the same tables alone.
    let listing = || service.tables().starting_with(&prefix).page_size(2);
    let first = listing().pages().try_next().await?.ok_or("there is a page")?;
    assert_eq!(first.entries, expected[..2]);
    let stored = first.continuation.ok_or("there is more")?.to_string();
    assert_eq!(listing().resume(stored.parse()?).all().await?, expected[2..]);
    let other = service.tables().page_size(2).resume(stored.parse()?);
    assert_eq!(other.all().await.unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

#[tokio::test]
async fn an_entity_operation_on_a_missing_table_is_an_error_and_not_none() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.account.table(&unique_name());
    let key = crate::model::Employee::key("sales", 1);
    let error = table.get(key.clone()).await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::TABLE_NOT_FOUND));
    let error = table.delete_if_exists(key, rowkey::Match::Any).await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::TABLE_NOT_FOUND));
    Ok(())
}
