//! Token vending: a service with the account key issues each user a token for the user's own rows. The apps
//! of two users then access the table themselves, and neither can access the other's rows.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use rowkey::patterns::vending::Vending;
use rowkey::sas::{Sas, TablePermissions};
use rowkey::service::AccessPolicy;
use rowkey::{Entity, ErrorCode, Match, StorageAccount};
use rowkey_emulator::Server;

/// A note, in the partition of its author.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{user}", row = "note_{id:6}")]
struct Note {
    user: String,
    id: u32,
    text: String,
}

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let notes = account.table("notes");
    notes.create().await?;
    account.table("invoices").create().await?;

    // ANCHOR: service
    // The service. Once: a policy, so that all tokens can be taken back, which says what they permit.
    let policy = |id: &str| AccessPolicy {
        id: id.into(),
        permission: Some(TablePermissions::ALL.to_string()),
        ..AccessPolicy::default()
    };
    notes.set_access_policy(policy("notes-1")).await?;
    let vending =
        Vending::new(&account, |user| Sas::table("notes").partition(Note::partition(user)))
            .policy("notes-1")
            .lifetime(Duration::from_secs(30 * 60))
            .margin(Duration::from_secs(10 * 60));
    // For each request of a user, after making sure who it is: the same token again, until it has ten
    // minutes to live.
    let of_ada = vending.token("ada")?;
    let of_bob = vending.token("bob")?;
    assert_eq!(vending.token("ada")?.token.query(), of_ada.token.query());
    // ANCHOR_END: service
    println!("ada's token ends at {}, bob's at {}", of_ada.expires, of_bob.expires);

    // ANCHOR: apps
    // The users' apps. A connection string is all they get.
    for (user, other, vended) in [("ada", "bob", &of_ada), ("bob", "ada", &of_bob)] {
        let app = StorageAccount::from_connection_string(&vended.token.connection_string())?;
        let notes = app.table("notes");
        let note = |user: &str, id| Note { user: user.into(), id, text: "hello".into() };

        notes.insert(&note(user, 1)).await?;
        notes.transaction().insert(&note(user, 2)).insert(&note(user, 3)).submit().await?;
        assert!(notes.get(Note::key(user, 1)).await?.is_some());
        assert_eq!(notes.query(Note::partition(user)).all().await?.len(), 3);
        notes.delete(Note::key(user, 3), Match::Any).await?;

        // The other's rows are not there: not by key, not by query, not by scan.
        assert!(notes.get(Note::key(other, 1)).await?.is_none());
        assert!(notes.query(Note::partition(other)).all().await?.is_empty());
        let all = notes.scan::<Note>().all().await?;
        assert!(all.iter().all(|note| note.entity.user == user));
        // They cannot be written, alone or in a batch, and no other table is open.
        assert_eq!(
            refusal(notes.upsert(&note(other, 1)).await),
            Some(ErrorCode::AUTHORIZATION_FAILURE)
        );
        let batch = notes.transaction().insert(&note(other, 8)).insert(&note(other, 9));
        assert_eq!(refusal(batch.submit().await), Some(ErrorCode::AUTHORIZATION_FAILURE));
        let invoices = app.table("invoices").scan::<Note>().all().await;
        assert_eq!(refusal(invoices), Some(ErrorCode::AUTHORIZATION_FAILURE));
        println!("{user} has {} notes, and sees nothing of {other}'s", all.len());
    }
    // ANCHOR_END: apps

    // ANCHOR: revoke
    // A device was stolen: all tokens end at once, and every other user gets a new one.
    notes.rotate_access_policy("notes-1", policy("notes-2")).await?;
    let stolen = StorageAccount::from_connection_string(&of_bob.token.connection_string())?;
    let read = stolen.table("notes").get(Note::key("bob", 1)).await;
    assert_eq!(refusal(read), Some(ErrorCode::AUTHENTICATION_FAILED));
    let vending = vending.policy("notes-2");
    let app = vending.token("ada")?.token.connection_string();
    let app = StorageAccount::from_connection_string(&app)?;
    assert!(app.table("notes").get(Note::key("ada", 1)).await?.is_some());
    println!("after the policy was replaced, only new tokens are good");
    // ANCHOR_END: revoke

    // Unsafe tokens are not issued at all.
    let careless =
        Vending::new(&account, |_| Sas::table("notes").permissions(TablePermissions::QUERY));
    if let Err(error) = careless.token("ada") {
        println!("{error}");
    }
    Ok(())
}

/// The error code of a refusal; `None` if the call succeeded.
fn refusal<T>(result: rowkey::Result<T>) -> Option<ErrorCode> {
    result.err().and_then(|error| error.code().cloned())
}
