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

#[tokio::test(flavor = "multi_thread")]
async fn an_export_ends_without_an_error_if_its_reader_is_gone() {
    let account = Account::start().await;
    account.fill("orders", 3, 300).await;
    for format in ["json-lines", "csv", "json", "azcopy", "parquet"] {
        let args = ["export", "orders", "-", "--format", format];
        let mut running = start(&account, &args, account.server.connection_string());
        drop(running.stdout.take());
        let done = ended(running).await;
        assert_eq!((done.code, &*done.err), (0, ""), "{format}: {done:?}");
    }
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

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_stops_an_export_whose_reader_does_not_read() {
    use std::io::Read as _;

    let account = Account::start().await;
    // More than a pipe holds.
    account.fill("orders", 6, 400).await;
    for format in ["json-lines", "csv"] {
        let args = ["export", "orders", "-", "--format", format];
        let mut running = start(&account, &args, account.server.connection_string());
        let mut first = [0];
        running.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        SystemClock.sleep(Duration::from_millis(200)).await;
        interrupt(&running);
        let stdout = running.stdout.take();
        let done = ended(running).await;
        drop(stdout);
        assert_eq!(done.code, 130, "{format}: {done:?}");
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_leaves_no_part_of_a_file() {
    let account = Account::start().await;
    account.fill("orders", 30, 400).await;
    let files = || -> Vec<_> {
        let all = fs::read_dir(account.folder.path()).unwrap().map(|entry| entry.unwrap());
        // A file may be gone meanwhile.
        all.filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?.len()))).collect()
    };
    // CSV is written at the end, when all columns are known; JSON lines page after page.
    for file in ["a.csv", "a.jsonl"] {
        let args = ["export", "orders", file];
        let running = start(&account, &args, account.server.connection_string());
        while files().iter().all(|(_, length)| *length == 0) {
            SystemClock.sleep(Duration::from_millis(1)).await;
        }
        interrupt(&running);
        let done = ended(running).await;
        match done.code {
            // It was faster.
            0 => {
                let left = files();
                assert_eq!((left.len(), &left[0].0), (1, &file.into()));
                fs::remove_file(account.path(file)).unwrap();
            }
            code => {
                assert_eq!(code, 130, "{done:?}");
                assert_eq!(files(), [], "{file}");
            }
        }
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn an_export_does_not_replace_what_is_no_file() {
    let account = Account::with_orders().await;
    std::os::unix::fs::symlink("/dev/null", account.path("null.csv")).unwrap();
    let error = account.fails(2, ["export", "orders", "null.csv"]);
    assert!(error.contains("null.csv") && error.contains("no file"), "{error}");
    let link = fs::symlink_metadata(account.path("null.csv")).unwrap();
    assert!(link.file_type().is_symlink());

    fs::create_dir(account.path("target")).unwrap();
    std::os::unix::fs::symlink("target/a.csv", account.path("link.csv")).unwrap();
    fs::write(account.path("target/a.csv"), "old").unwrap();
    account.ok(["export", "orders", "link.csv"]);
    let text = fs::read_to_string(account.path("target/a.csv")).unwrap();
    assert_eq!(text, "PartitionKey,RowKey\r\n", "the link leads to the new file");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_goes_on_with_the_same_source_alone() {
    let account = Account::start().await;
    for (name, count) in [("a.jsonl", 500), ("b.jsonl", 500)] {
        fs::write(account.path(name), rows(count)).unwrap();
    }
    let import = |name, checkpoint| ["import", "orders", name, "--checkpoint", checkpoint];
    let denied = Fault::on(Operation::Transaction).nth(3);
    let denied = account.server.inject(denied.reject(ErrorCode::AUTHENTICATION_FAILED));
    account.fails(5, import("a.jsonl", "position"));
    drop(denied);
    let error = account.fails(2, import("b.jsonl", "position"));
    assert!(error.contains("another `source`"), "{error}");
    fs::write(account.path("a.jsonl"), rows(600)).unwrap();
    let error = account.fails(2, import("a.jsonl", "position"));
    assert!(error.contains("another `rows`"), "{error}");
    // As many rows, in another order: what the checkpoint counts would be others.
    let reversed: Vec<_> = rows(500).lines().rev().map(str::to_owned).collect();
    fs::write(account.path("a.jsonl"), reversed.join("\n")).unwrap();
    let error = account.fails(2, import("a.jsonl", "position"));
    assert!(error.contains("another `content`"), "{error}");
    fs::write(account.path("a.jsonl"), rows(500)).unwrap();
    let done = account.run(import("a.jsonl", "position"));
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(account.entities("orders").len(), 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_entities_of_all_tables_say_from_which_they_are() {
    let (account, other) = (Account::start().await, Account::start().await);
    account.fill("orders", 1, 3).await;
    account.fill("users", 1, 3).await;
    let refused = Fault::on(Operation::Transaction).times(u64::MAX);
    let _refused = other.server.inject(refused.reject(ErrorCode::REQUEST_BODY_TOO_LARGE));
    let mut command = account.command(["copy", "--all", "--to-connection-string-env", "OTHER"]);
    let done = finish(command.env("OTHER", other.server.connection_string()));
    assert_eq!(done.code, 8, "{done:?}");
    let text = fs::read_to_string(account.path("copy.rejects.jsonl")).unwrap();
    let line = |line| serde_json::from_str::<serde_json::Value>(line).unwrap()["table"].clone();
    let mut tables: Vec<_> = text.lines().map(line).collect();
    tables.dedup();
    assert_eq!(tables, ["orders", "users"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejects_file_that_cannot_be_written_does_not_hide_what_was_rejected() {
    let account = Account::start().await;
    fs::create_dir(account.path("folder")).unwrap();
    let row = "{\"PartitionKey\":\"p\",\"RowKey\":\"a/b\"}\n";
    let done = account.fed(row, ["import", "orders", "-", "--rejects", "folder"]);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(
        done.err.contains("folder, the file of rejected entities, cannot be written"),
        "{done:?}"
    );
    assert!(done.err.contains("1 failed") || done.out.contains("\"rejected\":1"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_several_entities_with_the_same_keys_is_kept() {
    let account = Account::start().await;
    let row = |value| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"A\":{value}}}\n");
    let done = account.fed(&(0..5).map(row).collect::<String>(), ["import", "orders", "-"]);
    assert_eq!(done.code, 0, "{done:?}");
    let kept = account.entities("orders");
    assert!(kept.len() == 1 && kept[0].contains("Int32(4)"), "{kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_table_that_does_not_exist_creates_none() {
    let account = Account::with_orders().await;
    account.fails(3, ["copy", "ordes", "archive"]);
    assert!(account.server.snapshot().table("archive").is_none());
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_named() {
    let account = Account::start().await;
    account.fill("orders", 3, 300).await;
    for format in ["json-lines", "csv"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey"));
        command.env_clear().current_dir(account.folder.path());
        command.args(["export", "orders", "-", "--format", format]);
        command.env("ROWKEY_CONNECTION_STRING", account.server.connection_string());
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains("stdout: ") && err.contains("No space left"), "{err}");
        assert!(!err.contains("device-"), "{err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_without_a_name_and_flags_for_others_are_wrong_usage() {
    let account = Account::with_orders().await;
    for args in [
        &["export", "orders", ""][..],
        &["export", "--all", ""],
        &["export", "orders", "backups/a", "--container", "--format", "csv"],
        &["import", "orders", ""],
        &["import", "--all", ""],
        &["import", "orders", "backups/a", "--container", "--format", "csv"],
    ] {
        account.fails(2, args);
    }
    assert_eq!(fs::read_dir(account.folder.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_has_no_files_of_runs_that_were_killed() {
    let account = Account::start().await;
    account.fill("orders", 40, 200).await;
    let args = ["export", "orders", "a b/c", "--checkpoint", "position"];
    let folder = account.path("a b/c");
    let names = || -> Vec<String> {
        let all = fs::read_dir(&folder).into_iter().flatten();
        all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let begun = || names().iter().filter(|name| name.starts_with('.')).count();
    for _ in 0..5 {
        let before = begun();
        let mut running = start(&account, &args, account.server.connection_string());
        while running.try_wait().unwrap().is_none() {
            if begun() > before {
                running.kill().unwrap();
            }
            SystemClock.sleep(Duration::from_millis(1)).await;
        }
    }
    if !names().contains(&"manifest.json".to_owned()) {
        assert_eq!(account.run(args).code, 0);
    }
    assert_eq!(begun(), 0, "{:?}", names());
    let imported = account.ok(["import", "restored", "a b/c"]);
    assert!(imported.contains("\"imported\":8001"), "{imported}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_all_tables_does_not_go_on_with_other_tables() {
    let (account, other) = (Account::start().await, Account::start().await);
    account.fill("first", 1, 3).await;
    account.fill("second", 1, 3).await;
    let args = ["copy", "--all", "--to-connection-string-env", "OTHER", "--checkpoint", "position"];
    let run = || finish(account.command(args).env("OTHER", other.server.connection_string()));
    let denied = Fault::on(Operation::QueryEntities).nth(2);
    let denied = account.server.inject(denied.reject(ErrorCode::AUTHENTICATION_FAILED));
    assert_eq!(run().code, 5);
    drop(denied);
    // The first one is done, and another table takes its place in the list.
    account.ok(["tables", "drop", "first", "--yes"]);
    account.fill("another", 1, 3).await;
    let stored = fs::read(account.path("position")).unwrap();
    let done = run();
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("another: ") && done.err.contains("the table first"), "{done:?}");
    assert_eq!(fs::read(account.path("position")).unwrap(), stored);
    fs::remove_file(account.path("position")).unwrap();
    assert_eq!(run().code, 0);
    assert_eq!(other.entities("another"), account.entities("another"));
}

/// The file is compared before the first entity is written, and is changed behind that.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn an_import_whose_file_is_damaged_meanwhile_says_how_to_go_on() {
    use crate::support::started;

    let account = Account::start().await;
    // More than is read ahead, in partitions that are written at once.
    let row = |row| format!("{{\"PartitionKey\":\"{:02}\",\"RowKey\":\"{row:05}\"}}\n", row / 1000);
    let good: String = (0..20_000).map(row).collect();
    let damaged = format!("{}no row\n", &good[..good.len() - 7]);
    fs::write(account.path("orders.jsonl"), &good).unwrap();
    let args = ["import", "orders", "orders.jsonl", "--checkpoint", "position"];
    let held = Fault::on(Operation::Transaction).nth(2).hold();
    let (running, held) = started(&account, &args, held).await;
    fs::write(account.path("orders.jsonl"), damaged).unwrap();
    drop(held);
    let done = ended(running).await;
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("line 20000"), "{done:?}");
    assert!(
        done.err.contains("correct it, and the same command goes on from position"),
        "{done:?}"
    );

    fs::write(account.path("orders.jsonl"), &good).unwrap();
    let done = account.run(args);
    assert_eq!(
        (done.code, &*done.out),
        (0, "{\"table\":\"orders\",\"imported\":20000,\"rejected\":0}\n")
    );
    assert!(done.err.contains("goes on from position, after "), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_of_which_too_much_fails_is_stopped_with_a_code_of_its_own() {
    let account = Account::start().await;
    let row = |row| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"hidden/{row:04}\"}}\n");
    fs::write(account.path("bad.jsonl"), (0..2_000).map(row).collect::<String>()).unwrap();
    let args = ["import", "orders", "bad.jsonl", "--checkpoint", "position"];
    let done = account.run(args);
    assert_eq!((done.code, &*done.out), (9, ""), "{done:?}");
    assert!(done.err.contains("too many items failed, 1"), "{done:?}");
    let how = "correct what they have in common; the same command goes on from position";
    assert!(done.err.contains(how) && !done.err.contains("hidden"), "{done:?}");
    assert_eq!(account.run(args).code, 8, "the rest, which is fewer");
    let done = account.run([&args[..3], &["--json"]].concat());
    assert!(done.code == 9 && done.err.contains("\"kind\":\"too_many_failed\""), "{done:?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_dropped_meanwhile_does_not_stop_the_export_of_the_others() {
    let (account, other) = (Account::start().await, Account::start().await);
    account.fill("first", 1, 30).await;
    account.fill("second", 12, 800).await;
    account.fill("third", 1, 30).await;
    // A file of the second table is written: it has eight pages.
    let args = ["export", "--all", "backup", "--concurrency", "1"];
    let held = Fault::on(Operation::QueryEntities).nth(10).hold();
    let (running, held) = crate::support::started(&account, &args, held).await;
    assert!(fs::read_dir(account.path("backup/second")).unwrap().count() > 0);
    account.ok(["tables", "drop", "second", "--yes"]);
    drop(held);
    let done = ended(running).await;
    assert_eq!(done.code, 8, "{done:?}");
    let text = "the command is done; 1 of 3 tables were dropped by another program meanwhile, and have no backup: second";
    assert!(done.err.contains(text), "{done:?}");
    assert_eq!(done.out.lines().count(), 2, "{done:?}");
    assert!(!account.path("backup/second").exists());

    let folder = account.path("backup");
    let imported = other.ok([std::ffi::OsStr::new("import"), "--all".as_ref(), folder.as_os_str()]);
    assert_eq!(imported.lines().count(), 2, "{imported}");
    for table in ["first", "third"] {
        assert_eq!(other.entities(table), account.entities(table), "{table}");
    }
}
