//! Paging when requests fail, and when pages end anywhere.

use std::cell::RefCell;

use futures_util::TryStreamExt;
use rowkey::blob::Entry;
use rowkey::{Continuation, Filter, StorageAccount};
use rowkey_emulator::{Fault, Operation, Pages};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{once, sweep_all};

use crate::{Counter, counter, start};

const KINDS: [&str; 4] = ["a", "b", "c", "d"];
const PER_KIND: u32 = 7;

/// All entities, as their keys in order.
fn expected() -> Vec<(String, u32)> {
    KINDS.iter().flat_map(|kind| (0..PER_KIND).map(|id| ((*kind).to_owned(), id))).collect()
}

async fn fill(table: &rowkey::Table) -> TestResult {
    for kind in KINDS {
        let ids = 0..PER_KIND;
        let all = ids.fold(table.transaction(), |all, id| all.insert(&counter(kind, id)));
        all.submit().await?;
    }
    Ok(())
}

/// The entities read so far, and the continuation token.
#[derive(Default)]
struct Progress {
    read: Vec<(String, u32)>,
    next: Option<Continuation>,
}

impl Progress {
    /// Reads pages until an error or the end.
    async fn go_on(&mut self, account: &StorageAccount) -> rowkey::Result<()> {
        let query = account.table("counters").scan::<Counter>().page_size(5);
        let query = match self.next.take() {
            Some(token) => query.resume(token),
            None => query,
        };
        let mut pages = query.pages();
        while let Some(page) = pages.try_next().await? {
            let read =
                page.entities.into_iter().map(|stored| (stored.entity.kind, stored.entity.id));
            self.read.extend(read);
            self.next = page.continuation;
        }
        Ok(())
    }
}

#[tokio::test]
async fn every_entity_is_read_exactly_once() -> TestResult {
    let (server, _, table) = start().await?;
    fill(&table).await?;
    let runs = sweep_all(
        &server,
        async |account| {
            let mut progress = Progress::default();
            let result = progress.go_on(account).await;
            (progress.read, result)
        },
        async |_, _| Ok(()),
        |_, (read, result)| {
            assert!(result.is_ok(), "{result:?}");
            assert_eq!(*read, expected());
        },
    )
    .await?;
    assert_eq!(runs.requests, 6);
    Ok(())
}

