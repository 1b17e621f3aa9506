//! What a table can do and a cipher before it: updates, projections and transactions; and the job's
//! transactions among other writers.

use std::sync::atomic::{AtomicU32, Ordering};

use rowkey::{DynamicEntity, ErrorKind, Match, Outcome, Projection, Table};
use rowkey_encryption::{AesKeyWrap, Encrypted, KeyRing};
use rowkey_server::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{once, sweep};

use super::{Patient, key, north, of, patient, patients, raw, ring, start};

#[derive(Debug, PartialEq, Projection)]
#[entity(rename_all = "PascalCase")]
struct Named {
    name: String,
    bed: i32,
}

#[tokio::test]
async fn a_few_properties_are_read_as_a_projection_and_what_was_altered_is_not() -> TestResult {
    let (server, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let before = server.journal();
    let named = Named { name: "Patient 1".into(), bed: 3 };
    let stored = patients.get_as::<Named>(key(1)).await?.ok_or("not there")?;
    assert_eq!(stored.entity, named);
    assert_eq!(patients.get_as::<Named>(key(2)).await?, None);
    let all = patients.query(north()).project::<Named>().all().await?;
    assert_eq!(all.into_iter().map(|stored| stored.entity).collect::<Vec<_>>(), [named]);
    assert_eq!(server.journal().since(&before).len(), 3);
    // Also what is not asked for has to be what was encrypted.
    let mut altered = patients.table().get(raw(1)).await?.ok_or("not there")?.entity;
    altered.set("History", vec![1_u8, 1]);
    patients.table().replace((&altered, Match::Any)).await?;
    let error = patients.get_as::<Named>(key(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    Ok(())
}

#[tokio::test]
async fn a_change_is_repeated_until_nobody_else_was_faster() -> TestResult {
    let (server, patients) = start().await?;
    let error = patients.update(key(1), |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    patients.insert(&patient(1)).await?;
    let others = AtomicU32::new(0);
    let held = server.inject(Fault::on(Operation::UpdateEntity).nth(1).hold());
    let (updated, ()) = futures_util::future::join(
        patients.update(key(1), |patient| {
            others.fetch_add(1, Ordering::Relaxed);
            patient.name.push('!');
        }),
        async {
            held.wait_until_held().await;
            patients.upsert(&Patient { name: "Ada".into(), ..patient(1) }).await.unwrap();
            held.release();
        },
    )
    .await;
    let updated = updated?;
    assert_eq!((&*updated.entity.name, others.into_inner()), ("Ada!", 2));
    assert_eq!(patients.get(key(1)).await?, Some(updated));

    let error = patients.update(key(1), |patient| patient.number = 2).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    let _busy = server.inject(
        Fault::on(Operation::UpdateEntity).reject(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED),
    );
    let error = patients.update(key(1), |_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    Ok(())
}

#[tokio::test]
async fn a_change_is_applied_once_whatever_request_of_it_fails() -> TestResult {
    let (server, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    for repeats in [true, false] {
        sweep(
            &server,
            async |account| {
                let account = if repeats { account.clone() } else { once(account) };
                let patients = super::patients(account.table("patients"), ring(26));
                patients
                    .update(key(1), |patient| patient.bed += 1)
                    .await
                    .map(|stored| stored.entity.bed)
            },
            async |account, result| {
                let patients = super::patients(account.table("patients"), ring(26));
                let bed = patients.get(key(1)).await?.ok_or("not there")?.entity.bed;
                match result {
                    Ok(told) => assert_eq!((bed, *told), (4, 4)),
                    Err(error) => {
                        assert!(!repeats, "{error}");
                        assert!(bed == 3 || error.outcome() == Outcome::Unknown, "{error}");
                    }
                }
                Ok(())
            },
            |_, _| {},
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_transaction_encrypts_what_it_writes_all_or_nothing() -> TestResult {
    let (server, patients) = start().await?;
    for number in 1..=4 {
        patients.insert(&patient(number)).await?;
    }
    let before = server.journal();
    let renamed = |number| Patient { name: "Ada".into(), ..patient(number) };
    let tags = patients
        .transaction()
        .replace((&renamed(1), Match::Any))
        .merge((&renamed(2), Match::Any))
        .delete(key(3), Match::Any)
        .upsert(&renamed(4))
        .upsert_merge(&renamed(5))
        .insert(&renamed(6))
        .submit()
        .await?;
    assert_eq!(
        tags.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, true, false, true, true, true]
    );
    assert_eq!(server.journal().since(&before).len(), 1);
    let all = patients.query(north()).all().await?;
    assert_eq!(
        all.iter().map(|p| (p.entity.number, &*p.entity.name)).collect::<Vec<_>>(),
        [(1, "Ada"), (2, "Ada"), (4, "Ada"), (5, "Ada"), (6, "Ada")]
    );
    for number in [1, 2, 4, 5, 6] {
        let row = patients.table().get(raw(number)).await?.ok_or("not there")?.entity;
        assert!(matches!(row.get("Name"), Some(rowkey::edm::Value::Binary(_))), "{number}");
    }

    // With an entity of another kind, in the clear.
    let mut ward = DynamicEntity::new("north", "ward");
    ward.set("Beds", 12);
    let encrypted = patients.transaction().insert(&patient(7)).encrypt().await?;
    patients.table().transaction().upsert(&ward).append(encrypted).submit().await?;
    assert!(patients.get(key(7)).await?.is_some());

    let twice = patients.transaction().insert(&patient(8)).insert(&patient(1)).submit().await;
    let error = twice.unwrap_err();
    assert_eq!((error.kind(), error.operation_index()), (ErrorKind::AlreadyExists, Some(1)));
    assert_eq!(patients.get(key(8)).await?, None);
    let sent = server.journal().len();
    let partial = Patient { scan: None, ..patient(1) };
    let error = patients.transaction().upsert(&patient(2)).upsert_merge(&partial).submit().await;
    assert!(error.unwrap_err().to_string().contains("`Scan` is absent"));
    assert_eq!(server.journal().len(), sent);
    Ok(())
}

fn rotated(table: &Table) -> Encrypted<Patient> {
    patients(table.clone(), ring(27))
}

async fn filled(count: u32) -> Result<(Server, Encrypted<Patient>), Box<dyn std::error::Error>> {
    let (server, patients) = start().await?;
    let numbers: Vec<u32> = (1..=count).collect();
    for hundred in numbers.chunks(100) {
        let transaction = hundred
            .iter()
            .fold(patients.transaction(), |all, number| all.insert(&patient(*number)));
        transaction.submit().await?;
    }
    Ok((server, patients))
}

#[tokio::test]
async fn the_job_writes_a_hundred_entities_of_a_partition_with_one_request() -> TestResult {
    let (server, patients) = filled(250).await?;
    let mut south = patient(1);
    south.ward = "south".into();
    patients.insert(&south).await?;
    let before = server.journal();
    assert_eq!(rotated(patients.table()).reencryption().run().await?.rewritten, 251);
    let since = server.journal().since(&before);
    // A page for each partition at the most, and 100, 100, 50 and 1 entities.
    assert_eq!(since.count(Operation::Transaction), 4);
    assert!(since.len() <= 6, "{}", since.len());
    let new = super::patients(patients.table().clone(), KeyRing::new(of(27)));
    assert_eq!(new.scan().all().await?.len(), 251);
    Ok(())
}

#[tokio::test]
async fn entities_that_others_change_leave_the_transactions_of_the_job_to_the_rest() -> TestResult {
    let (server, patients) = filled(6).await?;
    let before = server.journal();
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let job = rotated(patients.table());
    let (progress, ()) = futures_util::future::join(job.reencryption().run(), async {
        held.wait_until_held().await;
        patients.upsert(&Patient { bed: 9, ..patient(2) }).await.unwrap();
        patients.table().delete(key(4), Match::Any).await.unwrap();
        held.release();
    })
    .await;
    assert_eq!(progress?.rewritten, 5);
    // One stays out of each of the first two, the third passes.
    assert_eq!(server.journal().since(&before).count(Operation::Transaction), 3);
    let new = super::patients(patients.table().clone(), KeyRing::new(of(27)));
    let left = new.query(north()).all().await?;
    let left: Vec<_> = left.iter().map(|p| (p.entity.number, p.entity.bed)).collect();
    assert_eq!(left, [(1, 3), (2, 9), (3, 3), (5, 3), (6, 3)]);
    Ok(())
}

#[tokio::test]
async fn a_transaction_of_the_job_whose_answer_is_lost_is_known_for_its_own() -> TestResult {
    let (server, patients) = filled(5).await?;
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_after_commit());
    let before = server.journal();
    let progress = rotated(patients.table()).reencryption().run().await?;
    assert_eq!((lost.hits(), progress.rewritten), (1, 5));
    // It is repeated in vain, and then each entity is looked at.
    let since = server.journal().since(&before);
    assert_eq!((since.count(Operation::Transaction), since.count(Operation::GetEntity)), (2, 5));
    assert_eq!(since.count(Operation::UpdateEntity), 0, "none is written twice");
    Ok(())
}

/// Not a byte of an encrypted property, of its index or of the metadata can be another one.
#[tokio::test]
async fn no_bit_can_be_altered_and_no_byte_cut_off() -> TestResult {
    let (_server, patients) = start().await?;
    patients.insert(&patient(1)).await?;
    let table = patients.table();
    let row = table.get(raw(1)).await?.ok_or("not there")?;
    let mut tried = 0;
    let mut refuse = async |name: &str, value: rowkey::edm::Value| {
        let mut altered = row.clone();
        altered.entity.set(name, value);
        let error = patients.decrypt(altered).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{name}: {error}");
        assert!(!format!("{error:?}").contains("Patient 1"), "{error:?}");
        tried += 1;
    };
    let names: Vec<_> = row.entity.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names {
        match row.entity.get(&name) {
            Some(rowkey::edm::Value::Binary(bytes)) => {
                for bit in 0..bytes.len() * 8 {
                    let mut bytes = bytes.clone();
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    refuse(&name, bytes.into()).await;
                }
                for length in 0..bytes.len() {
                    refuse(&name, bytes[..length].to_vec().into()).await;
                }
            }
            Some(rowkey::edm::Value::String(text)) => {
                for place in 0..text.len() {
                    // Another letter of the same alphabet, and the rest cut off.
                    let other = if text.as_bytes()[place] == b'A' { "B" } else { "A" };
                    let mut altered = text.clone();
                    altered.replace_range(place..=place, other);
                    refuse(&name, altered.into()).await;
                    refuse(&name, text[..place].into()).await;
                }
            }
            _ => {}
        }
    }
    eprintln!("{tried} alterations, none of which was read");
    assert!(tried > 1000, "{tried}");
    let wrong =
        Encrypted::<Patient>::new(table.clone(), KeyRing::new(AesKeyWrap::new("2026", [1; 32])));
    assert_eq!(wrong.decrypt(row).await.unwrap_err().kind(), ErrorKind::Decode);
    Ok(())
}
