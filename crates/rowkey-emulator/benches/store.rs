//! Benchmarks of the store without HTTP and authentication: `cargo bench -p rowkey-emulator`. The
//! store is private, so its files are compiled into this program.

#![expect(clippy::unwrap_used, reason = "a wrong benchmark is to stop")]

use std::hint::black_box;

use divan::Bencher;
use divan::counter::ItemsCount;
use rowkey_wire::edm::{DateTime, ValueRef};
use rowkey_wire::filter;
use rowkey_wire::odata::Metadata;

use op::entity::{self, Entity, Keys, Strictness};
use op::table::{Address, Change, ChangeKind, Condition};
use store::account::Account;
use store::filter::Compiled;
use store::query::{Scan, Step, Window};

#[expect(dead_code, unreachable_pub, unused_imports, reason = "it is a part of the library")]
#[path = "../src/clock.rs"]
mod clock;
#[expect(dead_code, unused_imports, reason = "it is a part of the library")]
#[path = "../src/op/mod.rs"]
mod op;
#[expect(dead_code, unused_imports, reason = "it is a part of the library")]
#[path = "../src/store/mod.rs"]
mod store;

/// Reports allocations in addition to times.
#[global_allocator]
static ALLOCATOR: divan::AllocProfiler = divan::AllocProfiler::system();

fn main() {
    divan::main();
}

const TABLE: &str = "readings";
/// Distributed over partitions of `PER_PARTITION`.
const ENTITIES: usize = 10_000;
const PER_PARTITION: usize = 1_000;

/// Ten properties of six types, about 1 KiB.
const BODY: &str = concat!(
    r#"{"PartitionKey":"north","RowKey":"0000007","Level":42,"Total@odata.type":"Edm.Int64","#,
    r#""Total":"1099511627776","Ratio":0.1,"Active":true,"Measured@odata.type":"Edm.DateTime","#,
    r#""Measured":"2026-11-20T12:34:56.7654321Z","Began@odata.type":"Edm.DateTime","#,
    r#""Began":"2026-11-20T12:34:56.7654321Z","Name":"The third from the left","#,
    r#""Site":"north-north-east, above the second stair","#,
    r#""Notes":"ooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo","#,
    r#""Comment":"oooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo"}"#
);

#[divan::bench]
fn check_the_body_of_an_insert() -> usize {
    let fields = entity::fields(black_box(BODY.as_bytes())).unwrap();
    entity::entity(&fields, Keys::Body, Strictness::Strict).unwrap().properties.len()
}

#[divan::bench]
fn insert(bencher: Bencher) {
    let mut account = filled();
    let mut next = ENTITIES..;
    bencher.with_inputs(|| keys(next.next().unwrap())).bench_local_refs(|keys| {
        account.apply(&change(keys, ChangeKind::Insert(entity(), None)), now(), |_| {}).unwrap();
    });
}

/// Reads an entity, and writes it as in a response.
#[divan::bench]
fn get(bencher: Bencher) {
    let account = filled();
    let mut number = 0;
    let mut body = Vec::with_capacity(4_096);
    let next = || {
        number = (number + 7_919) % ENTITIES;
        keys(number)
    };
    bencher.with_inputs(next).bench_local_refs(|(partition_key, row_key)| {
        body.clear();
        let row = account.table(TABLE).unwrap().get(partition_key, row_key).unwrap();
        row.render(&mut body, Metadata::Minimal);
        black_box(body.len())
    });
}

#[divan::bench]
fn merge_two_properties(bencher: Bencher) {
    let mut account = filled();
    let mut number = 0;
    let next = || {
        number = (number + 7_919) % ENTITIES;
        keys(number)
    };
    bencher.with_inputs(next).bench_local_refs(|keys| {
        let properties = vec![("Level", ValueRef::Int32(1)), ("Active", ValueRef::Boolean(false))];
        let some = Entity { partition_key: None, row_key: None, properties };
        account
            .apply(&change(keys, ChangeKind::Merge(some, Some(Condition::Any))), now(), |_| {})
            .unwrap();
    });
}

