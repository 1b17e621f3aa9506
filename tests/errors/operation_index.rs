//! The operation that an error of a transaction names: always the caller's, counted from 0, also if the refused row
//! is one that the store adds.

use rowkey::store::{Change, Contribution, Declaration, Store};
use rowkey::{DynamicEntity, Entity, Error, ErrorKind};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::sweep::account;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "user_{id:9}")]
#[entity(index(name = by_desk, row = "desk_{desk}"))]
#[entity(index(name = by_team, row = "team_{team}", many))]
#[entity(index(name = by_city, partition = "city_{city}", row = "{tenant}_{id:9}"))]
#[entity(unique(name = by_email, value = "{email}"))]
struct User {
    tenant: String,
    id: u64,
    desk: u32,
    team: String,
    city: String,
    email: String,
}

fn user(id: u64) -> User {
    User {
        tenant: "contoso".into(),
        id,
        desk: u32::try_from(id).unwrap_or_default(),
        team: "blue".into(),
        city: "Leeds".into(),
        email: format!("{id}@contoso.com"),
    }
}

/// One row for each insert of a user, at the same key for all.
struct Badge;

impl Declaration<User> for Badge {
    fn name(&self) -> &'static str {
        "badge"
    }

    fn operations(&self) -> usize {
        1
    }

    fn contribute(
        &self,
        change: Change<'_, User>,
        plan: &mut Contribution<'_>,
    ) -> rowkey::Result<()> {
        if change.before.is_none() && change.after.is_some_and(|user| user.team == "badges") {
            plan.insert(&DynamicEntity::new("contoso", "badge"))?;
        }
        Ok(())
    }
}

async fn start() -> TestResult<(Server, Store<User>)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let table = account.table("users");
    let users = Store::<User>::builder(table).queue(account.queue("users")).with(Badge).build()?;
    users.create_if_missing().await?;
    Ok((server, users))
}

fn index_of(error: &Error) -> Option<usize> {
    error.details().operation_index
}

#[tokio::test]
async fn an_invalid_key_names_its_operation_and_what_is_wrong_with_it() -> TestResult {
    let (_server, users) = start().await?;
    let (good, bad) = (user(1), user(1_000_000_000));
    let long = User { tenant: "x".repeat(2000), ..user(2) };
    let alone = users.insert(&bad).await.unwrap_err();
    for (name, error, index) in [
        ("alone", users.transaction().insert(&bad).submit().await.unwrap_err(), 0),
        ("second", users.transaction().insert(&good).insert(&bad).submit().await.unwrap_err(), 1),
        ("first", users.transaction().insert(&bad).insert(&good).submit().await.unwrap_err(), 0),
    ] {
        assert_eq!(
            (error.kind(), index_of(&error)),
            (alone.kind(), Some(index)),
            "{name}: {error}"
        );
        let what = alone.to_string();
        let what = what.split_once(": ").map_or(what.as_str(), |(_, what)| what);
        assert!(error.to_string().ends_with(what), "{name}: {error}, and not {alone}");
    }
    let alone = users.insert(&long).await.unwrap_err();
    let error = users.transaction().insert(&long).submit().await.unwrap_err();
    assert_eq!((error.kind(), index_of(&error)), (alone.kind(), Some(0)), "{error}");
    assert!(!error.to_string().contains("no operations"), "{error}");
    let mut row = DynamicEntity::new("contoso", "a/b");
    row.set("text", "x");
    let error = users.transaction().insert(&good).row(&row).submit().await.unwrap_err();
    assert_eq!(index_of(&error), Some(1), "{error}");
    assert!(!users.exists(User::key("contoso", 1)).await?);
    let empty = users.transaction().submit().await.unwrap_err();
    assert!(empty.to_string().contains("no operations"), "{empty}");
    Ok(())
}

