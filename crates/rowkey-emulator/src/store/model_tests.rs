//! Applies random operations to a table and to a plain map: both must have the same contents and
//! results.

use std::collections::BTreeMap;

use rowkey_wire::edm::{DateTime, Value, ValueRef};
use rowkey_wire::filter;

use super::account::Account;
use super::filter::Compiled;
use super::names::Names;
use super::query::{Scan, Step, Window};
use crate::op::entity::{Entity, Strictness};
use crate::op::table::{Address, Change, ChangeKind, Condition};

/// Few keys, so that operations collide. They sort differently as bytes and as UTF-16.
const KEYS: [&str; 7] =
    ["", "a", "A", "b\u{FFFD}", "b😀", "key-of-more-than-twenty-four-bytes", "é"];
const NAMES: [&str; 4] = ["alpha", "beta", "Gamma", "größe"];

type Rows = BTreeMap<(Vec<u16>, Vec<u16>), (BTreeMap<String, Value>, DateTime)>;

/// A small random number generator; a failure can be reproduced with its seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.below(KEYS.len())]
    }

    fn value(&mut self) -> ValueRef<'static> {
        match self.below(7) {
            0 => ValueRef::Int32(i32::try_from(self.below(5)).unwrap()),
            1 => ValueRef::Int64(i64::try_from(self.below(5)).unwrap() - 2),
            2 => ValueRef::Double(0.5),
            3 => ValueRef::Boolean(self.below(2) == 0),
            4 => ValueRef::String("\"text\" of some length, größer".into()),
            5 => ValueRef::Binary(vec![7; self.below(40)].into()),
            _ => ValueRef::String("".into()),
        }
    }

    fn entity(&mut self) -> Entity<'static> {
        let names: Vec<_> = NAMES.into_iter().filter(|_| self.below(2) == 0).collect();
        let properties = names.into_iter().map(|name| (name, self.value())).collect();
        Entity { partition_key: None, row_key: None, properties }
    }
}

fn units(key: &str) -> Vec<u16> {
    key.encode_utf16().collect()
}

fn owned(entity: &Entity<'_>) -> BTreeMap<String, Value> {
    let own =
        |(name, value): &(&str, ValueRef<'_>)| ((*name).to_owned(), value.clone().into_owned());
    entity.properties.iter().map(own).collect()
}

/// Applies the change to the map; `false` if it is rejected.
fn apply(rows: &mut Rows, change: &Change<'_>, at: DateTime) -> bool {
    let key = (units(&change.address.partition_key), units(&change.address.row_key));
    let current = rows.get(&key);
    let holds = |condition: &Condition| match (condition, current) {
        (Condition::Any, found) => found.is_some(),
        (Condition::Tag(tag), Some((_, written))) => tag == written,
        _ => false,
    };
    match &change.kind {
        ChangeKind::Insert(entity, _) => {
            current.is_none() && rows.insert(key, (owned(entity), at)).is_none()
        }
        ChangeKind::Delete(condition) => holds(condition) && rows.remove(&key).is_some(),
        ChangeKind::Replace(entity, condition) => {
            let allowed = condition.as_ref().is_none_or(holds);
            if allowed {
                rows.insert(key, (owned(entity), at));
            }
            allowed
        }
        ChangeKind::Merge(entity, condition) => {
            let allowed = condition.as_ref().is_none_or(holds);
            if allowed {
                let mut merged = current.map(|(kept, _)| kept.clone()).unwrap_or_default();
                merged.extend(owned(entity));
                rows.insert(key, (merged, at));
            }
            allowed
        }
    }
}

fn change(random: &mut Random, rows: &Rows, partition_key: &'static str) -> Change<'static> {
    let row_key = random.key();
    let address =
        Address { table: "model", partition_key: partition_key.into(), row_key: row_key.into() };
    let condition = match random.below(4) {
        0 => None,
        1 => Some(Condition::Any),
        2 => rows.get(&(units(partition_key), units(row_key))).map(|(_, at)| Condition::Tag(*at)),
        _ => Some(Condition::Unknown),
    };
    let entity = random.entity();
    let kind = match random.below(5) {
        0 => ChangeKind::Delete(condition.unwrap_or(Condition::Any)),
        1 => ChangeKind::Replace(entity, condition),
        2 => ChangeKind::Merge(entity, condition),
        _ => ChangeKind::Insert(entity, None),
    };
    Change { address, kind }
}

/// The contents of the table, read in pages of `room` rows.
fn contents(account: &Account, text: Option<&str>, room: u32) -> Rows {
    let filter = text.map(|text| filter::parse(text).unwrap());
    let (mut rows, mut from, mut last) = (Rows::new(), None, None);
    loop {
        let mut scan = Scan::new(Compiled::new(filter.as_ref()), Window::default(), from, room);
        let step = scan.step(account.table("model").unwrap(), |partition_key, row_key, row| {
            let key = (units(partition_key.as_str()), units(row_key.as_str()));
            assert!(last.as_ref() < Some(&key), "rows come in order, each once");
            last = Some(key.clone());
            let properties =
                row.properties().map(|(n, v)| (n.to_owned(), v.into_owned())).collect();
            rows.insert(key, (properties, row.timestamp()));
        });
        match step {
            Step::Page(position) => from = Some(position),
            _ => return rows,
        }
    }
}

#[test]
fn a_table_is_a_map_whatever_happens_to_it() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut account = Account::new(Strictness::Strict, Names::Blocked);
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        account.create_table("model", now).unwrap();
        let mut model = Rows::new();
        for step in 0..600 {
            let partition_key = random.key();
            if random.below(4) == 0 {
                let count = 1 + random.below(4);
                let changes: Vec<_> =
                    (0..count).map(|_| change(&mut random, &model, partition_key)).collect();
                let distinct = changes.iter().enumerate().all(|(i, change)| {
                    changes[..i].iter().all(|other| other.address.row_key != change.address.row_key)
                });
                let mut next = model.clone();
                let mut timestamps = Vec::new();
                match account.transact(&changes, now, |written| timestamps.push(written.timestamp))
                {
                    Ok(()) => {
                        assert!(distinct, "seed {seed} step {step}");
                        for (change, at) in changes.iter().zip(timestamps) {
                            assert!(apply(&mut next, change, at), "seed {seed} step {step}");
                        }
                        model = next;
                    }
                    Err(failed) => {
                        let possible =
                            distinct && changes.iter().all(|change| apply(&mut next, change, now));
                        assert!(!possible, "seed {seed} step {step} failed at {}", failed.index);
                    }
                }
            } else {
                let change = change(&mut random, &model, partition_key);
                let mut at = now;
                let applied = account.apply(&change, now, |written| at = written.timestamp);
                assert_eq!(
                    apply(&mut model, &change, at),
                    applied.is_ok(),
                    "seed {seed} step {step}"
                );
            }
            if step % 50 == 0 {
                assert_eq!(contents(&account, None, 3), model, "seed {seed} step {step}");
            }
        }
        assert_eq!(contents(&account, None, 1000), model, "seed {seed}");
        assert_eq!(account.table("model").unwrap().rows(), model.len(), "seed {seed}");
        let mut filtered = model.clone();
        filtered.retain(|(partition_key, _), (properties, _)| {
            *partition_key >= units("a") && properties.get("beta") == Some(&Value::Int32(1))
        });
        let text = "PartitionKey ge 'a' and beta eq 1";
        assert_eq!(contents(&account, Some(text), 2), filtered, "seed {seed}");
    }
}
