//! Damaged files are errors in every format: no panic, no endless file, and no part of a file that passes for all of it.

mod support;

use rowkey_transfer::{Result, Row};
use support::{Format, Random, assert_same, cases, formats, seed, seeds};

/// Rows in a small file, so that most bytes mean something.
fn rows() -> Vec<Row> {
    let rows = cases().into_iter();
    rows.filter(|row| row.entity.iter().all(|(_, value)| value.as_ref().size() < 1_000)).collect()
}

/// Decodes, and checks that no row is shown in an error.
fn decode(format: &Format, file: &[u8]) -> Vec<Result<Row>> {
    let rows = (format.decode)(file);
    assert!(rows.len() <= file.len() + 1, "{} does not end", format.name);
    rows
}

#[test]
fn every_truncation_is_an_error_or_whole_rows() {
    for format in formats() {
        let rows = rows();
        let file = (format.encode)(&rows);
        let step = if file.len() > 20_000 { 61 } else { 7 };
        for length in (0..file.len() - 2).step_by(step) {
            let read = decode(&format, &file[..length]);
            let errors = read.iter().filter(|row| row.is_err()).count();
            if format.has_end && length > 0 {
                assert!(errors > 0, "{}, {length} of {}", format.name, file.len());
            }
            for (found, expected) in read.iter().flatten().zip(&rows) {
                // The last value of a record may be cut in CSV, which has no mark for its end.
                let is_last = read.iter().flatten().count() == rows.len() || format.name == "csv";
                assert!(found.same_entity(expected) || is_last, "{}, {length}", format.name);
            }
        }
    }
}

#[test]
fn changed_bytes_do_not_panic_and_show_no_values_and_what_is_read_comes_back() {
    let seed = seed();
    for format in formats() {
        let mut random = Random(seed);
        let file = (format.encode)(&rows());
        for run in seeds(2_000) {
            let mut changed = file.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(changed.len());
                match random.below(4) {
                    0 => changed[at] ^= 1 << random.below(8),
                    1 => changed[at] = random.next().to_le_bytes()[0],
                    2 => drop(changed.remove(at)),
                    _ => changed.insert(at, b"\"\\,{}[]:\n0-@"[random.below(12)]),
                }
            }
            let read = decode(&format, &changed);
            let accepted: Vec<Row> = read.iter().flatten().cloned().collect();
            let what = format!("{} with ROWKEY_SEED={seed}, run {run}", format.name);
            assert_same(&decode(&format, &(format.encode)(&accepted)), &accepted, &what);
            for error in read.iter().filter_map(|row| row.as_ref().err()) {
                let text = error.to_string();
                assert!(
                    !text.contains("12:34:56") && !text.contains("[1]"),
                    "a value is shown: {what}: {text}"
                );
            }
        }
    }
}

#[test]
fn noise_is_refused() {
    let mut random = Random(seed());
    for format in formats() {
        for length in [1, 2, 4, 8, 100, 5_000] {
            for _ in 0..20 {
                let noise: Vec<u8> = (0..length).map(|_| random.next().to_le_bytes()[0]).collect();
                let rows = decode(&format, &noise);
                let is_blank = noise.trim_ascii().is_empty();
                assert!(rows.iter().any(Result::is_err) || is_blank, "{}", format.name);
            }
        }
    }
}
