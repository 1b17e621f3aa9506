//! `cargo xtask ci`: every gate that needs nothing but Rust, in the order of cheapness.
//! `cargo xtask GATE` runs one: fmt, structure, clippy, benches, doc, test, features, neighbour, package, examples.
//! `cargo xtask fuzz [SECONDS] [TARGET..]` runs the fuzz targets, which need a C++ compiler, too.
//! `cargo xtask nightly [PAIRS] [SEEDS]` runs what takes too long for each change, on the real clock.

#![expect(clippy::print_stdout, reason = "a program for people")]

mod address;
mod api;
mod architecture;
mod commands;
mod dependencies;
mod examples;
mod facade;
mod fuzz;
mod imports;
mod msrv;
mod nightly;
mod notes;
mod package;
mod pages;
mod rooms;
mod structure;
mod words;

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsStr;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::thread;

/// A gate: its name, its function, and how to fix its findings.
struct Gate {
    name: &'static str,
    run: fn() -> bool,
    remedy: &'static str,
}

const GATES: [Gate; 10] = [
    Gate { name: "fmt", run: || cargo("fmt --all -- --check"), remedy: "cargo fmt --all" },
    Gate { name: "structure", run: structure::check, remedy: "each line above says what to do" },
    Gate {
        name: "clippy",
        run: || {
            cargo("clippy --workspace --all-targets -- -D warnings")
                && cargo("clippy -p rowkey -p rowkey-client --no-default-features --all-targets -- -D warnings")
                && cargo("clippy -p rowkey -p rowkey-client -p rowkey-encryption -p rowkey-transfer --all-features --all-targets -- -D warnings")
                // As tests embed it: everything else asks for its features.
                && cargo("clippy -p rowkey-emulator --all-targets -- -D warnings")
        },
        remedy: "mend the code; an exception is an #[expect] with its reason",
    },
    Gate {
        name: "benches",
        // A workspace of its own, which the commands above do not see. A package that the lock file does not have
        // is an error, too.
        run: || {
            cargo("clippy --locked --manifest-path benches/Cargo.toml --all-targets -- -D warnings")
        },
        remedy: "change benches/ with the library; cargo check --manifest-path benches/Cargo.toml adds to its lock file",
    },
    Gate { name: "doc", run: doc, remedy: "mend the links and the missing docs" },
    Gate {
        name: "test",
        run: || cargo("test --workspace"),
        remedy: "cargo test --workspace, then one test at a time",
    },
    Gate {
        name: "features",
        run: || {
            cargo(
                "test -p rowkey -p rowkey-client -p rowkey-encryption -p rowkey-transfer --all-features",
            )
        },
        remedy: "cargo test -p rowkey -p rowkey-client -p rowkey-encryption -p rowkey-transfer --all-features",
    },
    Gate {
        name: "neighbour",
        // Alone: features of other packages would be united with its own.
        run: || {
            cargo("test -p rowkey-neighbour")
                && without_c()
                && cargo("test -p rowkey-without-c --features alone")
        },
        remedy: "what rowkey asks of its dependencies changes them for a whole program",
    },
    Gate {
        name: "package",
        run: package::check,
        remedy: "a package has what its sources name: see `include` in its manifest",
    },
    Gate { name: "examples", run: examples, remedy: "cargo run --example NAME" },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_default();
    let rest: Vec<_> = arguments.collect();
    match wanted.as_str() {
        "package" if rest == ["--verify"] => return verdict(package::verify()),
        "fuzz" => return verdict(fuzz::run(&rest)),
        "api" => return verdict(api::run(rest == ["--check"])),
        "msrv" => return verdict(msrv::run()),
        "notes" => return verdict(notes::run(rest.first().map_or("", String::as_str))),
        "nightly" => return verdict(nightly::run(&rest)),
        "fuzz-minimize" => return verdict(fuzz::minimize()),
        _ => {}
    }
    let all = wanted == "ci";
    let gates: Vec<_> = GATES.iter().filter(|gate| all || gate.name == wanted).collect();
    if gates.is_empty() {
        let names: Vec<_> = GATES.iter().map(|gate| gate.name).collect();
        println!(
            "usage: cargo xtask ci|{}|api|msrv|notes|nightly|fuzz|fuzz-minimize",
            names.join("|")
        );
        return ExitCode::FAILURE;
    }
    for gate in gates {
        println!("== {}", gate.name);
        if !(gate.run)() {
            println!("== {} failed; {}", gate.name, gate.remedy);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn verdict(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn doc() -> bool {
    command("cargo", "doc --workspace --no-deps --document-private-items")
        .env("RUSTDOCFLAGS", "-D warnings")
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs each example, one per core. What one prints is shown if it fails.
fn examples() -> bool {
    // The features of the whole workspace, as the tests have them: nothing is built again.
    if !cargo("build --workspace --examples") {
        return false;
    }
    let target = structure::target();
    let left = Mutex::new(structure::examples().into_iter());
    let next = || left.lock().ok().and_then(|mut left| left.next());
    let run_all = || {
        let mut is_good = true;
        while let Some(name) = next() {
            let program = target.join("debug/examples").join(format!("{name}{EXE_SUFFIX}"));
            is_good &= match command(&program, "").output() {
                Ok(output) if output.status.success() => true,
                Ok(output) => {
                    let (shown, errors) = (
                        String::from_utf8_lossy(&output.stdout),
                        String::from_utf8_lossy(&output.stderr),
                    );
                    println!("   {name} failed, {}\n{shown}{errors}", output.status);
                    false
                }
                Err(error) => {
                    println!("   {name} did not start: {error}");
                    false
                }
            };
        }
        is_good
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let runs: Vec<_> = (0..cores).map(|_| scope.spawn(run_all)).collect();
        runs.into_iter().all(|run| run.join().unwrap_or(false))
    })
}

fn cargo(arguments: &str) -> bool {
    println!("   cargo {arguments}");
    command("cargo", arguments).status().is_ok_and(|status| status.success())
}

/// Builds the program that needs no C compiler where there is none. Its test needs one, for the server.
fn without_c() -> bool {
    const BUILD: &str = "build -p rowkey-without-c";
    println!("   CC=/bin/false cargo {BUILD}");
    let mut build = command("cargo", BUILD);
    build.env("CC", "/bin/false").env("CXX", "/bin/false");
    build.status().is_ok_and(|status| status.success())
}

fn command(program: impl AsRef<OsStr>, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace()).current_dir(structure::root());
    command
}