#[tokio::test]
async fn an_interrupted_scan_resumes_from_its_token() -> TestResult {
    let (server, _, table) = start().await?;
    fill(&table).await?;
    sweep_all(
        &server,
        async |account| {
            let mut progress = Progress::default();
            let result = progress.go_on(&once(account)).await;
            (RefCell::new(progress), result.is_err())
        },
        async |account, (progress, broke)| {
            if *broke {
                let mut so_far = progress.take();
                so_far.go_on(account).await?;
                progress.replace(so_far);
            }
            Ok(())
        },
        |_, (progress, _)| assert_eq!(progress.borrow().read, expected()),
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn short_pages_lose_no_entities() -> TestResult {
    let (server, account, table) = start().await?;
    fill(&table).await?;
    for n in 0..20 {
        account.table(&format!("more{n:02}")).create().await?;
    }
    let mut cuts = 0;
    for seed in 0..40 {
        let chaos = server.chaos(Pages::seeded(seed));
        let keys = |found: Vec<rowkey::Stored<Counter>>| {
            found.into_iter().map(|s| (s.entity.kind, s.entity.id)).collect::<Vec<_>>()
        };
        assert_eq!(keys(table.scan().all().await?), expected(), "{seed}");
        assert_eq!(keys(table.scan().page_size(3).take(20).all().await?), expected()[..20]);
        let ahead = || table.scan().page_size(3).prefetch();
        assert_eq!(keys(ahead().stream().try_collect().await?), expected(), "{seed}");
        assert_eq!(keys(ahead().take(20).stream().try_collect().await?), expected()[..20]);
        let one = table.query(Counter::partition("b")).all().await?;
        assert_eq!(keys(one), expected()[7..14], "{seed}");
        // Most rows do not match: pages are cut among them, too.
        let fifth = Filter::raw("RowKey eq '0005'")?;
        let found = keys(table.scan().filter(fifth).all().await?);
        assert_eq!(found, KINDS.map(|kind| (kind.to_owned(), 5)), "{seed}");
        assert_eq!(table.query(Counter::partition("c")).first().await?.unwrap().entity.id, 0);
        assert_eq!(account.tables().all().await?.len(), 21, "{seed}");
        cuts += chaos.cuts();
    }
    assert!(cuts > 500, "{cuts}");
    let before = server.journal();
    table.scan::<Counter>().all().await?;
    assert_eq!(server.journal().since(&before).len(), 1, "without chaos it is one page");
    Ok(())
}

#[tokio::test]
async fn the_next_page_is_prefetched() -> TestResult {
    let (server, _, table) = start().await?;
    let ids = 0..100;
    ids.fold(table.transaction(), |all, id| all.insert(&counter("a", id))).submit().await?;
    let held = server.inject(Fault::on(Operation::QueryEntities).nth(2).hold());
    let before = server.journal();
    let mut all = table.query(Counter::partition("a")).page_size(40).prefetch().stream();
    for id in 0..39 {
        assert_eq!(all.try_next().await?.map(|stored| stored.entity.id), Some(id));
        // (What sends requests gets a turn, as it does when a program waits for anything.)
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    held.wait_until_held().await;
    assert_eq!(server.journal().since(&before).len(), 2, "and not the page after it");
    held.release();
    let rest: Vec<_> = all.map_ok(|stored| stored.entity.id).try_collect().await?;
    assert!(rest.into_iter().eq(39..100));
    assert_eq!(server.journal().since(&before).len(), 3);
    Ok(())
}

#[tokio::test]
async fn prefetched_pages_are_unchanged_if_any_request_fails() -> TestResult {
    let (server, _, table) = start().await?;
    fill(&table).await?;
    let runs = sweep_all(
        &server,
        async |account| {
            let query = account.table("counters").scan::<Counter>().page_size(5).prefetch();
            let pages: Vec<_> = query.pages().try_collect().await?;
            let ends = pages.last().is_some_and(|page| page.continuation.is_none());
            let all = pages.into_iter().flat_map(|page| page.entities);
            let all: Vec<_> = all.map(|s| (s.entity.kind, s.entity.id)).collect();
            Ok::<_, rowkey::Error>((all, ends))
        },
        async |_, _| Ok(()),
        |_, result| assert_eq!(result.as_ref().ok(), Some(&(expected(), true))),
    )
    .await?;
    assert_eq!(runs.requests, 6);
    Ok(())
}

#[tokio::test]
async fn an_error_stops_prefetching() -> TestResult {
    let (server, account, table) = start().await?;
    fill(&table).await?;
    let _third = server.inject(Fault::on(Operation::QueryEntities).nth(3).close_before_commit());
    let mut all =
        once(&account).table("counters").scan::<Counter>().page_size(5).prefetch().stream();
    for (_, id) in &expected()[..10] {
        assert_eq!(all.try_next().await?.map(|stored| stored.entity.id), Some(*id));
    }
    assert!(all.try_next().await.is_err());
    assert!(all.try_next().await?.is_none());
    Ok(())
}

#[tokio::test]
async fn chaos_is_deterministic_for_a_seed() -> TestResult {
    let (server, _, table) = start().await?;
    fill(&table).await?;
    let mut sizes = Vec::new();
    for seed in [7, 7, 8] {
        let _chaos = server.chaos(Pages::seeded(seed));
        let pages: Vec<_> = table.scan::<Counter>().pages().try_collect().await?;
        sizes.push(pages.iter().map(|page| page.entities.len()).collect::<Vec<_>>());
    }
    assert_eq!(sizes[0], sizes[1]);
    assert_ne!(sizes[0], sizes[2]);
    Ok(())
}

#[tokio::test]
async fn short_listing_pages_lose_no_items() -> TestResult {
    let (server, account, _) = start().await?;
    let mut names: Vec<String> = (100..140).map(|number| format!("list-{number}")).collect();
    let container = account.container("listed");
    container.create().await?;
    for name in &names {
        account.queue(name).create().await?;
        account.container(name).create().await?;
        container.blob(name).put("x").send().await?;
    }
    names.sort();
    let mut cuts = 0;
    for seed in 0..20 {
        let chaos = server.chaos(Pages::seeded(seed));
        let queues = account.queues().starting_with("list-").all().await?;
        assert!(queues.iter().map(|queue| &queue.name).eq(&names), "seed {seed}");
        let containers = account.containers().starting_with("list-").all().await?;
        assert!(containers.iter().map(|container| &container.name).eq(&names), "seed {seed}");
        let blobs = container.blobs().page_size(7).all().await?;
        assert!(blobs.iter().map(|blob| &blob.name).eq(&names), "seed {seed}");
        let folder: Vec<_> = container.blobs().folder("-1").stream().try_collect().await?;
        assert_eq!(folder, [Entry::Prefix("list-1".to_owned())], "seed {seed}");
        cuts += chaos.cuts();
    }
    assert!(cuts > 100, "{cuts}");
    Ok(())
}

#[tokio::test]
async fn a_fault_on_a_table_matches_its_transactions() -> TestResult {
    let (server, account, table) = start().await?;
    let other = account.table("others");
    other.create().await?;
    let fault = Fault::on(Operation::Transaction).resource("others").close_before_commit();
    let fault = server.inject(fault);
    table.transaction().insert(&counter("a", 1)).submit().await?;
    assert_eq!(fault.hits(), 0);
    let once = once(&account).table("others");
    assert!(once.transaction().insert(&counter("a", 1)).submit().await.is_err());
    assert_eq!(fault.hits(), 1);
    Ok(())
}
