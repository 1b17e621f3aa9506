//! The model holds with all rules, at the sizes stated here, and not without any one of them.

use stateright::{Checker as _, Model as _};

use super::*;

/// Whether the targets agree in the end, and the number of states.
fn check(values: &[u8], targets: usize, rules: Rules) -> (bool, usize) {
    let turns = Turns { values: values.to_vec(), targets, rules };
    let checked = turns.checker().threads(2).spawn_bfs().join();
    for (name, path) in checked.discoveries() {
        // Shown when a test fails.
        println!("{name}: {:?}", path.into_actions());
    }
    (checked.discoveries().is_empty(), checked.unique_state_count())
}

/// A change, two different ones, two equal ones, and one that is taken back; of one target and of two.
#[test]
fn targets_agree_in_the_end_whatever_is_killed_or_late() {
    let mut states = 0;
    for values in [&[1][..], &[1, 2], &[1, 1], &[1, 0]] {
        for targets in [1, 2] {
            let (agree, count) = check(values, targets, Rules::ALL);
            assert!(agree, "{values:?} {targets}");
            states += count;
        }
    }
    println!("{states} states");
}

#[test]
fn each_rule_is_needed() {
    let all = Rules::ALL;
    for (rules, values, targets) in [
        (Rules { writes_are_conditional: false, ..all }, &[1, 0][..], 1),
        (Rules { late_writes_are_refused: false, ..all }, &[1, 0], 1),
        (Rules { entities_are_read_again: false, ..all }, &[1, 0], 1),
        (Rules { progress_follows_settling: false, ..all }, &[1], 2),
        (Rules { targets_are_settled_again: false, ..all }, &[1, 0], 2),
    ] {
        assert!(!check(values, targets, rules).0, "{rules:?} {values:?}");
    }
}
