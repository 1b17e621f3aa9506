//! Reads of many pages: where they resume, when they end, and the listings that all services have.
//!
//! - `continuation`: [`Continuation`], the position at which a query resumes; [`Token`], that of the service
//! - `service_token`: [`ServiceToken`], the continuation tokens of other libraries
//! - `progress`: limits of a read, and the detection of tokens that repeat
//! - `listing`: [`Listing`], the tables, queues and containers of an account, and the blobs of a container
//! - `fingerprint`: the identity of a query or listing in its tokens

mod continuation;
mod fingerprint;
pub(crate) mod listing;
pub(crate) mod progress;
mod service_token;

use futures_core::stream::BoxStream;

use crate::error::Result;

pub use continuation::Continuation;
pub(crate) use continuation::Token;
pub(crate) use fingerprint::fingerprint;
pub use listing::{Listing, ListingContinuation, ListingPage};
pub use service_token::ServiceToken;

/// A stream that can be stored, and moved to another task to be polled there.
pub type Stream<T> = BoxStream<'static, Result<T>>;
