//! The model holds with all rules, at the sizes stated here, and not without any one of them.

use stateright::{Checker as _, Model as _};

use super::*;
use crate::Extent;

/// The violated properties, and the number of states.
fn check(stored: [Option<bool>; ENTITIES], ops: &[Op], rules: Rules) -> (Vec<&'static str>, usize) {
    // With three operations there would be too many states.
    let loses_inserts = ops.len() < 3;
    let mut found = Vec::new();
    let mut states = 0;
    for is_whole in [false, true] {
        let plan = Plan { ops: ops.to_vec(), stored, rules, loses_inserts, is_whole };
        let (discovered, count) = check_plan(plan);
        found.extend(discovered);
        states += count;
    }
    found.sort_unstable();
    found.dedup();
    (found, states)
}

fn check_plan(plan: Plan) -> (Vec<&'static str>, usize) {
    let is_of_three = plan.ops.len() == 3;
    let checker = plan.checker().threads(2);
    let limit = Extent::of_environment().states().filter(|_| is_of_three);
    let (discoveries, count) = if let Some(limit) = limit {
        let checked = checker.target_state_count(limit).spawn_dfs().join();
        (checked.discoveries(), checked.unique_state_count())
    } else {
        let checked = checker.spawn_bfs().join();
        (checked.discoveries(), checked.unique_state_count())
    };
    let mut found = Vec::new();
    for (name, path) in discoveries {
        // Shown when a test fails.
        println!("{name}: {:?}", path.into_actions());
        found.push(name);
    }
    (found, count)
}

const CHANGES: [Change; 6] =
    [Change::Insert, Change::Take, Change::Release, Change::Keep, Change::Edit, Change::Delete];

/// Every two operations on every two entities, of which one may hold the value; a fifth of them except by the
/// nightly command.
#[test]
fn any_two_operations_preserve_all_invariants() {
    let stored = [
        [None, None],
        [Some(false), None],
        [Some(true), None],
        [Some(false), Some(false)],
        [Some(true), Some(false)],
    ];
    let ops = || (0..ENTITIES).flat_map(|entity| CHANGES.map(|change| (entity, change)));
    let part = match Extent::of_environment() {
        Extent::All => None,
        Extent::Sampled(number) => Some(number),
        Extent::Brief => Some(0),
    };
    let mut states = 0;
    for stored in stored {
        for (at, first) in ops().enumerate() {
            // Operations run at the same time: their order in the list means nothing.
            for (other, second) in ops().enumerate().skip(at) {
                if part.is_some_and(|part| (at + other) % 5 != part % 5) {
                    continue;
                }
                let (found, count) = check(stored, &[first, second], Rules::ALL);
                assert_eq!(found, Vec::<&str>::new(), "{stored:?} {first:?} {second:?}");
                states += count;
            }
        }
    }
    println!("{states} states");
}

/// Three operations, chosen for what three bring: a value that goes round, an entity that comes back.
#[test]
fn three_operations_preserve_all_invariants() {
    use Change::{Delete, Insert, Release, Take};
    let cases = [
        ([None, None], [(0, Insert), (0, Delete), (1, Insert)]),
        ([Some(true), Some(false)], [(0, Release), (1, Take), (0, Take)]),
        ([Some(true), Some(false)], [(0, Take), (0, Release), (1, Take)]),
    ];
    for (stored, ops) in
        cases.into_iter().take(if Extent::of_environment() == Extent::Brief { 1 } else { 3 })
    {
        let (found, count) = check(stored, &ops, Rules::ALL);
        assert_eq!(found, Vec::<&str>::new(), "{ops:?}");
        println!("{count} states for {ops:?}");
    }
}

/// More of three operations, by the nightly command: every two of an entity that a third one of the other
/// meets.
#[test]
fn more_operations_preserve_all_invariants() {
    use Change::{Delete, Insert, Keep, Release, Take};
    let pairs = [(Take, Release), (Keep, Release), (Release, Take), (Delete, Insert)];
    let (pairs_of, thirds) = match Extent::of_environment() {
        Extent::Brief => (1, 1),
        Extent::Sampled(_) => (1, 2),
        Extent::All => (4, 2),
    };
    for (first, second) in pairs.into_iter().take(pairs_of) {
        for third in [Delete, Take].into_iter().take(thirds) {
            let ops = [(0, first), (0, second), (1, third)];
            let (found, count) = check([Some(true), Some(false)], &ops, Rules::ALL);
            assert_eq!(found, Vec::<&str>::new(), "{ops:?}");
            println!("{count} states for {ops:?}");
        }
    }
}

/// Without a rule, the named disaster is found.
#[test]
fn each_rule_is_needed() {
    use Change::{Delete, Edit, Insert, Release, Take};
    let all = Rules::ALL;
    let empty = [None, None];
    for (rules, stored, ops, disaster) in [
        (Rules { worker_voids: false, ..all }, empty, vec![(0, Insert)], "a head's blob is there"),
        (
            Rules { claimant_voids: false, ..all },
            empty,
            vec![(0, Insert), (1, Insert)],
            "a value has one holder",
        ),
        (Rules { sweep_voids: false, ..all }, empty, vec![(0, Insert)], "a head's blob is there"),
        (
            Rules { op_row_outlives_doubt: false, ..all },
            empty,
            vec![(0, Insert), (0, Delete)],
            "an operation is committed once",
        ),
        (
            Rules { rows_outlive_requests: false, ..all },
            empty,
            vec![(0, Insert)],
            "a head's blob is there",
        ),
        (
            Rules { undo_reads_heads: false, ..all },
            empty,
            vec![(0, Insert)],
            "a holder has the claim",
        ),
        (
            Rules { own_claims_are_voided: false, ..all },
            [Some(false), None],
            vec![(0, Take), (0, Take)],
            "a holder has the claim",
        ),
        (
            Rules { voids_are_announced: false, ..all },
            [Some(false), None],
            vec![(0, Take), (0, Take)],
            "in the end nothing is left over",
        ),
        (
            Rules { settles_outlive_doubt: false, ..all },
            empty,
            vec![(0, Insert), (0, Delete)],
            "in the end the index agrees",
        ),
        (
            Rules { inserts_look_for_heads: false, ..all },
            [Some(true), None],
            vec![(0, Insert), (0, Delete)],
            "a holder has the claim",
        ),
        (
            Rules { rows_are_read_before_commits: false, ..all },
            [Some(true), None],
            vec![(0, Release), (0, Take)],
            "in the end the index agrees",
        ),
        (
            Rules { met_rows_are_rewritten: false, ..all },
            [Some(true), None],
            vec![(0, Release), (0, Take)],
            "in the end the index agrees",
        ),
        (
            Rules { missing_rows_are_looked_for_later: false, ..all },
            empty,
            vec![(0, Insert), (0, Delete)],
            "in the end the index agrees",
        ),
        (
            Rules { copies_have_op_rows: false, ..all },
            [Some(true), None],
            vec![(0, Edit)],
            "in the end the index agrees",
        ),
        (
            Rules { changed_claims_are_decided: false, ..all },
            [Some(true), None],
            vec![(0, Take), (0, Delete)],
            "in the end nothing is left over",
        ),
        (
            Rules { changed_claims_look_for_heads: false, ..all },
            [Some(true), None],
            vec![(0, Delete), (0, Insert)],
            "a holder has the claim",
        ),
    ] {
        let (found, _) = check(stored, &ops, rules);
        assert!(found.contains(&disaster), "{rules:?} {ops:?}: {found:?}");
    }
}
