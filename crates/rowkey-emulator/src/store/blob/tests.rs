//! Tests of containers: writes, blocks, appends, snapshots, conditions and listings.

use bytes::Bytes;
use rowkey_wire::blob::BlockSource;
use rowkey_wire::blob::{AppendLimits, BlobType, LeaseAction};
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use uuid::Uuid;

use super::account::Blobs;
use super::container::Container;
use super::content::Content;
use super::entry::{Copied, Kind};
use super::list::Listed;
use super::write::{Appended, copy_source};
use crate::op::blob::{Copy, Delete, Description, Guard, ListBlobs, ListContainers};
use crate::op::condition::{Conditions, Match, Tag};
use crate::op::metadata::Metadata;
use crate::op::tags::Tags;
use crate::op::tier::RehydratePriority;
use crate::store::Names;

const A: Uuid = Uuid::from_u128(0xA);

fn at(seconds: i64) -> DateTime {
    let start: DateTime = "2026-01-01T00:00:00Z".parse().unwrap();
    DateTime::from_ticks(start.ticks() + seconds * 10_000_000).unwrap()
}

fn account() -> Blobs {
    let mut blobs = Blobs::new(Names::Blocked);
    blobs.create("c", None, Metadata::default(), at(0)).unwrap();
    blobs
}

fn code<T>(result: Result<T, Rejection>) -> String {
    result.map_or_else(
        |rejection| format!("{} {}", rejection.status.as_u16(), rejection.code),
        |_| "ok".to_owned(),
    )
}

fn bytes(text: &str) -> Content {
    Content::from(Bytes::copy_from_slice(text.as_bytes()))
}

fn if_(conditions: Conditions) -> Guard {
    Guard { lease: None, conditions }
}

fn holding(lease: Uuid) -> Guard {
    Guard { lease: Some(lease), conditions: Conditions::NONE }
}

/// A copy that keeps the metadata, and has no tags.
fn plain_copy() -> Copy<'static> {
    Copy {
        source: "http://h/c/a",
        source_guard: Guard::default(),
        metadata: Metadata::default(),
        tags: Some(Tags::default()),
        tier: None,
        priority: RehydratePriority::Standard,
        seal: false,
        sync: false,
    }
}

/// Puts a blob at second `now`.
fn put(
    blobs: &mut Blobs,
    name: &str,
    text: &str,
    guard: &Guard,
    now: i64,
) -> Result<Tag, Rejection> {
    let (container, version) = blobs.container_mut("c", at(now))?;
    let description = Description::default();
    container.put(name, BlobType::Block, bytes(text), description, guard, version)?;
    Ok(version.tag)
}

fn stage(blobs: &mut Blobs, name: &str, id: &str, text: &str, now: i64) -> String {
    let (container, _) = blobs.container_mut("c", at(now)).unwrap();
    code(container.put_block(name, id, bytes(text), &Guard::default(), at(now)))
}

fn commit(blobs: &mut Blobs, name: &str, list: &[(BlockSource, &str)], now: i64) -> String {
    let list: Vec<_> = list.iter().map(|(source, id)| (*source, (*id).to_owned())).collect();
    let (container, version) = blobs.container_mut("c", at(now)).unwrap();
    let description = Description::default();
    code(container.put_block_list(name, &list, description, &Guard::default(), version))
}

fn append(blobs: &mut Blobs, text: &str, limits: AppendLimits) -> Result<Appended, Rejection> {
    let (container, version) = blobs.container_mut("c", at(1)).unwrap();
    container.append("log", &bytes(text), &limits, &Guard::default(), version)
}

fn container(blobs: &Blobs) -> &Container {
    blobs.container("c").unwrap()
}

fn text(blobs: &Blobs, name: &str) -> String {
    let content = &container(blobs).blob(name, None).unwrap().content;
    String::from_utf8(content.pieces().flatten().collect()).unwrap()
}

