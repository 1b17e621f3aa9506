//! A server with tables, and a cluster of processes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use futures::stream;
use rowkey::patterns::job::Job;
use rowkey::{DynamicEntity, StorageAccount, Table};
use rowkey_emulator::Server;

/// The key of the account: no plan, log or answer may have it.
pub(crate) const SECRET: &str = "c2VjcmV0IGtleSBvZiB0aGUgdGVzdHMgb2YgdGhlIGNsdXN0ZXI=";
/// Longer than all that a test waits for. It ends a test that would hang.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Cluster {
    pub(crate) server: Server,
    pub(crate) storage: StorageAccount,
    scheduler: Process,
    executors: Vec<Process>,
    pub(crate) address: String,
}

/// A process that ends with the test, and what it logs.
struct Process {
    child: Child,
    log: tempfile::NamedTempFile,
}

impl Process {
    /// Starts it, and reads the line in which it says that it listens.
    fn start(command: &mut Command) -> (Self, String) {
        let log = tempfile::NamedTempFile::new().unwrap();
        let errors = log.reopen().unwrap();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let process = Self { child, log };
        assert!(!line.is_empty(), "{}", process.logged());
        (process, line.trim_end().to_owned())
    }

    fn logged(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, without the environment of the test.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey-sql"));
    command.env_clear();
    command
}

impl Cluster {
    /// A scheduler and two executors.
    pub(crate) async fn start() -> Self {
        let mut cluster = Self::without_executors(&[]).await;
        for _ in 0..2 {
            cluster.add(true);
        }
        cluster
    }

    /// A scheduler with these arguments.
    pub(crate) async fn without_executors(args: &[&str]) -> Self {
        let server = Server::builder().account("shop", [SECRET]).start().await.unwrap();
        let storage = StorageAccount::from_connection_string(server.connection_string()).unwrap();
        // All that is logged, because it is searched for the secret.
        let mut command = program();
        command.args(["scheduler", "--port", "0", "--executor-timeout", "3", "--log", "debug"]);
        let (scheduler, line) = Process::start(command.args(args));
        let address = line.strip_prefix("the scheduler listens at ").unwrap().to_owned();
        Self { server, storage, scheduler, executors: Vec::new(), address }
    }

    /// Adds an executor, which knows the account or not, and waits until the scheduler knows it.
    pub(crate) fn add(&mut self, knows: bool) {
        let before = self.alive();
        let mut command = program();
        command.args(["executor", "--scheduler", &self.address, "--tasks", "2", "--log", "debug"]);
        let connection = self.server.connection_string();
        if knows {
            command.env("ROWKEY_CONNECTION_STRING", connection);
        } else {
            command.env(
                "ROWKEY_CONNECTION_STRING_X",
                connection
                    .replace("AccountName=shop", "AccountName=other")
                    .replace("/shop", "/other"),
            );
        }
        self.executors.push(Process::start(&mut command).0);
        self.wait(|| self.alive() > before);
    }

    /// Kills the executor that was added first, as the kernel does it.
    pub(crate) fn kill(&mut self) {
        drop(self.executors.remove(0));
    }

    /// Kills the scheduler.
    pub(crate) fn kill_scheduler(&mut self) {
        self.scheduler.child.kill().unwrap();
        self.scheduler.child.wait().unwrap();
    }

    /// Waits until the scheduler has lost an executor.
    pub(crate) fn lose(&self, before: usize) {
        self.wait(|| self.alive() < before);
    }

    /// Waits until no executor runs a task.
    pub(crate) fn rest(&self) {
        let count = |line| self.logged().matches(line).count();
        self.wait(|| count("Execute task  : [") == count("Finished task : ["));
    }

    #[expect(clippy::disallowed_methods, reason = "processes are waited for")]
    fn wait(&self, until: impl Fn() -> bool) {
        let started = Instant::now();
        while !until() {
            assert!(started.elapsed() < PATIENCE, "{}", self.logged());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// How many executors the scheduler knows.
    pub(crate) fn alive(&self) -> usize {
        self.get("/api/executors").matches("\"host\"").count()
    }

    /// The response of the scheduler's REST API.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// What all processes have logged.
    pub(crate) fn logged(&self) -> String {
        [&self.scheduler].into_iter().chain(&self.executors).map(Process::logged).collect()
    }

    /// A table with these entities.
    pub(crate) async fn table(
        &self,
        name: &str,
        rows: impl IntoIterator<Item = DynamicEntity>,
    ) -> Table {
        Self::fill(&self.storage, name, rows).await
    }

    /// A table of an account with these entities.
    pub(crate) async fn fill(
        account: &StorageAccount,
        name: &str,
        rows: impl IntoIterator<Item = DynamicEntity>,
    ) -> Table {
        let table = account.table(name);
        table.create().await.unwrap();
        let rows: Vec<_> = rows.into_iter().collect();
        Job::upsert(&table, stream::iter(rows)).run().await.unwrap();
        table
    }

    /// The program with these arguments.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command.env("ROWKEY_CONNECTION_STRING", self.server.connection_string());
        command.args(["--scan", "--output", "csv"]).args(args).stdin(Stdio::null());
        command
    }

    /// The program with these arguments and a query.
    pub(crate) fn client(&self, args: &[&str], query: &str) -> Command {
        let mut command = self.command(args);
        command.args(["-c", query]);
        command
    }

    /// The program with these arguments, whose queries run on the cluster.
    pub(crate) fn distributed(&self, args: &[&str], query: &str) -> Command {
        let mut command = self.client(args, query);
        command.args(["--scheduler", &self.address]);
        command
    }

    /// The sorted rows of a query on the cluster.
    pub(crate) fn rows(&self, args: &[&str], query: &str) -> Vec<String> {
        rows(&self.distributed(args, query).output().unwrap())
    }

    /// The same without the cluster.
    pub(crate) fn rows_here(&self, query: &str) -> Vec<String> {
        rows(&self.client(&[], query).output().unwrap())
    }
}

/// How a run ends: its exit code, and what it wrote to stderr.
pub(crate) fn ends(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// The rows that a run has written, sorted.
pub(crate) fn rows(output: &Output) -> Vec<String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut rows: Vec<_> = text.lines().skip(1).map(str::to_owned).collect();
    rows.sort();
    rows
}

/// Orders of 8 customers, which are 8 partitions of uneven size.
pub(crate) fn orders() -> impl Iterator<Item = DynamicEntity> {
    (0..8_u32).flat_map(|customer| {
        (0..400 + 300 * customer).map(move |number| {
            let mut order =
                DynamicEntity::new(format!("customer '{customer}'"), format!("{number:05}"));
            order.set("cents", i64::from(number % 1000));
            order.set("airport", format!("A{}", number % 7));
            order.set("id", rowkey::edm::Guid::from_u128(u128::from(number)));
            order
        })
    })
}

/// How many orders there are.
pub(crate) const ORDERS: u32 = 8 * 400 + 300 * 28;
