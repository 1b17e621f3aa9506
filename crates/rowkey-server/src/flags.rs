//! The program's flags. Flags for compatibility with Azurite are in [`azurite`], those of the control plane in `control`.

mod azurite;
#[cfg(feature = "control")]
mod control;
mod failing;
#[cfg(test)]
mod given_to_azurite;

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use clap::{ArgAction, Parser};
use rowkey_emulator::{Identity, Server, ServerBuilder, Service, SyncPolicy};

use crate::pfx;
#[cfg(feature = "seeds")]
use crate::seeds;

use azurite::Azurite;
#[cfg(feature = "control")]
use control::Control;
use failing::Failing;

/// A server that speaks the protocol of Azure Table, Queue and Blob storage.
///
/// It listens on Azurite's ports, with the same account, and accepts Azurite's flags. Data is kept
/// in memory, and with --location also on disk. It sends no data to other hosts.
// Without `Debug`, because accounts contain keys.
#[derive(Parser)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
#[command(name = "rowkey-server", version, disable_version_flag = true, args_override_self = true)]
#[command(
    after_help = "`rowkey-server health` asks a running server whether it answers; see `rowkey-server health --help`."
)]
pub(crate) struct Flags {
    /// The host that the Blob service listens on.
    #[arg(long, visible_alias = "blobHost", default_value = "127.0.0.1", value_name = "HOST")]
    blob_host: String,
    /// The port of the Blob service; 0 for a free port.
    #[arg(long, visible_alias = "blobPort", default_value_t = 10000, value_name = "PORT")]
    blob_port: u16,
    /// The host that the Queue service listens on.
    #[arg(long, visible_alias = "queueHost", default_value = "127.0.0.1", value_name = "HOST")]
    queue_host: String,
    /// The port of the Queue service; 0 for a free port.
    #[arg(long, visible_alias = "queuePort", default_value_t = 10001, value_name = "PORT")]
    queue_port: u16,
    /// The host that the Table service listens on.
    #[arg(long, visible_alias = "tableHost", default_value = "127.0.0.1", value_name = "HOST")]
    table_host: String,
    /// The port of the Table service; 0 for a free port.
    #[arg(long, visible_alias = "tablePort", default_value_t = 10002, value_name = "PORT")]
    table_port: u16,
    /// Accounts instead of the development account: `name:key1[:key2];name2:…`.
    #[arg(long, env = "AZURITE_ACCOUNTS", hide_env_values = true, value_name = "ACCOUNTS")]
    accounts: Option<String>,
    /// Show the keys of accounts from --accounts in the connection string of the ready line.
    /// Without this, it contains only the published key of the development account.
    #[arg(long)]
    pub(crate) show_keys: bool,
    /// Block the names of deleted tables (40 s), queues and containers (30 s), as Azure does.
    /// Without this, they can be reused at once.
    #[arg(long, conflicts_with = "loose")]
    strict: bool,
    /// Do not enforce limits on entities and filters: 252 properties, 64 KiB in a value, 1 MiB in
    /// an entity, 15 comparisons in a filter. Nothing else changes.
    #[arg(short = 'L', long)]
    loose: bool,
    /// Speak HTTPS, with a certificate that is generated at the start unless --cert gives one.
    #[arg(long)]
    https: bool,
    /// The certificate for HTTPS, a PEM file.
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// The certificate's key, a PEM file.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Accept bearer tokens: of any issuer, and everything but their signatures is checked
    /// (`basic`); or only those that this program issues, with the roles of Azure (`issue`).
    #[arg(long, value_name = "LEVEL", ignore_case = true)]
    oauth: Option<Oauth>,
    /// The port of the token endpoint of --oauth issue; 0 for a free port. Its host is that of the
    /// Table service.
    #[arg(long, default_value_t = 10004, value_name = "PORT")]
    oauth_port: u16,
    /// The identities of --oauth issue: a JSON file with an array of applications, managed identities
    /// and users, with their secrets and roles. Without this, there is one application with a
    /// published secret, and one managed identity, with all roles.
    #[arg(long, value_name = "FILE")]
    oauth_identities: Option<PathBuf>,
    /// The directory to keep data in, so that acknowledged changes survive the end of the program,
    /// however it ends. It is created if it does not exist. Without this, data is kept in memory
    /// and ends with the program.
    #[arg(short, long, value_name = "DIR", conflicts_with = "inMemoryPersistence")]
    pub(crate) location: Option<PathBuf>,
    /// Take over the tables, queues and blobs of Azurite from the directory that its --location named. Azurite must not be
    /// running. The directory is only read. With --location, that must be new.
    #[arg(long, value_name = "DIR")]
    import_azurite: Option<PathBuf>,
    /// Tables, queues and blobs at the start, from a file of JSON, from JSON lines of one table (`orders.jsonl`,
    /// `orders.jsonl.gz`), from a backup that `rowkey export` wrote, or from all of these in a folder; may be repeated. With
    /// --location, only if that is new.
    #[cfg(feature = "seeds")]
    #[arg(long, value_name = "FILE")]
    seed: Vec<PathBuf>,
    /// When to sync data to the disk, so that it survives a loss of power: before each response
    /// (`always`), or at an interval, by default of 1000 ms (`interval`, `interval:MS`).
    #[arg(long, value_name = "WHEN", requires = "location")]
    sync: Option<Sync>,
    /// The number of threads that answer requests; by default half the number of cores, at most 8.
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// An additional host name under which web pages of other origins may reach the server.
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// End when standard input is closed. A program that starts the server and holds the other end of a pipe takes the server
    /// with it, however it ends.
    #[arg(long)]
    pub(crate) end_with_stdin: bool,
    /// Log errors only.
    #[arg(short, long)]
    pub(crate) silent: bool,
    /// Log every request: method, address, status, and the code and the rule of its rejection; to
    /// FILE, which grows without limit, or to standard error.
    #[arg(short, long, num_args = 0..=1, default_missing_value = "", value_name = "FILE")]
    pub(crate) debug: Option<PathBuf>,
    /// Log the string to sign of each request that is rejected for its signature, with --debug. It
    /// contains the keys of entities, the names of blobs and the parameters of requests.
    #[arg(long, requires = "debug")]
    debug_signing: bool,
    /// Print the version.
    #[arg(short, long, short_alias = 'V', action = ArgAction::Version)]
    version: Option<bool>,

