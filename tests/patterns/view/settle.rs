//! Settling: what the rows are, what it costs, and that nothing but the last state counts.

use rowkey::edm::Value;
use rowkey::{DynamicEntity, ErrorKind, Match, Outcome, StorageAccount};
use rowkey_eventual::view::View;
use rowkey_server::{Fault, Operation, Snapshot};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::sweep_every_way;
use rowkey_tests::{Fixture, TestResult};

use super::*;

#[tokio::test]
async fn summaries_are_what_their_groups_add_up_to() -> TestResult {
    let fixture = Fixture::new().await?;
    let (staff, view) = {
        let staff = fixture.table().await?;
        (staff.clone(), view(staff, fixture.table().await?))
    };
    assert_eq!(summary(&view, "sales").await?, None);
    for one in [employee(1, "sales", 10, 3), employee(2, "sales", 20, 5), employee(3, "", 7, 9)] {
        put(&staff, &view, &one).await?;
    }
    assert_eq!(summary(&view, "sales").await?, Some((2, 30, Some(10), hired(5))));

    put(&staff, &view, &employee(1, "sales", 15, 3)).await?;
    assert_eq!(summary(&view, "sales").await?, Some((2, 35, Some(15), hired(5))), "a raise");
    put(&staff, &view, &employee(2, "hr", 20, 5)).await?;
    assert_eq!(summary(&view, "sales").await?, Some((1, 15, Some(15), hired(3))), "one left");
    assert_eq!(summary(&view, "hr").await?, Some((1, 20, Some(20), hired(5))), "and came here");
    put(&staff, &view, &employee(3, "hr", 7, 0)).await?;
    assert_eq!(summary(&view, "hr").await?, Some((2, 27, Some(7), hired(5))), "without a date");

    staff.delete(key(1), Match::Any).await?;
    view.settle(key(1), Department::key("sales")).await?;
    assert_eq!(summary(&view, "sales").await?, Some((0, 0, None, None)), "nobody is left");
    view.settle(key(9), Department::key("law")).await?;
    assert_eq!(summary(&view, "law").await?, Some((0, 0, None, None)), "nobody ever was");
    Ok(())
}

#[tokio::test]
async fn rows_are_these() -> TestResult {
    let (server, staff, view) = start().await?;
    put(&staff, &view, &employee(7, "r_d", 10, 3)).await?;
    let snapshot = server.snapshot();
    let rows = snapshot.table("departments").unwrap().entities().map(|row| {
        let properties: Vec<_> = row.properties().collect();
        (row.partition_key(), row.row_key(), properties)
    });
    let hired = Value::from(hired(3).unwrap());
    let contribution = vec![
        ("View", "departments".into()),
        ("PrimaryPartitionKey", "west".into()),
        ("PrimaryRowKey", "id_000007".into()),
        ("Salary", 10_i64.into()),
        ("LowestSalary", 10_i64.into()),
        ("LatestHire", hired.clone()),
    ];
    let summary = vec![
        ("View", "departments".into()),
        ("Headcount", 1_i64.into()),
        ("Salary", 10_i64.into()),
        ("LowestSalary", 10_i64.into()),
        ("LatestHire", hired),
    ];
    let expected =
        [("r_d", "from_summary_west_id_000007", contribution), ("r_d", "summary", summary)];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    Ok(())
}

