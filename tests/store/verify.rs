//! Verify and repair while other programs write, after any damage, and of an index that is declared later.

use futures_util::future::{join, try_join_all};
use rowkey::patterns::job::Job;
use rowkey::store::Store;
use rowkey::{DynamicEntity, Entity, Error, Key, Match, Table};
use rowkey_emulator::{Fault, Operation, Pages, Server};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, is_brief};
use rowkey_tests::{Fixture, TestResult};

/// Colleagues before there was an index, and with three.
macro_rules! colleague {
    ($name:ident $(, $entity:meta)*) => {
        #[derive(Clone, Debug, PartialEq, Entity)]
        #[entity(partition = "{department}", row = "id_{id:6}")]
        $(#[$entity])*
        struct $name {
            department: String,
            id: u32,
            last_name: String,
            email: String,
            manager: Option<u32>,
        }

        impl $name {
            fn of(department: &str, id: u32, round: u32) -> Self {
                Self {
                    department: department.into(),
                    id,
                    last_name: ["Jones", "King", "Smith"][(id + round) as usize % 3].into(),
                    email: format!("e{id}r{round}@contoso.com"),
                    manager: round.is_multiple_of(2).then_some(round % 3),
                }
            }
        }
    };
}

colleague!(Before);
colleague!(
    Colleague,
    entity(store),
    entity(
        index(name = by_email, row = "email_{email:lower}"),
        index(name = by_last_name, row = "last_{last_name}", many),
        index(name = by_manager, row = "mgr_{manager:6}", many, copy(last_name))
    )
);

fn staff(table: &Table) -> Result<Store<Colleague>, Error> {
    Store::builder(table.clone()).build()
}

/// Inserts, changes and deletes at random, as writers do that keep the index.
async fn write(staff: Store<Colleague>, writer: u32, seed: u64) -> Result<(), Error> {
    let mut random = Random(seed * 100 + u64::from(writer));
    for round in 0..12 {
        // Entities of this writer's own, and some that all of them write.
        let id =
            if random.one_in(2) { writer * 10 + random.below(5) } else { 900 + random.below(3) };
        let department = random.pick(&["it", "sales"]);
        // Values are unique to the writer, so that none is refused for being taken.
        let entity = Colleague::of(department, id, writer * 1000 + round);
        let key = Colleague::key(department, id);
        let done = match random.below(6) {
            0 | 1 => staff.insert(&entity).await.map(drop),
            2..=4 => staff.update(key, |stored| *stored = entity.clone()).await.map(drop),
            _ => staff.delete(key).await.map(drop),
        };
        let is_expected = |error: &Error| {
            error.kind() == rowkey::ErrorKind::AlreadyExists
                || error.kind() == rowkey::ErrorKind::NotFound
        };
        done.or_else(|error| if is_expected(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

#[tokio::test]
async fn an_index_is_built_during_concurrent_writes() -> TestResult {
    for seed in 0..if is_brief() { 1 } else { 3 } {
        let _seed = Seed(seed);
        let fixture = Fixture::new().await?;
        let table = fixture.table().await?;
        let old = ["it", "sales"]
            .into_iter()
            .flat_map(|department| (0..90).map(move |id| Before::of(department, id, 50_000 + id)));
        Job::insert(&table, futures_util::stream::iter(old.collect::<Vec<_>>())).run().await?;

        let staff = staff(&table)?;
        let writers = (0..8).map(|writer| write(staff.clone(), writer, seed));
        let (written, built) = join(try_join_all(writers), staff.repair().run()).await;
        written?;
        let built = built?;
        assert!(built.is_clean() && built.part("by_email").repaired > 50, "{built:?}");

        let report = staff.verify().run().await?;
        assert_eq!((report.total.drifted(), report.is_clean()), (0, true), "{report:?}");
        // The index agrees with the entities.
        for stored in staff.query(Colleague::partition("sales")).all().await? {
            let email = &stored.entity.email;
            let found = staff.find(Colleague::by_email("sales", email)).await?;
            assert_eq!(found.map(|found| found.entity), Some(stored.entity));
        }
    }
    Ok(())
}

/// The page contains the old entity; its copy is read after the change.
#[tokio::test]
async fn writes_in_progress_are_not_reported_as_drift() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("staff");
    table.create().await?;
    let staff = staff(&table)?;
    staff.insert(&Colleague::of("sales", 1, 1)).await?;
    for nth in 1..=8_u32 {
        // What agrees on its page is not looked at: pages end anywhere.
        let _pages = server.chaos(Pages::seeded(nth.into()));
        let held = server.inject(Fault::on(Operation::GetEntity).nth(nth.into()).hold());
        let meanwhile = async {
            held.wait_until_held().await;
            let change = |e: &mut Colleague| *e = Colleague::of("sales", 1, 10 + nth);
            staff.update(Colleague::key("sales", 1), change).await?;
            held.release();
            std::future::pending::<rowkey::Result<()>>().await
        };
        tokio::select! {
            report = staff.verify().run() => {
                let report = report?;
                assert_eq!(report.total.drifted(), 0, "{nth}: {report:?}");
            }
            failed = meanwhile => failed?,
        }
    }
    Ok(())
}

#[tokio::test]
async fn consistent_rows_cost_only_their_page() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("staff");
    table.create().await?;
    let staff = staff(&table)?;
    let all: Vec<_> = (0..100).map(|id| Colleague::of("sales", id, id)).collect();
    staff.load(futures_util::stream::iter(all)).run().await?;
    for repairs in [false, true] {
        let before = server.journal();
        let job = if repairs { staff.repair() } else { staff.verify() };
        let report = job.run().await?;
        let parts = ["by_email", "by_last_name", "by_manager"].map(|name| report.part(name).right);
        assert_eq!((report.is_clean(), parts), (true, [100; 3]), "{report:?}");
        assert_eq!(server.journal().since(&before).len(), 1);
    }
    // One that does not agree is looked at by itself.
    table.delete(Key::<DynamicEntity>::new("sales", "email_e7r7@contoso.com"), Match::Any).await?;
    let before = server.journal();
    let report = staff.verify().run().await?;
    assert_eq!((report.part("by_email").missing, report.total.drifted()), (1, 1));
    let sent = server.journal().since(&before);
    assert!(sent.count(Operation::GetEntity) <= 5, "{}", sent.len());
    Ok(())
}

/// A value that two entities have, because a program wrote past the index, is named and left: one of the two
/// has to change.
#[tokio::test]
async fn a_duplicate_value_is_reported_and_left_unchanged() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let staff = staff(&table)?;
    staff.insert(&Colleague::of("sales", 1, 1)).await?;
    let email = "e1r1@contoso.com".to_owned();
    table.insert(&Before { email, ..Before::of("sales", 2, 2) }).await?;
    for job in [staff.verify(), staff.repair()] {
        let report = job.run().await?;
        assert!(!report.is_clean(), "{report:?}");
        let by_email = report.part("by_email");
        assert_eq!((by_email.right, by_email.repaired), (1, 0), "{report:?}");
    }
    let found = staff.find(Colleague::by_email("sales", "e1r1@contoso.com")).await?.unwrap();
    assert_eq!(found.entity.id, 1, "the first keeps it");
    Ok(())
}

/// Damages copies by plain writes, and deletes entities.
async fn damage(table: &Table, random: &mut Random) -> TestResult {
    for step in 0..random.below(12) {
        let id = random.below(6);
        let entity = Colleague::of("sales", id, id);
        let row_key = |entity: &Colleague, index| match index {
            0 => Some(format!("email_{}", entity.email)),
            1 => Some(format!("last_{}_id_{:06}", entity.last_name, entity.id)),
            _ => entity.manager.map(|manager| format!("mgr_{manager:06}_id_{:06}", entity.id)),
        };
        let index = random.below(3);
        let Some(at) = row_key(&entity, index) else { continue };
        let at = Key::<DynamicEntity>::new("sales", at);
        match random.below(4) {
            0 => drop(table.delete_if_exists(at, Match::Any).await?),
            1 => {
                let Some(mut row) = table.get(at).await? else { continue };
                row.entity.set("last_name", format!("Damage{step}"));
                table.replace(&row).await?;
            }
            2 => {
                // The copy of an entity that is not there.
                let Some(row) = table.get(at).await? else { continue };
                let gone = Colleague::of("sales", 100 + step, 2);
                let mut row = row.entity;
                row.row_key = row_key(&gone, index).unwrap_or_default();
                row.set("PrimaryRowKey", format!("id_{:06}", gone.id));
                table.upsert(&row).await?;
            }
            _ => drop(table.delete_if_exists(Before::key("sales", id), Match::Any).await?),
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_repair_fixes_any_damage() -> TestResult {
    let whole = Server::builder().manual_clock().start().await?;
    let table = account(&whole)?.table("staff");
    table.create().await?;
    for id in 0..6 {
        staff(&table)?.insert(&Colleague::of("sales", id, id)).await?;
    }
    for seed in seeds(40) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let server = whole.fork().await?;
        let table = account(&server)?.table("staff");
        damage(&table, &mut random).await?;
        // Pages end anywhere, in half of the runs.
        let _chaos = random.one_in(2).then(|| server.chaos(Pages::seeded(seed)));
        let staff = staff(&table)?;
        let before = server.snapshot().table("staff").unwrap().len();
        let found = staff.verify().run().await?;
        assert_eq!(server.snapshot().table("staff").unwrap().len(), before, "nothing is written");
        let repaired = staff.repair().run().await?;
        assert!(repaired.is_clean(), "{repaired:?}");
        assert_eq!(repaired.total.drifted() > 0, found.total.drifted() > 0);

        // The rows are the heads and the copies that these have, and no others.
        let report = staff.verify().run().await?;
        assert_eq!(report.total.drifted(), 0, "{report:?}");
        let heads = staff.query(Colleague::partition("sales")).all().await?;
        let rows: usize =
            heads.iter().map(|head| 3 + usize::from(head.entity.manager.is_some())).sum();
        assert_eq!(server.snapshot().table("staff").unwrap().len(), rows, "{report:?}");
    }
    Ok(())
}

/// A build that is killed after any page resumes from its checkpoint, and completes the index.
#[tokio::test]
async fn a_build_resumes_from_every_checkpoint() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("staff");
    table.create().await?;
    let old: Vec<_> = (0..40).map(|id| Before::of("sales", id, id)).collect();
    Job::insert(&table, futures_util::stream::iter(old)).run().await?;
    let empty = server.snapshot();
    let _pages = server.chaos(Pages::seeded(7));
    let mut told = Vec::new();
    let tell = |progress: &rowkey::patterns::job::Progress<'_>| {
        told.push(progress.checkpoint.to_string());
    };
    staff(&table)?.repair().progress(tell).run().await?;
    assert!(told.len() > 1, "{}", told.len());
    for checkpoint in told {
        // The items since then are processed again: some items of a page may already be repaired.
        server.restore(&empty);
        let before = staff(&table)?;
        before.repair().run().await?;
        let resumed = before.repair().resume(checkpoint.parse()?).run().await?;
        assert!(resumed.is_clean(), "{resumed:?}");
        assert!(before.verify().run().await?.is_clean());
        let other = before.verify().resume(checkpoint.parse()?).run().await;
        assert!(other.is_err(), "a verification does not resume a repair");
    }
    Ok(())
}
