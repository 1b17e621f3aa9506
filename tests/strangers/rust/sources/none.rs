//! Nothing: the package names the crates whose sources the runner takes.
