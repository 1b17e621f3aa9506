//! Flags of Azurite 3.37 that the program accepts for compatibility, with or without effect.

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rowkey_emulator::{ServerBuilder, Service};

/// Flags in scripts that were written for Azurite. Each is accepted in Azurite's spelling and in
/// kebab case.
// Without `Debug`, because of the password.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub(super) struct Azurite {
    /// The name of one of Azurite's programs, as in `docker run IMAGE azurite-blob`. With one of the last three, the
    /// other services listen on free ports.
    #[arg(value_name = "PROGRAM", ignore_case = true)]
    program: Option<Program>,
    /// Seconds after which idle connections of the Blob service are closed; 0 for no limit.
    #[arg(
        long,
        visible_alias = "blobKeepAliveTimeout",
        value_name = "SECONDS",
        default_value_t = 0
    )]
    blob_keep_alive_timeout: u32,
    /// Seconds after which idle connections of the Queue service are closed; 0 for no limit.
    #[arg(
        long,
        visible_alias = "queueKeepAliveTimeout",
        value_name = "SECONDS",
        default_value_t = 0
    )]
    queue_keep_alive_timeout: u32,
    /// Seconds after which idle connections of the Table service are closed; 0 for no limit.
    #[arg(
        long,
        visible_alias = "tableKeepAliveTimeout",
        value_name = "SECONDS",
        default_value_t = 0
    )]
    table_keep_alive_timeout: u32,
    /// Take the account only from the path, never from the host.
    #[arg(long, visible_alias = "disableProductStyleUrl")]
    disable_product_style_url: bool,

    /// No effect: without --location, data is in memory.
    #[arg(
        id = "inMemoryPersistence",
        long = "inMemoryPersistence",
        alias = "in-memory-persistence"
    )]
    in_memory_persistence: bool,
    /// No effect: memory use is not limited.
    #[arg(
        long = "extentMemoryLimit",
        alias = "extent-memory-limit",
        value_name = "MEGABYTES",
        allow_negative_numbers = true
    )]
    extent_memory_limit: Option<f64>,
    /// No effect: every API version is accepted.
    #[arg(long = "skipApiVersionCheck", alias = "skip-api-version-check")]
    skip_api_version_check: bool,
    /// No effect: no telemetry is sent.
    #[arg(long = "disableTelemetry", alias = "disable-telemetry")]
    disable_telemetry: bool,
    /// The password of a .pfx file that --cert names without --key. It is read by the program `openssl`.
    #[arg(long, value_name = "PASSWORD")]
    pwd: Option<String>,
}

/// A program of Azurite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Program {
    Azurite,
    AzuriteBlob,
    AzuriteQueue,
    AzuriteTable,
}

impl Program {
    /// The program that a link to this one is named after.
    fn of_link(path: &Path) -> Option<Self> {
        Self::from_str(path.file_stem()?.to_str()?, true).ok()
    }

    /// The service that it starts alone.
    fn service(self) -> Option<Service> {
        match self {
            Self::Azurite => None,
            Self::AzuriteBlob => Some(Service::Blob),
            Self::AzuriteQueue => Some(Service::Queue),
            Self::AzuriteTable => Some(Service::Table),
        }
    }
}

