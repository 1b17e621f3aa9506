//! Tests of single changes, transactions and pages.

use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::{DateTime, Value, ValueRef};
use rowkey_wire::filter;

use super::account::Account;
use super::filter::Compiled;
use super::names::Names;
use super::partition::Key;
use super::query::{Scan, Step, Window};
use crate::op::entity::{Entity, Strictness};
use crate::op::table::{Address, Change, ChangeKind, Condition};

pub(super) fn start() -> DateTime {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

pub(super) fn later(seconds: i64) -> DateTime {
    DateTime::from_ticks(start().ticks() + seconds * 10_000_000).unwrap()
}

pub(super) fn account() -> Account {
    let mut account = Account::new(Strictness::Strict, Names::Blocked);
    account.create_table("Things", start()).unwrap();
    account
}

pub(super) fn at<'a>(partition_key: &'a str, row_key: &'a str) -> Address<'a> {
    Address { table: "things", partition_key: partition_key.into(), row_key: row_key.into() }
}

pub(super) fn entity<'a>(properties: &[(&'a str, ValueRef<'a>)]) -> Entity<'a> {
    Entity { partition_key: None, row_key: None, properties: properties.to_vec() }
}

pub(super) fn insert<'a>(
    keys: (&'a str, &'a str),
    properties: &[(&'a str, ValueRef<'a>)],
) -> Change<'a> {
    Change { address: at(keys.0, keys.1), kind: ChangeKind::Insert(entity(properties), None) }
}

fn code(result: Result<(), rowkey_wire::error::Rejection>) -> Option<ErrorCode> {
    result.err().map(|rejection| rejection.code)
}

