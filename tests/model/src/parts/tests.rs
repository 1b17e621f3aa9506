//! The model holds with all rules, at the sizes stated here, and not without any one of them.

use stateright::{Checker as _, Model as _};

use super::Op::{Delete, Insert, Patch, Read, Update};
use super::*;

/// The violated properties, and the number of states.
fn check(stored: Option<[bool; 2]>, ops: &[Op], rules: Rules) -> (Vec<&'static str>, usize) {
    let parts = Parts { ops: ops.to_vec(), stored, rules };
    let checked = parts.checker().threads(2).spawn_bfs().join();
    let mut found = Vec::new();
    for (name, path) in checked.discoveries() {
        // Shown when a test fails.
        println!("{name}: {:?}", path.into_actions());
        found.push(name);
    }
    (found, checked.unique_state_count())
}

const ALL: [Op; 8] =
    [Insert(0), Update(0), Update(1), Patch(0, 0), Patch(1, 0), Patch(1, 1), Delete, Read];

/// Every three operations on an entity that has both properties, one of them, or does not exist.
#[test]
fn any_three_operations_preserve_all_invariants() {
    let mut states = 0;
    for stored in [None, Some([true, false]), Some([true, true])] {
        for (at, first) in ALL.into_iter().enumerate() {
            // Operations run at the same time: their order in the list means nothing.
            for (next, second) in ALL.into_iter().enumerate().skip(at) {
                for third in ALL.into_iter().skip(next) {
                    let ops = [first, second, third];
                    let (found, count) = check(stored, &ops, Rules::ALL);
                    assert_eq!(found, Vec::<&str>::new(), "{stored:?} {ops:?}");
                    states += count;
                }
            }
        }
    }
    println!("{states} states");
}

/// Without a rule, the named disaster is found.
#[test]
fn each_rule_is_needed() {
    let all = Rules::ALL;
    let lost = "a whole write keeps all patches";
    let wrong = "the rows hold what was written";
    let both = Some([true, true]);
    for (rules, ops, disaster) in [
        (Rules { patches_change_the_head: false, ..all }, vec![Patch(0, 0), Update(0)], lost),
        (Rules { patches_require_their_part: false, ..all }, vec![Patch(0, 0), Update(1)], wrong),
        (Rules { row_keys_name_the_layout: false, ..all }, vec![Patch(0, 0), Update(1)], wrong),
        (Rules { whole_writes_are_conditional: false, ..all }, vec![Patch(0, 0), Update(0)], lost),
        (Rules { whole_writes_delete_other_parts: false, ..all }, vec![Update(1)], wrong),
        (
            Rules { readers_compare_marks: false, ..all },
            vec![Update(0), Read],
            "a read has the parts of one whole write",
        ),
    ] {
        let (found, _) = check(both, &ops, rules);
        assert!(found.contains(&disaster), "{rules:?} {ops:?}: {found:?}");
    }
}
