//! The targets under libFuzzer. `ROWKEY_FUZZ` names the one to run; `cargo xtask fuzz` sets it.

#![no_main]

use std::sync::LazyLock;

use rowkey_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("ROWKEY_FUZZ").unwrap_or_default();
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
    *target.unwrap_or_else(|| panic!("ROWKEY_FUZZ is one of {}", names.join(", ")))
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET.1(input));