#[test]
fn every_write_changes_the_etag_even_at_the_same_time() {
    let mut blobs = account();
    let one = put(&mut blobs, "b", "1", &Guard::default(), 1).unwrap();
    let two = put(&mut blobs, "b", "2", &Guard::default(), 1).unwrap();
    assert!(two > one);
    assert_eq!(text(&blobs, "b"), "2");
    assert_eq!(container(&blobs).blob("b", None).unwrap().version.tag, two);
}

#[test]
fn put_blob_checks_conditions() {
    let mut blobs = account();
    let new = if_(Conditions { none_match: Some(Match::Any), ..Conditions::NONE });
    let any = if_(Conditions { matches: Some(Match::Any), ..Conditions::NONE });
    assert_eq!(code(put(&mut blobs, "b", "1", &any, 1)), "412 ConditionNotMet");
    let tag = put(&mut blobs, "b", "1", &new, 1).unwrap();
    assert_eq!(code(put(&mut blobs, "b", "2", &new, 2)), "409 BlobAlreadyExists");
    assert_eq!(text(&blobs, "b"), "1");
    let same = if_(Conditions { matches: Some(Match::Tag(tag)), ..Conditions::NONE });
    let tag = put(&mut blobs, "b", "3", &same, 2).unwrap();
    assert_eq!(code(put(&mut blobs, "b", "4", &same, 3)), "412 ConditionNotMet");
    let other = if_(Conditions { none_match: Some(Match::Tag(tag)), ..Conditions::NONE });
    assert_eq!(code(put(&mut blobs, "b", "4", &other, 3)), "412 ConditionNotMet");
    assert_eq!(text(&blobs, "b"), "3");
}

#[test]
fn reads_distinguish_not_modified_from_precondition_failed() {
    let mut blobs = account();
    let tag = put(&mut blobs, "b", "1", &Guard::default(), 1).unwrap();
    let modified = crate::clock::unix_seconds(at(1));
    let read = |conditions| code(container(&blobs).read("b", None, &if_(conditions), at(2)));
    assert_eq!(read(Conditions::NONE), "ok");
    let same = Some(Match::Tag(tag));
    assert_eq!(read(Conditions { matches: same, ..Conditions::NONE }), "ok");
    assert_eq!(
        read(Conditions { matches: Some(Match::Unknown), ..Conditions::NONE }),
        "412 ConditionNotMet"
    );
    assert_eq!(read(Conditions { none_match: same, ..Conditions::NONE }), "304 ConditionNotMet");
    assert_eq!(
        read(Conditions { none_match: Some(Match::Any), ..Conditions::NONE }),
        "400 UnsatisfiableCondition"
    );
    let since = |seconds| Some(modified + seconds);
    assert_eq!(
        read(Conditions { modified_since: since(0), ..Conditions::NONE }),
        "304 ConditionNotMet"
    );
    assert_eq!(read(Conditions { modified_since: since(-1), ..Conditions::NONE }), "ok");
    assert_eq!(read(Conditions { unmodified_since: since(0), ..Conditions::NONE }), "ok");
    assert_eq!(
        read(Conditions { unmodified_since: since(-1), ..Conditions::NONE }),
        "412 ConditionNotMet"
    );
}

#[test]
fn put_block_list_commits_blocks() {
    let mut blobs = account();
    assert_eq!(stage(&mut blobs, "b", "MQ==", "one", 1), "ok");
    assert_eq!(stage(&mut blobs, "b", "Mg==", "two", 1), "ok");
    assert!(container(&blobs).blob("b", None).is_err());
    let latest = |id| (BlockSource::Latest, id);
    assert_eq!(
        commit(&mut blobs, "b", &[latest("MQ=="), latest("NA==")], 2),
        "400 InvalidBlockList"
    );
    assert_eq!(commit(&mut blobs, "b", &[latest("Mg=="), latest("MQ==")], 2), "ok");
    assert_eq!(text(&blobs, "b"), "twoone");
    assert_eq!(container(&blobs).entry("b").unwrap().staged(at(2)).len(), 0);

    // Committed blocks can be used again, next to new ones with the same id.
    assert_eq!(stage(&mut blobs, "b", "MQ==", "ONE", 3), "ok");
    let list = [(BlockSource::Committed, "MQ=="), latest("MQ=="), (BlockSource::Committed, "Mg==")];
    assert_eq!(commit(&mut blobs, "b", &list, 3), "ok");
    assert_eq!(text(&blobs, "b"), "oneONEtwo");
    let uncommitted = [(BlockSource::Uncommitted, "MQ==")];
    assert_eq!(commit(&mut blobs, "b", &uncommitted, 3), "400 InvalidBlockList");
    assert_eq!(commit(&mut blobs, "b", &[], 3), "ok");
    assert_eq!(text(&blobs, "b"), "");
}

