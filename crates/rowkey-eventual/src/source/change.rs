//! What an intent of a source says, and how it is carried out.

use std::collections::HashSet;
use std::fmt;

use rowkey::{Entity, Error, ErrorKind, Key, Outcome, Result};
use rowkey_patterns::rounds::{Rounds, was_lost};
use serde::{Deserialize, Serialize};

use super::Source;
use super::follower::{Follower, Primary};
use crate::task::Task;
use crate::worker::{Attempt, Done, Handler};

const OPERATION: &str = "SettleChange";

/// That an entity was changed, and which targets of followers have to be settled for that.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    partition_key: String,
    row_key: String,
    targets: Vec<Addressed>,
}

/// A target and the follower that has it.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Addressed {
    follower: String,
    address: String,
}

impl Task for Change {
    const KIND: &'static str = "entity-changed";
}

impl Change {
    /// The PartitionKey of the entity, and so that of the intent.
    pub(super) fn partition_key(&self) -> &str {
        &self.partition_key
    }

    /// What a change has to settle; `None` if nothing.
    pub(super) fn of<E: Entity>(
        followers: &[Follower<E>],
        before: Option<&E>,
        after: Option<&E>,
    ) -> Result<Option<Self>> {
        let Some(entity) = after.or(before) else { return Ok(None) };
        let key = Key::of(entity);
        let (partition_key, row_key) = key.parts().map_err(Error::no_such_key)?;
        let (mut new, mut old) = (Vec::new(), Vec::new());
        for follower in followers {
            let targets = |entity: Option<&E>| entity.map_or(Ok(Vec::new()), &*follower.targets);
            let addressed = |address: &String| {
                let follower = follower.name.as_ref().to_owned();
                Addressed { follower, address: address.clone() }
            };
            // What cannot be there was never written.
            let were = targets(before).unwrap_or_default();
            let are = targets(after).map_err(|error| error.of("FollowChange", &follower.name))?;
            let is_new =
                |target: &&super::Target| target.content.is_none() || !were.contains(target);
            new.extend(are.iter().filter(is_new).map(|target| addressed(&target.address)));
            let is_left = |old: &&super::Target| are.iter().all(|new| new.address != old.address);
            old.extend(were.iter().filter(is_left).map(|target| addressed(&target.address)));
        }
        // The new places first: whoever looks something up may find it in both, but in one at least.
        let mut known = HashSet::new();
        let mut targets = new;
        targets.append(&mut old);
        targets.retain(|target| known.insert(target.clone()));
        let (partition_key, row_key) = (partition_key.to_owned(), row_key.to_owned());
        Ok((!targets.is_empty()).then_some(Self { partition_key, row_key, targets }))
    }
}

/// What became of an attempt to settle a target.
enum Attempted<E> {
    /// It is as the entity demands.
    Settled,
    /// It was written by a follower that reads the entity by other means, and looks after itself.
    Trusted,
    /// It was written, from what was read there.
    Written(Primary<E>),
    /// Another worker wrote it meanwhile, or nobody knows.
    Lost(Error),
    /// It can never be settled, and why.
    Hopeless(String),
}

impl<E: Entity + Send + Sync + 'static> Handler<Change> for Source<E> {
    /// Settles all targets of a change. If one fails, so that it has to be tried again, the others are
    /// settled nevertheless.
    async fn handle(&self, change: Change, _: Attempt) -> Result<Done> {
        let table = self.table();
        let key = Key::<E>::new(&*change.partition_key, &*change.row_key);
        let mut rounds = Rounds::new(table, (&change.partition_key, &change.row_key));
        let mut open: Vec<&Addressed> = change.targets.iter().collect();
        let (mut done, mut failed, mut lost, mut poison) = (Done::AlreadyApplied, None, None, None);
        loop {
            let (mut again, mut written) = (Vec::new(), Vec::new());
            for target in open {
                match self.settle(&key, target).await {
                    Ok(Attempted::Settled) => {}
                    Ok(Attempted::Trusted) => done = Done::Applied,
                    Ok(Attempted::Written(primary)) => {
                        done = Done::Applied;
                        written.push((target, primary.seen()));
                    }
                    Ok(Attempted::Hopeless(reason)) => poison = Some(reason),
                    Ok(Attempted::Lost(error)) => {
                        lost = Some(error);
                        again.push(target);
                    }
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            // What was written is right if the entity is still what it was written for. Without this
            // look, a copy that was inserted late would stay where a later change saw nothing to delete.
            if !written.is_empty() {
                let now = Some(Primary::version(table, &key).await?);
                let outdated = written.into_iter().filter(|(_, seen)| *seen != now);
                again.extend(outdated.map(|(target, _)| target));
            }
            if again.is_empty() {
                return match (failed, poison) {
                    (Some(error), _) => Err(error),
                    (None, Some(reason)) => Ok(Done::Poison(reason)),
                    (None, None) => Ok(done),
                };
            }
            if !rounds.again().await {
                return Err(failed.or(lost).unwrap_or_else(|| {
                    let what = "the entity changed every time one of its targets was settled";
                    Error::refused(ErrorKind::Conflict, what).of(OPERATION, table.name())
                }));
            }
            open = again;
        }
    }
}

impl<E: Entity + Send + Sync + 'static> Source<E> {
    async fn settle(&self, key: &Key<E>, target: &Addressed) -> Result<Attempted<E>> {
        let follower = self.followers.iter().find(|follower| *follower.name == target.follower);
        let Some(follower) = follower else {
            let reason = "a target belongs to a follower that this source does not have; \
                          put it back when a program works that has it";
            return Ok(Attempted::Hopeless(reason.to_owned()));
        };
        let primary = Primary::new(self.table(), key);
        match (follower.settle)(primary.clone(), target.address.clone()).await {
            Ok(Done::AlreadyApplied) => Ok(Attempted::Settled),
            Ok(Done::Poison(reason)) => Ok(Attempted::Hopeless(reason)),
            Ok(Done::Applied) if primary.seen().is_none() => Ok(Attempted::Trusted),
            Ok(Done::Applied) => Ok(Attempted::Written(primary)),
            Err(error) if was_lost(&error) || error.outcome() == Outcome::Unknown => {
                Ok(Attempted::Lost(error))
            }
            Err(error) => Err(error),
        }
    }
}

