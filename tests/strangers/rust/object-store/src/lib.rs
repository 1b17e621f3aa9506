//! The tests are in `tests/azure.rs`.
