//! The state that one listing of the leases shows, and a program's next actions. No requests, no clock.

use rowkey_client::blob::{BlobItem, LeaseState};
use rowkey_client::{Error, ErrorKind, Result};

/// The folder of the blobs of programs.
pub(super) const MEMBERS: &str = "members/";

/// The blobs of a set, as the service lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    /// The programs with valid leases, in the order in which they joined.
    pub(super) members: Vec<String>,
    /// The programs whose leases have ended.
    pub(super) gone: Vec<String>,
    /// The partitions without a lease.
    pub(super) free: Vec<u32>,
}

/// What a program does after a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The partitions to acquire, in this order, while the program owns fewer than its share.
    pub(super) acquire: Vec<u32>,
    /// How many of them.
    pub(super) wanted: usize,
    /// How many partitions to hand over.
    pub(super) gives_up: usize,
    /// Whether it owns its share.
    pub(super) is_settled: bool,
}

impl View {
    /// Reads the blobs below `folder` of a set of `count` partitions.
    pub(super) fn of(folder: &str, count: u32, blobs: Vec<BlobItem>) -> Self {
        let mut view = Self::default();
        let mut members = Vec::new();
        let mut is_leased = vec![false; usize::try_from(count).unwrap_or(usize::MAX)];
        for blob in blobs {
            let Some(name) = blob.name.strip_prefix(folder) else { continue };
            // A lease that was broken and has not ended is still the holder's.
            let lasts = matches!(blob.properties.lease, LeaseState::Leased | LeaseState::Breaking);
            if let Some(member) = name.strip_prefix(MEMBERS) {
                if lasts {
                    members.push((blob.properties.created, member.to_owned()));
                } else {
                    view.gone.push(member.to_owned());
                }
            } else if let Ok(index) = name.parse::<usize>()
                && let Some(leased) = is_leased.get_mut(index)
            {
                *leased = lasts;
            }
        }
        // By the time of the service at which they came. A newcomer is last, so it changes the share of no program
        // by more than one, and nothing moves between the others.
        members.sort();
        view.members = members.into_iter().map(|(_, member)| member).collect();
        let free = (0..count).zip(is_leased).filter(|(_, leased)| !leased);
        view.free = free.map(|(index, _)| index).collect();
        view
    }

    /// Fails if another program has another number of partitions, because both would work on the same data. Only a
    /// program that joins checks this, so that the earlier ones stay. If two join at the same time, at least one
    /// sees the other.
    pub(super) fn agrees(&self, count: u32) -> Result<()> {
        let counts = self.members.iter().filter_map(|member| partitions_of(member));
        match counts.into_iter().find(|other| *other != count) {
            Some(other) => {
                let what = format!(
                    "another program has divided the work into {other} partitions, not {count}; stop all programs \
                     of the set before the number changes, or give the new set another name"
                );
                Err(Error::refused(ErrorKind::Invalid, what))
            }
            None => Ok(()),
        }
    }

    /// The next actions of the program `me`, which owns `owned`.
    pub(super) fn plan(&self, me: &str, count: u32, owned: &[u32]) -> Plan {
        let Some(rank) = self.members.iter().position(|member| member == me) else {
            return Plan::default();
        };
        let (all, programs) = (usize::try_from(count).unwrap_or(usize::MAX), self.members.len());
        let share = all / programs + usize::from(rank < all % programs);
        // Programs that look at the same time begin at different partitions.
        let begin = self.free.len() * rank / programs;
        let (before, after) = self.free.split_at(begin);
        let free = after.iter().chain(before).copied();
        let acquire: Vec<_> = free.filter(|index| !owned.contains(index)).collect();
        let excess = owned.len().saturating_sub(share);
        Plan {
            wanted: share.saturating_sub(owned.len()),
            // A quarter at a time, and only when the last ones have found an owner: a program that comes and ends
            // again does not leave most partitions without one.
            gives_up: if acquire.is_empty() { excess.div_ceil(4) } else { 0 },
            is_settled: owned.len() == share,
            acquire,
        }
    }
}

/// The name of a program's blob. It tells the others into how many partitions the program divides the work.
pub(super) fn member(count: u32, id: impl std::fmt::Display) -> String {
    format!("{count}_{id}")
}

