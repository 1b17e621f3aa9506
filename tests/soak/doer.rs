//! What does the tasks, and what goes wrong in it: handlers that fail, panic, hang and block, before they
//! had their effect and after it.

use std::future::pending;
use std::time::Duration;

use rowkey::worker::inbox::Inbox;
use rowkey::worker::steps::{self, Steps};
use rowkey::worker::{Attempt, Done, Handler, Worker};
use rowkey::{Clock, DynamicEntity, Error, ErrorKind};
use rowkey_tests::random::Random;

use crate::clock::{SharedClock, pause};
use crate::jobs::{
    ATTEMPTS, Bad, Balance, Employee, Job, Photo, Places, Posting, Resident, VISIBILITY, city,
    salary,
};

/// How long a handler may take.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// What panics that are meant say.
pub(crate) const MEANT: &str = "the soak has a handler panic";

/// Does the tasks.
pub(crate) struct Doer {
    pub(crate) places: Places,
    pub(crate) clock: SharedClock,
    /// Records started tasks before they have an effect.
    pub(crate) begun: Box<dyn Fn(u64) + Send + Sync>,
    /// Whether handlers go wrong.
    pub(crate) is_clumsy: bool,
}

impl Doer {
    /// A worker that has everything done, sooner or later.
    pub(crate) fn worker(self) -> Worker<Job, Self> {
        let (quick, slow) = (Duration::from_millis(20), Duration::from_millis(250));
        let (second, seconds) = (Duration::from_secs(1), Duration::from_secs(4));
        Worker::new(self.places.tasks.clone(), self)
            .max_attempts(ATTEMPTS)
            .visibility(VISIBILITY)
            .concurrency(16)
            .time_limit(TIME_LIMIT)
            .idle_backoff(quick, slow)
            .retry_backoff(second, seconds)
    }
}

impl Handler<Job> for Doer {
    async fn handle(&self, job: Job, attempt: Attempt) -> rowkey::Result<Done> {
        (self.begun)(job.number());
        let mishap = if self.is_clumsy { Mishap::of(&job, &attempt) } else { None };
        if let Some(Mishap { is_before: true, what }) = mishap {
            self.go_wrong(what).await?;
        }
        let done = match job {
            Job::Bad { number } => bad(number),
            Job::Leave { number } => self.leave(number, &attempt).await,
            Job::Move { number, person } => self.relocate(person, number + 1).await,
            Job::Photo { number, album, image } => self.hang(album, number + 1, image).await,
            Job::Post { number, account, amount } => {
                self.post(Posting { account, number, amount }, &attempt).await
            }
        }?;
        if let Some(Mishap { is_before: false, what }) = mishap {
            self.go_wrong(what).await?;
        }
        Ok(done)
    }
}

fn bad(number: u64) -> rowkey::Result<Done> {
    match Bad::of(number) {
        Bad::Panics => panic!("{MEANT}"),
        Bad::Fails => Err(Error::refused(ErrorKind::Unexpected, "it fails each time")),
        Bad::Said | Bad::Unreadable => Ok(Done::Poison("it is bad".to_owned())),
    }
}

/// The fault in an attempt.
#[derive(Clone, Copy, Debug)]
struct Mishap {
    /// Before the effect, or after it.
    is_before: bool,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Block,
    Fail,
    Hang,
    Panic,
    Unavailable,
}

impl Mishap {
    /// By the task's number and the attempt's, which has an end like any other after two.
    fn of(job: &Job, attempt: &Attempt) -> Option<Self> {
        if attempt.number() > 2 {
            return None;
        }
        let mut random = Random(job.number() * 16 + u64::from(attempt.number()));
        random.next();
        let what = match random.below(10_000) {
            0 => What::Block,
            1..6 => What::Hang,
            6..60 => What::Panic,
            60..160 => What::Fail,
            160..200 => What::Unavailable,
            _ => return None,
        };
        Some(Self { is_before: random.one_in(2), what })
    }
}

