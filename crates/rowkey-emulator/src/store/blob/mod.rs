//! Containers and blobs, and the rules for changing them. Like the rest of [`crate::store`], it
//! knows neither HTTP nor the clock.
//!
//! | module | contents |
//! |---|---|
//! | [`account`] | [`Blobs`]: an account's containers by name; creates and deletes them |
//! | [`container`] | [`Container`]: blobs in order, access level, lease |
//! | [`entry`] | `Entry`: the blob with one name, its snapshots and uncommitted blocks |
//! | [`write`](mod@write) | operations that write content: put, blocks, append, copy |
//! | [`change`] | operations that change a blob but not its content: headers, metadata, snapshots, deletion |
//! | [`list`] | pages of blobs by prefix and delimiter |
//! | [`lease`] | [`lease::Lease`]: its states, and which operations each permits |
//! | [`condition`] | conditions on entity tags, times and index tags |
//! | [`tier`] | [`tier::Tier`]: access tiers, archiving and rehydration |
//! | [`find`] | searches for blobs by their tags |
//! | [`content`] | [`Content`]: bytes in the pieces in which they were received |

pub(crate) mod account;
mod change;
mod condition;
pub(crate) mod container;
pub(crate) mod content;
pub(crate) mod entry;
mod find;
pub(crate) mod lease;
pub(crate) mod list;
pub(crate) mod tier;
pub(crate) mod write;

#[cfg(test)]
mod lease_tests;
#[cfg(test)]
mod tests;

pub(crate) use account::Blobs;
pub(crate) use container::Container;
pub(crate) use content::Content;
pub(crate) use entry::{Blob, Kind, Version};
