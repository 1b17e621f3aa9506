//! Copying a blob within the service, and aborting a copy that takes too long.
//!
//! The embedded server completes each copy at once, as the service does with small blobs. So the copy that stays pending
//! is on a stub.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use rowkey::blob::CopyStatus;
use rowkey::service::Service;
use rowkey::{Blob, Credential, ManualClock, Result, StorageAccount};
use wiremock::matchers::{header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

/// How a copy ended.
#[derive(Debug, PartialEq)]
enum Ended {
    Complete,
    /// The service failed to copy, or another program aborted it.
    Failed,
    /// It was pending for too long. The target exists, and is empty.
    Aborted,
}

/// Copies a blob, and looks every second for 30 seconds whether the service is done. Then it aborts the copy.
async fn copy(from: &Blob, to: &Blob) -> Result<Ended> {
    let copied = to.copy_from(from).await?;
    let mut status = copied.status;
    for _ in 0..30 {
        match status {
            CopyStatus::Pending => {}
            CopyStatus::Success => return Ok(Ended::Complete),
            _ => return Ok(Ended::Failed),
        }
        to.account().clock().sleep(Duration::from_secs(1)).await;
        // Another copy to this blob is not ours.
        let now = to.properties().await?.filter(|now| now.copy_id.as_ref() == Some(&copied.id));
        status = now.and_then(|now| now.copy).unwrap_or(CopyStatus::Failed);
    }
    // `false`: it was completed just now.
    let is_aborted = to.abort_copy(&copied.id).await?;
    Ok(if is_aborted { Ended::Aborted } else { Ended::Complete })
}

/// A service whose copies stay pending.
async fn slow() -> MockServer {
    const ID: &str = "1f812371-a41d-49e6-b123-f4b542e851c5";
    let server = MockServer::start().await;
    let pending = |status| {
        ResponseTemplate::new(status)
            .insert_header("ETag", "\"0x1\"")
            .insert_header("Last-Modified", "Thu, 26 Nov 2026 12:00:00 GMT")
            .insert_header("x-ms-blob-type", "BlockBlob")
            .insert_header("x-ms-copy-id", ID)
            .insert_header("x-ms-copy-status", "pending")
    };
    let target = || path("/films/copy.mp4");
    Mock::given(method("PUT")).and(target()).respond_with(pending(202)).mount(&server).await;
    Mock::given(method("HEAD")).and(target()).respond_with(pending(200)).mount(&server).await;
    Mock::given(method("PUT"))
        .and(target())
        .and(query_param("comp", "copy"))
        .and(query_param("copyid", ID))
        .and(header("x-ms-copy-action", "abort"))
        .respond_with(ResponseTemplate::new(204))
        .with_priority(1)
        .expect(1)
        .mount(&server)
        .await;
    server
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let server = rowkey_emulator::Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let films = account.container("films");
    films.create().await?;
    let film = films.blob("film.mp4");
    film.put("a film").send().await?;
    assert_eq!(copy(&film, &films.blob("copy.mp4")).await?, Ended::Complete);
    println!("copied");

    // The clock is advanced by each wait, so that the example takes no time.
    let slow = slow().await;
    let clock = ManualClock::auto_advancing("2026-11-26T12:00:00Z".parse()?);
    let account = StorageAccount::builder()
        .endpoint(Service::Blob, &slow.uri())?
        .credential(Credential::anonymous())
        .clock(clock.clone())
        .build()?;
    let films = account.container("films");
    let ended = copy(&films.blob("film.mp4"), &films.blob("copy.mp4")).await?;
    assert_eq!(ended, Ended::Aborted);
    assert_eq!(clock.slept().len(), 30);
    println!("aborted after 30 seconds");
    Ok(())
}
