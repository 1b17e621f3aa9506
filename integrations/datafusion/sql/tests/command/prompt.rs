//! The prompt, on a pseudoterminal that `script` makes.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rowkey::{Clock as _, SystemClock};

use crate::support::{Account, is_clean};

/// The program on a terminal.
struct Running {
    program: Child,
    typed: ChildStdin,
    out: ChildStdout,
    shown: String,
}

impl Running {
    fn start(account: &Account, args: &str) -> Self {
        let mut command = Command::new("script");
        command
            .env_clear()
            .env("HOME", account.folder.path())
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh");
        command.env("ROWKEY_CONNECTION_STRING", account.server.connection_string());
        command.args([
            "-qefc",
            &format!("exec {} {args}", env!("CARGO_BIN_EXE_rowkey-sql")),
            "/dev/null",
        ]);
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (typed, out) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
        Self { program, typed, out, shown: String::new() }
    }

    /// Waits until the terminal has shown a text since the last one.
    fn shows(&mut self, text: &str) {
        let mut buffer = [0; 4096];
        while !self.shown.contains(text) {
            let length = self.out.read(&mut buffer).unwrap();
            assert!(length > 0, "the program has ended: {}", self.shown);
            self.shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        is_clean(&self.shown);
        let end = self.shown.find(text).unwrap() + text.len();
        self.shown.drain(..end);
    }

    fn types(&mut self, text: &str) {
        self.typed.write_all(text.as_bytes()).unwrap();
        self.typed.flush().unwrap();
    }

    /// The exit code.
    fn ends(mut self) -> i32 {
        let mut rest = String::new();
        let _ = self.out.read_to_string(&mut rest);
        self.program.wait().unwrap().code().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_runs_statements_and_keeps_a_history() {
    let account = Account::with_orders().await;
    let mut running = Running::start(&account, "");
    running.shows("sql> ");
    running.types("SELECT COUNT(*) AS n\r");
    running.shows("...> ");
    running.types("FROM orders WHERE PartitionKey = 'customer-1';\r");
    running.shows("│ 10 │");
    running.shows("sql> ");
    running.types(".tables\r");
    running.shows("│ shop    ┆ orders ┆ BASE TABLE │");
    running.types(".schema orders\r");
    running.shows("│ cents        ┆ Int64");
    running.types(".help\r");
    running.shows("Ctrl-C stops a statement");
    // An error does not end it.
    running.types("SELECT nothing;\r");
    running.shows("rowkey-sql: ");
    running.shows("sql> ");
    running.types("\u{4}");
    assert_eq!(running.ends(), 0);
    let history = std::fs::read_to_string(account.path(".local/state/rowkey/sql_history")).unwrap();
    assert!(history.contains("PartitionKey = 'customer-1'"), "{history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_asks_before_a_whole_table_is_read() {
    let account = Account::with_orders().await;
    for (answer, code, expected) in [("yes\r", 0, "│ 30 │"), ("\r", 1, "the answer was not `yes`")]
    {
        let mut running = Running::start(&account, "-c 'SELECT COUNT(*) AS n FROM orders'");
        running.shows("The service reads the whole table orders for it. Type `yes` to go on: ");
        running.types(answer);
        running.shows(expected);
        assert_eq!(running.ends(), code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_stops_a_statement_and_not_the_prompt() {
    let account = Account::start().await;
    let mut running = Running::start(&account, "");
    running.shows("sql> ");
    running.types("SELECT SUM(value % 7) FROM generate_series(1, 1000000000000000);\r");
    running.shows("\n");
    SystemClock.sleep(Duration::from_millis(500)).await;
    running.types("\u{3}");
    running.shows("stopped by Ctrl-C");
    running.shows("sql> ");
    running.types("SELECT 41 + 1 AS answer;\r");
    running.shows("│ 42     │");
    running.types(".quit\r");
    assert_eq!(running.ends(), 0);
}
