//! The two halves against recorded bytes.