/// Applies changes, and returns their Timestamps.
fn timestamps(account: &mut Account, changes: &[Change<'_>]) -> Vec<DateTime> {
    let mut timestamps = Vec::new();
    account.transact(changes, start(), |written| timestamps.push(written.timestamp)).unwrap();
    timestamps
}

fn stored(account: &Account, keys: (&str, &str)) -> Option<Vec<(String, Value)>> {
    let row = account.table("THINGS").unwrap().get(keys.0, keys.1)?;
    Some(row.properties().map(|(name, value)| (name.to_owned(), value.into_owned())).collect())
}

/// All keys that a query finds, and the number of its pages.
fn find(account: &Account, text: &str, window: &Window, room: u32) -> (Vec<String>, usize) {
    let filter = (!text.is_empty()).then(|| filter::parse(text).unwrap());
    let (mut found, mut pages, mut from) = (Vec::new(), 0, None);
    loop {
        let mut scan = Scan::new(Compiled::new(filter.as_ref()), window.clone(), from, room);
        pages += 1;
        let end = loop {
            let table = account.table("things").unwrap();
            match scan.step(table, |p, r, _| found.push(format!("{}/{}", p.as_str(), r.as_str()))) {
                Step::Pause => {}
                end => break end,
            }
        };
        match end {
            Step::Page(position) => from = Some(position),
            _ => return (found, pages),
        }
    }
}

pub(super) fn everything(account: &Account, text: &str) -> Vec<String> {
    find(account, text, &Window::default(), 1000).0
}

#[test]
fn a_replace_with_a_stale_tag_is_a_conflict_and_changes_nothing() {
    let mut account = account();
    let first = timestamps(&mut account, &[insert(("p", "r"), &[("a", ValueRef::Int32(1))])])[0];
    let replace = |condition| Change {
        address: at("p", "r"),
        kind: ChangeKind::Replace(entity(&[("a", ValueRef::Int32(2))]), Some(condition)),
    };
    let second = timestamps(&mut account, &[replace(Condition::Tag(first))])[0];
    assert!(second > first, "even at the same instant");
    assert_eq!(
        code(account.apply(&replace(Condition::Tag(first)), later(1), |_| {})),
        Some(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED)
    );
    assert_eq!(
        code(account.apply(&replace(Condition::Unknown), later(1), |_| {})),
        Some(ErrorCode::CONDITION_NOT_MET)
    );
    assert_eq!(stored(&account, ("p", "r")).unwrap(), [("a".to_owned(), Value::Int32(2))]);
}

#[test]
fn a_merge_keeps_what_it_does_not_name_and_may_change_a_type() {
    let mut account = account();
    let properties = [("b", ValueRef::Int32(1)), ("a", ValueRef::Boolean(true))];
    account.apply(&insert(("p", "r"), &properties), start(), |_| {}).unwrap();
    let inserted = stored(&account, ("p", "r")).unwrap();
    assert_eq!(inserted[0].0, "b", "an insert keeps the order of its properties");
    let merge = Change {
        address: at("p", "r"),
        kind: ChangeKind::Merge(entity(&[("b", ValueRef::String("x".into()))]), None),
    };
    account.apply(&merge, start(), |_| {}).unwrap();
    assert_eq!(
        stored(&account, ("p", "r")).unwrap(),
        [("a".to_owned(), Value::Boolean(true)), ("b".to_owned(), Value::String("x".to_owned()))]
    );
}

#[test]
fn a_merge_cannot_grow_an_entity_beyond_its_limits() {
    let mut account = account();
    let names: Vec<String> = (0..253).map(|i| format!("p{i}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), ValueRef::Int32(0))).collect();
    account.apply(&insert(("p", "r"), &all[..252]), start(), |_| {}).unwrap();
    let merge = |properties: &[(&'static str, ValueRef<'static>)]| Change {
        address: at("p", "r"),
        kind: ChangeKind::Merge(entity(properties), Some(Condition::Any)),
    };
    assert_eq!(
        code(account.apply(&merge(&[("other", ValueRef::Int32(1))]), start(), |_| {})),
        Some(ErrorCode::TOO_MANY_PROPERTIES)
    );
    assert_eq!(code(account.apply(&merge(&[("p0", ValueRef::Int32(1))]), start(), |_| {})), None);
}

#[test]
fn a_transaction_that_fails_leaves_no_trace_and_says_where() {
    let mut account = account();
    account.apply(&insert(("p", "b"), &[]), start(), |_| {}).unwrap();
    let changes = [insert(("p", "a"), &[]), insert(("p", "b"), &[]), insert(("p", "c"), &[])];
    let failed = account.transact(&changes, start(), |_| {}).unwrap_err();
    assert_eq!((failed.index, failed.rejection.code), (1, ErrorCode::ENTITY_ALREADY_EXISTS));
    assert_eq!(everything(&account, ""), ["p/b"]);

    for rows in [&["x", "x"][..], &["z", "x", "y", "z"], &["x", "z", "y", "z"], &["x", "z", "x"]] {
        let twice: Vec<_> = rows.iter().map(|row| insert(("p", row), &[])).collect();
        let failed = account.transact(&twice, start(), |_| {}).unwrap_err();
        let at = rows.len() - 1;
        assert_eq!((failed.index, failed.rejection.code), (at, ErrorCode::INVALID_DUPLICATE_ROW));
    }
    assert_eq!(everything(&account, ""), ["p/b"]);
    let apart = [insert(("p", "x"), &[]), insert(("q", "y"), &[])];
    let code = account.transact(&apart, start(), |_| {}).unwrap_err().rejection.code;
    assert_eq!(code, ErrorCode::COMMANDS_IN_BATCH_ACT_ON_DIFFERENT_PARTITIONS);
    let timestamps = timestamps(&mut account, &[insert(("p", "x"), &[]), insert(("p", "y"), &[])]);
    assert!(timestamps[0] < timestamps[1]);
}

#[test]
fn the_name_of_a_deleted_table_is_blocked_for_a_while() {
    let mut account = account();
    assert_eq!(account.delete_table("tHINGS", later(0)).unwrap().name(), "Things");
    let again =
        |account: &mut Account, at| account.create_table("things", at).err().map(|r| r.code);
    assert_eq!(again(&mut account, later(39)), Some(ErrorCode::TABLE_BEING_DELETED));
    assert_eq!(again(&mut account, later(40)), None);
    assert_eq!(again(&mut account, later(41)), Some(ErrorCode::TABLE_ALREADY_EXISTS));

    let refused = {
        account.delete_table("things", later(41)).unwrap();
        account.create_table("things", later(42)).unwrap_err()
    };
    assert!(refused.message.contains("--strict"), "{refused:?}");
    assert!(refused.message.contains("ServerBuilder::reuse_names(true)"), "{refused:?}");

    // The strictness of limits does not affect blocked names.
    for (strict, names) in
        [(Strictness::Loose, Names::Blocked), (Strictness::Strict, Names::Reused)]
    {
        let mut account = Account::new(strict, names);
        account.create_table("things", start()).unwrap();
        account.delete_table("things", start()).unwrap();
        assert_eq!(account.create_table("things", start()).is_ok(), names == Names::Reused);
    }
}

#[test]
fn comparisons_need_the_property_and_its_type() {
    let mut account = account();
    let rows: [(&str, ValueRef<'_>); 6] = [
        ("double", ValueRef::Double(5.0)),
        ("int32", ValueRef::Int32(5)),
        ("int64", ValueRef::Int64(5)),
        ("nan", ValueRef::Double(f64::NAN)),
        ("text", ValueRef::String("5".into())),
        ("yes", ValueRef::Boolean(true)),
    ];
    for (row_key, value) in &rows {
        account.apply(&insert(("p", row_key), &[("x", value.clone())]), start(), |_| {}).unwrap();
    }
    account.apply(&insert(("p", "without"), &[]), start(), |_| {}).unwrap();
    for (text, expected) in [
        ("x eq 5", vec!["p/int32"]),
        ("x eq 5L", vec!["p/int64"]),
        ("x eq 5.0", vec!["p/double"]),
        ("x eq '5'", vec!["p/text"]),
        ("x ne 6", vec!["p/int32"]),
        ("x ne 6.0", vec!["p/double", "p/nan"]),
        ("x ge 0.0", vec!["p/double"]),
        ("x eq true", vec!["p/yes"]),
        ("x", vec!["p/yes"]),
        ("x gt false", vec!["p/yes"]),
        (
            "not (x ne 'none')",
            vec!["p/double", "p/int32", "p/int64", "p/nan", "p/without", "p/yes"],
        ),
        ("missing ne 'a'", vec![]),
        ("RowKey ge 'text' and (x eq true or x eq '5')", vec!["p/text", "p/yes"]),
        ("Timestamp gt datetime'2027-01-01T00:00:00Z'", vec![]),
        ("PartitionKey eq 'q' or RowKey eq 'yes'", vec!["p/yes"]),
        ("5 lt x", vec![]),
    ] {
        assert_eq!(everything(&account, text), expected, "{text}");
    }
}

#[test]
fn a_query_by_keys_looks_at_nothing_else() {
    let mut account = account();
    for partition in ["a", "b", "c"] {
        for row in ["1", "2", "3"] {
            account.apply(&insert((partition, row), &[]), start(), |_| {}).unwrap();
        }
    }
    for (text, expected) in [
        ("PartitionKey eq 'b' and RowKey ge '2'", vec!["b/2", "b/3"]),
        ("PartitionKey gt 'a' and PartitionKey lt 'c' and RowKey lt '2'", vec!["b/1"]),
        ("PartitionKey ge 'b' and RowKey eq '3'", vec!["b/3", "c/3"]),
        ("PartitionKey lt 'a'", vec![]),
        ("PartitionKey gt 'c' and PartitionKey lt 'a'", vec![]),
        ("PartitionKey le 'a' and RowKey gt '1' and RowKey le '2'", vec!["a/2"]),
    ] {
        assert_eq!(everything(&account, text), expected, "{text}");
    }
}

#[test]
fn pages_end_before_the_row_that_the_next_one_begins_with() {
    let mut account = account();
    for i in 0..10 {
        account.apply(&insert(("p", &format!("{i}")), &[]), start(), |_| {}).unwrap();
    }
    let (found, pages) = find(&account, "", &Window::default(), 5);
    assert_eq!((found.len(), pages), (10, 2), "no empty page at the end");
    let (found, pages) = find(&account, "", &Window::default(), 3);
    assert_eq!((found.len(), pages), (10, 4));
}

#[test]
fn a_window_hides_what_lies_outside() {
    let mut account = account();
    for keys in [("a", "9"), ("b", "1"), ("b", "5"), ("c", "1"), ("d", "5"), ("d", "6"), ("e", "0")]
    {
        account.apply(&insert(keys, &[]), start(), |_| {}).unwrap();
    }
    let end = |p: &str, r: Option<&str>| Some((Key::from(p), r.map(Key::from)));
    let rows = Window { from: end("b", Some("2")), to: end("d", Some("5")) };
    assert_eq!(find(&account, "", &rows, 1000).0, ["b/5", "c/1", "d/5"]);
    assert!(!rows.contains(&Key::from("b"), &Key::from("1")));
    assert!(rows.contains(&Key::from("c"), &Key::from("")));
    let partitions = Window { from: end("b", None), to: end("d", None) };
    assert_eq!(find(&account, "", &partitions, 1000).0, ["b/1", "b/5", "c/1", "d/5", "d/6"]);
    assert_eq!(find(&account, "RowKey eq '5'", &partitions, 1).0, ["b/5", "d/5"]);
}
