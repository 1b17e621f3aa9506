//! A server with accounts, and runs of the program whose output is searched for the accounts' keys.

use std::ffi::OsStr;
use std::path::PathBuf;

use assert_cmd::Command;
use rowkey::{DynamicEntity, StorageAccount};
use rowkey_emulator::Server;
use tempfile::TempDir;

/// The key of the account: no output may have it.
pub(crate) const SECRET: &str = "c2VjcmV0IGtleSBvZiB0aGUgdGVzdHMgb2YgdGhlIGNvbW1hbmQ=";
/// The key of another account.
const OTHER_SECRET: &str = "YW5vdGhlciBrZXkgb2YgdGhlIHRlc3RzIG9mIHRoZSBjb21tYW5k";

/// A server with the accounts `shop`, which is the default, and `archive`, and a folder that takes the place of the user's.
pub(crate) struct Account {
    pub(crate) server: Server,
    pub(crate) storage: StorageAccount,
    pub(crate) folder: TempDir,
}

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the program, and checks that it shows no secret.
pub(crate) fn finish(command: &mut Command) -> Done {
    let output = command.output().unwrap();
    let done = Done {
        code: output.status.code().unwrap(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8(output.stderr).unwrap(),
    };
    is_clean(&done.out);
    is_clean(&done.err);
    done
}

/// Checks that a text has no secret.
pub(crate) fn is_clean(text: &str) {
    for secret in [SECRET, OTHER_SECRET, "AccountKey=", "panicked"] {
        assert!(!text.contains(secret), "{text}");
    }
}

impl Account {
    pub(crate) async fn start() -> Self {
        let server = Server::builder()
            .account("shop", [SECRET])
            .account("archive", [OTHER_SECRET])
            .start()
            .await
            .unwrap();
        let storage = StorageAccount::from_connection_string(server.connection_string()).unwrap();
        Self { server, storage, folder: tempfile::tempdir().unwrap() }
    }

    /// The same, with 30 orders of three customers.
    pub(crate) async fn with_orders() -> Self {
        let account = Self::start().await;
        let orders = (0..30_i64).map(|number| {
            let mut order =
                DynamicEntity::new(format!("customer-{}", number % 3), format!("{number:04}"));
            order.set("cents", number * 100);
            if number % 2 == 0 {
                order.set("Note", format!("note {number}"));
            }
            order
        });
        account.table("orders", orders).await;
        account
    }

    /// A table with these entities.
    pub(crate) async fn table(
        &self,
        name: &str,
        entities: impl IntoIterator<Item = DynamicEntity>,
    ) {
        fill(&self.storage, name, entities).await;
    }

    /// The connection string of the account `archive`.
    pub(crate) fn archive(&self) -> String {
        self.server.connection_string().replace(SECRET, OTHER_SECRET).replace("shop", "archive")
    }

    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey-sql"));
        command.env_clear().env("HOME", self.folder.path()).current_dir(self.folder.path());
        command.env("ROWKEY_CONNECTION_STRING", self.server.connection_string()).args(args);
        command
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Done {
        finish(&mut self.command(args))
    }

    /// The output of a run that succeeds and reports no error.
    pub(crate) fn ok<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        let done = self.run(args);
        assert_eq!((done.code, &*done.err), (0, ""), "{done:?}");
        done.out
    }

    /// The output of statements that may read whole tables.
    pub(crate) fn sql(&self, text: &str) -> String {
        self.ok(["--scan", "-c", text])
    }

    /// The error of a run that ends with this code and writes nothing to stdout.
    pub(crate) fn fails<A: AsRef<OsStr>>(
        &self,
        code: i32,
        args: impl IntoIterator<Item = A>,
    ) -> String {
        let done = self.run(args);
        assert_eq!((done.code, &*done.out), (code, ""), "{done:?}");
        assert!(done.err.starts_with("rowkey-sql: ") || code == 2, "{done:?}");
        done.err
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Creates a table with these entities.
pub(crate) async fn fill(
    storage: &StorageAccount,
    name: &str,
    entities: impl IntoIterator<Item = DynamicEntity>,
) {
    let table = storage.table(name);
    table.create().await.unwrap();
    for entity in entities {
        table.insert(&entity).await.unwrap();
    }
}
