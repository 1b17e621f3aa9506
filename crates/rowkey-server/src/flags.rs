//! The program's flags, and those of Azurite that it takes in their place.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
#[cfg(feature = "durable")]
use std::time::Duration;

use clap::Parser;
#[cfg(feature = "durable")]
use rowkey_server::SyncPolicy;
use rowkey_server::{Server, ServerBuilder};

/// A server that speaks the real Azure Table storage protocol.
///
/// Listens where Azurite does, with the same account. All is in memory, and with --location on disk,
/// too. Nothing is sent anywhere.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that is given or not")]
#[command(name = "rowkey-server", version)]
pub(crate) struct Flags {
    /// Where the Blob service listens.
    #[arg(long, visible_alias = "blobHost", default_value = "127.0.0.1", value_name = "HOST")]
    blob_host: String,
    /// The port of the Blob service; 0 is a free one.
    #[arg(long, visible_alias = "blobPort", default_value_t = 10000, value_name = "PORT")]
    blob_port: u16,
    /// Where the Queue service listens.
    #[arg(long, visible_alias = "queueHost", default_value = "127.0.0.1", value_name = "HOST")]
    queue_host: String,
    /// The port of the Queue service; 0 is a free one.
    #[arg(long, visible_alias = "queuePort", default_value_t = 10001, value_name = "PORT")]
    queue_port: u16,
    /// Where the Table service listens.
    #[arg(long, visible_alias = "tableHost", default_value = "127.0.0.1", value_name = "HOST")]
    table_host: String,
    /// The port of the Table service; 0 is a free one.
    #[arg(long, visible_alias = "tablePort", default_value_t = 10002, value_name = "PORT")]
    table_port: u16,
    /// Accounts in place of the development account: `name:key1[:key2];name2:…`.
    #[arg(long, env = "AZURITE_ACCOUNTS", hide_env_values = true, value_name = "ACCOUNTS")]
    accounts: Option<String>,
    /// Let pass what Azure refuses: limits on entities and filters, names of deleted tables.
    #[arg(short = 'L', long)]
    loose: bool,
    /// Speak HTTPS, with a certificate that is made at the start unless --cert gives one.
    #[arg(long)]
    https: bool,
    /// The file with the certificate to speak HTTPS with, in PEM.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The file with the certificate's key, in PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Take bearer tokens, checking all of them but their signatures.
    #[arg(long, value_name = "LEVEL")]
    oauth: Option<Oauth>,
    /// The directory to keep data in, so that what is acknowledged survives the program, however it
    /// ends. It is made if it is not there. Without this, all is in memory and ends with the
    /// program.
    #[arg(short, long, value_name = "DIR", conflicts_with = "in_memory_persistence")]
    pub(crate) location: Option<PathBuf>,
    /// When data is forced to the disk itself, to survive a loss of power: before each answer
    /// (`always`), or at an interval, by default of 1000 ms (`interval`, `interval:MS`).
    #[arg(long, value_name = "WHEN", requires = "location")]
    sync: Option<Sync>,
    /// Repair the data in --location, which is damaged, and end. All files are copied first; what is
    /// lost is said.
    #[arg(long, requires = "location")]
    pub(crate) repair: bool,
    /// How many threads answer requests; by default half as many as there are cores, and at most 8.
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Log errors only.
    #[arg(short, long)]
    pub(crate) silent: bool,
    /// Log every refused request.
    #[arg(short, long, num_args = 0..=1, default_missing_value = "", value_name = "IGNORED")]
    pub(crate) debug: Option<String>,

    /// Taken for Azurite's sake: all is in memory anyway.
    #[arg(long = "inMemoryPersistence", alias = "in-memory-persistence", hide = true)]
    in_memory_persistence: bool,
    /// Taken for Azurite's sake: versions are accepted anyway.
    #[arg(long = "skipApiVersionCheck", alias = "skip-api-version-check", hide = true)]
    skip_api_version_check: bool,
    /// Taken for Azurite's sake: hosts name accounts only when they look like it.
    #[arg(long = "disableProductStyleUrl", alias = "disable-product-style-url", hide = true)]
    disable_product_style_url: bool,
    /// Taken for Azurite's sake: nothing is sent anywhere.
    #[arg(long = "disableTelemetry", alias = "disable-telemetry", hide = true)]
    disable_telemetry: bool,
    /// Azurite's limit on memory.
    #[arg(long = "extentMemoryLimit", alias = "extent-memory-limit", hide = true)]
    extent_memory_limit: Option<String>,
    /// Not supported.
    #[arg(long, hide = true)]
    pwd: Option<String>,
}

