//! The pipeline against sockets that misbehave as told, without waiting for anything.
//!
//! - [`script`]: the server that does what a script says
//! - [`attempts`]: what is repeated, after which wait, and what the errors say
//! - [`credentials`]: credentials that change while they are used
//! - [`secondary`]: reads from the secondary
//! - [`pieces`]: messages and blobs whose answers are lost, in whole or in part
//! - [`policies`]: what a program adds to requests
//! - [`spans`]: what traces show

mod attempts;
mod credentials;
mod pieces;
mod policies;
mod script;
mod secondary;
mod spans;
