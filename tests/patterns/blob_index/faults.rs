//! Every request of every operation fails in every way, and every operation is stopped at each of its
//! requests: entities are in their lists, and what is left over is found and mended.

use rowkey::{Outcome, Result, StorageAccount};
use rowkey_large::BlobIndex;
use rowkey_server::{Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, once, stopped_at_every_request, sweep};

use super::{Employee, GUARD, blobs, employee, key, staff, start};

/// Lists are divided soon.
fn short(account: &StorageAccount) -> BlobIndex<Employee> {
    staff(account).chunk_keys(2)
}

/// An entity is always in the list of its value, and a repair leaves nothing else.
async fn recover(account: &StorageAccount) -> TestResult {
    let staff = short(account);
    let report = staff.verify().await?;
    assert_eq!((report.missing, report.damaged), (0, 0));
    staff.repair().await?;
    assert!(staff.verify().await?.is_sound());
    Ok(())
}

/// As many blobs as lists and chunks: every blob but the first ones is in one of them.
fn nothing_is_left(snapshot: &Snapshot) {
    let names = blobs(snapshot);
    for name in &names {
        let Some((root, chunk)) = name["last-name/".len()..].split_once('/') else { continue };
        let root = snapshot.blob("indexes", &format!("last-name/{root}")).expect("a list");
        let root = String::from_utf8(root).unwrap();
        assert!(root.lines().any(|line| line.starts_with(chunk)), "nothing leads to a chunk");
    }
}

/// Sweeps an operation on the entity with this id.
#[expect(clippy::future_not_send, reason = "tests have a thread of their own")]
async fn survives(
    server: &Server,
    of: u32,
    operation: impl AsyncFn(BlobIndex<Employee>) -> Result<()>,
) -> TestResult {
    let before = staff(&account(server)?).table().get(key(of)).await?.map(|stored| stored.entity);
    let after = async |account: &StorageAccount, result: &Result<()>| {
        if let Err(error) = result
            && error.outcome() != Outcome::Unknown
        {
            let now = short(account).table().get(key(of)).await?.map(|stored| stored.entity);
            assert_eq!(now, before, "{error}");
        }
        recover(account).await
    };
    let invariants = |snapshot: &Snapshot, _: &Result<()>| nothing_is_left(snapshot);
    let run = async |account: &StorageAccount| operation(short(account)).await;
    sweep(server, run, after, invariants).await?;
    let run = async |account: &StorageAccount| operation(short(&once(account))).await;
    sweep(server, run, after, invariants).await?;
    let run = async |account: &StorageAccount| operation(short(account)).await;
    stopped_at_every_request(server, run, recover, nothing_is_left).await?;
    Ok(())
}

/// A server with this many of the name of Jones.
async fn with(
    jones: u32,
) -> std::result::Result<(Server, BlobIndex<Employee>), Box<dyn std::error::Error>> {
    let (server, staff) = start().await?;
    let staff = staff.chunk_keys(2);
    for id in 1..=jones {
        staff.insert(&employee(id, "Jones")).await?;
    }
    Ok((server, staff))
}

#[tokio::test]
async fn whatever_request_of_an_insert_fails_no_entity_is_left_out() -> TestResult {
    // The first key, one that divides the list, one that divides a chunk.
    for jones in [0, 2, 4] {
        let (server, _) = with(jones).await?;
        survives(&server, 9, async |staff| staff.insert(&employee(9, "Jones")).await.map(drop))
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn whatever_request_of_an_update_fails_no_entity_is_left_out() -> TestResult {
    for jones in [1, 3] {
        let (server, _) = with(jones).await?;
        survives(&server, 1, async |staff| {
            staff.update(key(1), |e| e.last_name = Some("King".into())).await.map(drop)
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn whatever_request_of_a_delete_fails_no_entity_is_left_out() -> TestResult {
    for jones in [1, 3] {
        let (server, _) = with(jones).await?;
        survives(&server, 1, async |staff| staff.delete(key(1)).await.map(drop)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn whatever_request_of_a_repair_fails_the_next_one_finishes() -> TestResult {
    let (server, staff) = with(4).await?;
    staff.table().upsert(&employee(1, "King")).await?;
    staff.table().insert(&employee(8, "Jones")).await?;
    server.clock().advance(GUARD * 2);
    let run = async |account: &StorageAccount| short(account).repair().await.map(drop);
    let after = async |account: &StorageAccount, _: &Result<()>| {
        short(account).repair().await?;
        assert!(short(account).verify().await?.is_sound());
        Ok(())
    };
    sweep(&server, run, after, |snapshot, _| nothing_is_left(snapshot)).await?;
    let after = async |account: &StorageAccount| {
        short(account).repair().await?;
        assert!(short(account).verify().await?.is_sound());
        Ok(())
    };
    stopped_at_every_request(&server, run, after, nothing_is_left).await?;
    Ok(())
}
