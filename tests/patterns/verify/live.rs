//! Verifying, mending and building while others write.

use rowkey::{DynamicEntity, Error, Key, Match};
use rowkey_patterns::local_index::LocalIndex;
use rowkey_server::{Fault, Operation};
use rowkey_tests::random::{Random, Seed};
use rowkey_tests::{Fixture, TestResult};

use super::*;

/// An entity whose indexes are all kept in its partition.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
#[entity(
    index(name = by_email, row = "email_{email:lower}"),
    index(name = by_last_name, row = "last_{last_name}", many),
    index(name = by_manager, row = "mgr_{manager:6}", many, copy(last_name))
)]
struct Colleague {
    department: String,
    id: u32,
    last_name: String,
    email: String,
    manager: Option<u32>,
}

fn colleague(department: &str, id: u32, round: u32) -> Colleague {
    Colleague {
        department: department.into(),
        id,
        last_name: ["Jones", "King", "Smith"][(id + round) as usize % 3].into(),
        email: format!("e{id}r{round}@contoso.com"),
        manager: round.is_multiple_of(2).then_some(round % 3),
    }
}

/// Inserts, changes and deletes at random, as writers do that keep the index.
async fn write(
    staff: &LocalIndex<Colleague>,
    writer: u32,
    seed: u64,
    operations: u32,
) -> rowkey::Result<()> {
    let mut random = Random(seed * 100 + u64::from(writer));
    for round in 0..operations {
        // Entities of this writer's own, and some that all of them write.
        let id =
            if random.one_in(2) { writer * 10 + random.below(5) } else { 900 + random.below(3) };
        let department = random.pick(&["it", "sales"]);
        // Values are unique to the writer, so that none is refused for being taken.
        let entity = colleague(department, id, writer * 1000 + round);
        let key = Colleague::key(department, id);
        let done = match random.below(6) {
            0 | 1 => staff.insert(&entity).await.map(drop),
            2..=4 => staff.update(key, |stored| *stored = entity.clone()).await.map(drop),
            _ => staff.delete_if_exists(key).await.map(drop),
        };
        done.or_else(|error| if is_expected(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

/// An entity that is there already, or not yet.
fn is_expected(error: &Error) -> bool {
    error.is_already_exists() || error.is_not_found()
}

#[tokio::test]
async fn an_index_is_built_while_eight_writers_go_on() -> TestResult {
    for seed in 0..4 {
        let _seed = Seed(seed);
        let fixture = Fixture::new().await?;
        let table = fixture.table().await?;
        // What was stored before there was an index.
        for department in ["it", "sales"] {
            let old = (0..90).fold(table.transaction(), |all, id| {
                all.insert(&colleague(department, id, 50_000 + id))
            });
            old.submit().await?;
        }
        let staff = LocalIndex::<Colleague>::new(table.clone());
        let writers = (0..8).map(|writer| write(&staff, writer, seed, 12));
        let build = async {
            let mut build = Verify::<Colleague>::new(table.clone()).page_size(40).repair();
            while build.step().await? {}
            Ok::<_, Error>(build.report().clone())
        };
        let (written, built) = tokio::join!(futures_util::future::try_join_all(writers), build);
        written?;
        let built = built?;
        assert!(built.is_in_step(), "{built:?}");
        assert!(built.index("by_email").unwrap().mended > 50, "{built:?}");

        let mut check = Verify::<Colleague>::new(table.clone()).check();
        let report = check.run().await?;
        assert!(report.indexes.iter().all(|index| index.drifted() == 0), "{report:?}");
        assert_eq!(report.index("by_email").unwrap().copies, report.entities);
        // And what the index says is what the entities say.
        for stored in table.query(Colleague::partition("sales")).all().await? {
            let found = staff.find(Colleague::by_email("sales", &stored.entity.email)).await?;
            assert_eq!(found.as_deref(), Some(&stored.entity));
        }
    }
    Ok(())
}

#[tokio::test]
async fn writers_that_are_just_writing_are_no_drift() -> TestResult {
    let (server, account) = start().await?;
    let staff = LocalIndex::<Colleague>::new(account.table("staff"));
    staff.insert(&colleague("sales", 1, 1)).await?;
    // The page shows the entity as it was; the look at its copy comes after the change.
    let verify = Verify::<Colleague>::new(account.table("staff")).page_size(1);
    for nth in 1..=8_u32 {
        let held = server.inject(Fault::on(Operation::GetEntity).nth(nth.into()).hold());
        let meanwhile = async {
            held.wait_until_held().await;
            staff
                .update(Colleague::key("sales", 1), |e| *e = colleague("sales", 1, 10 + nth))
                .await?;
            held.release();
            std::future::pending::<rowkey::Result<()>>().await
        };
        let mut check = verify.check();
        tokio::select! {
            report = check.run() => {
                let report = report?;
                assert!(report.indexes.iter().all(|index| index.drifted() == 0), "{nth}: {report:?}");
            }
            failed = meanwhile => failed?,
        }
    }
    Ok(())
}

/// Runs `repair` with one of its requests held, and `meanwhile` before it goes on.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn held(
    server: &Server,
    operation: Operation,
    repair: Verify<Employee>,
    meanwhile: impl AsyncFn() -> TestResult,
) -> TestResult {
    let held = server.inject(Fault::on(operation).nth(1).hold());
    let meanwhile = async {
        held.wait_until_held().await;
        meanwhile().await?;
        held.release();
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    let mut repair = repair.repair();
    let (repaired, others) = tokio::join!(repair.run(), meanwhile);
    others?;
    assert!(repaired?.is_in_step());
    Ok(())
}

#[tokio::test]
async fn a_copy_is_not_written_for_an_entity_that_changed_meanwhile() -> TestResult {
    for (position, operation) in [(0, Operation::Transaction), (3, Operation::InsertEntity)] {
        let (server, account) = start().await?;
        store(&account, &employee("sales", 1)).await?;
        drop_copy(&account, &employee("sales", 1), position).await?;
        let changed =
            Employee { email: "x@contoso.com".into(), city: "Bath".into(), ..employee("sales", 1) };
        held(&server, operation, verify(&account), async || {
            // With its copies; the old ones that are there go, as a writer's transaction or worker does.
            for at in POSITIONS.filter(|at| *at != position) {
                drop_copy(&account, &employee("sales", 1), at).await?;
            }
            store(&account, &changed).await
        })
        .await?;
        assert_in_step(&server.snapshot());
        assert!(verify(&account).check().run().await?.is_in_step());
    }
    Ok(())
}

#[tokio::test]
async fn a_copy_that_an_entity_comes_to_demand_is_not_deleted() -> TestResult {
    for position in POSITIONS {
        let (server, account) = start().await?;
        let gone = employee("sales", 1);
        table(&account, position).insert(&copy(&gone, position)).await?;
        held(&server, Operation::DeleteEntity, verify(&account), async || {
            store(&account, &gone).await
        })
        .await?;
        assert_in_step(&server.snapshot());
        let kept = table(&account, position);
        assert!(kept.get(copy(&gone, position).key::<DynamicEntity>()).await?.is_some());
    }
    Ok(())
}

#[tokio::test]
async fn a_copy_elsewhere_that_was_deleted_while_its_entity_came_is_written_again() -> TestResult {
    let (server, account) = start().await?;
    let gone = employee("sales", 1);
    account.table("staff").insert(&copy(&gone, 3)).await?;
    // The entity is stored after it was looked for, by a writer whose worker comes later.
    let entity_read = server.inject(Fault::on(Operation::DeleteEntity).nth(1).hold());
    let mut repair = verify(&account).only(["by_city"]).repair();
    let meanwhile = async {
        entity_read.wait_until_held().await;
        account.table("staff").insert(&gone).await?;
        entity_read.release();
        Ok::<_, Error>(())
    };
    let (repaired, stored) = tokio::join!(repair.run(), meanwhile);
    stored?;
    repaired?;
    let city: Key<DynamicEntity> = copy(&gone, 3).key();
    assert!(account.table("staff").get(city).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_copy_elsewhere_of_an_entity_that_went_is_taken_away_again() -> TestResult {
    let (server, account) = start().await?;
    let entity = employee("sales", 1);
    account.table("staff").insert(&entity).await?;
    let held = server.inject(Fault::on(Operation::InsertEntity).nth(1).hold());
    let mut repair = verify(&account).only(["by_city"]).repair();
    let meanwhile = async {
        held.wait_until_held().await;
        account.table("staff").delete(key(1), Match::Any).await?;
        held.release();
        Ok::<_, Error>(())
    };
    let (repaired, deleted) = tokio::join!(repair.run(), meanwhile);
    deleted?;
    repaired?;
    assert!(server.snapshot().table("staff").unwrap().is_empty());
    Ok(())
}