#[test]
fn block_ids_have_equal_length_and_uncommitted_blocks_expire_after_a_week() {
    let mut blobs = account();
    let week = 7 * 86_400;
    assert_eq!(stage(&mut blobs, "b", "MQ==", "1", 0), "ok");
    assert_eq!(stage(&mut blobs, "b", "MTIzNA==", "2", 0), "400 InvalidBlobOrBlock");
    assert_eq!(container(&blobs).entry("b").unwrap().staged(at(week)).len(), 1);
    assert_eq!(container(&blobs).entry("b").unwrap().staged(at(week + 1)).len(), 0);
    assert_eq!(stage(&mut blobs, "b", "MTIzNA==", "2", week + 1), "ok");
    assert_eq!(
        commit(&mut blobs, "b", &[(BlockSource::Latest, "MQ==")], week + 2),
        "400 InvalidBlockList"
    );
    // Put Blob discards uncommitted blocks.
    put(&mut blobs, "b", "all", &Guard::default(), week + 2).unwrap();
    assert_eq!(container(&blobs).entry("b").unwrap().staged(at(week + 2)).len(), 0);
}

#[test]
fn append_block_checks_position_size_and_seal() {
    let mut blobs = account();
    let none = AppendLimits::default();
    assert_eq!(code(append(&mut blobs, "x", none)), "404 BlobNotFound");
    let (container, version) = blobs.container_mut("c", at(0)).unwrap();
    let guard = Guard::default();
    let empty = Content::default();
    container.put("log", BlobType::Append, empty, Description::default(), &guard, version).unwrap();
    assert_eq!(append(&mut blobs, "one", none), Ok(Appended { offset: 0, blocks: 1 }));
    let position = |position| AppendLimits { position: Some(position), max_size: None };
    assert_eq!(code(append(&mut blobs, "two", position(0))), "412 AppendPositionConditionNotMet");
    assert_eq!(append(&mut blobs, "two", position(3)), Ok(Appended { offset: 3, blocks: 2 }));
    let size = |max| AppendLimits { position: None, max_size: Some(max) };
    assert_eq!(code(append(&mut blobs, "x", size(6))), "412 MaxBlobSizeConditionNotMet");
    assert_eq!(code(append(&mut blobs, "x", size(7))), "ok");
    assert_eq!(text(&blobs, "log"), "onetwox");

    let (container, version) = blobs.container_mut("c", at(2)).unwrap();
    assert_eq!(
        code(container.seal("log", &position(1), &guard, version)),
        "412 AppendPositionConditionNotMet"
    );
    assert_eq!(code(container.seal("log", &none, &guard, version)), "ok");
    assert_eq!(code(append(&mut blobs, "x", none)), "409 BlobIsSealed");
    assert_eq!(text(&blobs, "log"), "onetwox");
}

#[test]
fn each_blob_type_rejects_operations_of_the_other() {
    let mut blobs = account();
    put(&mut blobs, "log", "block", &Guard::default(), 0).unwrap();
    assert_eq!(code(append(&mut blobs, "x", AppendLimits::default())), "409 InvalidBlobType");
    let (container, version) = blobs.container_mut("c", at(0)).unwrap();
    let (guard, empty) = (Guard::default(), Content::default());
    container.put("log", BlobType::Append, empty, Description::default(), &guard, version).unwrap();
    assert_eq!(stage(&mut blobs, "log", "MQ==", "1", 0), "409 InvalidBlobType");
    assert_eq!(commit(&mut blobs, "log", &[], 0), "409 InvalidBlobType");
}

