//! The operations of the Queue service, as a closed set.
//!
//! As with tables, a request is parsed in two steps: its [`Target`] from the address alone, then
//! the [`Op`] from everything except the body, so that it can be authorized before the body is
//! read.

use super::metadata::Metadata;

/// The resource that an address names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// `/name?comp=acl`
    Acl(&'a str),
    /// `/?restype=service&comp=userdelegationkey`
    DelegationKey,
    /// `/name/messages/id`
    Message(&'a str, &'a str),
    /// `/name/messages`
    Messages(&'a str),
    /// `/name?comp=metadata`
    Metadata(&'a str),
    /// `/?restype=service&comp=properties`
    Properties,
    /// `/name`
    Queue(&'a str),
    /// `/?comp=list`
    Queues,
    /// `/?restype=service&comp=stats`
    Stats,
}

/// An operation with all its parameters except the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op<'a> {
    /// [Clear Messages](https://learn.microsoft.com/rest/api/storageservices/clear-messages)
    Clear(&'a str),
    /// [Create Queue](https://learn.microsoft.com/rest/api/storageservices/create-queue4)
    Create(&'a str, Metadata),
    /// [Delete Queue](https://learn.microsoft.com/rest/api/storageservices/delete-queue3)
    Delete(&'a str),
    /// [Delete Message](https://learn.microsoft.com/rest/api/storageservices/delete-message2)
    DeleteMessage(Handle<'a>),
    /// [Get Messages](https://learn.microsoft.com/rest/api/storageservices/get-messages)
    Get {
        /// The queue.
        queue: &'a str,
        /// The maximum number of messages, 1 to 32.
        count: u32,
        /// For how many seconds the messages are invisible to other receivers, 1 to 604,800.
        visibility: u32,
    },
    /// [Get Queue ACL](https://learn.microsoft.com/rest/api/storageservices/get-queue-acl)
    GetAcl(&'a str),
    /// [Get Queue Metadata](https://learn.microsoft.com/rest/api/storageservices/get-queue-metadata)
    GetMetadata(&'a str),
    /// [Get Queue Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-queue-service-properties)
    GetProperties,
    /// [Get Queue Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-queue-service-stats)
    GetStats,
    /// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key);
    /// the body is a document.
    GetUserDelegationKey,
    /// [List Queues](https://learn.microsoft.com/rest/api/storageservices/list-queues1)
    List(Listing),
    /// [Peek Messages](https://learn.microsoft.com/rest/api/storageservices/peek-messages)
    Peek {
        /// The queue.
        queue: &'a str,
        /// The maximum number of messages, 1 to 32.
        count: u32,
    },
    /// [Put Message](https://learn.microsoft.com/rest/api/storageservices/put-message);
    /// the body is a document.
    Put {
        /// The queue.
        queue: &'a str,
        /// For how many seconds the message lives; `None` means that it never expires.
        lifetime: Option<u32>,
        /// For how many seconds the message is invisible, 0 to 604,800.
        visibility: u32,
    },
    /// [Set Queue ACL](https://learn.microsoft.com/rest/api/storageservices/set-queue-acl);
    /// the body is a document.
    SetAcl(&'a str),
    /// [Set Queue Metadata](https://learn.microsoft.com/rest/api/storageservices/set-queue-metadata)
    SetMetadata(&'a str, Metadata),
    /// [Set Queue Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-queue-service-properties);
    /// the body is a document.
    SetProperties,
    /// [Update Message](https://learn.microsoft.com/rest/api/storageservices/update-message);
    /// the body is a document, or empty.
    Update {
        /// The message.
        handle: Handle<'a>,
        /// For how many seconds the message is invisible, 0 to 604,800.
        visibility: u32,
    },
}

impl Op<'_> {
    /// The metadata that is set, if any.
    pub(crate) fn metadata_mut(&mut self) -> Option<&mut Metadata> {
        match self {
            Self::Create(_, metadata) | Self::SetMetadata(_, metadata) => Some(metadata),
            _ => None,
        }
    }
}

/// A message and the pop receipt of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle<'a> {
    /// The queue.
    pub(crate) queue: &'a str,
    /// The message's id as the client wrote it.
    pub(crate) id: &'a str,
    /// The value in the pop receipt.
    pub(crate) stamp: i64,
}

/// The options of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// `prefix`, if it was sent.
    pub(crate) prefix: Option<String>,
    /// `marker`, if it was sent: where the page begins.
    pub(crate) marker: Option<String>,
    /// `maxresults`, 1 to 5,000.
    pub(crate) max: Option<u32>,
    /// Whether the listing includes metadata.
    pub(crate) metadata: bool,
}

/// The name of the queue in a marker, `/account/queue`.
pub(crate) fn marker_name(marker: &str) -> &str {
    marker.rsplit('/').next().unwrap_or(marker)
}
