//! A server with an account of its own, and runs of the program whose output is searched for the account's key.

use std::ffi::OsStr;
use std::path::PathBuf;

use assert_cmd::Command;
use rowkey_emulator::{Server, Targets};
use tempfile::TempDir;
#[cfg(unix)]
use {
    rowkey::{Clock as _, SystemClock},
    rowkey_emulator::{Fault, Injected},
    std::process::{Child, Stdio},
    std::time::Duration,
};

/// The key of the account: no output may have it.
pub(crate) const SECRET: &str = "c2VjcmV0IGtleSBvZiB0aGUgdGVzdHMgb2YgdGhlIGNvbW1hbmQ=";

/// A server, and a folder that takes the place of the user's settings.
pub(crate) struct Account {
    pub(crate) server: Server,
    pub(crate) folder: TempDir,
}

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A run of the program without the environment of the tests.
pub(crate) fn program(folder: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey"));
    command.env_clear().env("HOME", folder.path()).env("APPDATA", folder.path());
    command.current_dir(folder.path());
    command
}

/// Runs the program, and checks that it shows no secret.
pub(crate) fn finish(command: &mut Command) -> Done {
    let output = command.output().unwrap();
    let done = Done {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    };
    for text in [&done.out, &done.err] {
        assert!(!text.contains(SECRET) && !text.contains("AccountKey="), "{text}");
        assert!(!text.contains("panicked"), "{text}");
    }
    done
}

impl Account {
    pub(crate) async fn start() -> Self {
        let server = Server::builder().account("shop", [SECRET]).start().await.unwrap();
        Self { server, folder: tempfile::tempdir().unwrap() }
    }

    /// The same, with a tenth of the documented targets.
    pub(crate) async fn throttled() -> Self {
        let targets = Targets {
            requests_per_account: 2_000,
            entities_per_partition: 200,
            messages_per_queue: 200,
        };
        let server = Server::builder().account("shop", [SECRET]).throttle(targets);
        Self { server: server.start().await.unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    /// The same, with the table `orders`.
    pub(crate) async fn with_orders() -> Self {
        let account = Self::start().await;
        account.ok(["tables", "create", "orders"]);
        account
    }

    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = program(&self.folder);
        command.env("ROWKEY_CONNECTION_STRING", self.server.connection_string()).args(args);
        command
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Done {
        finish(&mut self.command(args))
    }

    /// Runs with this text as stdin.
    pub(crate) fn fed<A: AsRef<OsStr>>(
        &self,
        input: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Done {
        finish(self.command(args).write_stdin(input))
    }

    /// The output of a run that succeeds and reports no error.
    pub(crate) fn ok<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        let done = self.run(args);
        assert_eq!((done.code, &*done.err), (0, ""), "{done:?}");
        done.out
    }

    /// The error of a run that ends with this code and writes nothing to stdout.
    pub(crate) fn fails<A: AsRef<OsStr>>(
        &self,
        code: i32,
        args: impl IntoIterator<Item = A>,
    ) -> String {
        let done = self.run(args);
        assert_eq!((done.code, &*done.out), (code, ""), "{done:?}");
        done.err
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Starts the program, and returns when it waits for a response that the server holds back as long as the fault exists.
#[cfg(unix)]
pub(crate) async fn started(account: &Account, args: &[&str], hold: Fault) -> (Child, Injected) {
    let held = account.server.inject(hold);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rowkey"));
    command.env_clear().current_dir(account.folder.path()).args(args);
    command.env("ROWKEY_CONNECTION_STRING", account.server.connection_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    while held.hits() == 0 {
        SystemClock.sleep(Duration::from_millis(10)).await;
    }
    (running, held)
}

/// Sends a signal to a program that waits, and returns how it ended. Entities with `hidden` in their keys are not shown.
#[cfg(unix)]
pub(crate) fn signalled((running, held): (Child, Injected), signal: &str) -> Done {
    let id = running.id().to_string();
    let kill = std::process::Command::new("kill").args([signal, &id]).status();
    assert!(kill.unwrap().success());
    let output = running.wait_with_output().unwrap();
    // The server may not know yet that its client is gone, and would execute the request.
    held.discard();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(!err.contains(SECRET) && !err.contains("hidden"), "{err}");
    Done { code: output.status.code().unwrap_or(-1), out, err }
}

/// A member of the JSON object in a line of output.
pub(crate) fn member(line: &str, name: &str) -> String {
    let object: serde_json::Value = serde_json::from_str(line).unwrap();
    object[name].as_str().unwrap().to_owned()
}
