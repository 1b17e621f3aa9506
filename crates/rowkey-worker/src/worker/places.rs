//! The places of workers that run together: how many tasks they process at a time, and whose task is next.
//!
//! A worker asks for places before it receives messages, and each message keeps one until it has ended. Free places
//! go to the worker whose *pass* is lowest. Each place that a worker is given advances its pass by the inverse of its
//! weight, so while several queues have tasks, each queue's share of those that begin is proportional to its
//! weight, and no worker waits forever (stride scheduling). Places that a queue had no message for are given
//! back, and are not counted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// How much the pass of a worker with weight 1 advances with each place.
const STRIDE: u128 = 1 << 32;

/// The places that several workers share.
pub(super) struct Places(Mutex<State>);

struct State {
    free: usize,
    /// The pass that the worker with the most recent place had before it got the place. A worker that did not ask
    /// for a while continues from here: it neither makes up for that time nor pays for what it took before.
    reached: u128,
    members: Vec<Member>,
}

struct Member {
    stride: u128,
    pass: u128,
    /// Whether it has asked since it last withdrew.
    is_active: bool,
    /// How many places it asks for.
    wanted: usize,
    /// How many it was given and has not taken yet.
    granted: usize,
    waker: Option<Waker>,
}

impl Member {
    /// Refunds the cost of unused places.
    fn refund(&mut self, places: usize) {
        let cost = self.stride.saturating_mul(u128::try_from(places).unwrap_or(u128::MAX));
        self.pass = self.pass.saturating_sub(cost);
    }
}

/// One worker's access to the places. Dropping it withdraws the worker.
pub(super) struct Share {
    places: Arc<Places>,
    member: usize,
}

/// Places that a worker has. Dropping them frees them.
pub(super) struct Taken {
    places: Arc<Places>,
    member: usize,
    count: usize,
}

