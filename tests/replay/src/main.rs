//! Replays recorded exchanges on a server, and prints how many answers agree with the recorded ones.
#![expect(clippy::print_stdout, reason = "a report is printed")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use regex::Regex;
use rowkey_replay::{Level, Options, Service, failures, json, load, replay, runs, summary};

/// Replays recorded exchanges on a server under test.
#[derive(Parser)]
struct Arguments {
    /// Recorded exchanges, `.jsonl` or `.jsonl.gz`.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The endpoint of tables, with the account.
    #[arg(long, default_value = "http://127.0.0.1:10002/devstoreaccount1")]
    table: String,
    /// The endpoint of queues, with the account.
    #[arg(long, default_value = "http://127.0.0.1:10001/devstoreaccount1")]
    queue: String,
    /// The endpoint of blobs, with the account.
    #[arg(long, default_value = "http://127.0.0.1:10000/devstoreaccount1")]
    blob: String,
    /// The level that counts as passed.
    #[arg(long, value_enum, default_value_t = Name::Body)]
    level: Name,
    /// The longest recorded pause to wait for, in seconds.
    #[arg(long, default_value_t = 0)]
    max_pause: i64,
    /// Runs that are replayed at the same time.
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Replays only tests whose name matches this pattern.
    #[arg(long)]
    only: Option<Regex>,
    /// Headers of answers that are not compared, separated by commas.
    #[arg(long, value_delimiter = ',')]
    ignore_headers: Vec<String>,
    /// Fails when a smaller share of the judged exchanges passes.
    #[arg(long)]
    min_percent: Option<f64>,
    /// Writes every verdict to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    Status,
    Body,
    Exact,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Arguments) -> Result<bool, String> {
    let mut exchanges = Vec::new();
    for file in &arguments.files {
        exchanges.extend(load(file)?);
    }
    if let Some(only) = &arguments.only {
        exchanges.retain(|exchange| only.is_match(&exchange.test));
    }
    let endpoint = |url: String| url.trim_end_matches('/').to_owned();
    let endpoints = BTreeMap::from([
        (Service::Table, endpoint(arguments.table)),
        (Service::Queue, endpoint(arguments.queue)),
        (Service::Blob, endpoint(arguments.blob)),
    ]);
    let ignore_headers: BTreeSet<_> = arguments.ignore_headers.into_iter().collect();
    let options = Options { max_pause: arguments.max_pause, jobs: arguments.jobs, ignore_headers };
    let level = match arguments.level {
        Name::Status => Level::Status,
        Name::Body => Level::Body,
        Name::Exact => Level::Exact,
    };
    let verdicts =
        replay(&runs(exchanges), &endpoints, &options).map_err(|error| error.to_string())?;
    print!("{}\n{}", failures(&verdicts, level), summary(&verdicts, level));
    if let Some(file) = arguments.json {
        std::fs::write(&file, json(&verdicts))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let judged = verdicts.iter().filter(|it| it.judged()).count();
    let passed = verdicts.iter().filter(|it| it.passed(level)).count();
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let percent = 100.0 * passed as f64 / judged.max(1) as f64;
    // Nothing judged is no success.
    Ok(judged > 0 && arguments.min_percent.is_none_or(|least| percent >= least))
}
