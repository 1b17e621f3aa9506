//! Scans that pause, and the effect of concurrent writes on their pages.

use std::collections::BTreeMap;

use rowkey_wire::edm::ValueRef;

use super::account::Account;
use super::filter::Compiled;
use super::model_tests::Random;
use super::query::{STEP, Scan, Step, Window};
use super::tests::{account, at, entity, everything, insert, later, start};
use crate::op::table::{Change, ChangeKind, Condition};

/// A scan of the table that has paused once, and the keys it has found so far.
fn paused(account: &Account) -> (Scan, Vec<String>) {
    let mut scan = Scan::new(Compiled::default(), Window::default(), None, 1_000_000);
    let mut found = Vec::new();
    let table = account.table("things").unwrap();
    let step = scan.step(table, |p, r, _| found.push(format!("{}/{}", p.as_str(), r.as_str())));
    assert_eq!(step, Step::Pause);
    (scan, found)
}

/// The keys found in the rest of the page, and the step that ended it.
fn rest(account: &Account, mut scan: Scan) -> (Vec<String>, Step) {
    let mut found = Vec::new();
    let table = account.table("things").unwrap();
    loop {
        match scan.step(table, |p, r, _| found.push(format!("{}/{}", p.as_str(), r.as_str()))) {
            Step::Pause => {}
            end => return (found, end),
        }
    }
}

#[test]
fn a_long_scan_pauses_and_ends_its_page_when_the_partition_it_is_in_changes() {
    let mut account = account();
    for i in 0..2 * STEP {
        account.apply(&insert(("p", &format!("{i:06}")), &[]), start(), |_| {}).unwrap();
    }
    let all = everything(&account, "");
    assert_eq!(all.len(), 2 * STEP);

    // Other partitions may change.
    let (scan, mut found) = paused(&account);
    for partition in ["a", "z"] {
        account.apply(&insert((partition, "r"), &[]), start(), |_| {}).unwrap();
    }
    let (more, end) = rest(&account, scan);
    found.extend(more);
    assert_eq!(end, Step::End);
    assert_eq!(found, [&all[..], &["z/r".to_owned()]].concat());

    let all = everything(&account, "");
    for row in ["000000", "zzz"] {
        let (scan, found) = paused(&account);
        let position = scan.position().unwrap();
        let upsert = ChangeKind::Replace(entity(&[]), None);
        account.apply(&Change { address: at("p", row), kind: upsert }, start(), |_| {}).unwrap();
        assert_eq!(rest(&account, scan), (Vec::new(), Step::Page(position.clone())), "{row}");
        assert_eq!(format!("p/{}", position.1.as_str()), all[found.len()], "no row is left out");
    }
}

#[test]
fn a_partition_that_is_not_the_same_any_more_ends_a_page_that_stands_in_it() {
    let filled = || {
        let mut account = account();
        for i in 0..2 * STEP {
            account.apply(&insert(("p", &format!("{i:06}")), &[]), start(), |_| {}).unwrap();
        }
        account
    };
    let empty = |account: &mut Account| {
        for i in 0..2 * STEP {
            let kind = ChangeKind::Delete(Condition::Any);
            let address = format!("{i:06}");
            account.apply(&Change { address: at("p", &address), kind }, start(), |_| {}).unwrap();
        }
    };
    let again = |account: &mut Account| {
        empty(account);
        account.apply(&insert(("p", "zzz"), &[]), start(), |_| {}).unwrap();
    };
    let other = |account: &mut Account| {
        account.delete_table("things", start()).unwrap();
        account.create_table("things", later(60)).unwrap();
        for i in 0..20 {
            account.apply(&insert(("p", &format!("9{i:06}")), &[]), later(60), |_| {}).unwrap();
        }
    };
    for change in [&empty as &dyn Fn(&mut Account), &again, &other] {
        let mut account = filled();
        let (scan, _) = paused(&account);
        let position = scan.position().unwrap();
        change(&mut account);
        assert_eq!(rest(&account, scan), (Vec::new(), Step::Page(position)));
    }
}

