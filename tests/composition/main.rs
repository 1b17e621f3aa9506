//! Defects of the pattern layer: what breaks when one pattern meets another, a lagging secondary, a
//! lost answer.
//!
//! Each test asserts the correct behaviour. Where it fails today, its `should_panic` names the assertion
//! that fails; the change that mends the defect removes the attribute. The documentation of a test
//! begins with the number of the defect in the list that the write plan of an entity has to mend.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod foreign_rows;
mod ignored_declarations;
mod lagging_secondary;
mod lost_answers;

use rowkey::{ClientOptions, StorageAccount};
use rowkey_server::Server;
use rowkey_tests::sweep::account;

/// A server whose clock stands still.
async fn start() -> (Server, StorageAccount) {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let account = account(&server).unwrap();
    (server, account)
}

/// The account of a program that reads the secondary when the primary fails.
fn reading_secondary(account: &StorageAccount) -> StorageAccount {
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    account.with_options(options)
}
