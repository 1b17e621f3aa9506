//! Every way to be out of step is found, and mended.

use std::sync::{Arc, Mutex};

use rowkey::{DynamicEntity, Entity, ErrorKind, Key, Match, StorageAccount};
use rowkey_patterns::verify::{Drift, Finding, Report, Verify};
use rowkey_server::{Operation, Pages};
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::account;

use super::*;

#[tokio::test]
async fn what_is_in_step_is_reported_so() -> TestResult {
    let (server, account) = start().await?;
    for id in 0..6 {
        store(&account, &employee("sales", id)).await?;
    }
    let mut run = verify(&account).repair();
    let report = run.run().await?;
    assert!(report.is_in_step());
    assert_eq!((report.entities, report.unfit), (6, 0));
    let copies: Vec<_> = report.indexes.iter().map(|index| index.copies).collect();
    assert_eq!(copies, [6, 6, 4, 6, 6], "a third has no manager");
    assert!(report.indexes.iter().all(|index| index.drifted() == 0));
    assert_in_step(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_missing_stale_or_left_over_copy_of_any_index_is_found_and_mended() -> TestResult {
    for position in POSITIONS {
        let (server, account) = start().await?;
        for id in 0..5 {
            store(&account, &employee("sales", id)).await?;
        }
        let (missing, stale, orphan) =
            (employee("sales", 1), employee("sales", 2), employee("sales", 97));
        drop_copy(&account, &missing, position).await?;
        let mut row = DynamicEntity::of(&copy(&stale, position))?;
        row.set("LastName", "Smith");
        table(&account, position).upsert(&row).await?;
        table(&account, position).upsert(&copy(&orphan, position)).await?;
        let expected: Vec<_> =
            POSITIONS.map(|at| if at == position { (1, 1, 1) } else { (0, 0, 0) }).collect();
        assert_eq!(drift(&server.snapshot()).to_vec(), expected);

        let before = server.snapshot();
        let mut check = verify(&account).check();
        assert_eq!(counted(check.run().await?), expected, "index {position}");
        assert!(!check.report().is_in_step());
        let after = server.snapshot();
        assert_eq!(drift(&after), drift(&before), "a check writes nothing");
        let writes = server.journal().iter().filter(|entry| entry.operation().is_write()).count();

        let found = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&found);
        let repair =
            verify(&account).found(move |one: &Finding| notes.lock().unwrap().push(one.clone()));
        let mut repair = repair.repair();
        let report = repair.run().await?;
        assert_eq!(counted(report), expected);
        assert!(report.is_in_step());
        assert_eq!(report.indexes[position].mended, 3);
        let now = server.journal().iter().filter(|entry| entry.operation().is_write()).count();
        assert_eq!(now - writes, 3, "one write for each");
        assert_in_step(&server.snapshot());

        let mut found = found.lock().unwrap().clone();
        found.sort_by_key(|one| format!("{:?}", one.drift));
        let expected =
            [(Drift::Missing, &missing), (Drift::Orphan, &orphan), (Drift::Stale, &stale)];
        for (found, (drift, entity)) in found.iter().zip(expected) {
            let copy = copy(entity, position);
            let (pk, rk) = ("sales", format!("id_{:06}", entity.id));
            assert_eq!((found.drift, found.index), (drift, Some(copy.index().name)));
            assert_eq!((&found.entity, found.mended), (&Key::new(pk, rk), true));
            assert_eq!(found.copy, Some(copy.key()));
        }
        assert!(verify(&account).check().run().await?.is_in_step());
    }
    Ok(())
}

#[tokio::test]
async fn a_value_changed_past_the_index_moves_its_copies() -> TestResult {
    let (server, account) = start().await?;
    store(&account, &employee("sales", 1)).await?;
    let changed = Employee {
        email: "new@contoso.com".into(),
        last_name: "Smith".into(),
        manager: None,
        city: "Bath".into(),
        ..employee("sales", 1)
    };
    account.table("staff").upsert(&changed).await?;
    let mut repair = verify(&account).repair();
    let report = repair.run().await?;
    // One is left over where another is missing, and one that is not demanded any more.
    assert_eq!(counted(report), [(1, 0, 1), (1, 0, 1), (0, 0, 1), (1, 0, 1), (1, 0, 1)]);
    assert_in_step(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn what_an_entity_is_gone_from_is_left_over() -> TestResult {
    let (server, account) = start().await?;
    for department in ["it", "sales"] {
        store(&account, &employee(department, 1)).await?;
    }
    account.table("staff").delete(key(1), Match::Any).await?;
    let mut repair = verify(&account).repair();
    assert_eq!(counted(repair.run().await?), [(0, 0, 1); 5]);
    assert_in_step(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_value_that_two_entities_have_is_reported_and_left() -> TestResult {
    let (server, account) = start().await?;
    store(&account, &employee("sales", 1)).await?;
    let second = Employee { email: "e1@CONTOSO.com".into(), ..employee("sales", 2) };
    account.table("staff").insert(&second).await?;
    let mut repair = verify(&account).only(["by_email"]).repair();
    let report = repair.run().await?;
    let email = report.index("by_email").unwrap();
    assert_eq!((email.taken, email.drifted(), email.mended), (1, 1, 0));
    assert!(!report.is_in_step());
    let kept =
        account.table("staff").get(copy(&employee("sales", 1), 0).key::<DynamicEntity>()).await?;
    assert_eq!(kept.unwrap().entity.get("PrimaryRowKey"), Some(&"id_000001".into()));

    // It is mended when the first one gives the value up.
    store(&account, &Employee { email: "else@contoso.com".into(), ..employee("sales", 1) }).await?;
    let mut repair = verify(&account).repair();
    assert!(repair.run().await?.is_in_step());
    assert_in_step(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn rows_that_are_no_copies_are_left_alone() -> TestResult {
    let (server, account) = start().await?;
    store(&account, &employee("sales", 1)).await?;
    let staff = account.table("staff");
    let mut foreign = DynamicEntity::new("sales", "email_nobody");
    foreign.set("Note", "not a copy");
    staff.insert(&foreign).await?;
    let mut in_the_way = DynamicEntity::new("sales", "email_e2@contoso.com");
    in_the_way.set("Note", "where a copy belongs");
    staff.insert(&in_the_way).await?;
    staff.insert(&employee("sales", 2)).await?;
    let mut other = DynamicEntity::new("sales", "badge_1");
    other.set("PrimaryRowKey", "id_000001");
    staff.insert(&other).await?;

    let mut repair = verify(&account).repair();
    let report = repair.run().await?;
    assert_eq!((report.entities, report.index("by_email").unwrap().taken), (2, 1));
    for row in [foreign, in_the_way, other] {
        let now = staff.get(row.key()).await?.unwrap().entity;
        assert_eq!(now, row, "untouched");
    }
    assert!(server.journal().count(Operation::DeleteEntity) == 0);
    Ok(())
}

#[tokio::test]
async fn an_entity_that_is_not_of_the_type_is_counted_and_its_copies_stay() -> TestResult {
    let (_server, account) = start().await?;
    let damaged = employee("sales", 1);
    store(&account, &damaged).await?;
    let mut row = DynamicEntity::of(&damaged)?;
    row.remove("City");
    account.table("staff").upsert(&row).await?;
    // A value that makes no key: too long for one.
    let long = Employee { email: "x".repeat(600), ..employee("sales", 2) };
    account.table("staff").insert(&long).await?;
    let mut repair = verify(&account).repair();
    let report = repair.run().await?;
    assert_eq!((report.entities, report.unfit), (2, 2));
    assert!(!report.is_in_step());
    assert_eq!(report.indexes.iter().map(|index| index.orphan).sum::<u64>(), 0);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_verified_is_refused() -> TestResult {
    let (_server, account) = start().await?;
    let staff = || Verify::<Employee>::new(account.table("staff"));
    for (refused, says) in [
        (staff().only(["by_shoe"]).check(), "no index of this name"),
        (staff().index_table(["by_email"], account.table("regions")).check(), "another table"),
        (staff().page_size(0).check(), "1 to 1000"),
    ] {
        let mut refused = refused;
        let error = refused.step().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(says), "{error}");
    }
    let error = Verify::<Employee>::new(account.table("missing")).check().step().await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    Ok(())
}

#[tokio::test]
async fn the_report_and_the_rows_agree_after_any_damage_and_nothing_is_left_of_it() -> TestResult {
    let (whole, account_of_whole) = start().await?;
    for id in IDS {
        store(&account_of_whole, &employee("sales", id)).await?;
    }
    for seed in seeds(100) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let server = whole.fork().await?;
        let account = account(&server)?;
        let entities = damage(&account, &mut random).await?;
        // Pages end anywhere, in half of the runs.
        let _chaos = random.one_in(2).then(|| server.chaos(Pages::seeded(seed)));
        let expected = drift(&server.snapshot()).to_vec();

        let verify = verify(&account).page_size(1 + random.below(9));
        let mut check = verify.check();
        assert_eq!(counted(check.run().await?), expected);
        let mut repair = verify.clone().concurrency(1 + random.below(4) as usize).repair();
        let report = repair.run().await?;
        assert!(report.is_in_step(), "{report:?}");
        assert_in_step(&server.snapshot());
        let mut check = verify.check();
        assert_eq!(counted(check.run().await?), [(0, 0, 0); 5]);
        assert_eq!(check.report().entities, entities);
    }
    Ok(())
}

const IDS: std::ops::Range<u32> = 0..6;

/// Damages copies by plain writes, and deletes entities; says how many are left.
async fn damage(
    account: &StorageAccount,
    random: &mut Random,
) -> Result<u64, Box<dyn std::error::Error>> {
    let staff = account.table("staff");
    let mut ids: Vec<u32> = IDS.collect();
    for step in 0..random.below(12) {
        let id = random.pick(&ids);
        let entity = employee("sales", id);
        let position = random.below(5) as usize;
        let Some(copy) = IndexRow::of(&entity, position)? else { continue };
        let copies = table(account, position);
        match random.below(4) {
            0 => drop(copies.delete_if_exists(copy.key::<DynamicEntity>(), Match::Any).await?),
            1 => {
                let mut row = DynamicEntity::of(&copy)?;
                row.set("LastName", format!("Damage{step}"));
                copies.upsert(&row).await?;
            }
            2 => {
                let nobody = employee("sales", 100 + step);
                if let Some(copy) = IndexRow::of(&nobody, position)? {
                    copies.upsert(&copy).await?;
                }
            }
            _ if ids.len() > 1 => {
                staff.delete_if_exists(key(id), Match::Any).await?;
                ids.retain(|known| *known != id);
            }
            _ => {}
        }
    }
    Ok(u64::try_from(ids.len())?)
}

/// Two types of report are told apart by their indexes.
#[tokio::test]
async fn a_checkpoint_of_another_type_is_refused() -> TestResult {
    #[derive(Clone, Debug, Entity)]
    #[entity(partition = "{department}", row = "id_{id:6}")]
    #[entity(index(name = by_email, row = "email_{email}"))]
    struct Other {
        department: String,
        id: u32,
        email: String,
    }
    let (server, _) = start().await?;
    let account = account(&server)?;
    let other = Verify::<Other>::new(account.table("staff")).check();
    let error = verify(&account).check().resume(other.checkpoint().clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(Report::default().index("by_email"), None);
    Ok(())
}
