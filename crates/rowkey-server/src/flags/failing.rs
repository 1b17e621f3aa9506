//! Flags of what fails from the start: targets and faults.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use rowkey_emulator::{Fault, Targets};

/// What fails from the start.
#[derive(Args, Debug)]
pub(crate) struct Failing {
    /// Answer 503 `ServerBusy` above Azure's documented targets, or above others, per second:
    /// requestsPerAccount=N,entitiesPerPartition=N,messagesPerQueue=N.
    #[arg(long, num_args = 0..=1, default_missing_value = "", value_name = "TARGETS")]
    throttle: Option<Throttle>,
    /// Inject the faults in this file from the start: a JSON list, as POST /v1/faults takes them.
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

/// Targets as they are written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Throttle(Targets);

impl FromStr for Throttle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut targets = Targets::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let expected =
                "expected requestsPerAccount=N, entitiesPerPartition=N or messagesPerQueue=N";
            let (name, rate) = part.split_once('=').ok_or(expected)?;
            let rate = rate.parse().map_err(|_| format!("{rate} is not a rate per second"))?;
            match name {
                "requestsPerAccount" => targets.requests_per_account = rate,
                "entitiesPerPartition" => targets.entities_per_partition = rate,
                "messagesPerQueue" => targets.messages_per_queue = rate,
                _ => return Err(format!("{name} is not a target; {expected}")),
            }
        }
        Ok(Self(targets))
    }
}

impl Failing {
    /// The targets from the start.
    pub(super) fn targets(&self) -> Option<Targets> {
        self.throttle.map(|Throttle(targets)| targets)
    }

    /// The faults from the start.
    pub(crate) fn faults(&self) -> io::Result<Vec<Fault>> {
        self.faults.as_deref().map_or(Ok(Vec::new()), read)
    }
}

fn read(file: &Path) -> io::Result<Vec<Fault>> {
    let within = |error: io::Error| {
        io::Error::new(error.kind(), format!("--faults: cannot read {}: {error}", file.display()))
    };
    let text = std::fs::read(file).map_err(within)?;
    serde_json::from_slice(&text).map_err(|error| within(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_documented_ones_or_named() {
        let read = |text: &str| text.parse::<Throttle>().map(|Throttle(targets)| targets);
        assert_eq!(read(""), Ok(Targets::default()));
        let named = read("entitiesPerPartition=10,requestsPerAccount=5").unwrap();
        let expected =
            Targets { entities_per_partition: 10, requests_per_account: 5, ..Targets::default() };
        assert_eq!(named, expected);
        for (wrong, why) in [
            ("10", "expected requestsPerAccount"),
            ("entities=1", "entities is not a target"),
            ("messagesPerQueue=-1", "-1 is not a rate"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_file_of_faults_that_cannot_be_read_is_named() {
        let directory = std::env::temp_dir().join(format!("rowkey-faults-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("faults.json");
        for (text, why) in [
            (r#"[{"action":"hold"}]"#, None),
            (r#"[{"action":"hold","nth":0}]"#, Some("counts from 1")),
            (r#"{"action":"hold"}"#, Some("expected a sequence")),
        ] {
            std::fs::write(&file, text).unwrap();
            match (read(&file), why) {
                (Ok(faults), None) => assert_eq!(faults, [Fault::any().hold()]),
                (Err(error), Some(why)) => {
                    let error = error.to_string();
                    assert!(error.contains(why) && error.contains("faults.json"), "{error}");
                }
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
        std::fs::remove_dir_all(&directory).unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.starts_with("--faults: cannot read"), "{error}");
    }
}