#[test]
fn only_the_lease_holder_writes_a_leased_blob() {
    let mut blobs = account();
    put(&mut blobs, "b", "1", &Guard::default(), 0).unwrap();
    let action = LeaseAction::Acquire { seconds: Some(15), proposed: Some(A) };
    let (container, _) = blobs.container_mut("c", at(0)).unwrap();
    let before = container.blob("b", None).unwrap().version;
    let (_, version) = container.lease_blob("b", action, &Conditions::NONE, A, at(0)).unwrap();
    assert_eq!(version, before);
    let free = Guard::default();
    assert_eq!(code(put(&mut blobs, "b", "2", &free, 1)), "412 LeaseIdMissing");
    assert_eq!(code(put(&mut blobs, "b", "2", &holding(A), 1)), "ok");
    assert_eq!(code(put(&mut blobs, "b", "3", &holding(A), 15)), "412 LeaseLost");
    assert_eq!(text(&blobs, "b"), "2");
    // Recorded: the lease holder may overwrite the blob despite `If-None-Match: *`.
    let (container, _) = blobs.container_mut("c", at(15)).unwrap();
    container.lease_blob("b", action, &Conditions::NONE, A, at(15)).unwrap();
    let conditions = Conditions { none_match: Some(Match::Any), ..Conditions::NONE };
    assert_eq!(code(put(&mut blobs, "b", "4", &Guard { lease: Some(A), conditions }, 16)), "ok");
    // Expired, then written by another client: free.
    assert_eq!(code(put(&mut blobs, "b", "5", &free, 40)), "ok");
    assert_eq!(
        code(put(&mut blobs, "b", "6", &holding(A), 41)),
        "412 LeaseNotPresentWithBlobOperation"
    );
    assert_eq!(
        code(put(&mut blobs, "new", "1", &holding(A), 41)),
        "412 LeaseNotPresentWithBlobOperation"
    );
}

#[test]
fn snapshots_keep_old_content_and_prevent_deletion_of_the_blob() {
    let mut blobs = account();
    let free = Guard::default();
    put(&mut blobs, "b", "1", &free, 0).unwrap();
    let (container, version) = blobs.container_mut("c", at(1)).unwrap();
    let (one, _) = container.snapshot("b", Metadata::default(), &free, version).unwrap();
    let (container, version) = blobs.container_mut("c", at(1)).unwrap();
    let (two, _) = container.snapshot("b", Metadata::default(), &free, version).unwrap();
    assert!(two > one);
    put(&mut blobs, "b", "2", &free, 2).unwrap();
    let content = &self::container(&blobs).blob("b", Some(one)).unwrap().content;
    assert_eq!(content.pieces().flatten().collect::<Vec<_>>(), b"1");
    let (container, _) = blobs.container_mut("c", at(3)).unwrap();
    let mut delete = |what| code(container.delete("b", what, &free, at(3)));
    assert_eq!(delete(Delete::Blob), "409 SnapshotsPresent");
    assert_eq!(delete(Delete::Snapshot(one)), "ok");
    assert_eq!(delete(Delete::Snapshot(one)), "404 BlobNotFound");
    assert_eq!(delete(Delete::Snapshots), "ok");
    assert_eq!(delete(Delete::Snapshot(two)), "404 BlobNotFound");
    assert_eq!(delete(Delete::Blob), "ok");
    assert_eq!(delete(Delete::Blob), "404 BlobNotFound");
    assert_eq!(container.names(), 0);
}

