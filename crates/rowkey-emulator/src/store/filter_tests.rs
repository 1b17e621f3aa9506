//! Random filters over random rows: a scan finds exactly the rows that a plain reading of the filter finds, however it
//! reads ahead.

use std::cmp::Ordering;

use rowkey_wire::edm::{DateTime, Guid, Value};
use rowkey_wire::filter::{Comparison, Filter, Operator};

use super::account::Account;
use super::filter::Compiled;
use super::model_tests::Random;
use super::query::{STEP, Scan, Step, Window};
use super::tests::{account, at, entity, later, start};
use crate::op::table::{Change, ChangeKind};

const NAMES: [&str; 5] = ["a", "b", "c", "größe", "e"];
const OPERATORS: [Operator; 6] = [
    Operator::Equal,
    Operator::GreaterOrEqual,
    Operator::Greater,
    Operator::LessOrEqual,
    Operator::Less,
    Operator::NotEqual,
];

/// A row as the reference sees it.
struct Stored {
    keys: (String, String),
    timestamp: DateTime,
    properties: Vec<(&'static str, Value)>,
}

impl Random {
    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// One of few values, so that equal ones are frequent.
    fn any_value(&mut self) -> Value {
        match self.below(8) {
            0 => Value::Binary(self.one(&[vec![], vec![0], vec![0, 255], vec![1]])),
            1 => Value::Boolean(self.below(2) == 0),
            2 => Value::DateTime(self.one(&[DateTime::MIN, start(), later(1), DateTime::MAX])),
            3 => Value::Double(self.one(&[
                f64::NAN,
                f64::NEG_INFINITY,
                -0.0,
                0.0,
                1.0,
                f64::INFINITY,
            ])),
            4 => Value::Guid(self.one(&[0, 1, u128::MAX].map(Guid::from_u128))),
            5 => Value::Int32(self.one(&[i32::MIN, -1, 0, 1, i32::MAX])),
            6 => Value::Int64(self.one(&[i64::MIN, -1, 0, 1, 1 << 40, i64::MAX])),
            _ => Value::String(
                self.one(&["", "a", "ab", "a\"", "a\u{7F}", "é", "\u{FFFD}", "😀", "a😀"])
                    .to_owned(),
            ),
        }
    }

