//! Tests of several rooms together: the stored format by its vectors, and keys in a vault.

mod format;
#[cfg(feature = "key-vault")]
mod vault;