    #[command(flatten)]
    pub(crate) failing: Failing,
    #[cfg(feature = "control")]
    #[command(flatten)]
    pub(crate) control: Control,
    #[command(flatten)]
    azurite: Azurite,
}

/// Which checks tokens must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Oauth {
    /// Format, times, issuer and audience.
    Basic,
    /// The signature, the times and the audience, and the roles of the identity.
    Issue,
}

/// When to sync data to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    Always,
    /// At this interval in milliseconds, or at the default one.
    Interval(Option<u64>),
}

impl FromStr for Sync {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "always" => Ok(Self::Always),
            None if text == "interval" => Ok(Self::Interval(None)),
            Some(("interval", milliseconds)) => milliseconds
                .parse()
                .ok()
                .filter(|milliseconds| *milliseconds > 0)
                .map(|milliseconds| Self::Interval(Some(milliseconds)))
                .ok_or("the interval must be a number of milliseconds, at least 1"),
            _ => Err("expected `always`, `interval` or `interval:MILLISECONDS`"),
        }
    }
}

impl Flags {
    /// Messages about flags without effect, or with a different effect than in Azurite.
    pub(crate) fn notes(&self) -> Vec<&'static str> {
        let loose = "--loose: limits on entities and filters are not enforced (252 properties, \
                     64 KiB in a value, 1 MiB in an entity, 15 comparisons)";
        let mut notes = self.azurite.notes(self.cert.is_some(), self.key.is_some());
        notes.extend(self.loose.then_some(loose));
        let is_http = !self.https && self.cert.is_none();
        let plain = "--oauth issue without --https: the libraries of Microsoft demand HTTPS, of the \
                     authority and where they send tokens";
        notes.extend((self.oauth == Some(Oauth::Issue) && is_http).then_some(plain));
        notes
    }

    /// Rejects a log file that would be among the data in the location, before anything is written.
    pub(crate) fn check_log(&self) -> io::Result<()> {
        let (Some(location), Some(file)) = (&self.location, &self.debug) else { return Ok(()) };
        if file.as_os_str().is_empty() || !rowkey_emulator::is_data_file(location, file) {
            return Ok(());
        }
        let message = format!(
            "--debug: {} is a name of the server's own data in {}; name another file",
            file.display(),
            location.display()
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    }

    /// The server that the flags describe, or an error for flags that cannot be satisfied.
    pub(crate) fn builder(self) -> io::Result<ServerBuilder> {
        let certificate = self.certificate()?;
        let [blob_port, queue_port, table_port] = self.azurite.ports([
            (Service::Blob, self.blob_port),
            (Service::Queue, self.queue_port),
            (Service::Table, self.table_port),
        ]);
        let identities = self.identities()?;
        let mut builder = Server::builder()
            .journal(self.journal())
            .blob(self.blob_host, blob_port)
            .queue(self.queue_host, queue_port)
            .table(self.table_host, table_port)
            .reuse_names(!self.strict)
            .debug_signing(self.debug_signing)
            .threads(self.threads.unwrap_or_else(usual_threads));
        builder = self.azurite.apply(builder);
        if let Some(targets) = self.failing.targets() {
            builder = builder.throttle(targets);
        }
        if let Some(location) = self.location {
            let sync = self.sync.map_or_else(SyncPolicy::default, SyncPolicy::from);
            builder = builder.location(location, sync);
            // In a volume of a container everything may be in one directory.
            let files = [self.debug, self.cert, self.key, self.oauth_identities];
            let files = files.into_iter().flatten();
            builder = files.fold(builder, ServerBuilder::allow_in_location);
        }
        for (name, keys) in accounts(self.accounts.as_deref().unwrap_or_default())? {
            builder = builder.account(name, keys);
        }
        if let Some((certificate, key)) = certificate {
            builder = builder.certificate(certificate, key);
        } else if self.https {
            builder = builder.https();
        }
        if let Some(directory) = self.import_azurite {
            builder = builder.import_azurite(directory);
        }
        #[cfg(feature = "seeds")]
        for path in &self.seed {
            builder = seeds::read(path)?.into_iter().fold(builder, ServerBuilder::seed);
        }
        for name in self.allow_host {
            builder = builder.allow_host(name);
        }
        match self.oauth {
            Some(Oauth::Basic) => builder = builder.oauth(),
            Some(Oauth::Issue) => {
                builder = builder.issue_tokens().authority_port(self.oauth_port);
                builder = identities.into_iter().fold(builder, ServerBuilder::identity);
            }
            None => {}
        }
        Ok(if self.loose { builder.loose() } else { builder })
    }

    /// Whether requests are recorded. Only the control plane shows them.
    fn journal(&self) -> bool {
        #[cfg(feature = "control")]
        return self.control.is_on();
        #[cfg(not(feature = "control"))]
        false
    }

    /// The identities in the file of --oauth-identities.
    fn identities(&self) -> io::Result<Vec<Identity>> {
        let wrong = |message| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        let Some(file) = &self.oauth_identities else { return Ok(Vec::new()) };
        if self.oauth != Some(Oauth::Issue) {
            return wrong(
                "--oauth-identities: tokens are not issued; add --oauth issue".to_owned(),
            );
        }
        let text = std::fs::read_to_string(file).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot read {}: {error}", file.display()))
        })?;
        match serde_json::from_str::<Vec<Identity>>(&text) {
            Ok(identities) if identities.is_empty() => wrong(format!(
                "--oauth-identities: {} has no identities; leave the flag out for the published ones",
                file.display()
            )),
            Ok(identities) => Ok(identities),
            // The place and the rule, without the text, which may hold a secret.
            Err(error) => wrong(format!(
                "--oauth-identities: {} is not an array of identities: line {}, column {}: {}",
                file.display(),
                error.line(),
                error.column(),
                rule(&error)
            )),
        }
    }

    /// The certificate and its key, in PEM. A flag without its counterpart is an error, because it
    /// would otherwise be silently ignored and the server would speak HTTP.
    fn certificate(&self) -> io::Result<Option<(String, String)>> {
        let wrong = |message| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        match (&self.cert, &self.key) {
            (Some(certificate), Some(key)) => Ok(Some((read(certificate)?, read(key)?))),
            (None, None) => Ok(None),
            (Some(file), None) => match self.azurite.password() {
                // The certificate and its key are in one text.
                Some(password) => pfx::read(file, password).map(|pem| Some((pem.clone(), pem))),
                None => wrong("--cert: a certificate needs its key; add --key"),
            },
            (None, Some(_)) => wrong("--key: a key needs its certificate; add --cert"),
        }
    }
}