/// How well tokens are checked.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Oauth {
    /// Shape, times, issuer and audience.
    Basic,
}

/// When data is forced to the disk itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    Always,
    /// Milliseconds, if they are said.
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
                .ok_or("the interval is a number of milliseconds, at least 1"),
            _ => Err("it is `always`, `interval` or `interval:` and milliseconds"),
        }
    }
}

impl Flags {
    /// What is to be said about flags that mean something else here than elsewhere.
    pub(crate) fn notes(&self) -> Vec<&'static str> {
        [
            (self.loose, "--loose: limits that Azure enforces are not enforced"),
            (
                self.in_memory_persistence,
                "--inMemoryPersistence changes nothing: without --location all is in memory",
            ),
            (
                self.skip_api_version_check,
                "--skipApiVersionCheck changes nothing: new versions are accepted",
            ),
            (
                self.disable_product_style_url,
                "--disableProductStyleUrl changes nothing: both styles of addresses work",
            ),
            (self.disable_telemetry, "--disableTelemetry changes nothing: nothing is ever sent"),
            (
                self.extent_memory_limit.is_some(),
                "--extentMemoryLimit changes nothing: memory is not limited",
            ),
        ]
        .into_iter()
        .filter_map(|(given, note)| given.then_some(note))
        .collect()
    }

    /// The server that the flags describe, or which of them it cannot do.
    pub(crate) fn builder(self) -> io::Result<ServerBuilder> {
        let unsupported = [
            (
                self.location.is_some() && !cfg!(feature = "durable"),
                "--location: this program was built without the feature `durable` and keeps \
                 nothing on disk; build it with that feature, or leave the flag out",
            ),
            (self.pwd.is_some(), "--pwd: certificates are taken in PEM; use --cert and --key"),
        ];
        if let Some((_, message)) = unsupported.into_iter().find(|(given, _)| *given) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let mut builder = Server::builder()
            .journal(false)
            .blob(self.blob_host, self.blob_port)
            .queue(self.queue_host, self.queue_port)
            .table(self.table_host, self.table_port)
            .threads(self.threads.unwrap_or_else(usual_threads));
        #[cfg(feature = "durable")]
        if let Some(location) = self.location {
            let sync = self.sync.map_or_else(SyncPolicy::default, SyncPolicy::from);
            builder = builder.location(location, sync);
        }
        for (name, keys) in accounts(self.accounts.as_deref().unwrap_or_default())? {
            builder = builder.account(name, keys);
        }
        if let (Some(certificate), Some(key)) = (&self.cert, &self.key) {
            builder = builder.certificate(read(certificate)?, read(key)?);
        } else if self.https {
            builder = builder.https();
        }
        if self.oauth.is_some() {
            builder = builder.oauth();
        }
        Ok(if self.loose { builder.loose() } else { builder })
    }
}

/// Whoever sends the requests has the other half of the cores.
fn usual_threads() -> NonZeroUsize {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new((cores / 2).min(8)).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(feature = "durable")]
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
        io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
    })
}

/// Reads `name:key1[:key2];name2:…`.
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
    fn the_flags_of_azurite_are_taken() {
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
        assert_eq!(flags.notes().len(), 4);
        assert!(flags.builder().is_ok());
        let flags = Flags::try_parse_from(["rowkey-server", "--pwd", "x"]).unwrap();
        assert!(flags.builder().unwrap_err().to_string().contains("--pwd"));
    }

    #[test]
    fn data_is_kept_where_the_program_can_keep_it_and_synced_as_it_is_told() {
        let parse = |flags: &[&str]| Flags::try_parse_from([&["rowkey-server"], flags].concat());
        let built = parse(&["--location", "x"]).unwrap().builder();
        assert_eq!(built.is_ok(), cfg!(feature = "durable"));
        if let Err(error) = built {
            assert!(error.to_string().contains("the feature `durable`"), "{error}");
        }
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
    fn certificates_come_with_their_keys_and_tokens_with_a_level() {
        for wrong in [&["--cert", "x"][..], &["--key", "x"], &["--oauth", "full"], &["--oauth"]] {
            let flags = [&["rowkey-server"], wrong].concat();
            assert!(Flags::try_parse_from(flags).is_err(), "{wrong:?}");
        }
        let flags = ["rowkey-server", "--https", "--oauth", "basic"];
        assert!(Flags::try_parse_from(flags).unwrap().builder().is_ok());
        let flags = ["rowkey-server", "--cert", "/no/such/file", "--key", "/no/such/file"];
        let error = Flags::try_parse_from(flags).unwrap().builder().unwrap_err();
        assert!(error.to_string().contains("/no/such/file"));
    }
}
