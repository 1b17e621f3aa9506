//! Item 1: a second `alongside` replaces the first.

use std::sync::{Arc, Mutex};

use rowkey::{DynamicEntity, Entity};
use rowkey_eventual::source::{Follower, Primary, Source, Target};
use rowkey_eventual::view::View;
use rowkey_eventual::worker::{Done, Step};
use rowkey_patterns::local_index::LocalIndex;

use crate::{Employee, by_city, copies_in, employee, staff, start};

/// How many employees live in a city.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "summary", rename_all = "PascalCase")]
struct City {
    name: String,
    people: i64,
}

/// The same employees; each change writes a row of this name beside.
fn noting(staff: &LocalIndex<Employee>, name: &'static str) -> LocalIndex<Employee> {
    staff.clone().alongside(
        move |before, after| {
            let Some(employee) = after.or(before) else { return Ok(None) };
            let row_key = format!("{name}_{:06}", employee.id);
            Ok(Some(DynamicEntity::new(&*employee.department, row_key)))
        },
        |_| async {},
    )
}

/// Item 1: `alongside` silently drops the row of an earlier `alongside`.
#[tokio::test]
#[should_panic(expected = "rows of two helpers that are not written: audit_000007")]
async fn a_change_writes_the_rows_of_both_helpers() {
    let (server, account) = start().await;
    let staff = noting(&noting(&staff(&account), "audit"), "task");
    staff.insert(&employee(7, "ada@contoso.com")).await.unwrap();
    let snapshot = server.snapshot();
    let rows = snapshot.table("staff").unwrap();
    let mut missing = vec!["audit_000007", "task_000007"];
    missing.retain(|row| rows.entity("sales", row).is_none());
    assert!(missing.is_empty(), "rows of two helpers that are not written: {}", missing.join(", "));
}

/// Item 1: on a `Source`, `alongside` drops the intents, so that no index, view or mail follows a
/// change.
#[tokio::test]
#[should_panic(expected = "what follows a change with an audit row: []")]
async fn followers_follow_a_change_with_another_row() {
    let (server, account) = start().await;
    let cities = account.table("views");
    cities.create().await.unwrap();
    let view = View::new("people", account.table("staff"), cities.clone(), |e: &Employee| {
        Some(City::key(&e.city))
    })
    .count(City::PEOPLE);
    let mails = Arc::new(Mutex::new(Vec::new()));
    let sent = Arc::clone(&mails);
    let mail = Follower::new(
        "mail",
        |employee: &Employee| Ok(vec![Target::new(&employee.email)]),
        move |_: Primary<Employee>, address| {
            sent.lock().unwrap().push(address);
            async { Ok(Done::Applied) }
        },
    );
    let followers = [by_city(&account).follower(), view.follower(), mail];
    let (table, queue) = (account.table("staff"), account.queue("staff-changes"));
    let source = Source::new(table, queue, followers).unwrap();
    noting(&source, "audit").insert(&employee(7, "ada@contoso.com")).await.unwrap();
    let worker = source.worker();
    while worker.step().await.unwrap() != Step::Idle {}

    let summary = cities.get(City::key("Leeds")).await.unwrap();
    let mut followed = Vec::new();
    followed.extend((copies_in(&server, "Leeds") == 1).then_some("index"));
    followed.extend(summary.is_some_and(|city| city.entity.people == 1).then_some("view"));
    followed.extend((*mails.lock().unwrap() == ["ada@contoso.com"]).then_some("mail"));
    assert!(followed.len() == 3, "what follows a change with an audit row: {followed:?}");
}
