//! Entities that expire: sessions that end by themselves, and the job that removes them.
//!
//! Reads leave an expired session out at once. Its rows, its unique token among them, stay until the janitor removes
//! them.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey::store::Store;
use rowkey::{Clock as _, Entity, ManualClock, StorageAccount};
use rowkey_emulator::Server;

// ANCHOR: declare
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "session_{id:6}")]
#[entity(index(name = by_user, row = "user_{user}", many))]
#[entity(unique(name = by_token, value = "{token}"))]
struct Session {
    tenant: String,
    id: u32,
    user: String,
    token: String,
    /// `None` never expires.
    #[entity(expiry)]
    until: Option<DateTime<Utc>>,
}
// ANCHOR_END: declare

fn session(id: u32, until: Option<DateTime<Utc>>) -> Session {
    Session {
        tenant: "contoso".into(),
        id,
        user: "ada".into(),
        token: format!("token-{id}"),
        until,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::auto_advancing(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    let sessions = Store::<Session>::builder(account.table("sessions"))
        .queue(account.queue("sessions"))
        .build()?;
    sessions.create_if_missing().await?;

    let in_an_hour = clock.now() + Duration::from_secs(3600);
    sessions.insert(&session(1, Some(in_an_hour))).await?;
    sessions.insert(&session(2, Some(in_an_hour))).await?;
    sessions.insert(&session(3, None)).await?;
    assert_eq!(sessions.query(Session::by_user("contoso", "ada")).all().await?.len(), 3);

    clock.advance(Duration::from_secs(3600));
    server.clock().advance(Duration::from_secs(3600));
    // ANCHOR: expired
    // An hour later: reads of every kind leave the expired sessions out.
    assert!(sessions.get(Session::key("contoso", 1)).await?.is_none());
    assert!(sessions.find(Session::by_token("token-1")).await?.is_none());
    assert_eq!(sessions.query(Session::by_user("contoso", "ada")).all().await?.len(), 1);

    // Their keys are free, but their unique values are not.
    let again = Session { user: "grace".into(), ..session(1, None) };
    sessions.insert(&again).await?;
    let taken = Session { token: "token-2".into(), ..session(4, None) };
    let refused = sessions.insert(&taken).await;
    assert_eq!(refused.err().and_then(|error| error.details().index), Some("by_token"));

    // The job removes the other one, with its copy and its unique value.
    let report = sessions.delete_expired().run().await?;
    assert_eq!(report.total.right, 1);
    sessions.insert(&taken).await?;
    // ANCHOR_END: expired
    println!("{} expired session was removed", report.total.right);

    assert!(sessions.verify().run().await?.is_clean());
    let left = sessions.count(Session::partition("contoso")).await?;
    println!("{left} sessions are left, and all their rows agree");
    Ok(())
}