#[test]
fn a_copy_shares_the_content_of_its_source_and_changes_independently() {
    let mut blobs = account();
    let free = Guard::default();
    let tag = put(&mut blobs, "a", "1", &free, 0).unwrap();
    let other = Conditions { none_match: Some(Match::Tag(tag)), ..Conditions::NONE };
    let refused = copy_source(container(&blobs), "a", None, &if_(other), at(1));
    assert_eq!(code(refused), "412 SourceConditionNotMet");
    let source = copy_source(container(&blobs), "a", None, &free, at(1)).unwrap().clone();
    let copied =
        Copied { id: "id".into(), source: "http://h/c/a".into(), completed: at(1), length: 1 };
    let (container, version) = blobs.container_mut("c", at(1)).unwrap();
    container.put_copy("b", &source, copied, plain_copy(), &free, version).unwrap();
    put(&mut blobs, "a", "2", &free, 2).unwrap();
    assert_eq!((text(&blobs, "a"), text(&blobs, "b")), ("2".into(), "1".into()));
    let copy = self::container(&blobs).blob("b", None).unwrap();
    assert!(matches!(copy.kind, Kind::Block(_)) && copy.copy.is_some());
}

#[test]
fn a_copy_checks_the_conditions_of_its_destination() {
    let mut blobs = account();
    let free = Guard::default();
    let stale = put(&mut blobs, "a", "1", &free, 0).unwrap();
    put(&mut blobs, "b", "2", &free, 1).unwrap();
    let source = copy_source(container(&blobs), "a", None, &free, at(1)).unwrap().clone();
    let mut copy_if = |conditions: Conditions| {
        let copied =
            Copied { id: "id".into(), source: "http://h/c/a".into(), completed: at(2), length: 1 };
        let (container, version) = blobs.container_mut("c", at(2)).unwrap();
        let guard = if_(conditions);
        code(container.put_copy("b", &source, copied, plain_copy(), &guard, version))
    };
    let same = Conditions { matches: Some(Match::Tag(stale)), ..Conditions::NONE };
    assert_eq!(copy_if(same), "412 TargetConditionNotMet");
    let missing = Conditions { none_match: Some(Match::Any), ..Conditions::NONE };
    assert_eq!(copy_if(missing), "409 BlobAlreadyExists");
    assert_eq!(text(&blobs, "b"), "2");
}

#[test]
fn containers_are_unique_blocked_after_deletion_and_leasable() {
    let mut blobs = account();
    let none = Metadata::default;
    let free = Guard::default();
    assert_eq!(code(blobs.create("c", None, none(), at(0))), "409 ContainerAlreadyExists");
    let action = LeaseAction::Acquire { seconds: None, proposed: Some(A) };
    let (container, _) = blobs.container_mut("c", at(0)).unwrap();
    container.lease(action, &Conditions::NONE, A, at(0)).unwrap();
    assert_eq!(code(blobs.delete("c", &free, at(0))), "412 LeaseIdMissing");
    put(&mut blobs, "b", "its lease does not guard blobs", &free, 0).unwrap();
    assert_eq!(code(blobs.delete("c", &holding(A), at(0))), "ok");
    assert_eq!(code(blobs.container("c")), "404 ContainerNotFound");
    assert_eq!(code(blobs.create("c", None, none(), at(29))), "409 ContainerBeingDeleted");
    assert_eq!(code(blobs.create("c", None, none(), at(30))), "ok");
    assert_eq!(container_names(&blobs, ""), ["c"]);
    let mut reusing = Blobs::new(Names::Reused);
    reusing.create("c", None, none(), at(0)).unwrap();
    reusing.delete("c", &free, at(0)).unwrap();
    assert_eq!(code(reusing.create("c", None, none(), at(0))), "ok");
}

