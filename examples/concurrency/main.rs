//! The three strategies of concurrency over all services: two programs edit an article (a row), its text (a blob)
//! and its reviews (messages).

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::time::Duration;

use futures_util::future::try_join;
use rowkey::blob::Insertion;
use rowkey::queue::Body;
use rowkey::{Container, Entity, ErrorKind, ManualClock, Match, Queue, StorageAccount, Table};
use rowkey_emulator::Server;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "articles", row = "{number:4}")]
struct Article {
    number: u32,
    title: String,
    edits: i32,
}

/// The kind of a refusal.
fn refused<T>(result: rowkey::Result<T>) -> Result<ErrorKind> {
    Ok(result.err().ok_or("it was not refused")?.kind())
}

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    // Clocks are moved by hand, so that the program does not wait for the ends of leases.
    let server = Server::builder().manual_clock().start().await?;
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::auto_advancing(server.clock().now().to_chrono()))
        .build()?;
    let (articles, reviews) = (account.table("articles"), account.queue("reviews"));
    let texts = account.container("texts");
    articles.create().await?;
    texts.create().await?;
    reviews.create().await?;

    optimistic(&articles, &texts).await?;
    pessimistic(&server, &texts).await?;
    last_writer_wins(&articles, &texts).await?;
    messages(&server, &reviews).await?;
    Ok(())
}

// ANCHOR: optimistic
/// A write on condition that the data is unchanged since it was read. Costs nothing without a conflict.
async fn optimistic(articles: &Table, texts: &Container) -> Result {
    let key = || Article::key(1_u32);
    articles.insert(&Article { number: 1, title: "Snow".into(), edits: 0 }).await?;
    let ours = articles.get(key()).await?.ok_or("just inserted")?;
    let theirs = articles.get(key()).await?.ok_or("just inserted")?;
    articles.replace(&theirs.map(|article| article.edits += 1)).await?;
    assert_eq!(refused(articles.replace(&ours).await)?, ErrorKind::Conflict);
    // `update` reads, changes and writes, again after each conflict: no edit is lost.
    let edit = || articles.update(key(), |article: &mut Article| article.edits += 1);
    try_join(edit(), edit()).await?;
    assert_eq!(articles.get(key()).await?.ok_or("it exists")?.entity.edits, 3);

    // A blob has an ETag, too. It is created if none exists, and replaced if it is unchanged.
    let text = texts.blob("1.txt");
    text.put("It snows.").insert().await?;
    assert!(matches!(text.put("It rains.").insert().await?, Insertion::Exists));
    let read = text.get().await?.ok_or("just written")?;
    text.put("It snows a lot.").send().await?;
    let unchanged = text.with_conditions(&read.properties.etag);
    assert_eq!(refused(unchanged.put("It snowed.").send().await)?, ErrorKind::Conflict);
    println!("optimistic: both stale writes were refused");
    Ok(())
}
// ANCHOR_END: optimistic

// ANCHOR: pessimistic
/// A lease: exclusive write, shared read. It protects blobs and containers; a blob can stand for a row.
async fn pessimistic(server: &Server, texts: &Container) -> Result {
    let term = Duration::from_secs(15);
    let text = texts.blob("1.txt");
    let lease = text.acquire_lease(term).await?.ok_or("it is free")?;
    assert!(text.acquire_lease(term).await?.is_none(), "there is one lease");
    assert_eq!(refused(text.put("Theirs").send().await)?, ErrorKind::Leased);
    assert!(text.get().await?.is_some(), "every program reads");
    text.with_lease(&lease).put("Ours").send().await?;
    // A program that stops does not keep the lease for longer than its term.
    server.clock().advance(term);
    text.put("Theirs").send().await?;
    assert_eq!(refused(lease.renew().await)?, ErrorKind::Leased);

    // The lease of a container protects it from deletion, not its blobs from writes.
    let lease = texts.acquire_lease(term).await?.ok_or("it is free")?;
    assert_eq!(refused(texts.delete().await)?, ErrorKind::Leased);
    text.put("Ours").send().await?;
    lease.release().await?;
    println!("pessimistic: one writer at a time");
    Ok(())
}
// ANCHOR_END: pessimistic

// ANCHOR: last
/// Writes without a condition: right only if each contains all that matters.
async fn last_writer_wins(articles: &Table, texts: &Container) -> Result {
    let key = || Article::key(1_u32);
    let read = articles.get(key()).await?.ok_or("it exists")?;
    articles.upsert(&Article { title: "Rain".into(), ..read.entity.clone() }).await?;
    articles.upsert(&Article { title: "Fog".into(), ..read.entity }).await?;
    assert_eq!(articles.get(key()).await?.ok_or("it exists")?.entity.title, "Fog");
    texts.blob("1.txt").put("It is foggy.").send().await?;
    articles.delete(key(), Match::Any).await?;
    println!("last writer wins: the fog remains");
    Ok(())
}
// ANCHOR_END: last

// ANCHOR: messages
/// A received message is hidden from others for a time, and its pop receipt proves who received it last.
async fn messages(server: &Server, reviews: &Queue) -> Result {
    let hidden = Duration::from_secs(30);
    reviews.put(Body::text("article 1")).send().await?;
    let ours = reviews.receive(1, hidden).await?.pop().ok_or("just put")?;
    assert!(reviews.receive(1, hidden).await?.is_empty(), "it is hidden from others");
    // We are too slow: another program receives it, and our receipt is no longer valid.
    server.clock().advance(hidden);
    let theirs = reviews.receive(1, hidden).await?.pop().ok_or("visible again")?;
    assert_eq!((&theirs.id, theirs.dequeue_count), (&ours.id, 2));
    assert_eq!(refused(reviews.delete(&ours).await)?, ErrorKind::Conflict);
    reviews.delete(&theirs).await?;
    println!("messages: the late receipt was refused");
    Ok(())
}
// ANCHOR_END: messages
