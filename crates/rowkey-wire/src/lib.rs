//! The wire formats of the Azure Table, Queue and Blob services that client and server share.
//!
//! This crate encodes and decodes bytes. It has no access to sockets, clocks or randomness, so the
//! client (`rowkey`) and the in-memory server (`rowkey-emulator`) can share it without sharing
//! behaviour: it defines *formats*, while the server alone defines *semantics* (the effect of a
//! merge, when a 412 is returned).
//!
//! Formats that only one side uses are in the crate of that side: `rowkey` writes requests and
//! reads responses, `rowkey-emulator` reads requests and writes responses. Each side is tested
//! against bytes from outside the project (`vectors/`, each file naming its source), because two
//! sides that only agree with each other may both be wrong.
//!
//! | module | contents |
//! |---|---|
//! | [`limits`] | the documented limits of the service |
//! | [`edm`] | the eight property types and their values |
//! | [`key`] | PartitionKey and RowKey: validity, quoting, order |
//! | [`etag`] | entity tags and the `If-Match` condition |
//! | [`code`] | service error codes |
//! | [`filter`] | the `$filter` language: tree, printer, parser |
//! | [`odata`] | entities as JSON |
//! | [`multipart`] | HTTP messages in the body of an entity group transaction |
//! | [`xml`] | ACL, service properties, statistics |
//! | [`error`] | rejections and the formats of error bodies |
//! | [`auth`] | strings to sign, signatures, shared access signatures |
//! | [`token`] | continuation tokens |
//! | [`blob`] | names of containers and blobs, checksums, headers |
//! | [`queue`] | names of queues |
//! | [`serial`] | values in serde formats, such as the JSON of an API |
//! | [`headers`] | header names, versions, dates |

// Decoders read numbers, dates and lengths from untrusted input. Arithmetic on them is checked or
// saturates. Where it cannot overflow, the lint exception states the reason.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod auth;
pub mod blob;
pub mod code;
pub mod edm;
pub mod error;
pub mod etag;
pub mod filter;
pub mod headers;
pub mod key;
pub mod limits;
pub mod multipart;
pub mod odata;
pub mod queue;
pub mod serial;
pub mod token;
pub mod xml;

/// `Debug` that shows only these fields: the others may hold contents, keys or secrets, or have no text. Generic
/// parameters stand in brackets before the type.
#[doc(hidden)]
#[macro_export]
macro_rules! shown {
    ($(#[$doc:meta])* $name:ident: $($field:ident),+) => {
        $crate::shown! { $(#[$doc])* [] $name<>: $($field),+ }
    };
    ($(#[$doc:meta])* [$($generics:tt)*] $name:ident<$($lifetime:lifetime)? $(,)? $($type:ident),*>: $($field:ident),+) => {
        impl<$($generics)*> ::std::fmt::Debug for $name<$($lifetime,)? $($type),*> {
            $(#[$doc])*
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))+
                    .finish_non_exhaustive()
            }
        }
    };
}
