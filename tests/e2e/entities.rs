//! Single entities: written, read, changed under their ETag.

use rowkey::edm::Value;
use rowkey::{DynamicEntity, ErrorCode, ErrorKind, Key, Match, Outcome};
use rowkey_tests::{Arm, Fixture, TestResult, arm};

use crate::model::{Employee, Everything, Pay, employee, everything};

#[tokio::test]
async fn every_property_type_round_trips() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let entity = everything("p", "r");
    let etag = table.insert(&entity).await?;
    let stored = table.get(Everything::key("p", "r")).await?.unwrap();
    assert_eq!(stored.entity, entity);
    assert_eq!(stored.etag, etag);
    Ok(())
}

#[tokio::test]
async fn extreme_values_round_trip() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    for (row, double) in [f64::MAX, f64::MIN_POSITIVE, 5e-324, -0.0, 0.1 + 0.2, 1e15, 3.0]
        .into_iter()
        .chain([f64::INFINITY, f64::NEG_INFINITY])
        .enumerate()
    {
        let row = row.to_string();
        let entity = Everything { double, int64: i64::MIN + 1, ..everything("extreme", &row) };
        table.insert(&entity).await?;
        let stored = table.get(Everything::key("extreme", &*row)).await?.unwrap();
        assert_eq!(stored.entity, entity);
        // Equality does not see the sign of a zero, and Azurite writes none.
        if arm() != Arm::Azurite {
            assert_eq!(stored.entity.double.to_bits(), double.to_bits());
        }
    }
    let nan = Everything { double: f64::NAN, ..everything("extreme", "nan") };
    table.insert(&nan).await?;
    assert!(table.get(Everything::key("extreme", "nan")).await?.unwrap().entity.double.is_nan());
    Ok(())
}

#[tokio::test]
async fn keys_with_any_valid_character_address_their_entity() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    for key in [
        "", " ", "'", "''", "a'b", "%", "%41", "+", "a b", "&", "=", "@", ",", "(", ")", ":", ";",
        "日本", "😀", "\u{a0}", "é", "\"", "<>", "a%2Fb", "$batch", "..", "~", "x y'z%+",
    ] {
        let entity = DynamicEntity::new(key, key);
        table.insert(&entity).await.map_err(|error| format!("{key:?}: {error}"))?;
        let stored = table.get(entity.key()).await?.ok_or_else(|| format!("{key:?}"))?;
        assert_eq!(stored.entity, entity);
        table.delete(entity.key(), &stored).await?;
        assert!(table.get(entity.key()).await?.is_none(), "{key:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_insert_of_an_existing_entity_is_a_conflict() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&employee(1)).await?;
    let error = table.insert(&employee(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(error.code(), Some(&ErrorCode::ENTITY_ALREADY_EXISTS));
    assert_eq!(error.outcome(), Outcome::Rejected);
    assert_eq!(error.details().attempts, 1);
    Ok(())
}

#[tokio::test]
async fn replace_with_a_stale_etag_is_a_conflict() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&employee(1)).await?;
    let mine = table.get(Employee::key("sales", 1)).await?.unwrap();
    let theirs = mine.clone().map(|e| e.salary = 5.0);
    let etag = table.replace(&theirs).await?;
    assert_ne!(etag, mine.etag);

    let error = table.replace(&mine).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Conflict);
    assert_eq!(error.code(), Some(&ErrorCode::UPDATE_CONDITION_NOT_SATISFIED));
    let error = table.delete(Employee::key("sales", 1), &mine).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Conflict);
    // The last writer wins only when asked to.
    table.replace((&mine.entity, Match::Any)).await?;
    Ok(())
}

#[tokio::test]
async fn replace_drops_missing_properties_and_merge_keeps_them() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let key: Key<DynamicEntity> = Key::new("p", "r");
    let mut entity = DynamicEntity::new("p", "r");
    entity.set("Kept", "yes");
    entity.set("Changed", 1_i32);
    table.insert(&entity).await?;

    let mut change = DynamicEntity::new("p", "r");
    change.set("Changed", 2_i64);
    table.merge((&change, Match::Any)).await?;
    let merged = table.get(key.clone()).await?.unwrap();
    assert_eq!(merged.entity.get("Kept"), Some(&Value::String("yes".into())));
    assert_eq!(merged.entity.get("Changed"), Some(&Value::Int64(2)), "the type may change");

    table.replace((&change, &merged.etag)).await?;
    let replaced = table.get(key).await?.unwrap();
    assert_eq!(replaced.entity, change);
    Ok(())
}

