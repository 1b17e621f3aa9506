//! A lease as a lock: only one of several programs works at a time, and a program that has lost the lease can
//! no longer write.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use rowkey::{ErrorKind, StorageAccount};
use rowkey_emulator::Server;

const TERM: Duration = Duration::from_secs(15);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let locks = account.container("locks");
    locks.create_if_missing().await?;
    let state = locks.blob("nightly-report");
    // The first program creates the leased blob.
    state.put("not begun").insert().await?;

    let ours = state.acquire_lease(TERM).await?.ok_or("another client is at work")?;
    assert!(state.acquire_lease(TERM).await?.is_none(), "there is one lease");
    let guarded = state.with_lease(&ours);
    guarded.put("page 1").send().await?;
    ours.renew().await?;

    // No program writes without the lease, but every program can read.
    let refused = state
        .put("page 1, by another client")
        .send()
        .await
        .err()
        .ok_or("written without the lease")?;
    assert_eq!(refused.kind(), ErrorKind::Leased);
    assert_eq!(state.get().await?.ok_or("it exists")?.bytes, "page 1");

    // An operator breaks the lease, and the next program acquires it.
    assert_eq!(state.break_lease(Duration::ZERO).await?, Some(Duration::ZERO));
    let theirs = state.acquire_lease(TERM).await?.ok_or("it was broken")?;
    let lost = guarded.put("page 2").send().await.err().ok_or("written without the lease")?;
    assert_eq!(lost.kind(), ErrorKind::Leased, "what the lease protected stops here");
    let lost = ours.renew().await.err().ok_or("renewed what was broken")?;
    assert_eq!(lost.kind(), ErrorKind::Leased);

    state.with_lease(&theirs).put("begun anew").send().await?;
    assert!(theirs.release().await?);
    println!("one at a time; the program that lost the lease wrote nothing");
    Ok(())
}
