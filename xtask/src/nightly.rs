//! `cargo xtask nightly [PAIRS] [SEEDS]`: what takes too long for each change, with its figures.
//!
//! - the sweep of PAIRS pairs of declarations (all of them without a number), each with every fault at every
//!   request, on the real clock: a worker runs when a minute has really passed
//! - all runs of the other sweeps of the store and of encryption, of which a change is tested with one of five
//! - the attack of eight writers with two times SEEDS seeds (10 without a number)
//! - the soak of 500,000 tasks, whose processes are killed 200 times and stopped 100 times
//! - 200 kills of a copy, an export and an import each
//! - 1,000 schedules of workers, an inbox and redrives
//! - the model of the write plan with every three operations that are chosen, at its larger size

use std::fs;
use std::process::Command;
use std::time::Instant;

use crate::structure::root;

pub(crate) fn run(arguments: &[String]) -> bool {
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<usize>().ok());
    let page = fs::read_to_string(root().join("tests/store/pairs.rs")).unwrap_or_default();
    let names = page.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": \""));
    let names: Vec<_> = names.map(|(name, _)| format!("pairs::{name}::")).collect();
    let pairs = number(0).unwrap_or(names.len()).min(names.len());
    // Evenly spread over the list, whose neighbours have a declaration in common.
    let chosen = (0..pairs).map(|at| names[at * names.len() / pairs].as_str());
    let seeds = number(1).unwrap_or(10).to_string();
    let store = ["-p", "rowkey-tests", "--test", "store", "--", "--nocapture"];
    // Runs wait without using a processor: many pairs at a time, as far as there are descriptors.
    let sweep = store.into_iter().chain(chosen).chain(["--test-threads", "12"]).collect::<Vec<_>>();
    let encryption = ["-p", "rowkey-tests", "--test", "encryption", "--test", "references"];
    let others = encryption.into_iter().chain(store).chain(["--skip", "pairs::"]);
    let others = others.collect::<Vec<_>>();
    let attack = store.into_iter().chain(["attack::"]).collect::<Vec<_>>();
    let soak = ["--release", "-p", "rowkey-tests", "--test", "soak"];
    let kills = ["-p", "rowkey-cli", "--test", "command", "--", "--nocapture", "killed::"];
    let schedules =
        ["-p", "rowkey-tests", "--test", "patterns", "--", "--nocapture", "worker::schedules::"];
    let model = ["-p", "rowkey-model", "--", "--nocapture"];
    step(&format!("{pairs} pairs on the real clock"), &sweep, ("ROWKEY_REAL_CLOCK", "1"))
        && step("the other sweeps", &others, ("ROWKEY_SWEEP", "all"))
        && step(&format!("attack, 2 x {seeds} seeds"), &attack, ("ROWKEY_SEEDS", &seeds))
        && step("soak", &soak, ("ROWKEY_SOAK", "500000"))
        && step("killed commands", &kills, ("ROWKEY_KILLS", "200"))
        && step("schedules of workers", &schedules, ("ROWKEY_SEEDS", "25"))
        && step("model", &model, ("ROWKEY_MODEL_LARGE", "1"))
}

#[expect(clippy::disallowed_methods, reason = "the time that a step takes is a figure")]
fn step(name: &str, arguments: &[&str], (variable, value): (&str, &str)) -> bool {
    println!("== {name}");
    let begun = Instant::now();
    let mut command = Command::new("cargo");
    command.arg("test").args(arguments).env(variable, value).current_dir(root());
    let is_good = command.status().is_ok_and(|status| status.success());
    println!(
        "== {name}: {}, {} s",
        if is_good { "good" } else { "failed" },
        begun.elapsed().as_secs()
    );
    is_good
}
