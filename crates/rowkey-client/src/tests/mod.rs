//! Tests of the pipeline and of the handles that send through it, against scripted servers that misbehave, without
//! real waits.
//!
//! - [`script`]: the scripted server
//! - [`attempts`]: retries, delays, and errors
//! - [`credentials`]: credentials that change while in use
//! - [`pacing`]: paces, the retry budget, second requests of reads
//! - [`secondary`]: reads at the secondary
//! - [`pieces`]: messages and blobs whose responses are lost or truncated
//! - [`policies`]: headers and policies that a program adds
//! - [`spans`]: the content of traces
//! - [`metrics`]: metrics of operations and attempts
//! - [`receipts`]: what successful operations used

mod attempts;
mod credentials;
mod metrics;
mod pacing;
mod pieces;
mod policies;
mod receipts;
mod script;
mod secondary;
mod spans;