#[test]
fn a_scan_between_partitions_goes_on_whatever_changes() {
    let mut account = account();
    for partition in 0..STEP {
        for row in ["1", "2"] {
            account
                .apply(&insert((&format!("{partition:06}"), row), &[]), start(), |_| {})
                .unwrap();
        }
    }
    let (scan, found) = paused(&account);
    let (partition, row) = scan.position().unwrap();
    assert_eq!(row.as_str(), "", "a small partition is shown whole");
    account.apply(&insert((partition.as_str(), "0"), &[]), start(), |_| {}).unwrap();
    account.apply(&insert(("000000", "0"), &[]), start(), |_| {}).unwrap();
    let (more, end) = rest(&account, scan);
    assert_eq!((found.len() + more.len(), end), (2 * STEP + 1, Step::End));
    assert_eq!(more[0], format!("{}/0", partition.as_str()));
}

/// Each transaction writes the same new number to two rows of a partition. A reader that sees the
/// number in one of them must not see an older one in the other.
#[test]
fn no_page_shows_one_half_of_a_transaction_whenever_it_pauses() {
    // The number of rows of each partition: one small enough for a list, and others shorter than a
    // step and several steps long.
    const ROWS: [usize; 4] = [6, STEP / 3, 2 * STEP + 7, 40];
    for seed in 1..=20_u64 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let mut account = account();
        let (mut number, mut pairs) = (0, Vec::new());
        for (partition, rows) in ROWS.into_iter().enumerate() {
            for row in 0..rows {
                let properties = [("Number", ValueRef::Int32(-1))];
                let (partition, row) = (partition.to_string(), format!("{row:06}"));
                account.apply(&insert((&partition, &row), &properties), start(), |_| {}).unwrap();
            }
        }
        let mut write = |account: &mut Account, random: &mut Random| {
            let partition = random.below(ROWS.len());
            let (one, step) = (random.below(ROWS[partition]), random.below(ROWS[partition] - 1));
            let rows = [one, (one + 1 + step) % ROWS[partition]];
            let keys = rows.map(|row| format!("{row:06}"));
            let name = partition.to_string();
            let changes = keys.each_ref().map(|row| Change {
                address: at(&name, row),
                kind: ChangeKind::Replace(entity(&[("Number", ValueRef::Int32(number))]), None),
            });
            account.transact(&changes, start(), |_| {}).unwrap();
            pairs.push((partition, rows));
            number += 1;
        };
        let (mut from, mut pages) = (None, Vec::new());
        loop {
            let filter = Compiled::default();
            let mut scan = Scan::new(filter, Window::default(), from, 1_000_000);
            let mut page = BTreeMap::new();
            let end = loop {
                let step = scan.step(account.table("things").unwrap(), |partition, row, found| {
                    let number = found.properties().next().unwrap().1;
                    let ValueRef::Int32(number) = number else { unreachable!() };
                    let position: (usize, usize) =
                        (partition.as_str().parse().unwrap(), row.as_str().parse().unwrap());
                    assert!(
                        page.insert(position, number).is_none(),
                        "seed {seed}: {position:?} twice"
                    );
                });
                if step != Step::Pause {
                    break step;
                }
                for _ in 0..random.below(3) {
                    write(&mut account, &mut random);
                }
            };
            pages.push(page);
            match end {
                Step::Page(position) => from = Some(position),
                _ => break,
            }
        }
        let seen: usize = pages.iter().map(BTreeMap::len).sum();
        assert_eq!(seen, ROWS.iter().sum::<usize>(), "seed {seed}: every row is shown once");
        for page in &pages {
            for (at, number) in page.iter().filter(|(_, number)| **number >= 0) {
                let (partition, rows) = pairs[usize::try_from(*number).unwrap()];
                for other in rows.map(|row| (partition, row)) {
                    let shown = page.get(&other);
                    assert!(
                        shown.is_none_or(|shown| shown >= number),
                        "seed {seed}: {at:?} shows {number}, and {other:?} does not"
                    );
                }
            }
        }
    }
}
