//! Programs whose clocks are up to half an hour apart: the service decides who owns a partition, and each program
//! measures its own leases.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::TimeDelta;
use rowkey::ErrorKind;
use rowkey::edm::Value;
use rowkey::worker::partitions::Owned;
use rowkey_tests::TestResult;
use rowkey_tests::sweep;
use tokio::sync::Notify;

use super::{World, row, written};

/// A term and a look, and the step in which they end.
const BOUND: usize = (60 + 20) / 5 + 1;

#[tokio::test]
async fn partitions_move_in_bounded_time_and_late_writes_are_refused_with_any_clocks() -> TestResult
{
    for [first, second] in
        [[-13, 0], [-15, 0], [13, 0], [15, 0], [0, 13], [0, 15], [0, -13], [-15, 15], [15, -15]]
    {
        let at = format!("{first} and {second} minutes");
        let world = World::start().await?;
        let table = sweep::account(&world.programs.server)?.table("work");
        let never: Arc<Notify> = Arc::default();
        let begin =
            |program, ahead| world.program_ahead(program, TimeDelta::minutes(ahead), &never);
        let killed = begin(0, first)?;
        world.until(|log| log.shares(1) == [8]).await;
        let stays = begin(1, second)?;
        let steps = world.until(|log| log.shares(2) == [4, 4]).await;
        assert!(steps <= BOUND, "{at}: {steps} steps until the newcomer has its share");

        // The first one is killed, and the other one owns all after a term and a look.
        let before: BTreeMap<u32, (usize, Owned)> = world.log.owners.lock().unwrap().clone();
        killed.abort();
        let steps = world.until(|log| log.shares(2) == [0, 8]).await;
        assert!((8..=BOUND).contains(&steps), "{at}: {steps} steps until all are taken over");

        // What the first one still sends is refused.
        for (index, (program, owned)) in before {
            if program == 0 {
                let refused = owned.fence(&table, &format!("p{index}")).await.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Leased, "{at}: {refused}");
            }
        }
        // One with the other clock comes in its place.
        let next = begin(2, first)?;
        let steps = world.until(|log| log.shares(3) == [0, 4, 4]).await;
        assert!(steps <= BOUND, "{at}: {steps} steps until the next one has its share");
        let owners: BTreeMap<u32, (usize, Owned)> = world.log.owners.lock().unwrap().clone();
        for (index, (_, owned)) in owners {
            let key = format!("p{index}");
            let by = i64::try_from(owned.token())?;
            assert_eq!(written(&table, &key).await?, Some(Value::Int64(by)), "{at}: {key}");
            // The present owner can write, by any clock.
            let fence = owned.fence(&table, &key).await?;
            fence.submit(table.transaction().upsert(&row(&key, owned.token()))).await?;
        }
        stays.abort();
        next.abort();
    }
    Ok(())
}
