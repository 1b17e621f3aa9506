//! Exports and imports that do not come to their end: a reader or a writer that is gone or never ends, Ctrl-C, and places that cannot
//! hold a file.

use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rowkey::{Clock as _, SystemClock};
use rowkey_emulator::{ErrorCode, Fault, Operation};

use crate::support::{Account, Done, SECRET, finish};

/// Much longer than any of these programs takes.
const LIMIT: Duration = Duration::from_secs(60);

fn start(account: &Account, args: &[&str], connection: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey"));
    command.env_clear().current_dir(account.folder.path()).args(args);
    command.env("ROWKEY_CONNECTION_STRING", connection);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits for the end of a program whose stdin stays open. Ends it if it does not end by itself.
async fn ended(mut running: Child) -> Done {
    let stdin = running.stdin.take();
    let begun = SystemClock.elapsed();
    while running.try_wait().unwrap().is_none() {
        if SystemClock.elapsed().saturating_sub(begun) > LIMIT {
            running.kill().unwrap();
        }
        SystemClock.sleep(Duration::from_millis(10)).await;
    }
    drop(stdin);
    let output = running.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(!err.contains(SECRET), "{err}");
    Done { code: output.status.code().unwrap_or(-1), out, err }
}

#[cfg(unix)]
fn interrupt(running: &Child) {
    let id = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
}

fn rows(count: usize) -> String {
    let line = |row| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row:04}\"}}\n");
    (0..count).map(line).collect()
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn an_import_ends_while_its_stdin_stays_open() {
    let account = Account::start().await;
    let connection = account.server.connection_string();
    let mut running = start(&account, &["import", "orders", "-"], connection);
    running.stdin.as_mut().unwrap().write_all(rows(250).as_bytes()).unwrap();
    while account
        .server
        .snapshot()
        .table("orders")
        .is_none_or(|table| table.entities().count() == 0)
    {
        SystemClock.sleep(Duration::from_millis(10)).await;
    }
    interrupt(&running);
    let done = ended(running).await;
    assert_eq!(done.code, 130, "{done:?}");

    let denied = Fault::on(Operation::Transaction).times(u64::MAX);
    let _denied = account.server.inject(denied.reject(ErrorCode::AUTHENTICATION_FAILED));
    let mut running = start(&account, &["import", "orders", "-"], connection);
    running.stdin.as_mut().unwrap().write_all(rows(2_500).as_bytes()).unwrap();
    let done = ended(running).await;
    assert_eq!(done.code, 5, "{done:?}");
}
