//! Entity group transactions: all or nothing, and which operation failed.

use rowkey::{DynamicEntity, ErrorCode, ErrorKind, Match, Outcome};
use rowkey_tests::{Arm, Fixture, TestResult, arm};

use crate::model::{Badge, Employee, employee};

#[tokio::test]
async fn a_transaction_supports_every_kind_of_write() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    for id in 1..=5 {
        table.insert(&employee(id)).await?;
    }
    let two = table.get(Employee::key("sales", 2)).await?.unwrap();
    let badge = Badge { department: "sales".into(), number: 9, holder: "O'Neil".into() };
    let etags = table
        .transaction()
        .insert(&badge)
        .replace(&two.map(|e| e.salary = 1.5))
        .merge((&Employee { salary: 2.5, ..employee(3) }, Match::Any))
        .upsert(&Employee { salary: 3.5, ..employee(4) })
        .upsert_merge(&employee(6))
        .delete(Employee::key("sales", 5), Match::Any)
        .submit()
        .await?;
    assert_eq!(
        etags.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, true, true, true, true, false]
    );

    let found = table.query(Employee::partition("sales")).all().await?;
    let salaries: Vec<_> = found.iter().map(|s| (s.entity.id, s.entity.salary)).collect();
    assert_eq!(salaries, [(1, 1000.0), (2, 1.5), (3, 2.5), (4, 3.5), (6, 6000.0)]);
    assert_eq!(Some(&found[1].etag), etags[1].as_ref(), "the ETags are those of the entities");
    Ok(())
}

#[tokio::test]
async fn a_failed_transaction_names_the_operation_and_changes_nothing() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&employee(3)).await?;
    let error = table
        .transaction()
        .insert(&employee(1))
        .insert(&employee(2))
        .insert(&employee(3))
        .submit()
        .await
        .unwrap_err();
    assert_eq!(error.details().operation_index, Some(2));
    assert_eq!(error.code(), Some(&ErrorCode::ENTITY_ALREADY_EXISTS));
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::AlreadyExists, Outcome::Rejected));
    assert_eq!(table.query(Employee::partition("sales")).all().await?.len(), 1);

    let stale = table.get(Employee::key("sales", 3)).await?.unwrap();
    table.upsert(&employee(3)).await?;
    let error =
        table.transaction().upsert(&employee(7)).replace(&stale).submit().await.unwrap_err();
    assert_eq!(
        (error.details().operation_index, error.kind() == ErrorKind::Conflict),
        (Some(1), true)
    );
    let error = table
        .transaction()
        .delete(Employee::key("sales", 99), Match::Any)
        .submit()
        .await
        .unwrap_err();
    assert_eq!(
        (error.details().operation_index, error.kind() == ErrorKind::NotFound),
        (Some(0), true)
    );
    Ok(())
}

#[tokio::test]
async fn invalid_transactions_are_rejected_before_sending() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let refused =
        |error: rowkey::Error| (error.kind(), error.outcome(), error.details().operation_index);

    let empty = table.transaction().submit().await.unwrap_err();
    assert_eq!(refused(empty), (ErrorKind::Invalid, Outcome::NotSent, None));

    let elsewhere = Employee { department: "hr".into(), ..employee(2) };
    let error = table.transaction().insert(&employee(1)).insert(&elsewhere).submit().await;
    assert_eq!(refused(error.unwrap_err()), (ErrorKind::Invalid, Outcome::NotSent, Some(1)));

    let twice = table.transaction().insert(&employee(1)).upsert(&employee(1)).submit().await;
    assert_eq!(refused(twice.unwrap_err()), (ErrorKind::Invalid, Outcome::NotSent, Some(1)));

    let many = (1..=101).fold(table.transaction(), |all, id| all.insert(&employee(id)));
    assert_eq!(many.len(), 101);
    let error = many.submit().await.unwrap_err();
    assert_eq!(refused(error), (ErrorKind::TooLarge, Outcome::NotSent, Some(100)));

    let text = "x".repeat(32_000);
    let large = (1..=100).fold(table.transaction(), |all, id| {
        let titles = Some(text.clone());
        all.insert(&Employee { name: text.clone(), title: titles, ..employee(id) })
    });
    let error = large.submit().await.unwrap_err();
    let (kind, outcome, at) = refused(error);
    assert_eq!((kind, outcome), (ErrorKind::TooLarge, Outcome::NotSent));
    // 4 MiB are 65 entities of 64,000 bytes.
    assert!(at.is_some_and(|at| (60..66).contains(&at)), "{at:?}");
    assert_eq!(table.query(Employee::partition("sales")).all().await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_hundred_operations_are_one_transaction() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let all = (1..=100).fold(table.transaction(), |all, id| all.insert(&employee(id)));
    assert_eq!(all.submit().await?.len(), 100);
    assert_eq!(table.query(Employee::partition("sales")).all().await?.len(), 100);
    Ok(())
}

#[tokio::test]
async fn a_batch_may_contain_a_single_query() -> TestResult {
    if arm() == Arm::Azurite {
        return Ok(()); // It leaves out the empty line between the headers and the body.
    }
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&employee(1)).await?;
    let stored = table.transaction().get(Employee::key("sales", 1)).await?;
    assert_eq!(stored, table.get(Employee::key("sales", 1)).await?);
    assert!(table.transaction().get(Employee::key("sales", 2)).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_transaction_up_to_the_size_limit_is_accepted() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let large = |row: usize, bytes: usize| {
        let mut entity = DynamicEntity::new("p", format!("{row:02}"));
        for (at, part) in vec![7_u8; bytes].chunks(64 * 1024).enumerate() {
            entity.set(format!("Part{at}"), part.to_vec());
        }
        entity
    };
    let one = |entity: &DynamicEntity| table.transaction().upsert(entity);
    // Base64 makes four bytes of three, so that three of these are 4 MiB and a half.
    let three =
        (0..3).fold(table.transaction(), |all, row| all.append(one(&large(row, 1024 * 1000))));
    assert!(!three.fits(&one(&large(3, 1024 * 100))));
    let mut small = 0;
    for step in (0..17).rev().map(|power| 1 << power) {
        if three.fits(&one(&large(3, small + step))) {
            small += step;
        }
    }
    let full = three.append(one(&large(3, small)));
    assert!(full.payload_size() <= 4 * 1024 * 1024);
    // Azurite counts an entity's Base64 rather than its bytes, and refuses each of them.
    if arm() != Arm::Azurite {
        assert_eq!(full.submit().await?.len(), 4, "what fits is taken");
    }

    let other = one(&DynamicEntity::new("q", "00"));
    let begun = one(&large(0, 1));
    assert!(!begun.fits(&other), "another partition");
    assert!(!begun.fits(&one(&large(0, 2))), "the same entity");
    assert!(begun.fits(&one(&large(1, 1))) && begun.fits(&table.transaction()));
    let error = begun.append(other).submit().await.unwrap_err();
    assert_eq!((error.kind(), error.details().operation_index), (ErrorKind::Invalid, Some(1)));

    let elsewhere = table.account().table("elsewhere").transaction();
    let error = one(&large(0, 1)).append(elsewhere).submit().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    Ok(())
}
