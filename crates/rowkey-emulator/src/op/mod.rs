//! What requests ask, as values that know neither HTTP requests nor stored data. The formats produce
//! them, and the store takes them.
//!
//! | module | contents |
//! |---|---|
//! | [`table`], [`queue`], [`blob`] | the operations of each service, as closed sets |
//! | [`entity`] | entities in request bodies, with the service's checks |
//! | [`metadata`] | names and values of a queue, container or blob |
//! | [`condition`] | entity tags, and the conditions on containers and blobs |
//! | [`tags`], [`tag_filter`] | blob index tags, and expressions over them |
//! | [`tier`] | access tiers |
//! | [`marker`] | continuation markers of listings of blobs |
//! | [`views`] | what the store reports of leases and of blobs with tags |
//! | [`names`] | the check of table names |
//! | [`rejection`] | errors that the services share |
//! | [`random`] | pseudorandom numbers from a seed |

pub(crate) mod blob;
pub(crate) mod condition;
pub(crate) mod entity;
pub(crate) mod marker;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod queue;
pub(crate) mod random;
pub(crate) mod rejection;
pub(crate) mod table;
pub(crate) mod tag_filter;
pub(crate) mod tags;
pub(crate) mod tier;
pub(crate) mod views;
