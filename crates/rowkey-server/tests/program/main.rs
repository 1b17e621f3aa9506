//! The program in a process of its own, and directories that outlive it, by a client that shares nothing with
//! the real one.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "control")]
mod control;
#[cfg(unix)]
mod descriptors;
#[cfg(unix)]
mod durable;
#[path = "../../src/flags/given_to_azurite.rs"]
mod given_to_azurite;
mod identities;
#[cfg(unix)]
mod import;
mod program;
mod readme;
#[cfg(unix)]
#[cfg(feature = "seeds")]
mod seeds;
#[path = "../../../rowkey-emulator/tests/http/support.rs"]
#[expect(dead_code, reason = "the emulator's tests need all of it")]
mod support;
mod work;

/// A certificate for `--cert` and its key.
mod certificates {
    pub(crate) const CERTIFICATE: &str =
        include_str!("../../../rowkey-emulator/tests/certificates/v1.cert");
    pub(crate) const KEY: &str = include_str!("../../../rowkey-emulator/tests/certificates/v1.key");
}