#[tokio::test]
async fn what_settling_costs() -> TestResult {
    let (server, staff, view) = start().await?;
    for id in 1..=3 {
        staff.insert(&employee(id, "sales", id, id)).await?;
    }
    let cost = async |id| {
        let before = server.journal();
        view.settle(key(id), Department::key("sales")).await?;
        let journal = server.journal().since(&before);
        let operations = [
            Operation::GetEntity,
            Operation::QueryEntities,
            Operation::Transaction,
            Operation::MergeEntity,
        ];
        let counts = operations.map(|operation| journal.clone().count(operation));
        assert_eq!(counts.iter().sum::<usize>(), journal.len(), "and nothing else");
        Ok::<_, rowkey::Error>(counts)
    };
    assert_eq!(cost(1).await?, [3, 1, 1, 0], "the first of a group: it looks for others");
    assert_eq!(cost(2).await?, [3, 0, 1, 0], "one more");
    assert_eq!(cost(2).await?, [3, 0, 0, 1], "again: the summary is touched");
    assert_eq!(cost(3).await?, [3, 0, 1, 0]);
    staff.delete(key(2), Match::Any).await?;
    assert_eq!(cost(2).await?, [3, 0, 1, 0], "one goes that is first in nothing");
    staff.delete(key(3), Match::Any).await?;
    assert_eq!(cost(3).await?, [3, 1, 1, 0], "the latest goes: the others are read");
    assert_exact(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn what_else_a_summary_says_is_kept() -> TestResult {
    let (_server, staff, view) = start().await?;
    let mut dynamic = DynamicEntity::new("sales", "summary");
    dynamic.set("Motto", "sell");
    view.table().insert(&dynamic).await?;
    put(&staff, &view, &employee(1, "sales", 1, 1)).await?;
    put(&staff, &view, &employee(1, "hr", 1, 1)).await?;
    let sales = view.table().get(Department::key("sales")).await?.unwrap().entity;
    assert_eq!((sales.motto.as_deref(), sales.headcount), (Some("sell"), 0));
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_nothing_written() -> TestResult {
    let (server, staff, view) = start().await?;
    put(&staff, &view, &employee(1, "sales", 1, 1)).await?;
    let before = server.snapshot();
    let rows = |snapshot: &Snapshot| snapshot.table("departments").unwrap().len();

    let other = View::new("others", staff.clone(), view.table().clone(), |employee: &Employee| {
        employee.department.as_ref().map(Department::key)
    });
    let other = other.count(Department::HEADCOUNT);
    let error = other.settle(key(1), Department::key("sales")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(error.to_string().contains("another view"), "{error}");

    let large = super::view(staff.clone(), view.table().clone());
    let large = large.sum(Department::SALARY, |_| i64::MAX);
    staff.insert(&employee(2, "sales", 2, 2)).await?;
    let error = large.settle(key(2), Department::key("sales")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(
        error.to_string(),
        "View on departments: the sum `Salary` of a group does not fit an Int64; sum up a coarser \
         unit, or make the groups smaller"
    );

    let error = view.settle(key(1), Department::key("x".repeat(600))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(rows(&server.snapshot()), rows(&before));
    Ok(())
}

/// What a worker does that decided by an older state and writes late, after another one has settled
/// the newer state, and is then heard of no more.
#[tokio::test]
async fn a_worker_that_comes_late_is_refused_whatever_it_decided_by() -> TestResult {
    // What the employee was when nothing was settled yet, what the late one saw, what is last; an
    // employee without a department is none at all.
    let states: [[&str; 3]; 8] = [
        ["sales", "hr", "sales"],
        ["sales", "", "sales"],
        ["", "sales", ""],
        ["", "sales", "hr"],
        ["sales", "hr", ""],
        ["hr", "sales", "hr"],
        ["hr", "", "sales"],
        ["sales", "sales", "sales"],
    ];
    for [first, seen, last] in states {
        let (server, staff, view) = start().await?;
        put(&staff, &view, &employee(1, first, 1, 1)).await?;
        staff.upsert(&employee(1, seen, 2, 2)).await?;
        let late = server.inject(Fault::any().resource("departments").nth(3).hold());
        let settling = view.settle(key(1), Department::key("sales"));
        tokio::select! {
            // Its program ends while the write is on its way.
            () = late.wait_until_held() => {}
            settled = settling => panic!("its write was to be held: {settled:?}"),
        }
        staff.upsert(&employee(1, last, 3, 3)).await?;
        for department in ["sales", "hr"] {
            view.settle(key(1), Department::key(department)).await?;
        }
        let before = server.journal();
        late.release();
        // The held request is answered before the next one is looked at, or has come to nothing.
        staff.get(key(1)).await?;
        let written = server.journal().since(&before).committed();
        assert_eq!(written.about("departments").len(), 0, "{first} {seen} {last}");
        assert_exact(&server.snapshot());
    }
    Ok(())
}

#[tokio::test]
async fn eight_who_settle_one_summary_lose_nothing() -> TestResult {
    let fixture = Fixture::new().await?;
    let staff = fixture.table().await?;
    let view = view(staff.clone(), fixture.table().await?);
    let work = (0..8).map(async |writer| {
        for n in 0..4 {
            let id = writer * 10 + n;
            put(&staff, &view, &employee(id, "sales", id, 1)).await?;
            match n {
                1 => put(&staff, &view, &employee(id, "hr", 1, 1)).await?,
                2 => put(&staff, &view, &employee(id, "", 1, 1)).await?,
                3 => put(&staff, &view, &employee(id, "sales", 1000 + id, 2)).await?,
                _ => {}
            }
        }
        Ok::<_, rowkey::Error>(())
    });
    futures_util::future::try_join_all(work).await?;
    let sum = (0..8).map(|writer| i64::from(2 * writer * 10 + 3 + 1000)).sum();
    assert_eq!(summary(&view, "sales").await?, Some((16, sum, Some(0), hired(2))));
    assert_eq!(summary(&view, "hr").await?, Some((8, 8, Some(1), hired(1))));
    Ok(())
}

/// What a worker does after each of a few changes; again if it was interrupted.
async fn changes(account: &StorageAccount) -> rowkey::Result<()> {
    let (staff, view) = (account.table("staff"), departments(account));
    put(&staff, &view, &employee(1, "sales", 10, 3)).await?;
    put(&staff, &view, &employee(1, "hr", 10, 3)).await?;
    put(&staff, &view, &employee(2, "hr", 20, 2)).await?;
    staff.delete(key(3), Match::Any).await?;
    view.settle(key(3), Department::key("sales")).await
}

/// What the workers do that are told of it again.
async fn settle_all(account: &StorageAccount) -> TestResult {
    let view = departments(account);
    for (id, department) in [(1, "sales"), (1, "hr"), (2, "hr"), (3, "sales")] {
        view.settle(key(id), Department::key(department)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_sweep_leaves_every_summary_exact() -> TestResult {
    let (server, staff, view) = start().await?;
    put(&staff, &view, &employee(3, "sales", 30, 9)).await?;
    sweep_every_way(&server, changes, settle_all, assert_exact).await
}

#[tokio::test]
async fn the_model_and_the_summaries_agree_however_messages_come() -> TestResult {
    let (server, staff, view) = start().await?;
    let names = ["sales", "hr", "r_d", ""];
    for seed in seeds(60) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        // Which summaries are still to be settled for whom: messages, some of them twice.
        let mut messages = Vec::new();
        for _ in 0..5 {
            let id = random.below(4);
            let before = staff.get(key(id)).await?.and_then(|stored| stored.entity.department);
            let mut after = None;
            if random.one_in(4) {
                staff.delete_if_exists(key(id), Match::Any).await?;
            } else {
                let day = random.below(4);
                let employee = employee(id, random.pick(&names), random.below(50), day);
                staff.upsert(&employee).await?;
                after = employee.department;
            }
            for department in before.into_iter().chain(after) {
                for _ in 0..=random.below(2) {
                    messages.push((id, department.clone()));
                }
            }
            while !messages.is_empty() && random.one_in(3) {
                let at = random.below(u32::try_from(messages.len())?) as usize;
                let (id, department) = messages.swap_remove(at);
                view.settle(key(id), Department::key(department)).await?;
            }
        }
        while !messages.is_empty() {
            let at = random.below(u32::try_from(messages.len())?) as usize;
            // Two workers at once.
            let (id, department) = messages.swap_remove(at);
            let (other, elsewhere) = messages.pop().unwrap_or_else(|| (id, department.clone()));
            let (one, two) = futures_util::future::join(
                view.settle(key(id), Department::key(department)),
                view.settle(key(other), Department::key(elsewhere)),
            )
            .await;
            one.and(two)?;
        }
        assert_exact(&server.snapshot());
    }
    Ok(())
}
