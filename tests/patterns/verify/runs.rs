//! Runs: what they cost, how fast they are, and that they go on where they stood.

use std::sync::Mutex;
use std::time::Duration;

use rowkey::{ErrorKind, ManualClock, Outcome, StorageAccount};
use rowkey_patterns::verify::{Checkpoint, Run, Verify};
use rowkey_server::{Operation, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, once, sweep};

use super::*;

#[tokio::test]
async fn partitions_that_fit_on_a_page_cost_the_page_alone() -> TestResult {
    let (server, account) = start().await?;
    for id in 0..10 {
        store(&account, &employee("sales", id)).await?;
    }
    let local = ["by_email", "by_last_name", "by_manager", "by_city"];
    let before = server.journal();
    verify(&account).only(local).check().run().await?;
    let journal = server.journal().since(&before);
    assert_eq!(journal.len(), 2, "a page of each table: {journal:?}");
    assert_eq!(journal.count(Operation::QueryEntities), 2);

    // What is on another page, or in another table, is a point query: here one an entity and one a
    // copy.
    let before = server.journal();
    verify(&account).only(["by_region"]).check().run().await?;
    let journal = server.journal().since(&before);
    assert_eq!(journal.count(Operation::GetEntity), 20);

    // A missing copy is four requests more: copy, entity, the transaction, and nothing else; a
    // check reads the copy once more instead.
    drop_copy(&account, &employee("sales", 1), 0).await?;
    for run in [verify(&account).only(local).check(), verify(&account).only(local).repair()] {
        let mut run = run;
        let before = server.journal();
        run.run().await?;
        assert_eq!(server.journal().since(&before).len(), 2 + 3);
    }
    Ok(())
}

#[tokio::test]
async fn no_more_requests_go_in_a_second_than_allowed() -> TestResult {
    let (server, prepared) = start().await?;
    for id in 0..5 {
        prepared.table("staff").insert(&employee("sales", id)).await?;
    }
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    let before = server.journal();
    verify(&account).requests_per_second(10).build("by_email").run().await?;
    let requests = server.journal().since(&before).len();
    let slept: Duration = clock.slept().iter().sum();
    assert_eq!(slept, Duration::from_millis(100) * u32::try_from(requests - 1)?);
    assert!(requests > 15, "{requests}");
    Ok(())
}

#[tokio::test]
async fn a_run_goes_on_from_a_stored_checkpoint() -> TestResult {
    let (server, account) = start().await?;
    for id in 0..7 {
        store(&account, &employee("sales", id)).await?;
    }
    drop_copy(&account, &employee("sales", 1), 0).await?;
    drop_copy(&account, &employee("sales", 5), 3).await?;
    let whole = verify(&account).check().run().await?.clone();

    // Each step in a process of its own.
    let verify = verify(&account).page_size(4);
    let mut stored = serde_json::to_string(verify.repair().checkpoint())?;
    let mut steps = 0;
    loop {
        let mut run = verify.repair().resume(serde_json::from_str(&stored)?)?;
        if !run.step().await? {
            break;
        }
        steps += 1;
        stored = serde_json::to_string(run.checkpoint())?;
    }
    assert!(steps > 8, "{steps}");
    let end: Checkpoint = serde_json::from_str(&stored)?;
    assert_eq!(counted(end.report()), counted(&whole));
    assert_eq!(end.report().entities, 7);
    assert!(end.report().is_in_step());
    assert_in_step(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_run_that_does_something_else_does_not_go_on_from_a_checkpoint() -> TestResult {
    let (_server, account) = start().await?;
    for id in 0..3 {
        store(&account, &employee("sales", id)).await?;
    }
    let verify = verify(&account).page_size(4);
    let mut built = verify.build("by_email");
    assert!(built.step().await?);
    let checkpoint = built.checkpoint();
    let only = verify.clone().only(["by_email"]);
    for other in [verify.build("by_city"), verify.repair(), only.check()] {
        let error = other.resume(checkpoint.clone()).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    }
    let mut on = verify.build("by_email").resume(checkpoint.clone())?;
    assert!(on.run().await?.is_in_step());
    Ok(())
}

/// Steps until an error or the end, as a program does that stores each checkpoint.
async fn go_on(run: Run<Employee>, stored: &Mutex<Option<String>>) -> rowkey::Result<bool> {
    let checkpoint =
        stored.lock().unwrap().as_ref().map(|text| serde_json::from_str(text).unwrap());
    let mut run = match checkpoint {
        Some(checkpoint) => run.resume(checkpoint)?,
        None => run,
    };
    while run.step().await? {
        *stored.lock().unwrap() = Some(serde_json::to_string(run.checkpoint()).unwrap());
    }
    Ok(run.report().is_in_step())
}

#[tokio::test]
async fn the_sweep_over_a_repair_leaves_nothing_out_of_step() -> TestResult {
    let (server, prepared) = start().await?;
    // One index of each scope: what is missing, stale and left over is mended alike in the others.
    for id in 1..3 {
        store(&prepared, &employee("sales", id)).await?;
    }
    for position in [0, 3] {
        drop_copy(&prepared, &employee("sales", 1), position).await?;
        let mut stale = DynamicEntity::of(&copy(&employee("sales", 2), position))?;
        stale.set("LastName", "Smith");
        table(&prepared, position).upsert(&stale).await?;
        let left_over = employee("sales", 97);
        table(&prepared, position).upsert(&copy(&left_over, position)).await?;
    }
    let repair = |account: &StorageAccount| {
        let verify = Verify::<Employee>::new(account.table("staff"));
        verify.only(["by_email", "by_city"]).concurrency(1).page_size(8).repair()
    };
    let check = |snapshot: &Snapshot, _: &_| assert_in_step(snapshot);
    for repeats in [true, false] {
        let stored = Mutex::default();
        let runs = sweep(
            &server,
            async |account| {
                *stored.lock().unwrap() = None;
                let account = if repeats { account.clone() } else { once(account) };
                go_on(repair(&account), &stored).await
            },
            async |account, _| {
                assert!(go_on(repair(account), &stored).await?);
                Ok(())
            },
            check,
        )
        .await?;
        assert!(runs.requests > 20, "{runs}");
    }
    Ok(())
}

#[tokio::test]
async fn the_sweep_over_a_build_leaves_a_whole_index() -> TestResult {
    let (server, prepared) = start().await?;
    for id in 1..3 {
        prepared.table("staff").insert(&employee("sales", id)).await?;
    }
    for name in ["by_last_name", "by_region"] {
        let build =
            |account: &StorageAccount| verify(account).concurrency(1).page_size(2).build(name);
        let stored = Mutex::default();
        sweep(
            &server,
            async |account| {
                *stored.lock().unwrap() = None;
                go_on(build(&once(account)), &stored).await
            },
            async |account, _| {
                assert!(go_on(build(account), &stored).await?);
                let mut check = verify(account).only([name]).check();
                let report = check.run().await?;
                let index = report.index(name).unwrap();
                assert_eq!((report.entities, index.copies, index.drifted()), (2, 2, 0));
                Ok(())
            },
            |_, _| {},
        )
        .await?;
    }
    let account = account(&server)?;
    let mut check = verify(&account).check();
    assert_eq!(check.run().await?.index("by_city").unwrap().missing, 2, "forks were built on");
    Ok(())
}