#[tokio::test]
async fn a_refusal_of_any_row_names_the_operation_of_the_caller() -> TestResult {
    let (_server, users) = start().await?;
    users.insert(&user(1)).await?;
    let row = DynamicEntity::new("contoso", "note");
    users.table().insert(&row).await?;
    let (two, three) = (user(2), user(3));
    let again = User { id: 1, desk: 9, email: "9".into(), ..user(9) };
    let same_desk = User { desk: 1, ..user(4) };
    let same_email = User { email: user(1).email, ..user(4) };
    let new = || users.transaction().insert(&two).insert(&three);
    for (name, error, expected) in [
        ("an entity that exists", new().insert(&again).submit().await, ErrorKind::AlreadyExists),
        ("a value in an index", new().insert(&same_desk).submit().await, ErrorKind::AlreadyExists),
        ("a unique value", new().insert(&same_email).submit().await, ErrorKind::AlreadyExists),
        ("a row that exists", new().row(&row).submit().await, ErrorKind::AlreadyExists),
        ("an entity twice", new().insert(&two).submit().await, ErrorKind::Invalid),
        (
            "another partition",
            {
                let elsewhere = User { tenant: "fabrikam".into(), ..user(5) };
                new().insert(&elsewhere).submit().await
            },
            ErrorKind::Invalid,
        ),
    ] {
        let error = error.unwrap_err();
        assert_eq!((error.kind(), index_of(&error)), (expected, Some(2)), "{name}: {error}");
        assert!(error.to_string().contains("(operation 2)"), "{name}: {error}");
    }
    let read = users.get(User::key("contoso", 1)).await?.unwrap();
    users.update(User::key("contoso", 1), |user| user.city = "York".into()).await?;
    let moved = User { city: "Bath".into(), ..user(1) };
    let error = new().replace_if(&moved, read.version.clone()).submit().await.unwrap_err();
    assert_eq!((error.kind(), index_of(&error)), (ErrorKind::Conflict, Some(2)), "{error}");
    let error = new().delete_if(&User::key("contoso", 1), read.version).submit().await.unwrap_err();
    assert_eq!((error.kind(), index_of(&error)), (ErrorKind::Conflict, Some(2)), "{error}");
    // Two inserts that bring the same row of a declaration.
    let (one, other) =
        (User { team: "badges".into(), ..user(5) }, User { team: "badges".into(), ..user(6) });
    users.insert(&one).await?;
    let error = new().insert(&other).submit().await.unwrap_err();
    assert_eq!((error.kind(), index_of(&error)), (ErrorKind::AlreadyExists, Some(2)), "{error}");
    assert!(!users.exists(User::key("contoso", 2)).await?);
    Ok(())
}

#[tokio::test]
async fn a_limit_names_the_operation_that_passes_it() -> TestResult {
    let (_server, users) = start().await?;
    // An operation each for the entity and two copies in its partition; the op row is one more.
    let many: Vec<_> = (1..=34).map(user).collect();
    let all = many.iter().fold(users.transaction(), rowkey::store::Transaction::insert);
    let error = all.submit().await.unwrap_err();
    assert_eq!((error.kind(), index_of(&error)), (ErrorKind::TooLarge, Some(33)), "{error}");
    let large = |number: u32| {
        let mut row = DynamicEntity::new("contoso", format!("row_{number:02}"));
        for property in 0..14 {
            row.set(format!("P{property}"), "x".repeat(32_000));
        }
        row
    };
    // Half a MiB in each row: the tenth does not fit.
    let rows: Vec<_> = (0..12).map(large).collect();
    let one = user(1);
    let all = rows.iter().fold(users.transaction().insert(&one), rowkey::store::Transaction::row);
    let error = all.submit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(index_of(&error).is_some_and(|at| (1..=12).contains(&at)), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_write_of_one_entity_names_no_operation() -> TestResult {
    let (_server, users) = start().await?;
    users.insert(&user(1)).await?;
    let error = users.insert(&User { desk: 7, email: "x".into(), ..user(1) }).await.unwrap_err();
    assert_eq!((error.kind(), index_of(&error)), (ErrorKind::AlreadyExists, None), "{error}");
    assert!(!error.to_string().contains("(operation"), "{error}");
    Ok(())
}
