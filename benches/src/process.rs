//! Server processes, and their figures from the kernel.

use std::io::{self, BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bare,
    Rowkey,
    Azurite,
}

impl Kind {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare hyper",
            Self::Rowkey => "rowkey-server",
            Self::Azurite => "Azurite",
        }
    }
}

/// All of them, in the order in which they are declared.
pub const KINDS: [Kind; 3] = [Kind::Bare, Kind::Rowkey, Kind::Azurite];

/// The services of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Table,
    Queue,
    Blob,
}

/// All services, in the order in which they are declared.
pub const SERVICES: [Service; 3] = [Service::Table, Service::Queue, Service::Blob];

/// A running server, which ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    hosts: [String; SERVICES.len()],
    child: Child,
}

impl Server {
    /// Starts a server; `None` when it is not installed.
    pub fn start(kind: Kind) -> io::Result<Option<Self>> {
        match kind {
            Kind::Azurite => azurite(),
            Kind::Bare => bare(false).map(Some),
            Kind::Rowkey => Self::rowkey(&[]).map(Some),
        }
    }

    /// Starts ours with more flags.
    pub fn rowkey(flags: &[&str]) -> io::Result<Self> {
        rowkey(flags)
    }

    /// A bare server whose answers have all headers that clients insist on.
    pub fn bare_for_clients() -> io::Result<Self> {
        bare(true)
    }

    /// Where a service is, with its port.
    pub fn host(&self, service: Service) -> &str {
        &self.hosts[service as usize]
    }

    /// CPU time so far, of all threads, to the nanosecond.
    pub fn cpu(&self) -> io::Result<Duration> {
        // A thread that runs is accounted for at the next tick; one that waits, at once.
        thread::sleep(Duration::from_millis(20));
        cpu(&self.child.id().to_string())
    }

    /// Memory in use, in bytes.
    pub fn memory(&self) -> io::Result<u64> {
        self.status("VmRSS:")
    }

    /// The most memory that was in use since it started, or since [`Server::forget_peak`], in bytes.
    pub fn peak_memory(&self) -> io::Result<u64> {
        self.status("VmHWM:")
    }

    /// Begins anew with what [`Server::peak_memory`] tells.
    pub fn forget_peak(&self) -> io::Result<()> {
        // From proc(5): 5 resets the peak resident set size to the current one.
        fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")
    }

    /// How many descriptors are open.
    pub fn descriptors(&self) -> io::Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }

    fn status(&self, name: &str) -> io::Result<u64> {
        status(&self.child.id().to_string(), name)
    }

    fn spawn(mut command: Command) -> io::Result<(Self, String)> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            let mut out = BufReader::new(out);
            out.read_line(&mut line)?;
            // A process that goes on writing must not be stopped by a full pipe.
            thread::spawn(move || io::copy(&mut out, &mut io::sink()));
        }
        Ok((Self { hosts: Default::default(), child }, line))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The most memory that this process has used, in bytes.
pub fn peak() -> io::Result<u64> {
    status("self", "VmHWM:")
}

fn status(process: &str, name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap_or_default();
    Ok(kib << 10)
}

/// CPU time of a process so far, `self` for this one.
pub fn cpu(process: &str) -> io::Result<Duration> {
    let mut nanoseconds = 0;
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        nanoseconds += text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Builds a program for release; returns where it is.
pub fn build(
    manifest: &str,
    package: &str,
    program: &str,
    features: &[&str],
) -> io::Result<PathBuf> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--release", "--quiet", "--message-format", "json"]);
    command.args(["-p", package, "--bin", program, "--features", &features.join(",")]);
    command.arg("--manifest-path").arg(folder().join(manifest));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let lines = output.stdout.split(|&byte| byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok());
    let mut executables =
        messages.filter_map(|message| Some(message["executable"].as_str()?.into()));
    executables.next_back().ok_or_else(|| io::Error::other(format!("{program} was not built")))
}

fn bare(all_headers: bool) -> io::Result<Server> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("serve");
    if all_headers {
        command.arg("all-headers");
    }
    let (mut server, line) = Server::spawn(command)?;
    server.hosts = SERVICES.map(|_| line.trim().to_owned());
    Ok(server)
}

fn rowkey(flags: &[&str]) -> io::Result<Server> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = if let Some(program) = PROGRAM.get() {
        program
    } else {
        let built = build("../Cargo.toml", "rowkey-server", "rowkey-server", &[])?;
        PROGRAM.get_or_init(|| built)
    };
    let mut command = Command::new(program);
    command.args(["--tablePort", "0", "--blobPort", "0", "--queuePort", "0", "--silent"]);
    command.args(flags);
    let (mut server, line) = Server::spawn(command)?;
    let ready: serde_json::Value = serde_json::from_str(&line)?;
    server.hosts = ["table", "queue", "blob"].map(|service| {
        let endpoint = ready[service].as_str().unwrap_or_default();
        let host = endpoint.trim_start_matches("http://").split('/').next().unwrap_or_default();
        host.to_owned()
    });
    Ok(server)
}

fn azurite() -> io::Result<Option<Server>> {
    let program = cached("azurite/node_modules/azurite/dist/src/azurite.js");
    if !program.exists() {
        return Ok(None);
    }
    // It cannot choose ports by itself; these were free a moment ago.
    let free = || TcpListener::bind("127.0.0.1:0");
    let mut hosts = <[String; SERVICES.len()]>::default();
    let mut command = Command::new("node");
    command.arg(program);
    let listeners = [free()?, free()?, free()?];
    for ((host, listener), service) in
        hosts.iter_mut().zip(&listeners).zip(["table", "queue", "blob"])
    {
        let address = listener.local_addr()?;
        *host = address.to_string();
        command.args([format!("--{service}Host"), "127.0.0.1".to_owned()]);
        command.args([format!("--{service}Port"), address.port().to_string()]);
    }
    drop(listeners);
    command.args(["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]);
    // Its log goes to a file unless it is told to be silent; what it says when it is ready does not.
    command.current_dir(cached("")).arg("--silent");
    let begin = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let mut server = Server { hosts, child };
    let listens = |host: &String| std::net::TcpStream::connect(host).is_ok();
    while !server.hosts.iter().all(listens) {
        if begin.elapsed() > Duration::from_secs(60) || server.child.try_wait()?.is_some() {
            return Err(io::Error::other("Azurite does not start"));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(Some(server))
}

/// The folder in which `install.sh` installs third-party servers.
pub fn cached(path: &str) -> PathBuf {
    folder().join("cache").join(path)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}