    fn filter(&mut self, depth: usize) -> Filter {
        let parts = |random: &mut Self| {
            (0..random.below(4)).map(|_| random.filter(depth - 1)).collect::<Vec<_>>()
        };
        match self.below(if depth == 0 { 8 } else { 13 }) {
            0 => Filter::Property(self.one(&NAMES).to_owned()),
            1 => Filter::Constant(self.below(2) == 0),
            2 => {
                let name = self.one(&["PartitionKey", "RowKey"]);
                let value = self.one(&["", "p0", "p1", "0100", "é"]);
                Filter::compare(name, self.one(&OPERATORS), value)
            }
            3 => {
                let instant = later(i64::try_from(self.below(3)).unwrap());
                Filter::compare("Timestamp", self.one(&OPERATORS), Value::DateTime(instant))
            }
            4..8 => Filter::compare(self.one(&NAMES), self.one(&OPERATORS), self.any_value()),
            8 => Filter::Not(Box::new(self.filter(depth - 1))),
            9 | 10 => Filter::Or(parts(self)),
            _ => Filter::And(parts(self)),
        }
    }
}

/// The filter by its definition: a comparison holds for a property that exists and has the type of the constant.
fn holds(filter: &Filter, row: &Stored) -> bool {
    let find = |name: &str| match name {
        "PartitionKey" => Some(Value::String(row.keys.0.clone())),
        "RowKey" => Some(Value::String(row.keys.1.clone())),
        "Timestamp" => Some(Value::DateTime(row.timestamp)),
        _ => row.properties.iter().find(|(known, _)| *known == name).map(|(_, v)| v.clone()),
    };
    match filter {
        Filter::And(all) => all.iter().all(|part| holds(part, row)),
        Filter::Or(any) => any.iter().any(|part| holds(part, row)),
        Filter::Not(inner) => !holds(inner, row),
        Filter::Constant(value) => *value,
        Filter::Property(name) => find(name) == Some(Value::Boolean(true)),
        Filter::Compare(Comparison { property, operator, value }) => {
            find(property).is_some_and(|found| compare(&found, *operator, value))
        }
    }
}

fn compare(found: &Value, operator: Operator, constant: &Value) -> bool {
    let order = match (found, constant) {
        (Value::Binary(a), Value::Binary(b)) => a.cmp(b),
        (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
        (Value::DateTime(a), Value::DateTime(b)) => a.cmp(b),
        (Value::Double(a), Value::Double(b)) => match a.partial_cmp(b) {
            Some(order) => order,
            None => return operator == Operator::NotEqual,
        },
        (Value::Guid(a), Value::Guid(b)) => a.cmp(b),
        (Value::Int32(a), Value::Int32(b)) => a.cmp(b),
        (Value::Int64(a), Value::Int64(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.encode_utf16().cmp(b.encode_utf16()),
        _ => return false,
    };
    match operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::NotEqual => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
    }
}

/// Rows in partitions of 2, 20 and 700, all in the order of their keys.
fn fill(random: &mut Random) -> (Account, Vec<Stored>) {
    let mut account = account();
    let mut stored = Vec::new();
    for (partition, count) in [2, 20, 700].into_iter().enumerate() {
        // Runs of rows with the same properties, as programs write them.
        let mut names = Vec::new();
        for row in 0..count {
            if random.below(8) == 0 || row == 0 {
                names = NAMES.into_iter().filter(|_| random.below(3) > 0).collect();
            }
            let properties: Vec<_> = names.iter().map(|name| (*name, random.any_value())).collect();
            let sent: Vec<_> = properties.iter().map(|(name, v)| (*name, v.as_ref())).collect();
            let keys = (format!("p{partition}"), format!("{row:04}"));
            let kind = ChangeKind::Insert(entity(&sent), None);
            let change = Change { address: at(&keys.0, &keys.1), kind };
            let mut timestamp = DateTime::MIN;
            let now = later(i64::try_from(random.below(3)).unwrap());
            account.apply(&change, now, |written| timestamp = written.timestamp).unwrap();
            stored.push(Stored { keys, timestamp, properties });
        }
    }
    (account, stored)
}

/// The keys of the rows found in pages of `room`.
fn found(account: &Account, filter: &Filter, room: u32) -> Vec<(String, String)> {
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        let mut scan = Scan::new(Compiled::new(Some(filter)), Window::default(), from, room);
        let end = loop {
            let table = account.table("things").unwrap();
            let step = scan.step(table, |partition_key, row_key, _| {
                found.push((partition_key.as_str().to_owned(), row_key.as_str().to_owned()));
            });
            if step != Step::Pause {
                break step;
            }
        };
        match end {
            Step::Page(position) => from = Some(position),
            _ => return found,
        }
    }
}

#[test]
fn a_scan_finds_what_a_plain_reading_of_the_filter_finds() {
    let mut matched = 0;
    for seed in 0..12 {
        let mut random = Random(seed);
        let (account, stored) = fill(&mut random);
        for round in 0..150 {
            let filter = random.filter(3);
            let expected: Vec<_> = (stored.iter().filter(|row| holds(&filter, row)))
                .map(|row| row.keys.clone())
                .collect();
            let room = random.one(&[1000, 1000, 7, 60]);
            assert!(
                found(&account, &filter, room) == expected,
                "seed {seed} round {round}: {filter:?}"
            );
            matched += usize::from(!expected.is_empty() && expected.len() < stored.len());
        }
    }
    assert!(matched > 300, "{matched} filters match some rows and not others");
}

#[test]
fn a_scan_of_rows_that_do_not_match_pauses() {
    let mut account = account();
    for row in 0..16 * STEP {
        let properties = [("n", rowkey_wire::edm::ValueRef::Int32(1))];
        let kind = ChangeKind::Insert(entity(&properties), None);
        let row_key = format!("{row:06}");
        let change = Change { address: at("p", &row_key), kind };
        account.apply(&change, start(), |_| {}).unwrap();
    }
    let filter = Filter::compare("n", Operator::Equal, 2);
    let mut scan = Scan::new(Compiled::new(Some(&filter)), Window::default(), None, 1000);
    let mut steps = 1;
    while scan.step(account.table("things").unwrap(), |_, _, _| {}) == Step::Pause {
        steps += 1;
    }
    assert!((2..=16).contains(&steps), "{steps}");
}
