//! The row that goes with every change.

use std::sync::{Arc, Mutex};

use rowkey::Match;
use rowkey_server::Fault;

use super::*;

/// What a row says that goes with a change: the names before and after.
const BEFORE: &str = "Before";
const AFTER: &str = "After";

/// The notes that were told of after the transactions.
type Told = Arc<Mutex<Vec<DynamicEntity>>>;

/// Staff of whom a note is written whenever a name changes.
fn noting(account: &StorageAccount) -> (LocalIndex<Employee>, Told) {
    let told = Told::default();
    let (tell, count) = (Arc::clone(&told), Mutex::new(0));
    let name = |employee: Option<&Employee>| employee.map_or("", |it| &*it.last_name).to_owned();
    let staff = staff(account).alongside(
        move |before, after| {
            let (before, after) = (name(before), name(after));
            if before == after {
                return Ok(None);
            }
            let mut count = count.lock().unwrap();
            *count += 1;
            let mut row = DynamicEntity::new("sales", format!("note_{count:03}"));
            row.set(BEFORE, before);
            row.set(AFTER, after);
            Ok(Some(row))
        },
        move |mut rows| {
            tell.lock().unwrap().append(&mut rows);
            async {}
        },
    );
    (staff, told)
}

/// Takes the notes out of the table, and returns what they say.
async fn notes(table: &Table) -> rowkey::Result<Vec<(String, String)>> {
    let rows = Partition::<DynamicEntity>::new("sales").prefix("note_");
    let mut said = Vec::new();
    for row in table.query(rows).all().await? {
        let text = |name| match row.entity.get(name) {
            Some(Value::String(text)) => text.clone(),
            _ => String::new(),
        };
        said.push((text(BEFORE), text(AFTER)));
        table.delete(row.entity.key(), Match::Any).await?;
    }
    Ok(said)
}

#[tokio::test]
async fn a_row_goes_with_every_change_and_says_what_was_before() -> TestResult {
    let (server, plain) = start().await?;
    let (staff, told) = noting(&account(&server)?);
    let table = staff.table().clone();
    let said = async |expected: &[(&str, &str)]| -> TestResult {
        let found = notes(&table).await?;
        let found: Vec<_> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(found, expected);
        assert_eq!(std::mem::take(&mut *told.lock().unwrap()).len(), expected.len());
        assert_in_step(stored(&server.snapshot()));
        Ok(())
    };
    staff.insert(&employee(7, "King", "a@x.org")).await?;
    said(&[("", "King")]).await?;
    // Read through an index, by a handle that writes no notes, and changed twice before it is written.
    let found = plain.find(Employee::by_email("sales", "a@x.org")).await?.unwrap();
    let found = found.map(|e| e.last_name = "Byron".into()).map(|e| e.last_name = "Noel".into());
    staff.replace(&found).await?;
    said(&[("King", "Noel")]).await?;
    staff.update(key(7), |e| e.last_name = "Jones".into()).await?;
    said(&[("Noel", "Jones")]).await?;
    staff.update(key(7), |e| e.cents = 5).await?;
    said(&[]).await?;
    staff.upsert(&employee(7, "Smith", "a@x.org")).await?;
    staff.upsert(&employee(8, "Brown", "b@x.org")).await?;
    said(&[("Jones", "Smith"), ("", "Brown")]).await?;
    let (seven, eight) = (staff.get(key(7)).await?.unwrap(), staff.get(key(8)).await?.unwrap());
    let changed = eight.map(|e| e.last_name = "Green".into());
    staff.transaction().replace(&changed).delete(&seven).submit().await?;
    said(&[("Brown", "Green"), ("Smith", "")]).await?;
    assert!(staff.delete_if_exists(key(8)).await?);
    said(&[("Green", "")]).await
}

#[tokio::test]
async fn no_row_is_without_its_change_and_no_change_without_its_row() -> TestResult {
    let (server, _) = start().await?;
    let (staff, told) = noting(&account(&server)?);
    staff.insert(&employee(7, "King", "a@x.org")).await?;
    told.lock().unwrap().clear();
    notes(staff.table()).await?;

    let refused = staff.insert(&employee(8, "King", "a@x.org")).await;
    assert!(refused.unwrap_err().is_already_exists());
    assert!(notes(staff.table()).await?.is_empty() && told.lock().unwrap().is_empty());
    // Nobody knows whether it happened, so it is told of; here it did.
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_after_commit());
    let unknown = staff.insert(&employee(8, "Noel", "b@x.org")).await.unwrap_err();
    assert_eq!((lost.hits(), unknown.outcome()), (1, Outcome::Unknown));
    assert_eq!(told.lock().unwrap().len(), 1);
    assert_eq!(notes(staff.table()).await?, [(String::new(), "Noel".into())]);
    // A row that cannot be made refuses the change.
    let refusing = staff.clone().alongside(
        |_, _| Err(rowkey::Error::refused(ErrorKind::Invalid, "no such note")),
        |_| async {},
    );
    let before = server.journal();
    let refused = refusing.insert(&employee(9, "King", "c@x.org")).await.unwrap_err();
    assert!(refused.to_string().contains("no such note"), "{refused}");
    assert_eq!(server.journal().since(&before).len(), 0);
    Ok(())
}
