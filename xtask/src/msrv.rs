//! `cargo xtask msrv`: each published package compiles with the compiler that its manifest names as the oldest.
//!
//! Needs those compilers, which `rustup toolchain install VERSION --profile minimal` brings.

use std::fs;
use std::process::Command;

use crate::structure::{root, target};

/// What is compiled, beside each package with its default features. `rowkey-emulator` has no line for `durable`,
/// whose embedded store needs the compiler of `rowkey-server`, as its manifest says.
const FEATURES: [(&str, &str); 8] = [
    ("rowkey", "--no-default-features"),
    ("rowkey", "--all-features"),
    ("rowkey-client", "--all-features"),
    ("rowkey-patterns", "--all-features"),
    ("rowkey-encryption", "--all-features"),
    ("rowkey-otel", "--all-features"),
    ("rowkey-transfer", "--all-features"),
    ("rowkey-emulator", "--features oauth,tls"),
];

/// Checks every package and prints the commands.
pub(crate) fn run() -> bool {
    let mut is_good = true;
    for name in crate::package::published() {
        let Some(version) = oldest(&name) else {
            println!("   {name} has no rust-version");
            return false;
        };
        let features = FEATURES.iter().filter(|(package, _)| *package == name);
        for features in std::iter::once("").chain(features.map(|(_, features)| *features)) {
            println!("   cargo +{version} check -p {name} {features}");
            let check = Command::new("rustup")
                .args(["run", &version, "cargo", "check", "--quiet", "-p", &name])
                .args(features.split_whitespace())
                .current_dir(root())
                // One for each compiler, so that none builds again what another has built.
                .env("CARGO_TARGET_DIR", target().join(format!("msrv-{version}")))
                .status();
            is_good &= check.is_ok_and(|status| status.success());
        }
    }
    is_good
}

/// The oldest compiler of a package: its own, or that of the workspace.
fn oldest(name: &str) -> Option<String> {
    let find = |path: &str| {
        let text = fs::read_to_string(root().join(path)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("rust-version = \""))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    find(&format!("crates/{name}/Cargo.toml")).or_else(|| find("Cargo.toml"))
}
