//! `kill -9` of a copy, a synchronization, an export to a container and an import, at random times: run again with its checkpoint, each
//! ends with exactly what the source has.

use std::process::{Command, Stdio};
use std::time::Duration;

use rowkey::{Clock as _, SystemClock};

use crate::support::{Account, SECRET};

/// Kills of each command; `ROWKEY_KILLS` has another number.
const KILLS: u32 = 20;
/// The same where `ROWKEY_SWEEP` is not set. CI sets it: a program that waits to be killed takes most of the time of these tests.
const FEW_KILLS: u32 = 4;

/// A generator of pauses that the seed determines.
struct Pauses(u64);

impl Pauses {
    fn next(&mut self) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Duration::from_micros((self.0 >> 33) % 1_500_000)
    }
}

/// Runs a command until it ends by itself, and kills it before as often as asked. Returns how often it was killed.
async fn killed(account: &Account, args: &[&str], pauses: &mut Pauses, kills: u32) -> u32 {
    for killed in 0.. {
        let mut child = Command::new(env!("CARGO_BIN_EXE_rowkey"))
            .env_clear()
            .env("ROWKEY_CONNECTION_STRING", account.server.connection_string())
            .current_dir(account.folder.path())
            // So that a run has several checkpoints, one a second.
            .args(args.iter().chain(&["--max-rate", "8000"]))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if killed < kills {
            SystemClock.sleep(pauses.next()).await;
            let _ = child.kill();
        }
        let ended = child.wait_with_output().unwrap();
        if let Some(code) = ended.status.code() {
            let text = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(code, 0, "{text}");
            assert!(!text.contains(SECRET));
            return killed;
        }
    }
    unreachable!("the loop has no end")
}

fn kills() -> u32 {
    let usual = if std::env::var_os("ROWKEY_SWEEP").is_none() { FEW_KILLS } else { KILLS };
    std::env::var("ROWKEY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn seed() -> u64 {
    std::env::var("ROWKEY_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_784)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_an_export_and_an_import_that_are_killed_lose_and_double_nothing() {
    let account = Account::start().await;
    account.fill("orders", 24, 400).await;
    let expected = account.entities("orders");
    let mut pauses = Pauses(seed());
    let (mut copies, mut exports, mut imports) = (0, 0, 0);
    for round in 0.. {
        let (copy, folder) = (format!("copy{round}"), format!("backups/b{round}"));
        let table = format!("restored{round}");
        copies += killed(
            &account,
            &["copy", "orders", &copy, "--since", "1d", "--checkpoint", "c1"],
            &mut pauses,
            kills() - copies,
        )
        .await;
        assert_eq!(account.entities(&copy), expected, "copy {round}");
        exports += killed(
            &account,
            &["export", "orders", &folder, "--container", "--checkpoint", "c2"],
            &mut pauses,
            kills() - exports,
        )
        .await;
        imports += killed(
            &account,
            &["import", &table, &folder, "--container", "--checkpoint", "c3"],
            &mut pauses,
            kills() - imports,
        )
        .await;
        assert_eq!(account.entities(&table), expected, "import {round}");
        for file in ["c1", "c2", "c3"] {
            assert!(!account.path(file).exists(), "{file} is removed at the end");
        }
        account.ok(["tables", "drop", &copy, "--yes"]);
        account.ok(["tables", "drop", &table, "--yes"]);
        if [copies, exports, imports].into_iter().all(|count| count >= kills()) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttled_account_loses_and_doubles_nothing() {
    let account = Account::throttled().await;
    account.fill("orders", 8, 300).await;
    let expected = account.entities("orders");
    account.ok(["copy", "orders", "copied"]);
    account.ok(["export", "orders", "backups/a", "--container"]);
    account.ok(["import", "restored", "backups/a", "--container"]);
    assert_eq!(account.entities("copied"), expected);
    assert_eq!(account.entities("restored"), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronization_that_is_killed_ends_with_what_the_source_has() {
    let account = Account::start().await;
    account.fill("orders", 12, 300).await;
    let expected = account.entities("orders");
    let (mut pauses, mut done) = (Pauses(seed() + 1), 0);
    for round in 0.. {
        let replica = format!("replica{round}");
        // Partitions between, in and behind those of the source.
        account.fill(&replica, 20, 200).await;
        let storage =
            rowkey::StorageAccount::from_connection_string(account.server.connection_string());
        let table = storage.unwrap().table(&replica);
        let others = (0..4_000).map(|number| {
            let key =
                format!("device-{:03}{}", number % 14, if number % 3 == 0 { "x" } else { "" });
            rowkey::DynamicEntity::new(key, format!("{number:05}y"))
        });
        let others = futures_util::stream::iter(others);
        rowkey::patterns::job::Job::upsert(&table, others).run().await.unwrap();
        let args = ["copy", "orders", &replica, "--sync", "--yes", "--checkpoint", "c4"];
        done += killed(&account, &args, &mut pauses, kills() - done).await;
        assert_eq!(account.entities(&replica), expected, "round {round}");
        assert!(!account.path("c4").exists());
        account.ok(["tables", "drop", &replica, "--yes"]);
        if done >= kills() {
            return;
        }
    }
}
