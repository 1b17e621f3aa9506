//! A shared access signature for one user: a service with the account key gives a user's app access to only
//! the user's own rows, for an hour, and can revoke it.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use rowkey::sas::{self, Sas, TablePermissions, Warning};
use rowkey::service::AccessPolicy;
use rowkey::{Clock, Entity, ErrorCode, Match, StorageAccount, SystemClock};
use rowkey_emulator::Server;

#[derive(Clone, Debug, PartialEq, Entity)]
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
    let note = |user: &str, text: &str| Note { user: user.into(), id: 1, text: text.into() };
    notes.insert(&note("ada", "mine")).await?;
    notes.insert(&note("bob", "his")).await?;

    // The service: tokens refer to a policy, so that they can be revoked before they expire.
    let policy = |id: &str| AccessPolicy {
        id: id.into(),
        permission: Some((TablePermissions::QUERY | TablePermissions::ADD).to_string()),
        ..AccessPolicy::default()
    };
    notes.set_access_policy(policy("app-1")).await?;
    let token = Sas::table("notes")
        .partition(Note::partition("ada"))
        .policy("app-1")
        .valid_for(Duration::from_secs(3600))
        .sign(&account)?;

    // The only warning is that this server has no https.
    let now = SystemClock.now();
    assert_eq!(token.lint(now), [Warning::AllowsHttp]);

    // The user's app: it gets only a connection string, which works with any client.
    let app = StorageAccount::from_connection_string(&token.connection_string())?;
    let hers = app.table("notes");
    assert_eq!(hers.query(Note::partition("ada")).all().await?.len(), 1);
    hers.insert(&Note { user: "ada".into(), id: 2, text: "new".into() }).await?;
    println!("ada reads and adds her notes");

    // Other users' rows are invisible and cannot be written.
    assert!(hers.get(Note::key("bob", 1)).await?.is_none());
    let written = hers.insert(&Note { user: "bob".into(), id: 2, text: "x".into() }).await;
    assert_eq!(code_of(written), Some(ErrorCode::AUTHORIZATION_FAILURE));
    let deleted = hers.delete(Note::key("ada", 1), Match::Any).await;
    assert_eq!(code_of(deleted), Some(ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH));
    println!("she sees nothing of bob's, and may not delete");

    // Another policy replaces it: from now on her token is invalid.
    notes.rotate_access_policy("app-1", policy("app-2")).await?;
    let read = hers.get(Note::key("ada", 1)).await;
    assert_eq!(code_of(read), Some(ErrorCode::AUTHENTICATION_FAILED));
    println!("her token is revoked");

    // An example of an unsafe token.
    let careless = Sas::table("notes")
        .permissions(TablePermissions::ALL)
        .valid_for(Duration::from_secs(365 * 24 * 3600))
        .sign(&account)?;
    let warnings = sas::lint(careless.query(), now)?;
    assert_eq!(warnings.len(), 4);
    for warning in warnings {
        println!("careless: {warning}");
    }
    Ok(())
}

/// The error code of a refusal; `None` if the call succeeded.
fn code_of<T>(result: rowkey::Result<T>) -> Option<ErrorCode> {
    result.err().and_then(|error| error.code().cloned())
}
