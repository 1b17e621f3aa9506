//! The Blob service over HTTP: requests to operations on the store, and back.
//!
//! | module | what is in it |
//! |---|---|
//! | [`call`] | [`Call`](call::Call): one request, authorized; which operation it is |
//! | [`batch`] | several requests in one |
//! | [`upload`] | bodies: in pieces, with their checksums |
//! | [`write`](mod@write) | what puts bytes into a blob |
//! | [`delegation`] | keys for user delegation signatures |
//! | [`copy`] | copies within an account |
//! | [`read`] | blobs and what describes them, in headers |
//! | [`change`] | headers, metadata, leases, snapshots, deletion |
//! | [`containers`] | containers, lists, and the service's documents |
//! | [`wire`] | the formats: operations, requests, answers |
//! | [`permit`] | what each operation needs of a shared access signature |

mod batch;
pub(crate) mod call;
mod change;
mod containers;
mod copy;
mod delegation;
mod permit;
mod read;
pub(crate) mod upload;
pub(crate) mod wire;
mod write;
