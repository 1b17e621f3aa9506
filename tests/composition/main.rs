//! Defects of the pattern layer: what breaks when one pattern meets another, or a lost answer.
//!
//! Each test asserts the correct behaviour. Where it fails today, its `should_panic` names the assertion
//! that fails; the change that mends the defect removes the attribute. The documentation of a test
//! begins with the number of the defect in the list that the write plan of an entity has to mend.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod foreign_rows;
mod lost_answers;

use rowkey::StorageAccount;
use rowkey_server::Server;
use rowkey_tests::sweep::account;

/// A server whose clock stands still.
async fn start() -> (Server, StorageAccount) {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let account = account(&server).unwrap();
    (server, account)
}