/// The clients that send the requests use the other half of the cores.
fn usual_threads() -> NonZeroUsize {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new((cores / 2).min(8)).unwrap_or(NonZeroUsize::MIN)
}

impl From<Sync> for SyncPolicy {
    fn from(sync: Sync) -> Self {
        match sync {
            Sync::Always => Self::Always,
            Sync::Interval(None) => Self::default(),
            Sync::Interval(Some(milliseconds)) => {
                Self::Interval(Duration::from_millis(milliseconds))
            }
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::InvalidData => {
                "; it is not PEM: convert DER with `openssl x509 -inform der`, and .pfx files with \
                 `openssl pkcs12 -nodes`"
            }
            _ => "",
        };
        io::Error::new(error.kind(), format!("cannot read {}: {error}{hint}", path.display()))
    })
}

/// The rule that JSON breaks, without a value, which may be a secret.
fn rule(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
    if text.starts_with("invalid type") || text.starts_with("invalid value") {
        return "a value has another type than expected".to_owned();
    }
    text.to_owned()
}

/// Parses `name:key1[:key2];name2:…`.
fn accounts(text: &str) -> io::Result<Vec<(&str, Vec<&str>)>> {
    text.split(';')
        .filter(|account| !account.trim().is_empty())
        .map(|account| {
            let mut parts = account.trim().split(':');
            let name = parts.next().unwrap_or_default();
            let keys: Vec<&str> = parts.filter(|key| !key.is_empty()).collect();
            if name.is_empty() || !(1..=2).contains(&keys.len()) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "AZURITE_ACCOUNTS: accounts are written name:key1[:key2] and separated by `;`",
                ));
            }
            Ok((name, keys))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_one_key_or_two() {
        assert_eq!(accounts("").unwrap(), []);
        let two = accounts("a:azE=;b:azE=:azI=;").unwrap();
        assert_eq!(two, [("a", vec!["azE="]), ("b", vec!["azE=", "azI="])]);
        for wrong in ["a", "a:", ":k", "a:1:2:3"] {
            let error = accounts(wrong).unwrap_err();
            assert!(error.to_string().starts_with("AZURITE_ACCOUNTS: "), "{wrong}: {error}");
        }
    }

    #[test]
    fn azurite_flags_are_accepted() {
        let flags = Flags::try_parse_from([
            "rowkey-server",
            "--blobPort",
            "0",
            "--queuePort",
            "0",
            "--tablePort",
            "0",
            "--tableHost",
            "localhost",
            "--inMemoryPersistence",
            "--skipApiVersionCheck",
            "--silent",
            "--loose",
            "--disableProductStyleUrl",
        ])
        .unwrap();
        assert_eq!(flags.notes().len(), 3);
        assert!(flags.builder().is_ok());
    }

    #[test]
    fn location_and_sync_set_the_durability_options() {
        let parse = |flags: &[&str]| Flags::try_parse_from([&["rowkey-server"], flags].concat());
        assert!(parse(&["--location", "x"]).unwrap().builder().is_ok());
        for (text, sync) in [
            ("always", Sync::Always),
            ("interval", Sync::Interval(None)),
            ("interval:50", Sync::Interval(Some(50))),
        ] {
            assert_eq!(parse(&["-l", "x", "--sync", text]).unwrap().sync, Some(sync));
        }
        for wrong in ["never", "interval:", "interval:0", "interval:1s"] {
            assert!(parse(&["--location", "x", "--sync", wrong]).is_err(), "{wrong}");
        }
        assert!(parse(&["--sync", "always"]).is_err(), "of what?");
        assert!(parse(&["--location", "x", "--inMemoryPersistence"]).is_err());
    }

    #[test]
    fn cert_requires_key_and_oauth_requires_a_level() {
        for wrong in [&["--oauth", "full"][..], &["--oauth"]] {
            let flags = [&["rowkey-server"], wrong].concat();
            assert!(Flags::try_parse_from(flags).is_err(), "{wrong:?}");
        }
        for (half, named) in [
            (&["--cert", "x"][..], "add --key"),
            (&["--key", "x"], "add --cert"),
            (&["--cert", "/no/such/file", "--pwd", "y"], "/no/such/file"),
        ] {
            let flags = [&["rowkey-server"], half].concat();
            let error = Flags::try_parse_from(flags).unwrap().builder().unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
        let flags = ["rowkey-server", "--https", "--oauth", "basic"];
        assert!(Flags::try_parse_from(flags).unwrap().builder().is_ok());
        let flags = ["rowkey-server", "--https", "--oauth", "Issue", "--oauth-port", "0"];
        let flags = Flags::try_parse_from(flags).unwrap();
        assert!(flags.notes().is_empty() && flags.builder().is_ok());
        let flags = Flags::try_parse_from(["rowkey-server", "--oauth", "issue"]).unwrap();
        assert!(flags.notes()[0].contains("without --https"));
        let flags = ["rowkey-server", "--cert", "/no/such/file", "--key", "/no/such/file"];
        let error = Flags::try_parse_from(flags).unwrap().builder().unwrap_err();
        assert!(error.to_string().contains("/no/such/file"));
    }
}
