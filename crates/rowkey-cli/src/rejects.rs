//! The file of rejected entities: those that the destination refuses, each with the reason.
//!
//! A line is `{"table":"..","error":"..","entity":{..}}`, with the entity as typed JSON, so that `jq -c .entity FILE` gives what
//! `rowkey import TABLE -` reads.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use rowkey::patterns::job::Rejected;
use rowkey_transfer::{Row, json_lines};
use serde_json::value::RawValue;

use crate::error::{Error, Exit, Result};

/// The flag of commands that write entities.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RejectsFlag {
    /// Write entities that the destination refuses, each with the reason, to this file. Default: `TABLE.rejects.jsonl`, with --all
    /// `copy.rejects.jsonl` or `import.rejects.jsonl`, made when there is one. An existing file is continued.
    #[arg(long, value_name = "FILE", help_heading = "Job")]
    rejects: Option<PathBuf>,
}

/// The file, which is made at the first entity.
#[derive(Clone)]
pub(crate) struct Rejects {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    file: Option<File>,
    entities: u64,
    failed: Option<io::Error>,
}

impl Rejects {
    /// Without the flag, the file has this name.
    pub(crate) fn new(flag: &RejectsFlag, name: &str) -> Self {
        let path = flag.rejects.clone();
        let path = path.unwrap_or_else(|| PathBuf::from(format!("{name}.rejects.jsonl")));
        Self { path, state: Arc::default() }
    }

    /// Keeps an entity that was to be written to a table: the callback of a job.
    pub(crate) fn keep(&self, table: &str, rejected: Rejected<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.entities += 1;
        if state.failed.is_none() {
            let error = rejected.error.to_string();
            let row = Row::new(rejected.entity);
            state.failed = self.write(&mut state.file, (table, &error), &row).err();
        }
    }

    /// The whole line at once, before the job's checkpoint passes the entity.
    fn write(
        &self,
        file: &mut Option<File>,
        (table, error): (&str, &str),
        row: &Row,
    ) -> io::Result<()> {
        let mut entity = json_lines::Encoder::new(Vec::new());
        let entity = entity.write(row).and_then(|()| entity.finish()).map_err(io::Error::other)?;
        let entity: &RawValue = serde_json::from_slice(&entity)?;
        let mut line = serde_json::to_vec(&Line { table, error, entity })?;
        line.push(b'\n');
        if file.is_none() {
            let mut options = OpenOptions::new();
            options.append(true).create(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            *file = Some(options.open(&self.path)?);
        }
        file.as_mut().map_or(Ok(()), |file| file.write_all(&line))
    }

    /// Says where the entities are, and shows the result of the command. Fails afterwards if the file could not be written.
    pub(crate) fn finish<T>(
        &self,
        ended: Result<T>,
        show: impl FnOnce(T) -> Result<()>,
    ) -> Result<()> {
        match (self.check(), ended) {
            (kept, Ok(done)) => {
                let shown = show(done);
                kept.and(shown)
            }
            (Ok(()), Err(error)) => Err(error),
            (Err(kept), Err(error)) => Err(error.and(kept)),
        }
    }

    fn check(&self) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = state.failed.take() {
            let path = self.path.display();
            let what = format!("{path}, the file of rejected entities, cannot be written: {error}");
            return Err(Error::new(Exit::Failed, what));
        }
        if state.entities > 0 {
            let (entities, path) = (state.entities, self.path.display());
            // The command does not depend on who reads it.
            let _ = writeln!(io::stderr(), "rowkey: {entities} rejected entities are in {path}");
        }
        Ok(())
    }
}

#[derive(serde::Serialize)]
struct Line<'a> {
    table: &'a str,
    error: &'a str,
    entity: &'a RawValue,
}
