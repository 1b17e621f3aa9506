//! Containers and blobs, and the rules for changing them. Knows neither HTTP nor time, as the rest
//! of [`crate::store`].
//!
//! | module | what is in it |
//! |---|---|
//! | [`account`] | [`Blobs`]: an account's containers by name, their life and death |
//! | [`container`] | [`Container`]: blobs in order, access, a lease |
//! | [`entry`] | `Entry`: what has one name: a blob, its snapshots, blocks without a list |
//! | [`write`](mod@write) | what puts bytes into a blob: at once, as blocks, at its end, as a copy |
//! | [`change`] | what changes a blob and not its bytes: headers, metadata, snapshots, deletion |
//! | [`list`] | pages of blobs by prefix and delimiter |
//! | [`lease`] | [`lease::Lease`]: its states, and who may do what in each |
//! | [`condition`] | conditions on tags and times, as reads and writes answer them |
//! | [`tier`] | [`tier::Tier`]: access tiers, archived blobs and how they come back |
//! | [`find`] | searches for blobs by their tags |
//! | [`content`] | [`Content`]: bytes in the pieces they came in |

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

pub(crate) use account::{Blobs, Version};
pub(crate) use container::Container;
pub(crate) use content::Content;
pub(crate) use entry::{Blob, Kind};
