//! Servers with durable data: acknowledged writes survive.
//!
//! | module | contents |
//! |---|---|
//! | [`kills`] | the program is killed at random points under load, and nothing acknowledged is lost |
//! | [`model`] | a server that is stopped and opened again has all its data |
//! | [`requests`] | random requests for it |
//! | [`worker`] | what one client did, and what may therefore be there |
//! | [`tables`] | operations on entities |
//! | [`queues`] | operations on messages |
//! | [`blobs`] | operations on blobs |
//! | [`damage`] | bits that turn over, files that end too early or are missing: nothing is lost silently |
//! | [`directory`] | directories that are refused, and torn journals |
//! | [`full`] | disks that are full, and have room again |
//! | [`restart`] | everything that can be kept is the same after a restart |
//! | [`program`] | the program in a process of its own; directories for a test |

mod blobs;
mod damage;
mod directory;
#[cfg(target_os = "linux")]
mod full;
mod kills;
mod model;
mod program;
mod queues;
mod requests;
mod restart;
mod tables;
mod worker;