fn container_names(blobs: &Blobs, prefix: &str) -> Vec<String> {
    let options = ListContainers { prefix: prefix.into(), ..ListContainers::default() };
    blobs.list(&options, 5000).0.into_iter().map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn containers_are_listed_by_prefix_in_pages() {
    let mut blobs = account();
    for name in ["a1", "a2", "a3", "b1"] {
        blobs.create(name, None, Metadata::default(), at(0)).unwrap();
    }
    assert_eq!(container_names(&blobs, "a"), ["a1", "a2", "a3"]);
    let mut options = ListContainers { prefix: "a".into(), ..ListContainers::default() };
    let (page, next) = blobs.list(&options, 2);
    assert_eq!((page.len(), next), (2, Some("a3")));
    options.marker = "/account/a3".into();
    let (page, next) = blobs.list(&options, 2);
    assert_eq!((page[0].0, page.len(), next), ("a3", 1, None));
}

/// All entries of a listing, page by page.
fn pages(blobs: &Blobs, mut options: ListBlobs) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    loop {
        let (page, next) =
            container(blobs).list(&options, options.max_results.unwrap_or(5000) as usize);
        let names = page.into_iter().map(|listed| match listed {
            Listed::Blob { name, snapshot: Some(_), .. } => format!("{name}@"),
            Listed::Blob { name, .. } => name.to_owned(),
            Listed::Prefix(prefix) => format!("[{prefix}]"),
            Listed::Uncommitted(name) => format!("({name})"),
        });
        pages.push(names.collect());
        match next {
            None => return pages,
            marker => options.marker = marker,
        }
    }
}

#[test]
fn blobs_are_listed_by_prefix_and_delimiter_in_pages() {
    let mut blobs = account();
    let free = Guard::default();
    for name in ["a/1", "a/2", "a0", "b/c/1", "b/d", "blob", "啊/1"] {
        put(&mut blobs, name, "", &free, 0).unwrap();
    }
    stage(&mut blobs, "u/1", "MQ==", "1", 0);
    let (container, version) = blobs.container_mut("c", at(1)).unwrap();
    container.snapshot("a0", Metadata::default(), &free, version).unwrap();
    let all = ListBlobs::default;
    assert_eq!(pages(&blobs, all()), [["a/1", "a/2", "a0", "b/c/1", "b/d", "blob", "啊/1"]]);
    let slash = || ListBlobs { delimiter: Some("/".into()), ..all() };
    assert_eq!(pages(&blobs, slash()), [["[a/]", "a0", "[b/]", "blob", "[啊/]"]]);
    assert_eq!(
        pages(&blobs, ListBlobs { max_results: Some(2), ..slash() }),
        [vec!["[a/]", "a0"], vec!["[b/]", "blob"], vec!["[啊/]"]]
    );
    let under = ListBlobs { prefix: "b/".into(), max_results: Some(1), ..slash() };
    assert_eq!(pages(&blobs, under), [["[b/c/]"], ["b/d"]]);
    let snapshots =
        ListBlobs { snapshots: true, prefix: "a".into(), max_results: Some(3), ..all() };
    assert_eq!(pages(&blobs, snapshots), [vec!["a/1", "a/2", "a0@"], vec!["a0"]]);
    let uncommitted = ListBlobs { uncommitted: true, prefix: "u".into(), ..all() };
    assert_eq!(pages(&blobs, uncommitted), [["(u/1)"]]);
    let uncommitted = ListBlobs { uncommitted: true, prefix: "u".into(), ..slash() };
    assert_eq!(pages(&blobs, uncommitted), [["[u/]"]]);
    assert_eq!(pages(&blobs, ListBlobs { prefix: "none".into(), ..all() }), [[""; 0]]);
    let from = |name: &str| ListBlobs { start_from: name.into(), ..all() };
    assert_eq!(pages(&blobs, from("b/d")), [["b/d", "blob", "啊/1"]]);
    let between = ListBlobs { end_before: Some("blob".into()), ..from("a0") };
    assert_eq!(pages(&blobs, between.clone()), [["a0", "b/c/1", "b/d"]]);
    let paged = ListBlobs { max_results: Some(1), ..between };
    assert_eq!(pages(&blobs, paged), [["a0"], ["b/c/1"], ["b/d"]]);
    let cut = ListBlobs { delimiter: Some("/".into()), ..from("a/2") };
    assert_eq!(pages(&blobs, cut), [["[a/]", "a0", "[b/]", "blob", "[啊/]"]]);
    let none = ListBlobs { delimiter: Some("/".into()), ..from("a/3") };
    assert_eq!(pages(&blobs, none), [["a0", "[b/]", "blob", "[啊/]"]]);
}