/// Without keys and addresses.
impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change").field("targets", &self.targets.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Target;

    #[derive(Entity)]
    #[entity(partition = "{department}", row = "id_{id}")]
    struct Employee {
        department: String,
        id: u32,
        city: String,
        phone: String,
    }

    fn employee(city: &str, phone: &str) -> Employee {
        Employee { department: "it".into(), id: 7, city: city.into(), phone: phone.into() }
    }

    /// One that shows the whole entity, and one that shows the phone alone; nobody lives nowhere.
    fn followers() -> [Follower<Employee>; 2] {
        let settle = |_, _| async { Ok(Done::Applied) };
        let cities = |employee: &Employee| match &*employee.city {
            "" => Err(Error::refused(ErrorKind::Invalid, "there is no such city")),
            city => Ok(vec![Target::new(city)]),
        };
        let phones = |employee: &Employee| {
            let target = |phone| Target::new(phone).content(&*employee.phone);
            Ok(employee.phone.split(' ').map(target).collect())
        };
        [Follower::new("cities", cities, settle), Follower::new("phones", phones, settle)]
    }

    fn targets(before: Option<&Employee>, after: Option<&Employee>) -> Result<Vec<String>> {
        let change = Change::of(&followers(), before, after)?;
        let named = |target: Addressed| format!("{} {}", target.follower, target.address);
        Ok(change.into_iter().flat_map(|change| change.targets).map(named).collect())
    }

    #[test]
    fn a_change_names_the_targets_of_both_that_may_differ_the_new_ones_first() {
        let (leeds, york) = (employee("Leeds", "1 2"), employee("York", "1 3"));
        assert_eq!(targets(None, Some(&leeds)).unwrap(), ["cities Leeds", "phones 1", "phones 2"]);
        assert_eq!(
            targets(Some(&leeds), Some(&york)).unwrap(),
            ["cities York", "phones 1", "phones 3", "cities Leeds", "phones 2"]
        );
        let same_phones = employee("York", "1 2");
        assert_eq!(
            targets(Some(&leeds), Some(&same_phones)).unwrap(),
            ["cities York", "cities Leeds"],
            "what is known to be the same is left out"
        );
        assert_eq!(targets(Some(&york), None).unwrap(), ["cities York", "phones 1", "phones 3"]);
        assert_eq!(targets(None, None).unwrap(), [""; 0]);
        let twice = employee("Leeds", "1 1");
        assert_eq!(targets(None, Some(&twice)).unwrap(), ["cities Leeds", "phones 1"]);
    }

    #[test]
    fn what_cannot_be_there_refuses_a_change_to_it_and_not_one_from_it() {
        let (leeds, nowhere) = (employee("Leeds", "1"), employee("", "1"));
        let refused = targets(Some(&leeds), Some(&nowhere)).unwrap_err();
        assert!(refused.to_string().contains("FollowChange on cities"), "{refused}");
        assert_eq!(targets(Some(&nowhere), Some(&leeds)).unwrap(), ["cities Leeds"]);
    }

    #[test]
    fn the_stored_form_is_this() {
        let change = Change::of(&followers(), None, Some(&employee("Leeds", "1"))).unwrap();
        let json = serde_json::to_string(&change).unwrap();
        assert_eq!(
            json,
            r#"{"partitionKey":"it","rowKey":"id_0000000007","targets":[{"follower":"cities","address":"Leeds"},{"follower":"phones","address":"1"}]}"#
        );
        assert_eq!(format!("{:?}", change.unwrap()), "Change { targets: 2, .. }");
    }
}