impl Places {
    /// Creates `count` places for workers, each with its weight and its initial request, so that the worker that
    /// is polled first does not get all of them.
    pub(super) fn shares(count: usize, members: &[(u32, usize)]) -> Vec<Share> {
        let of = |&(weight, wanted): &(u32, usize)| Member {
            stride: STRIDE / u128::from(weight.max(1)),
            pass: 0,
            is_active: true,
            wanted,
            granted: 0,
            waker: None,
        };
        let all = members.iter().map(of).collect();
        let places = Arc::new(Self(Mutex::new(State { free: count, reached: 0, members: all })));
        (0..members.len()).map(|member| Share { places: Arc::clone(&places), member }).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Distributes the free places.
    fn give(&mut self, polled: usize) {
        while self.free > 0 {
            let asking = self.members.iter_mut().enumerate();
            let asking = asking.filter(|(_, member)| member.wanted > 0);
            let Some((index, next)) = asking.min_by_key(|(_, member)| member.pass) else { return };
            self.free -= 1;
            self.reached = self.reached.max(next.pass);
            next.pass += next.stride;
            next.wanted -= 1;
            next.granted += 1;
            if index != polled
                && let Some(waker) = next.waker.take()
            {
                waker.wake();
            }
        }
    }

    /// Takes places back. Who gets them is decided when the next worker asks: the one that gave them back may do so
    /// before the others are polled.
    fn take_back(&mut self, count: usize) {
        self.free += count;
        if count == 0 {
            return;
        }
        for member in &mut self.members {
            if member.wanted > 0
                && let Some(waker) = member.waker.take()
            {
                waker.wake();
            }
        }
    }
}

impl Share {
    /// Asks for up to `wanted` places, and takes at least one.
    pub(super) fn poll_take(&self, context: &mut Context<'_>, wanted: usize) -> Poll<Taken> {
        let mut state = self.places.state();
        let reached = state.reached;
        let member = &mut state.members[self.member];
        if !member.is_active {
            member.is_active = true;
            member.pass = member.pass.max(reached);
        }
        member.wanted = wanted.saturating_sub(member.granted);
        state.give(self.member);
        let member = &mut state.members[self.member];
        if member.granted == 0 {
            member.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        (member.wanted, member.waker) = (0, None);
        let count = std::mem::take(&mut member.granted);
        Poll::Ready(Taken { places: Arc::clone(&self.places), member: self.member, count })
    }

    /// Whether other workers have the places, too.
    pub(super) fn is_shared(&self) -> bool {
        self.places.state().members.len() > 1
    }

    /// Asks for nothing, and gives back what was not taken.
    pub(super) fn withdraw(&self) {
        let mut state = self.places.state();
        let member = &mut state.members[self.member];
        let unused = std::mem::take(&mut member.granted);
        (member.wanted, member.waker, member.is_active) = (0, None, false);
        member.refund(unused);
        state.take_back(unused);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl Taken {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Splits one place off, for a message.
    pub(super) fn split_one(&mut self) -> Self {
        debug_assert!(self.count > 0, "a response has more messages than were asked for");
        let count = self.count.min(1);
        self.count -= count;
        Self { places: Arc::clone(&self.places), member: self.member, count }
    }

    /// Frees the places for which there was no message.
    pub(super) fn give_back(mut self) {
        let mut state = self.places.state();
        let member = &mut state.members[self.member];
        member.refund(self.count);
        state.take_back(std::mem::take(&mut self.count));
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.places.state().take_back(self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// A worker that always has messages, or has none in some rounds.
    struct Loop {
        share: Share,
        most: usize,
        held: Vec<Taken>,
        begun: usize,
    }

    impl Loop {
        fn take(&mut self) -> usize {
            let room = self.most.saturating_sub(self.held.len());
            if room == 0 {
                self.share.withdraw();
                return 0;
            }
            let mut context = Context::from_waker(Waker::noop());
            let Poll::Ready(mut taken) = self.share.poll_take(&mut context, room) else { return 0 };
            let count = taken.count();
            assert!((1..=room).contains(&count));
            self.held.extend((0..count).map(|_| taken.split_one()));
            self.begun += count;
            count
        }
    }

    fn loops(count: usize, members: &[(u32, usize)]) -> Vec<Loop> {
        let shares = Places::shares(count, members).into_iter();
        let members = shares.zip(members);
        members
            .map(|(share, &(_, most))| Loop { share, most, held: Vec::new(), begun: 0 })
            .collect()
    }

    #[test]
    fn the_first_places_are_divided_by_the_weights() {
        let mut loops = loops(10, &[(6, 10), (3, 10), (1, 10)]);
        assert_eq!(loops[0].take(), 6);
        assert_eq!((loops[1].take(), loops[2].take()), (3, 1));
    }

    #[test]
    fn under_random_loads_places_are_never_exceeded_idle_or_unfairly_divided() {
        for seed in 0..60 {
            let mut random = Random(seed);
            let count = 1 + random.below(8);
            let members: Vec<_> = (0..=random.below(4))
                .map(|_| (u32::try_from(1 + random.below(9)).unwrap(), count))
                .collect();
            let mut loops = loops(count, &members);
            for _ in 0..1000 {
                let one = random.below(loops.len());
                let held = loops[one].held.len();
                // The worker whose task ends asks before the others are polled.
                if held > 0 {
                    drop(loops[one].held.swap_remove(random.below(held)));
                    loops[one].take();
                }
                loop {
                    let taken: usize = loops.iter_mut().map(Loop::take).sum();
                    if taken == 0 {
                        break;
                    }
                }
                let held: usize = loops.iter().map(|one| one.held.len()).sum();
                assert_eq!(held, count, "seed {seed}: all places are in use");
            }
            let all: usize = loops.iter().map(|one| one.begun).sum();
            let weights: usize = members.iter().map(|(weight, _)| *weight as usize).sum();
            for (one, (weight, _)) in loops.iter().zip(&members) {
                let share = all * *weight as usize / weights;
                let slack = count * 2 + 2;
                assert!(
                    one.begun.abs_diff(share) <= slack,
                    "seed {seed}: {} of {share}",
                    one.begun
                );
            }
        }
    }

    #[test]
    fn a_worker_that_was_idle_neither_catches_up_nor_pays() {
        let mut loops = loops(1, &[(1, 1), (1, 1)]);
        loops[1].share.withdraw();
        for _ in 0..1000 {
            assert_eq!(loops[0].take(), 1);
            loops[0].held.clear();
        }
        let mut turns = Vec::new();
        for _ in 0..10 {
            for index in [0, 1] {
                if loops[index].take() == 1 {
                    turns.push(index);
                }
            }
            for one in &mut loops {
                one.held.clear();
            }
        }
        let second = turns.iter().filter(|turn| **turn == 1).count();
        assert!((4..=6).contains(&second), "{turns:?}");
    }

    #[test]
    fn places_without_a_message_are_not_counted() {
        let mut loops = loops(4, &[(1, 4), (1, 4)]);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            let Poll::Ready(taken) = loops[1].share.poll_take(&mut context, 4) else { continue };
            taken.give_back();
        }
        loops[1].share.withdraw();
        assert_eq!(loops[0].take() + loops[0].take(), 4, "what was given back is free");
    }

    #[test]
    fn dropping_a_worker_frees_what_it_was_given() {
        let mut loops = loops(3, &[(1, 3), (5, 3)]);
        assert_eq!(loops[0].take(), 1, "the other was given two");
        loops.truncate(1);
        assert_eq!(loops[0].take(), 2);
    }
}
