//! The Blob service over HTTP: turns requests into operations on the store, and results into
//! responses.
//!
//! | module | contents |
//! |---|---|
//! | [`answer`] | parses and authorizes a request, and calls its operation |
//! | [`call`] | [`Call`](call::Call): one authorized request |
//! | [`batch`] | several requests in one |
//! | [`upload`] | request bodies: received in pieces, with their checksums |
//! | [`write`](mod@write) | operations that write the content of a blob |
//! | [`copy`] | copies within an account |
//! | [`read`] | blobs, their properties and metadata |
//! | [`change`] | headers, metadata, leases, snapshots, deletion |
//! | [`containers`] | containers, listings, and the service's documents |
//! | [`permit`] | the permissions that each operation requires |

pub(crate) mod answer;
mod batch;
mod call;
mod change;
mod containers;
mod copy;
mod permit;
mod read;
pub(crate) mod upload;
mod write;