#[divan::bench]
fn transaction_of_100_inserts(bencher: Bencher) {
    let mut account = filled();
    let mut next = (ENTITIES..).step_by(100);
    let hundred = || {
        let first = next.next().unwrap();
        (first..first + 100).map(keys).collect::<Vec<_>>()
    };
    let bencher = bencher.counter(ItemsCount::new(100_u32)).with_inputs(hundred);
    bencher.bench_local_refs(|all| {
        let changes: Vec<_> =
            all.iter().map(|keys| change(keys, ChangeKind::Insert(entity(), None))).collect();
        account.transact(&changes, now(), |_| {}).is_ok()
    });
}

#[divan::bench]
fn page_of_1000(bencher: Bencher) {
    query(bencher, "PartitionKey eq 'p00003'", 1_000);
}

#[divan::bench]
fn range_of_100(bencher: Bencher) {
    let filter = "PartitionKey eq 'p00003' and RowKey ge '0000500' and RowKey lt '0000600'";
    query(bencher, filter, 100);
}

/// Scans all entities, of which one in a hundred matches.
#[divan::bench]
fn filter_of_10_000(bencher: Bencher) {
    query(bencher, "Level eq 7 and Active eq true", 100);
}

#[divan::bench]
fn compile_a_filter(bencher: Bencher) {
    let filter =
        "PartitionKey eq 'p00003' and RowKey ge '0000500' and (Level gt 40 or Ratio lt 1.5)";
    let filter = filter::parse(filter).unwrap();
    bencher.bench(|| Compiled::new(Some(black_box(&filter))));
}

/// Finds and writes `expected` entities.
fn query(bencher: Bencher, filter: &str, expected: usize) {
    let account = filled();
    let filter = filter::parse(filter).unwrap();
    let mut body = Vec::with_capacity(2 << 20);
    bencher.counter(ItemsCount::new(expected)).bench_local(|| {
        body.clear();
        let mut found = 0;
        let compiled = Compiled::new(Some(&filter));
        let mut scan = Scan::new(compiled, Window::default(), None, 1_000);
        let table = account.table(TABLE).unwrap();
        while scan.step(table, |_, _, row| {
            found += 1;
            row.render(&mut body, Metadata::Minimal);
        }) == Step::Pause
        {}
        assert_eq!(found, expected);
    });
}

/// An account with one table of `ENTITIES` entities.
fn filled() -> Account {
    let mut account = Account::new(Strictness::Strict, store::Names::Blocked);
    account.create_table(TABLE, now()).unwrap();
    for number in 0..ENTITIES {
        let mut entity = entity();
        entity.properties[0].1 = ValueRef::Int32(i32::try_from(number % 100).unwrap());
        account
            .apply(&change(&keys(number), ChangeKind::Insert(entity, None)), now(), |_| {})
            .unwrap();
    }
    account
}

fn keys(number: usize) -> (String, String) {
    (format!("p{:05}", number / PER_PARTITION), format!("{:07}", number % PER_PARTITION))
}

fn change<'a>((partition_key, row_key): &'a (String, String), kind: ChangeKind<'a>) -> Change<'a> {
    let address = Address {
        table: TABLE,
        partition_key: partition_key.as_str().into(),
        row_key: row_key.as_str().into(),
    };
    Change { address, kind }
}

/// Ten properties of six types, about 1 KiB.
fn entity() -> Entity<'static> {
    const LONG: &str = concat!(
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    );
    let properties = vec![
        ("Level", ValueRef::Int32(42)),
        ("Total", ValueRef::Int64(1 << 40)),
        ("Ratio", ValueRef::Double(0.1)),
        ("Active", ValueRef::Boolean(true)),
        ("Measured", ValueRef::DateTime(now())),
        ("Began", ValueRef::DateTime(now())),
        ("Name", ValueRef::String("The third from the left".into())),
        ("Site", ValueRef::String("north-north-east, above the second stair".into())),
        ("Notes", ValueRef::String(LONG.into())),
        ("Comment", ValueRef::String(LONG.into())),
    ];
    Entity { partition_key: None, row_key: None, properties }
}

fn now() -> DateTime {
    DateTime::from_ticks(639_000_000_000_000_000).unwrap()
}
