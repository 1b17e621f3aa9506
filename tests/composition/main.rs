//! Defects of the pattern layer: what breaks when one pattern meets another, a lagging secondary, a
//! lost answer.
//!
//! Each test asserts the correct behaviour. Where it fails today, its `should_panic` names the assertion
//! that fails; the change that mends the defect removes the attribute. The documentation of a test
//! begins with the number of the defect in the list that the write plan of an entity has to mend.
//!
//! Some defects show in signatures only, so no test here fails because of them:
//!
//! | item | defect | where it shows |
//! |---|---|---|
//! | 2 | a writer that bypasses the indexes gives no warning | `Bulk`, `BulkDelete` and `Table` take any `Entity`, with or without `INDEXES` |
//! | 3 | `Source`, `Large`, `BlobIndex`, `Unique`, `LocalIndex`, `IndexEntity` and `Bulk` refuse a type with `encrypt` | `RowWriter::must_encrypt` fails unless `Encrypted` writes the row |
//! | 3 | an employee, its copies and its department cannot share a transaction | `IndexedTransaction` takes entities of one type |
//! | 3 | a type has one list, and an entity one value in it | `IndexEntity::new` takes one name and one function that returns an `Option` |
//! | 6 | an indexed entity cannot be written under the version that a client sends | `LocalIndex::replace` takes an `Indexed`, which only a read makes |
//! | 8 | a list by an index has no pages | `IndexQuery` and `RemoteQuery` have neither `pages` nor `resume` |
//! | 9 | verify and repair exist four times | `patterns::verify::Run`, `eventual::repair::Run`, `Unique::repair`, `BlobIndex::repair`; the first two resume; the verdicts are `is_in_step`, `is_clean` and `is_sound` |
//! | 9 | a rate has three names | `requests_per_second`, `entities_per_second`, `BulkDelete::per_second` |
//! | 9 | the update loop has two limits | 16 rounds in `Table::update` and re-encryption, 40 in `rounds` |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bypassed;
mod foreign_rows;
mod ignored_declarations;
mod lagging_secondary;
mod lost_answers;
mod pages;
mod ranges;
mod two_helpers;
mod versions;

use rowkey::{ClientOptions, Entity, Key, StorageAccount};
use rowkey_patterns::local_index::LocalIndex;
use rowkey_server::Server;
use rowkey_tests::sweep::account;

/// An employee with a unique index beside it and an index in another table.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(
    index(name = by_email, row = "email_{email:lower}"),
    index(name = by_city, partition = "city_{city}", row = "{last_name}", many)
)]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
    email: String,
    city: String,
}

fn employee(id: u32, email: &str) -> Employee {
    Employee {
        department: "sales".into(),
        id,
        last_name: "King".into(),
        email: email.into(),
        city: "Leeds".into(),
    }
}

fn key(id: u32) -> Key<Employee> {
    Employee::key("sales", id)
}

/// The employees with the index beside them.
fn staff(account: &StorageAccount) -> LocalIndex<Employee> {
    LocalIndex::new(account.table("staff"))
}

/// A server whose clock stands still, with the table of the employees.
async fn start() -> (Server, StorageAccount) {
    let server = Server::builder().manual_clock().start().await.unwrap();
    let account = account(&server).unwrap();
    account.table("staff").create().await.unwrap();
    (server, account)
}

/// The account of a program that reads the secondary when the primary fails.
fn reading_secondary(account: &StorageAccount) -> StorageAccount {
    let options = ClientOptions { read_from_secondary: true, ..account.options().clone() };
    account.with_options(options)
}