#[tokio::test]
async fn replacing_a_missing_entity_fails_and_upserting_it_succeeds() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let entity = employee(1);
    for error in [
        table.replace((&entity, Match::Any)).await.unwrap_err(),
        table.merge((&entity, Match::Any)).await.unwrap_err(),
        table.delete(Employee::key("sales", 1), Match::Any).await.unwrap_err(),
        table.update(Employee::key("sales", 1), |_| {}).await.unwrap_err(),
    ] {
        assert!(error.kind() == ErrorKind::NotFound, "{error}");
    }
    assert!(!table.delete_if_exists(Employee::key("sales", 1), Match::Any).await?);
    table.upsert(&entity).await?;
    table.upsert_merge(&Employee { title: Some("Boss".into()), ..entity }).await?;
    table.upsert_merge(&employee(3)).await?;
    assert_eq!(
        table.get(Employee::key("sales", 1)).await?.unwrap().entity.title.as_deref(),
        Some("Boss")
    );
    assert!(table.delete_if_exists(Employee::key("sales", 1), Match::Any).await?);
    Ok(())
}

#[tokio::test]
async fn concurrent_updates_are_all_applied() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&Employee { salary: 0.0, ..employee(1) }).await?;
    let updates = (0..8).map(|_| table.update(Employee::key("sales", 1), |e| e.salary += 1.0));
    for result in futures_util::future::join_all(updates).await {
        result?;
    }
    let stored = table.get(Employee::key("sales", 1)).await?.unwrap();
    assert_eq!(stored.entity.salary.to_bits(), 8.0_f64.to_bits());
    Ok(())
}

#[tokio::test]
async fn an_update_returns_the_stored_entity_and_cannot_change_the_key() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&employee(1)).await?;
    let updated = table.update(Employee::key("sales", 1), |e| e.title = None).await?;
    assert_eq!(table.get(Employee::key("sales", 1)).await?, Some(updated));
    let error = table.update(Employee::key("sales", 1), |e| e.id = 2).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    Ok(())
}

#[tokio::test]
async fn a_projection_reads_only_its_columns() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&employee(7)).await?;
    let pay = table.get_as::<Pay>(Employee::key("sales", 7)).await?.unwrap();
    assert_eq!(pay.entity, Pay { salary: 7000.0 });
    Ok(())
}

#[tokio::test]
async fn a_dynamic_entity_written_back_loses_nothing() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    table.insert(&everything("p", "r")).await?;
    let stored = table.get::<DynamicEntity>(Key::new("p", "r")).await?.unwrap();
    assert_eq!(stored.entity.get("int64"), Some(&Value::Int64(i64::MAX)));
    table.replace(&stored.map(|e| _ = e.set("Added", true))).await?;
    let typed = table.get(Everything::key("p", "r")).await?.unwrap();
    assert_eq!(typed.entity, everything("p", "r"));
    Ok(())
}

#[tokio::test]
async fn an_entity_of_another_shape_is_a_decode_error_that_names_the_property() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let mut entity = DynamicEntity::new("sales", "id_000001");
    entity.set("Name", "Ada");
    entity.set("Salary", "not a number");
    table.insert(&entity).await?;
    let error = table.get(Employee::key("sales", 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    let text = format!("{error} {error:?}");
    assert!(text.contains("Salary") && !text.contains("not a number"), "{text}");
    Ok(())
}

#[tokio::test]
async fn invalid_values_are_rejected_before_sending() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let mut many = DynamicEntity::new("p", "r");
    for i in 0..253 {
        many.set(format!("P{i}"), i);
    }
    let mut large = DynamicEntity::new("p", "r");
    large.set("Text", "x".repeat(32 * 1024 + 1));
    let long = DynamicEntity::new("x".repeat(513), "r");
    for entity in [&many, &large, &long] {
        let error = table.insert(entity).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotSent));
    }
    let slash = DynamicEntity::new("a/b", "r");
    let error = table.insert(&slash).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert_eq!(table.scan::<DynamicEntity>().all().await?.len(), 0);
    Ok(())
}

#[tokio::test]
async fn the_largest_allowed_entity_is_stored() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let mut entity = DynamicEntity::new("p", "r");
    for i in 0..15 {
        entity.set(format!("Part{i:02}"), vec![7_u8; 64 * 1024]);
    }
    table.insert(&entity).await?;
    assert_eq!(table.get(entity.key()).await?.unwrap().entity, entity);
    Ok(())
}
