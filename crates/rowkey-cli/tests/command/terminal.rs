//! What the program asks and shows on a terminal: its three streams are the end of a pseudoterminal.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Command};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{Account, SECRET};

const ENTITY: &str = r#"{"PartitionKey":"hidden","RowKey":"r"}"#;

/// A program on a terminal.
struct Running {
    program: Child,
    terminal: File,
    shown: Vec<u8>,
}

impl Running {
    fn start(account: &Account, args: &[&str]) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let path = ptsname(&terminal, Vec::new()).unwrap();
        let path = OsStr::from_bytes(path.as_bytes());
        let stream = || OpenOptions::new().read(true).write(true).open(path).unwrap();

        let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey"));
        command.env_clear().env("HOME", account.folder.path()).env("TERM", "xterm").args(args);
        command.env("ROWKEY_CONNECTION_STRING", account.server.connection_string());
        command.stdin(stream()).stdout(stream()).stderr(stream());
        // The streams in the command, which is dropped here, would keep the terminal open.
        let program = command.spawn().unwrap();
        Self { program, terminal: File::from(terminal), shown: Vec::new() }
    }

    /// Types lines, and reads meanwhile what the terminal shows of them: it holds little.
    fn types(&mut self, text: &str) {
        for line in text.split_inclusive('\n') {
            self.terminal.write_all(line.as_bytes()).unwrap();
            if text.len() > line.len() {
                self.read();
            }
        }
    }

    /// Reads until the terminal has shown a text.
    fn shows(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.shown).contains(text) {
            assert!(self.read(), "the program has ended");
        }
    }

    /// Reads what there is. Returns `false` at the end.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.terminal.read(&mut buffer) {
                Ok(length) => {
                    self.shown.extend_from_slice(&buffer[..length]);
                    return length > 0;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Linux ends a terminal that has no program with EIO.
                Err(_) => return false,
            }
        }
    }

    /// The exit code, and what the terminal has shown.
    fn ends(mut self) -> (i32, String) {
        while self.read() {}
        let shown = String::from_utf8(self.shown).unwrap();
        assert!(!shown.contains(SECRET), "{shown}");
        (self.program.wait().unwrap().code().unwrap(), shown)
    }
}

