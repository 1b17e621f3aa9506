//! Rotation between programs whose clocks differ: the service's time decides.

use std::pin::Pin;

use rowkey::Clock;

use super::*;

/// A clock that is ahead of another one, or behind it.
#[derive(Debug)]
struct Apart {
    of: StorageAccount,
    by: TimeDelta,
}

impl Clock for Apart {
    fn now(&self) -> DateTime<Utc> {
        self.of.clock().now() + self.by
    }

    fn elapsed(&self) -> Duration {
        self.of.clock().elapsed()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.of.clock().sleep(duration)
    }
}

/// An account for a program whose clock differs by this number of minutes.
fn apart(server: &Server, account: &StorageAccount, minutes: i64) -> Result<StorageAccount> {
    let clock = Apart { of: account.clone(), by: TimeDelta::minutes(minutes) };
    StorageAccount::builder().connection_string(server.connection_string())?.clock(clock).build()
}

/// A key is made by a program whose clock is wrong, and found to be everywhere by another one.
#[tokio::test]
async fn verify_keys_waits_for_writers_whatever_clock_made_or_verifies_the_key() -> TestResult {
    for [maker, verifier] in
        [[-13, 0], [-15, 0], [13, 0], [15, 0], [0, 13], [0, 15], [0, -13], [-15, 15], [15, -15]]
    {
        let (server, account, patients) = start().await?;
        patients.insert(&patient(1)).await?;
        // It looked for the newest key just now, and looks again in a minute.
        let writer = store(&account, ring_of(of(26)).with(of(27)))?;
        writer.insert(&patient(2)).await?;
        let made = store(&apart(&server, &account, maker)?, ring(27))?;
        assert_eq!(made.reencrypt().run().await?.total.repaired, 2);
        let other = store(&apart(&server, &account, verifier)?, ring(27))?;
        for verifying in [&made, &other] {
            let error = verifying.verify_keys().run().await.unwrap_err().error;
            assert_eq!(error.kind(), ErrorKind::Conflict, "{maker} {verifier}: {error}");
            assert!(error.to_string().contains("s are left"), "{error}");
        }
        writer.insert(&patient(3)).await?;
        wait(&account, 12 * 60 + 4).await;
        server.clock().advance(Duration::from_secs(12 * 60 + 4));
        for verifying in [&made, &other] {
            let report = verifying.verify_keys().run().await?;
            assert_eq!((report.total.right, report.total.stale), (2, 1), "{maker} {verifier}");
        }
    }
    Ok(())
}

/// The name of a record contains the time of the program that made it.
#[tokio::test]
async fn a_branch_key_is_as_old_as_its_row_says() -> TestResult {
    let (server, account, patients) = start().await?;
    let ahead = apart(&server, &account, 14)?;
    ring(26).rotate(&ahead.table("patients")).await?;
    patients.insert(&patient(1)).await?;
    wait(&account, 604).await;
    server.clock().advance(Duration::from_secs(604));
    let table = account.table("patients");
    assert!(ring(26).rotate_if_older_than(&table, Duration::from_secs(600)).await?);
    assert!(!ring(26).rotate_if_older_than(&table, Duration::from_secs(600)).await?);
    Ok(())
}
