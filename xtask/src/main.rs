//! `cargo xtask ci`: every gate that needs nothing but Rust, in the order of cheapness.
//! `cargo xtask GATE` runs one: fmt, clippy, doc, test, neighbour, features, examples, structure.
//! `cargo xtask fuzz [SECONDS] [TARGET..]` runs the fuzz targets, which need a C++ compiler, too.
//! `cargo xtask nightly [PAIRS] [SEEDS]` runs what takes too long for each change, on the real clock.

#![expect(clippy::print_stdout, reason = "a program for people")]

mod fuzz;
mod nightly;
mod pages;
mod structure;

use std::process::{Command, ExitCode};

/// A gate: its name, what it runs, and how to mend what it finds.
struct Gate {
    name: &'static str,
    run: fn() -> bool,
    remedy: &'static str,
}

const GATES: [Gate; 8] = [
    Gate { name: "fmt", run: || cargo("fmt --all -- --check"), remedy: "cargo fmt --all" },
    Gate { name: "structure", run: structure::check, remedy: "each line above says what to do" },
    Gate {
        name: "clippy",
        run: || {
            cargo("clippy --workspace --all-targets -- -D warnings")
                && cargo("clippy -p rowkey --no-default-features --all-targets -- -D warnings")
                && cargo("clippy -p rowkey --all-features --all-targets -- -D warnings")
                && cargo("clippy -p rowkey-encryption --all-features --all-targets -- -D warnings")
                && cargo("clippy -p rowkey-server --all-features --all-targets -- -D warnings")
        },
        remedy: "mend the code; an exception is an #[expect] with its reason",
    },
    Gate { name: "doc", run: doc, remedy: "mend the links and the missing docs" },
    Gate {
        name: "test",
        run: || cargo("test --workspace"),
        remedy: "cargo test --workspace, then one test at a time",
    },
    Gate {
        name: "features",
        run: || cargo("test -p rowkey -p rowkey-encryption -p rowkey-server --all-features"),
        remedy: "cargo test -p rowkey -p rowkey-encryption -p rowkey-server --all-features",
    },
    Gate {
        name: "neighbour",
        // Alone: features of other packages would be united with its own.
        run: || cargo("test -p rowkey-neighbour"),
        remedy: "what rowkey asks of its dependencies changes them for a whole program",
    },
    Gate { name: "examples", run: examples, remedy: "cargo run --example NAME" },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next().unwrap_or_default();
    let rest: Vec<_> = arguments.collect();
    match wanted.as_str() {
        "fuzz" => return verdict(fuzz::run(&rest)),
        "nightly" => return verdict(nightly::run(&rest)),
        "fuzz-minimize" => return verdict(fuzz::minimize()),
        _ => {}
    }
    let all = wanted == "ci";
    let gates: Vec<_> = GATES.iter().filter(|gate| all || gate.name == wanted).collect();
    if gates.is_empty() {
        let names: Vec<_> = GATES.iter().map(|gate| gate.name).collect();
        println!("usage: cargo xtask ci|{}|nightly|fuzz|fuzz-minimize", names.join("|"));
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

fn examples() -> bool {
    structure::examples().iter().all(|name| cargo(&format!("run --quiet --example {name}")))
}

fn cargo(arguments: &str) -> bool {
    println!("   cargo {arguments}");
    command("cargo", arguments).status().is_ok_and(|status| status.success())
}

fn command(program: &str, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.split(' ')).current_dir(structure::root());
    command
}