/// Runs the program with this text typed, and returns its exit code and what the terminal shows.
fn typed(account: &Account, answer: &str, args: &[&str]) -> (i32, String) {
    let mut running = Running::start(account, args);
    running.types(answer);
    running.ends()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_the_default_form() {
    let account = Account::with_orders().await;
    let (code, shown) = typed(&account, "", &["tables"]);
    assert!(code == 0 && shown.contains("│ orders │"), "{shown}");
    let (code, shown) = typed(&account, "", &["tables", "--json"]);
    assert_eq!((code, &*shown), (0, "{\"table\":\"orders\"}\r\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_cannot_be_undone_is_made_only_if_the_answer_is_yes() {
    let account = Account::with_orders().await;
    account.ok(["set", "orders", ENTITY]);
    let delete = ["delete", "orders", "hidden", "r"];
    for answer in ["no\n", "\n", "y\n"] {
        let (code, shown) = typed(&account, answer, &delete);
        assert_eq!(code, 1);
        assert!(shown.contains("delete an entity of orders? This cannot be undone."), "{shown}");
        assert!(shown.contains("the answer was not `yes`") && !shown.contains("hidden"), "{shown}");
    }
    account.ok(["get", "orders", "hidden", "r"]);
    let (code, shown) = typed(&account, "yes\n", &[&delete[..], &["--show-keys"]].concat());
    assert!(code == 0 && shown.contains("with the keys (\"hidden\", \"r\")?"), "{shown}");
    account.fails(3, ["get", "orders", "hidden", "r"]);

    let (code, shown) = typed(&account, "yes\n", &["tables", "drop", "orders"]);
    assert!(code == 0 && shown.contains("drop table orders?"), "{shown}");
    assert_eq!(account.ok(["tables"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_counts_before_it_asks() {
    let account = Account::with_orders().await;
    account.ok(["set", "orders", ENTITY]);
    let purge = ["purge", "orders", "--partition", "hidden", "--checkpoint", "position"];
    let (code, shown) = typed(&account, "no\n", &purge);
    assert!(code == 1 && shown.contains("delete 1 entity of orders? This cannot"), "{shown}");
    account.ok(["get", "orders", "hidden", "r"]);
    let (code, shown) = typed(&account, "yes\n", &purge);
    assert!(code == 0 && shown.contains("│ orders ┆ 1       ┆ 0"), "{shown}");
    let (code, shown) = typed(&account, "", &purge);
    assert!(code == 0 && !shown.contains("cannot be undone"), "nothing is left: {shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronization_counts_what_it_deletes_before_it_asks() {
    let account = Account::with_orders().await;
    account.ok(["tables", "create", "replica"]);
    account.ok(["set", "replica", ENTITY]);
    let sync = ["copy", "orders", "replica", "--sync", "--checkpoint", "position"];
    let (code, shown) = typed(&account, "no\n", &sync);
    let question = "delete 1 entity of replica that orders does not have? This cannot";
    assert!(code == 1 && shown.contains(question) && !shown.contains("hidden"), "{shown}");
    account.ok(["get", "replica", "hidden", "r"]);
    let (code, shown) = typed(&account, "yes\n", &sync);
    assert!(code == 0 && shown.contains("┆ 1       ┆ 0"), "{shown}");
    let (code, shown) = typed(&account, "", &sync);
    assert!(code == 0 && !shown.contains("cannot be undone"), "nothing is left: {shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_not_typed_where_it_would_be_seen() {
    let account = Account::start().await;
    let (code, shown) = typed(&account, "", &["profile", "add", "shop"]);
    assert!(code == 2 && shown.contains("a terminal would show the connection string"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_has_the_money_so_far_if_there_are_prices() {
    let account = Account::with_orders().await;
    account.ok(["set", "orders", ENTITY]);
    let prices = r#"{"currency":"EUR","per_10_000":{"table_scan":"0.5"}}"#;
    std::fs::write(account.path("prices.json"), prices).unwrap();
    let path = account.path("prices.json");
    let copy = ["copy", "orders", "copies", "--prices", path.to_str().unwrap()];
    let (code, shown) = typed(&account, "", &copy);
    assert_eq!(code, 0, "{shown:?}");
    assert!(
        shown.contains("entities: 1, requests: 2, no price of a table batch write, "),
        "{shown:?}"
    );
    let prices = r#"{"currency":"EUR","per_10_000":{"table_scan":"0.5","table_batch_write":"2"}}"#;
    std::fs::write(account.path("prices.json"), prices).unwrap();
    let (code, shown) = typed(&account, "", &copy);
    assert!(code == 0 && shown.contains("entities: 1, requests: 2, EUR 0.00025, "), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_shows_its_progress() {
    let account = Account::with_orders().await;
    account.ok(["set", "orders", ENTITY]);
    let (code, shown) = typed(&account, "", &["count", "orders"]);
    assert!(code == 0 && shown.contains("entities: 1, requests: 1, "), "{shown:?}");
    assert!(shown.contains("│ orders ┆ 1"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_progress_line_is_gone_when_the_input_of_an_import_fails() {
    let account = Account::start().await;
    let mut running = Running::start(&account, &["import", "orders", "-"]);
    let row = |row| format!("{{\"PartitionKey\":\"hidden\",\"RowKey\":\"{row:04}\"}}\n");
    running.types(&(0..250).map(row).collect::<String>());
    // The line is drawn again every half a second.
    running.shown.clear();
    running.shows("entities: ");
    // And the end of the file.
    running.types("no row\n\u{4}");
    let (code, shown) = running.ends();
    assert_eq!(code, 1, "{shown:?}");
    let (line, error) = shown.rsplit_once("rowkey: ").unwrap();
    let (_, line) = line.rsplit_once("entities: ").unwrap();
    assert!(line.ends_with("\r\x1b[2K"), "the line is erased: {line:?}");
    assert!(error.contains("line 251") && error.contains("from a file"), "{error:?}");
}
