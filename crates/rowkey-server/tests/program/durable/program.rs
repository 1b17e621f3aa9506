//! The program in a process of its own, and a directory that goes when the test ends.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rowkey_emulator::{Server, ServerClock, Service, SyncPolicy};

use crate::support::Client;

/// A directory of a test's own.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    /// One that is not there yet.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rowkey-durable-{}-{number}", std::process::id());
        // Where files are in memory, if anywhere: they survive a process as well as others do,
        // and no request waits for a disk.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = parent.join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Another one that holds what this one holds now.
    pub(super) fn copy(&self) -> Self {
        let copy = Self::new();
        copy_all(&self.0, &copy.0);
        copy
    }

    /// Appends this to its name.
    pub(super) fn rename(&mut self, end: &str) {
        let mut path = self.0.clone().into_os_string();
        path.push(end);
        fs::rename(&self.0, &path).unwrap();
        self.0 = path.into();
    }

    /// A server in this process that keeps its data here.
    pub(super) async fn serve(&self) -> Server {
        Server::builder().location(self.path(), SyncPolicy::default()).start().await.unwrap()
    }

    /// Why there can be no server that keeps its data here.
    pub(super) async fn refusal(&self) -> String {
        let started = Server::builder().location(self.path(), SyncPolicy::default()).start().await;
        started.map(drop).unwrap_err().to_string()
    }
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_all(&from, &to);
            continue;
        }
        // Journals are mostly a hole at their end.
        let (file, mut copy) = (File::open(&from).unwrap(), File::create(&to).unwrap());
        let known = file.metadata().unwrap();
        io::copy(&mut file.take(known.blocks() * 512), &mut copy).unwrap();
        copy.set_len(known.len()).unwrap();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The program, which is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
    ready: String,
}

impl Program {
    /// Starts it on free ports, and waits until it is ready.
    pub(super) fn start(location: &Path, more: &[&str]) -> Self {
        Self::ready(&mut command(location, more))
    }

    fn ready(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(!ready.is_empty(), "it does not start: {:?}", child.wait_with_output());
        Self { child, ready }
    }

    /// Lets it run to an end that comes by itself.
    pub(super) fn fail(location: &Path) -> Output {
        command(location, &[]).output().unwrap()
    }

    /// The same for a user without privileges.
    pub(super) fn fail_as_nobody_else(location: &Path) -> Output {
        let mut command = command(location, &[]);
        // The superuser may write everything.
        let home = Directory::new();
        if fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0) {
            fs::create_dir(home.path()).unwrap();
            let program = home.path().join("program");
            fs::copy(command.get_program(), &program).unwrap();
            let mut copy = Command::new(program);
            copy.args(command.get_args()).uid(65_534).stderr(Stdio::piped());
            command = copy;
        }
        command.output().unwrap()
    }

    /// Starts it so that it can make no file longer than a number of bytes, as if the disk were full.
    #[cfg(target_os = "linux")]
    pub(super) fn start_with_files_up_to(bytes: u32, location: &Path, more: &[&str]) -> Self {
        let usual = command(location, more);
        let mut command = Command::new("sh");
        let script = format!("trap '' XFSZ; exec prlimit --fsize={bytes}: \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(usual.get_program()).args(usual.get_args());
        Self::ready(command.stderr(Stdio::piped()))
    }

    /// Lets files of the running program be so long, or as long as they like.
    #[cfg(target_os = "linux")]
    pub(super) fn let_files_be(&self, bytes: &str) {
        let (id, limit) = (self.child.id().to_string(), format!("--fsize={bytes}:"));
        assert!(Command::new("prlimit").args(["--pid", &id, &limit]).status().unwrap().success());
    }

    /// Where its services are.
    pub(super) fn addresses(&self) -> Addresses {
        Addresses(self.ready.clone())
    }

    /// Kills it as it stands.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM, waits for the end, and returns the log.
    pub(super) fn terminate(mut self) -> (bool, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(id).status().unwrap().success());
        let status = self.child.wait().unwrap();
        let mut log = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            stderr.read_to_string(&mut log).unwrap();
        }
        (status.success(), log)
    }
}

/// Where the services of a program are, which may be dead.
#[derive(Clone, Debug)]
pub(super) struct Addresses(String);

impl Addresses {
    /// A connection to a service.
    pub(super) fn connect(&self, service: Service) -> Option<Client> {
        let name = match service {
            Service::Blob => "\"blob\":\"",
            Service::Queue => "\"queue\":\"",
            Service::Table => "\"table\":\"",
        };
        let (_, endpoint) = self.0.split_once(name)?;
        let (endpoint, _) = endpoint.split_once('"')?;
        Client::at(service, endpoint, &ServerClock::real()).ok()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(location: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowkey-server"));
    command
        .args(["--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--location"])
        .arg(location)
        .args(more)
        .env_remove("AZURITE_ACCOUNTS")
        .stderr(Stdio::piped());
    command
}