impl Doer {
    async fn go_wrong(&self, what: What) -> rowkey::Result<()> {
        match what {
            What::Block => {
                let end = self.clock.elapsed() + TIME_LIMIT + Duration::from_secs(2);
                while self.clock.elapsed() < end {
                    pause(Duration::from_millis(5));
                }
                Ok(())
            }
            What::Fail => Err(Error::refused(ErrorKind::Unexpected, "it fails now and then")),
            What::Hang => pending().await,
            What::Panic => panic!("{MEANT}"),
            What::Unavailable => Err(Error::refused(ErrorKind::Unavailable, "it is down")),
        }
    }

    /// The posting, the balance and the row of the inbox in one transaction.
    async fn post(&self, posting: Posting, attempt: &Attempt) -> rowkey::Result<Done> {
        let ledger = &self.places.ledger;
        let key = Balance::key(posting.account);
        let effect = async |row: &DynamicEntity| loop {
            let transaction = ledger.table().transaction().upsert(&posting).insert(row);
            let posted = if let Some(stored) = ledger.get(key.clone()).await? {
                let balance = stored.map(|balance| {
                    balance.postings += 1;
                    balance.sum += posting.amount;
                });
                transaction.replace(&balance).submit().await
            } else {
                let Posting { account, amount, .. } = posting;
                let balance = Balance { account, postings: 1, sum: amount };
                transaction.insert(&balance).submit().await
            };
            match posted {
                // Another worker has changed the balance, or made it.
                Err(error)
                    if error.kind() == ErrorKind::Conflict
                        && error.outcome() != rowkey::Outcome::Unknown => {}
                Err(error)
                    if error.kind() == ErrorKind::AlreadyExists
                        && error.details().operation_index == Some(2) => {}
                posted => return posted.map(drop),
            }
        };
        Inbox::new(ledger).once(&key, attempt, effect).await
    }

    /// From one table into the other, once: not again after they were hired again.
    async fn leave(&self, number: u64, attempt: &Attempt) -> rowkey::Result<Done> {
        let (current, archive) = (&self.places.current, &self.places.archive);
        let Employee { department, .. } = Employee::new(number);
        let key = Employee::key(department, number);
        let read = async |row| {
            let there = archive.get(key.clone()).await?;
            let Some(employee) = current.get(key.clone()).await? else { return Ok(None) };
            let steps = Steps::new()
                .write(archive, there.as_ref(), employee.entity.clone())
                .delete_once(current, &employee, row);
            Ok(Some(steps))
        };
        Box::pin(steps::run_once(&Inbox::new(current), &key, attempt, read)).await
    }

    /// The newest version wins, in any order of arrival.
    async fn relocate(&self, person: u64, version: u64) -> rowkey::Result<Done> {
        let people = &self.places.people;
        let (city, salary) = (city(person, version), salary(version));
        let new = Resident { person, city, salary, version };
        loop {
            let moved = match people.get(Resident::key(person)).await? {
                Some(known) if known.entity.version >= version => return Ok(Done::AlreadyApplied),
                Some(known) => people.replace_if(&new, &known.version).await,
                None => people.insert(&new).await,
            };
            match moved {
                Ok(_) => return Ok(Done::Applied),
                Err(error)
                    if error.kind() == ErrorKind::Conflict
                        || error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The newest version wins, in any order of arrival.
    async fn hang(&self, album: u64, version: u64, image: String) -> rowkey::Result<Done> {
        let photos = &self.places.photos;
        loop {
            let new = Photo { album, version, image: image.clone() };
            let hung = match photos.get(Photo::key(album)).await? {
                Some(known) if known.entity.version >= version => return Ok(Done::AlreadyApplied),
                Some(known) => photos.replace_if(&new, &known.version).await,
                None => photos.insert(&new).await,
            };
            match hung {
                Ok(_) => return Ok(Done::Applied),
                Err(error)
                    if error.kind() == ErrorKind::Conflict
                        || error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}
