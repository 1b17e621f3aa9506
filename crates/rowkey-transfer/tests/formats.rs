//! Every format returns what was written: all types at their limits, random rows, and many rows.

mod support;

use rowkey_entity::DynamicEntity;
use rowkey_entity::edm::Value;
use rowkey_transfer::Row;
use support::{Random, assert_same, cases, formats, seeds};

#[test]
fn all_types_come_back_at_their_limits() {
    for format in formats() {
        let rows = cases();
        assert_same(&(format.decode)(&(format.encode)(&rows)), &rows, format.name);
        // Each row alone, so that each column has one type, and Timestamps are absent from half of the files.
        for row in &rows {
            let rows = [row.clone()];
            assert_same(&(format.decode)(&(format.encode)(&rows)), &rows, format.name);
        }
        assert!((format.decode)(&(format.encode)(&[])).is_empty(), "{}", format.name);
    }
}

#[test]
fn random_rows_come_back() {
    for seed in seeds(100) {
        let mut random = Random(seed);
        let rows: Vec<Row> = (0..random.below(60)).map(|_| random.row()).collect();
        for format in formats() {
            let what = format!("{} with seed {seed}", format.name);
            assert_same(&(format.decode)(&(format.encode)(&rows)), &rows, &what);
        }
    }
}

#[test]
fn rows_pass_through_all_formats_one_after_the_other() {
    let rows = cases();
    let mut passed = rows.clone();
    for format in formats() {
        let read = (format.decode)(&(format.encode)(&passed));
        passed = read.into_iter().map(|row| row.unwrap()).collect();
    }
    let passed: Vec<_> = passed.into_iter().map(Ok).collect();
    assert_same(&passed, &rows, "all formats");
}

#[test]
fn many_rows_come_back_in_their_order() {
    let rows: Vec<Row> = (0..70_000_i32)
        .map(|number| {
            let mut entity = DynamicEntity::new("p", format!("{number:06}"));
            entity.set("Number", number);
            if number % 5 == 0 {
                entity.set("Text", format!("number {}", number % 100));
            }
            Row::new(entity)
        })
        .collect();
    for format in formats() {
        assert_same(&(format.decode)(&(format.encode)(&rows)), &rows, format.name);
    }
}

#[test]
fn the_bits_of_doubles_are_kept() {
    let mut random = Random(7);
    let rows: Vec<Row> = (0..2_000)
        .map(|number| {
            let mut entity = DynamicEntity::new("p", number.to_string());
            entity.set("Double", f64::from_bits(random.next()));
            Row::new(entity)
        })
        .collect();
    for format in formats() {
        for (found, row) in (format.decode)(&(format.encode)(&rows)).iter().zip(&rows) {
            let found = found.as_ref().unwrap();
            let [Some(Value::Double(found)), Some(Value::Double(double))] =
                [found.entity.get("Double"), row.entity.get("Double")]
            else {
                panic!("{}: {found:?}", format.name);
            };
            let is_same = found.to_bits() == double.to_bits() || found.is_nan() && double.is_nan();
            assert!(is_same, "{}: {found:?} {double:?}", format.name);
        }
    }
}
