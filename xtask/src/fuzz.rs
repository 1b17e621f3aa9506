//! `cargo xtask fuzz [SECONDS] [TARGET..]`: runs the fuzz targets under libFuzzer, two at a time.
//!
//! `ROWKEY_FUZZ_SEED` is the seed of the engine, which draws one where it is not set.
//!
//! The engine is linked in by the package, and the compiler's own coverage passes work on a stable
//! toolchain, so neither cargo-fuzz nor a nightly compiler is needed; a C++ compiler is. Inputs that reach
//! new code are kept in `target/fuzz/corpus`, and `tests/fuzz/corpus` holds those that every run begins
//! with: `cargo xtask fuzz-minimize` writes it anew from both.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::structure::root;

/// How long all targets run together, in seconds, unless the command says otherwise.
const SECONDS: u64 = 150;
/// The longest input. Decoders have no states that need longer ones.
const MAX_LEN: usize = 4096;
/// How many targets run at the same time.
const AT_ONCE: usize = 2;

/// Coverage as libFuzzer wants it: edges with counters, and the operands of comparisons.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// Runs the targets that the arguments name, or all of them.
pub(crate) fn run(arguments: &[String]) -> bool {
    let seconds = arguments.iter().find_map(|text| text.parse().ok()).unwrap_or(SECONDS);
    let known = targets();
    let named: Vec<_> = arguments.iter().filter(|text| text.parse::<u64>().is_err()).collect();
    if let Some(unknown) = named.iter().find(|name| !known.contains(name)) {
        println!("   {unknown} is no fuzz target; there are {}", known.join(", "));
        return false;
    }
    let chosen: Vec<_> =
        known.iter().filter(|name| named.is_empty() || named.contains(name)).collect();
    let Some(program) = build() else { return false };
    let waves = chosen.len().div_ceil(AT_ONCE).max(1) as u64;
    let each = (seconds / waves).max(1);
    let mut is_clean = true;
    for wave in chosen.chunks(AT_ONCE) {
        let running: Vec<_> = wave.iter().map(|name| (name, start(&program, name, each))).collect();
        for (name, child) in running {
            let output = child.and_then(Child::wait_with_output);
            let Ok(output) = output else {
                println!("   {name}: the program does not start");
                return false;
            };
            is_clean &= report(name, &output);
        }
    }
    is_clean
}

/// Writes the corpus anew: the fewest inputs that reach every branch that all known ones reach, however
/// often they take it.
pub(crate) fn minimize() -> bool {
    let Some(program) = build() else { return false };
    targets().iter().all(|name| {
        let (kept, found, merged) = (kept(name), found(name), found(&format!("{name}.merged")));
        let _ = (fs::create_dir_all(&kept), fs::create_dir_all(&found));
        let _ = (fs::remove_dir_all(&merged), fs::create_dir_all(&merged));
        let done = Command::new(&program)
            .env("ROWKEY_FUZZ", name)
            .args(["-set_cover_merge=1", "-use_counters=0", &format!("-max_len={MAX_LEN}")])
            .args([&merged, &kept, &found])
            .stderr(Stdio::null())
            .status();
        let is_done = done.is_ok_and(|status| status.success());
        is_done && fs::remove_dir_all(&kept).and_then(|()| fs::rename(&merged, &kept)).is_ok()
    })
}

/// The targets, which the library lists.
fn targets() -> Vec<String> {
    let library = fs::read_to_string(root().join("tests/fuzz/src/lib.rs")).unwrap_or_default();
    let names = library.lines().filter_map(|line| line.trim().strip_prefix("(\""));
    names.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

/// Builds the program in a folder of its own, for its flags differ from all others.
fn build() -> Option<PathBuf> {
    let host = host()?;
    let folder = root().join("target/fuzz");
    // With `--target`, build scripts and macros are not instrumented.
    let status = Command::new("cargo")
        .args(["build", "--quiet", "--profile", "fuzz", "-p", "rowkey-fuzz"])
        .args(["--features", "libfuzzer", "--target", &host, "--target-dir"])
        .arg(&folder)
        .env("RUSTFLAGS", FLAGS)
        .current_dir(root())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        println!("   the fuzz targets do not build; they need a C++ compiler");
        return None;
    }
    Some(folder.join(host).join("fuzz/rowkey-fuzz"))
}

/// The platform of this machine as cargo names it.
fn host() -> Option<String> {
    let output = Command::new("rustc").arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().find_map(|line| line.strip_prefix("host: "))?.to_owned())
}

fn start(program: &PathBuf, name: &str, seconds: u64) -> std::io::Result<Child> {
    let (kept, found) = (kept(name), found(name));
    fs::create_dir_all(&kept)?;
    fs::create_dir_all(&found)?;
    Command::new(program)
        .env("ROWKEY_FUZZ", name)
        .args([format!("-max_total_time={seconds}"), format!("-max_len={MAX_LEN}")])
        .arg(format!(
            "-seed={}",
            std::env::var("ROWKEY_FUZZ_SEED").unwrap_or_else(|_| "0".to_owned())
        ))
        .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"])
        .arg(format!("-artifact_prefix={}/failed-", found.parent().unwrap_or(&found).display()))
        .args([&found, &kept])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

/// Says how much a target ran, or how it failed and how to repeat that.
fn report(name: &str, output: &std::process::Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let value = |label: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(label));
        line.unwrap_or_default().trim_start_matches(':').trim().to_owned()
    };
    if output.status.success() {
        let (runs, new) = (value("stat::number_of_executed_units"), value("stat::new_units_added"));
        println!("   {name}: {runs} inputs, {new} reached new code, none failed");
        return true;
    }
    println!("{said}");
    println!("   {name} failed. The input is in the file that is named above; to repeat it:");
    println!("   ROWKEY_FUZZ={name} target/fuzz/*/fuzz/rowkey-fuzz FILE");
    false
}

/// The inputs of a target that are in the repository.
fn kept(name: &str) -> PathBuf {
    root().join("tests/fuzz/corpus").join(name)
}

/// The inputs that runs have found.
fn found(name: &str) -> PathBuf {
    root().join("target/fuzz/corpus").join(name)
}
