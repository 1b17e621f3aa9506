//! The model holds with all rules, at the sizes stated here, and not without any one of them.

use stateright::{Checker as _, Model as _};

use super::Change::{Delete, Insert};
use super::*;

/// The violated properties, and the number of states.
fn check(stored: &[usize], ops: &[Op], rules: Rules) -> (Vec<&'static str>, usize) {
    let groups = Groups { ops: ops.to_vec(), stored: stored.to_vec(), rules };
    let checked = groups.checker().threads(2).spawn_bfs().join();
    let mut found = Vec::new();
    for (name, path) in checked.discoveries() {
        // Shown when a test fails.
        println!("{name}: {:?}", path.into_actions());
        found.push(name);
    }
    (found, checked.unique_state_count())
}

/// Two plans at once: each of two entities or one, with values in common.
#[test]
fn two_plans_preserve_all_invariants() {
    let both: [(&[usize], [Op; 2]); 8] = [
        (&[], [(Insert, &[0, 1]), (Insert, &[2, 3])]),
        (&[], [(Insert, &[0, 1]), (Insert, &[0, 1])]),
        (&[], [(Insert, &[0, 1]), (Insert, &[2])]),
        (&[], [(Insert, &[0, 1]), (Insert, &[0, 3])]),
        (&[0, 1], [(Delete, &[0, 1]), (Insert, &[2, 3])]),
        (&[0, 1], [(Delete, &[0, 1]), (Insert, &[0, 1])]),
        (&[0, 1], [(Delete, &[0, 1]), (Delete, &[0, 1])]),
        (&[0], [(Delete, &[0]), (Insert, &[1, 2])]),
    ];
    let mut states = 0;
    for (stored, ops) in both {
        let (found, count) = check(stored, &ops, Rules::ALL);
        assert_eq!(found, Vec::<&str>::new(), "{stored:?} {ops:?}");
        states += count;
    }
    println!("{states} states");
}

/// Without a rule, the named disaster is found.
#[test]
fn each_rule_is_needed() {
    let all = Rules::ALL;
    let one: Op = (Insert, &[0, 1]);
    let other: Op = (Insert, &[2, 3]);
    let delete: Op = (Delete, &[0, 1]);
    let cases: [(Rules, &[usize], Vec<Op>, &str); 11] = [
        (Rules { worker_voids: false, ..all }, &[], vec![one], "a holder has the claim"),
        (Rules { claimant_voids: false, ..all }, &[], vec![one, other], "a value has one holder"),
        (
            Rules { voids_are_announced: false, ..all },
            &[],
            vec![one, other],
            "in the end nothing is left over",
        ),
        (Rules { undo_reads_heads: false, ..all }, &[], vec![one], "a holder has the claim"),
        (
            Rules { undo_releases_all: false, ..all },
            &[],
            vec![one],
            "in the end nothing is left over",
        ),
        (
            Rules { op_row_outlives_doubt: false, ..all },
            &[],
            vec![one, delete],
            "a plan is committed as a whole, once",
        ),
        (
            Rules { messages_outlive_late_claims: false, ..all },
            &[0, 1],
            vec![one, delete],
            "in the end nothing is left over",
        ),
        (
            Rules { refused_groups_go_alone: false, ..all },
            &[],
            vec![one, other],
            "a plan is refused for a value that is taken",
        ),
        (
            Rules { releases_are_conditional: false, ..all },
            &[0, 1],
            vec![delete, other],
            "a holder has the claim",
        ),
        (
            Rules { inserts_look_for_heads: false, ..all },
            &[0, 1],
            vec![one, delete],
            "a holder has the claim",
        ),
        (
            Rules { plans_commit_whole: false, ..all },
            &[0, 1],
            vec![delete, (Delete, &[0])],
            "a plan is committed as a whole, once",
        ),
    ];
    for (rules, stored, ops, disaster) in cases {
        let (found, _) = check(stored, &ops, rules);
        assert!(found.contains(&disaster), "{rules:?} {ops:?}: {found:?}");
    }
}
