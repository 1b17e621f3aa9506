//! Flags of Azurite 3.37 that the program accepts for compatibility, with or without effect.

use std::time::Duration;

use clap::Args;
use rowkey_emulator::{ServerBuilder, Service};

/// Flags in scripts that were written for Azurite. Each is accepted in Azurite's spelling and in
/// kebab case.
// Without `Debug`, because of the password.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub(super) struct Azurite {
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
    /// Rejected with --cert alone, because .pfx files are not supported. No effect with --key.
    #[arg(long, value_name = "PASSWORD")]
    pwd: Option<String>,
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
                std::env::var_os("AZURITE_DB").is_some(),
                "AZURITE_DB has no effect: data is kept with --location, and in no SQL database",
            ),
        ]
        .into_iter()
        .filter_map(|(given, note)| given.then_some(note))
        .collect()
    }

    /// Whether the password of a .pfx file was given.
    pub(super) fn has_password(&self) -> bool {
        self.pwd.is_some()
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
