//! The program in a directory of its own.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rowkey_emulator::{ServerClock, Service};

use crate::support::Client;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rowkey-server");

/// A connection to a service of the program with this ready line.
pub(crate) fn connect(ready: &str, service: Service) -> Client {
    let ready: serde_json::Value = serde_json::from_str(ready).unwrap();
    let name = match service {
        Service::Blob => "blob",
        Service::Queue => "queue",
        Service::Table => "table",
    };
    Client::at(service, ready[name].as_str().unwrap(), &ServerClock::real()).unwrap()
}

/// A working directory of a test's own, which goes when the test ends. `DIR` stands for it in flags.
pub(crate) struct Work(pub(crate) PathBuf);

impl Work {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rowkey-readme-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A file below the working directory, with the directories that it needs.
    pub(crate) fn with(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Starts the program there, and returns it with its ready line, or its log if it ends.
    pub(crate) fn run(
        &self,
        flags: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Started, String> {
        self.spawn(Command::new(PROGRAM), flags, variables)
    }

    /// The same for a program that can make no file longer than a number of bytes, as if the disk were full.
    #[cfg(target_os = "linux")]
    pub(crate) fn run_with_files_up_to(
        &self,
        bytes: u32,
        flags: &[&str],
    ) -> Result<Started, String> {
        let mut command = Command::new("sh");
        let script = format!("trap '' XFSZ; exec prlimit --fsize={bytes}: \"$0\" \"$@\"");
        command.args(["-c", &script, PROGRAM]);
        self.spawn(command, flags, &[])
    }

    fn spawn(
        &self,
        mut command: Command,
        flags: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Started, String> {
        let directory = self.0.to_str().unwrap();
        command
            .current_dir(&self.0)
            .args(["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"])
            .args(flags.iter().map(|flag| flag.replace("DIR", directory)))
            .env_remove("AZURITE_ACCOUNTS")
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut started = Started { child: command.spawn().unwrap(), ready: String::new() };
        let out = started.child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut started.ready).unwrap();
        if !started.ready.is_empty() {
            return Ok(started);
        }
        let mut log = String::new();
        started.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        Err(log)
    }

    /// Starts the program, which must be ready.
    pub(crate) fn starts(&self, flags: &[&str]) -> Started {
        self.run(flags, &[]).unwrap_or_else(|log| panic!("{flags:?}: {log}"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program, which is killed when this is dropped.
pub(crate) struct Started {
    child: Child,
    pub(crate) ready: String,
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Started {
    /// A connection to a service of the program.
    pub(crate) fn connect(&self, service: Service) -> Client {
        connect(&self.ready, service)
    }

    /// Ends the program by a signal, and returns its log.
    pub(crate) fn end(mut self) -> String {
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(told.success());
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        log
    }
}