impl Azurite {
    /// Messages about flags and variables without effect.
    pub(super) fn notes(&self, has_certificate: bool, has_key: bool) -> Vec<&'static str> {
        [
            (
                self.in_memory_persistence,
                "--inMemoryPersistence has no effect: without --location, data is in memory",
            ),
            (
                self.extent_memory_limit.is_some(),
                "--extentMemoryLimit has no effect: memory is not limited",
            ),
            (
                self.skip_api_version_check,
                "--skipApiVersionCheck has no effect: every API version is accepted",
            ),
            (self.disable_telemetry, "--disableTelemetry has no effect: there is no telemetry"),
            (
                self.pwd.is_some() && has_certificate && has_key,
                "--pwd has no effect: --key names a key without a password",
            ),
            (self.pwd.is_some() && !has_certificate, "--pwd has no effect without --cert"),
            (
                self.alone().is_some(),
                "all three services are started; those of the other programs of Azurite listen on free ports, which the \
                 ready line names",
            ),
            (
                std::env::var_os("AZURITE_SKIP_API_VERSION_CHECK").is_some(),
                "AZURITE_SKIP_API_VERSION_CHECK has no effect: every API version is accepted",
            ),
            (
                std::env::var_os("AZURITE_DB").is_some(),
                "AZURITE_DB has no effect: data is kept with --location, and in no SQL database",
            ),
        ]
        .into_iter()
        .filter_map(|(given, note)| given.then_some(note))
        .collect()
    }

    /// The password of a .pfx file.
    pub(super) fn password(&self) -> Option<&str> {
        self.pwd.as_deref()
    }

    /// The ports of the services: free ones for those that the program would not start.
    pub(super) fn ports(&self, given: [(Service, u16); 3]) -> [u16; 3] {
        let alone = self.alone();
        given.map(
            |(service, port)| if alone.is_some_and(|alone| alone != service) { 0 } else { port },
        )
    }

    /// The service that is started alone, according to the program's name.
    fn alone(&self) -> Option<Service> {
        let link = || Program::of_link(Path::new(&std::env::args_os().next()?));
        self.program.or_else(link)?.service()
    }

    /// Applies the flags that have an effect.
    pub(super) fn apply(&self, builder: ServerBuilder) -> ServerBuilder {
        let limits = [
            (Service::Blob, self.blob_keep_alive_timeout),
            (Service::Queue, self.queue_keep_alive_timeout),
            (Service::Table, self.table_keep_alive_timeout),
        ];
        let builder = builder.product_style(!self.disable_product_style_url);
        limits.into_iter().filter(|(_, seconds)| *seconds > 0).fold(
            builder,
            |builder, (service, seconds)| {
                builder.keep_alive_timeout(service, Duration::from_secs(seconds.into()))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::Flags;
    use crate::flags::given_to_azurite::FLAGS;

    fn parse(flags: &[&str]) -> Result<Flags, clap::Error> {
        Flags::try_parse_from([&["rowkey-server"], flags].concat())
    }

    #[test]
    fn every_azurite_flag_is_accepted() {
        for flags in FLAGS {
            if let Err(error) = parse(flags) {
                panic!("{flags:?}: {error}");
            }
        }
        for flag in ["-v", "--version", "-h", "--help"] {
            let kind = parse(&[flag]).err().map(|error| error.kind());
            let shown =
                [clap::error::ErrorKind::DisplayVersion, clap::error::ErrorKind::DisplayHelp];
            assert!(kind.is_some_and(|kind| shown.contains(&kind)), "{flag}: {kind:?}");
        }
    }

    #[test]
    fn a_program_of_azurite_has_the_ports_of_its_service_alone() {
        let given = [(Service::Blob, 1), (Service::Queue, 2), (Service::Table, 3)];
        for (words, ports) in [
            (&[][..], [1, 2, 3]),
            (&["azurite"], [1, 2, 3]),
            (&["Azurite", "-s"], [1, 2, 3]),
            (&["azurite-blob", "-l", "x"], [1, 0, 0]),
            (&["-s", "azurite-queue"], [0, 2, 0]),
            (&["AZURITE-TABLE"], [0, 0, 3]),
        ] {
            let flags = parse(words).ok().unwrap();
            assert_eq!(flags.azurite.ports(given), ports, "{words:?}");
        }
        assert!(parse(&["azurite-file"]).is_err() && parse(&["azurite", "azurite"]).is_err());
        for (link, program) in [
            ("/usr/bin/azurite-table", Some(Program::AzuriteTable)),
            ("azurite-blob.exe", Some(Program::AzuriteBlob)),
            ("rowkey-server", None),
            ("", None),
        ] {
            assert_eq!(Program::of_link(Path::new(link)), program, "{link}");
        }
    }

    #[test]
    fn conflicting_azurite_flags_are_rejected() {
        assert!(parse(&["--inMemoryPersistence", "--location", "x"]).is_err());
    }

    #[test]
    fn flags_without_effect_are_reported() {
        for (flags, named) in [
            (&["--inMemoryPersistence"][..], "--inMemoryPersistence has no effect"),
            (&["--extentMemoryLimit", "1"], "--extentMemoryLimit has no effect"),
            (&["--skipApiVersionCheck"], "--skipApiVersionCheck has no effect"),
            (&["--disableTelemetry"], "--disableTelemetry has no effect"),
            (&["--pwd", "x"], "--pwd has no effect without --cert"),
            (&["--cert", "x", "--key", "y", "--pwd", "z"], "--pwd has no effect: --key"),
            (&["--loose"], "15 comparisons"),
            (&["azurite-blob"], "listen on free ports"),
        ] {
            let notes = parse(flags).ok().unwrap().notes();
            assert!(notes.iter().any(|note| note.contains(named)), "{flags:?}: {notes:?}");
        }
        let refused = parse(&["--cert", "x.pfx", "--pwd", "x"]).ok().unwrap();
        assert!(refused.notes().is_empty(), "{:?}", refused.notes());
        let effective = ["--blobKeepAliveTimeout", "5", "--disableProductStyleUrl", "--silent"];
        assert!(parse(&effective).ok().unwrap().notes().is_empty());
    }
}