fn partitions_of(member: &str) -> Option<u32> {
    member.split_once('_')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn view(members: &[&str], free: &[u32]) -> View {
        let members = members.iter().map(|&member| member.to_owned()).collect();
        View { members, gone: Vec::new(), free: free.to_vec() }
    }

    #[test]
    fn shares_are_equal_but_for_one_and_the_first_programs_have_it() {
        let view = view(&["8_a", "8_b", "8_c"], &[]);
        let wanted = ["8_a", "8_b", "8_c"].map(|me| view.plan(me, 8, &[]).wanted);
        assert_eq!(wanted, [3, 3, 2]);
        assert_eq!(view.plan("8_x", 8, &[1]), Plan::default(), "it is not among them yet");
    }

    #[test]
    fn a_quarter_of_the_excess_is_given_up_and_only_while_none_is_free() {
        let members = &["16_a", "16_b"];
        let all: Vec<u32> = (0..16).collect();
        let gives_up = |free: &[u32], owned| view(members, free).plan("16_a", 16, owned).gives_up;
        assert_eq!(gives_up(&[], &all), 2);
        assert_eq!(gives_up(&[], &all[..9]), 1);
        assert_eq!(gives_up(&[15], &all[..15]), 0, "another program has not come for it yet");
        assert_eq!(gives_up(&[], &all[..8]), 0);
    }

    #[test]
    fn programs_begin_at_different_partitions() {
        let view = view(&["4_a", "4_b"], &[0, 1, 2, 3]);
        assert_eq!(view.plan("4_a", 4, &[]).acquire, [0, 1, 2, 3]);
        assert_eq!(view.plan("4_b", 4, &[]).acquire, [2, 3, 0, 1]);
    }

    #[test]
    fn a_newcomer_with_another_number_is_refused() {
        assert!(view(&["8_a", "8_b"], &[]).agrees(8).is_ok());
        assert_eq!(view(&["8_a", "9_b"], &[]).agrees(9).unwrap_err().kind(), ErrorKind::Invalid);
    }

    /// Programs that look in random order, come, end, and die without giving anything up.
    #[test]
    fn under_random_schedules_partitions_have_one_owner_and_moves_are_few() {
        for seed in 0..300 {
            let mut random = Random(seed);
            let count = 1 + u32::try_from(random.below(20)).unwrap();
            let mut owners: Vec<Option<usize>> = vec![None; count as usize];
            let mut alive: Vec<usize> = vec![0];
            let mut next = 1;
            for _ in 0..12 {
                let before = owners.clone();
                let mut left = 0;
                let joined = alive.is_empty() || random.below(2) == 0;
                if joined {
                    alive.push(next);
                    next += 1;
                } else {
                    let gone = alive.remove(random.below(alive.len()));
                    for owner in &mut owners {
                        if *owner == Some(gone) {
                            (*owner, left) = (None, left + 1);
                        }
                    }
                }
                if alive.is_empty() {
                    continue;
                }
                for _ in 0..60 * alive.len() {
                    let me = alive[random.below(alive.len())];
                    let name = |one: usize| format!("{count}_{one:05}");
                    let mine = |owners: &[Option<usize>]| -> Vec<u32> {
                        (0..count).filter(|it| owners[*it as usize] == Some(me)).collect()
                    };
                    let free: Vec<_> =
                        (0..count).filter(|it| owners[*it as usize].is_none()).collect();
                    let members = alive.iter().map(|one| name(*one)).collect();
                    let view = View { members, gone: Vec::new(), free };
                    let owned = mine(&owners);
                    let plan = view.plan(&name(me), count, &owned);
                    for index in plan.acquire.into_iter().take(plan.wanted) {
                        assert!(owners[index as usize].replace(me).is_none(), "seed {seed}");
                    }
                    for index in owned.iter().rev().take(plan.gives_up) {
                        owners[*index as usize] = None;
                    }
                }
                let shares: Vec<_> = alive
                    .iter()
                    .map(|one| owners.iter().filter(|owner| **owner == Some(*one)).count())
                    .collect();
                assert_eq!(shares.iter().sum::<usize>(), count as usize, "seed {seed}: {owners:?}");
                let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
                assert!(most - least <= 1, "seed {seed}: {shares:?}");
                let moved = before.iter().zip(&owners).filter(|(was, is)| was != is).count();
                let due = if joined { shares[shares.len() - 1] } else { left };
                let begun = before.iter().filter(|owner| owner.is_none()).count();
                assert!(moved <= due.max(begun), "seed {seed}: {moved} moves, {due} are due");
            }
        }
    }
}
