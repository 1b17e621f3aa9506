//! What errors of the client and the store say: the cause, the outcome, the operation of the caller, and an
//! advice that helps.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod advice;
mod contention;
mod operation_index;
mod undecodable;

use rowkey::service::Service;
use rowkey::{Credential, StorageAccount, StorageAccountBuilder};

/// The start time of the clocks of stubs.
const WHEN: &str = "2026-11-20T12:00:00Z";

/// An account whose three services are all at one address.
fn account_at(uri: &str) -> StorageAccountBuilder {
    let mut builder = StorageAccount::builder().name("acct");
    for service in [Service::Table, Service::Queue, Service::Blob] {
        builder = builder.endpoint(service, uri).unwrap();
    }
    builder.credential(Credential::shared_key("acct", "a2V5").unwrap())
}
