//! Servers that keep their data in a directory: what is acknowledged survives.
//!
//! | module | what is in it |
//! |---|---|
//! | [`kills`] | the program is killed at random points under load, and nothing acknowledged is lost |
//! | [`model`] | a server that is stopped and opened again goes on as if it had not been |
//! | [`requests`] | random requests for it |
//! | [`worker`] | what one client did, and what may therefore be there |
//! | [`tables`] | what it does with entities |
//! | [`queues`] | what it does with messages |
//! | [`blobs`] | what it does with blobs |
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
