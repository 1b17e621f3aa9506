//! The tasks, what they do, and where.

use rowkey::queue::Body;
use rowkey::{Entity, Outcome, StorageAccount, Table};
use rowkey_eventual::worker::{Attempt, Done, Handler};
use rowkey_eventual::{Task, Tasks};
use rowkey_store::{Store, View};
use serde::{Deserialize, Serialize};

const CITIES: u64 = 100;

/// One of the tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Can never be done.
    Bad { number: u64 },
    /// A person moves: an entity that is indexed elsewhere and counted in a view.
    Move { person: u64, version: u64 },
    /// A new photo, too large for a message and for a row.
    Photo { album: u64, version: u64, image: String },
    /// An amount is added to an account, once.
    Post { account: u64, number: u64, amount: i64 },
}

impl Task for Job {
    const KIND: &'static str = "soak";
}

/// Which task is which.
pub(crate) struct Plan {
    pub(crate) tasks: u64,
    pub(crate) keys: u64,
}

impl Plan {
    pub(crate) fn new(tasks: u64) -> Self {
        Self { tasks, keys: (tasks / 200).clamp(20, 1000) }
    }

    /// Of a hundred tasks one is bad, two are photos, seven move somebody, and ninety add something.
    pub(crate) fn job(&self, number: u64) -> Job {
        let key = number.wrapping_mul(7919) / 100 % self.keys;
        match number % 100 {
            0 => Job::Bad { number },
            1 | 51 => {
                let version = number + 1;
                Job::Photo { album: key, version, image: image(key, version) }
            }
            2..9 => Job::Move { person: key, version: number + 1 },
            _ => Job::Post { account: number / 7 % self.keys, number, amount: amount(number) },
        }
    }

    /// Every other bad one is no task at all.
    pub(crate) fn is_unreadable(number: u64) -> bool {
        number % 200 == 100
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = Job> {
        (0..self.tasks).map(|number| self.job(number))
    }
}

pub(crate) fn image(album: u64, version: u64) -> String {
    format!("{album}.{version};").repeat(62_000 / 8)
}

pub(crate) fn city(person: u64, version: u64) -> u64 {
    (person + version * 31) % CITIES
}

pub(crate) fn salary(version: u64) -> u32 {
    u32::try_from(version % 5000).unwrap()
}

fn amount(number: u64) -> i64 {
    i64::try_from(number % 1001).unwrap() - 300
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{account:6}", row = "posting_{number:9}")]
pub(crate) struct Posting {
    pub(crate) account: u64,
    pub(crate) number: u64,
    pub(crate) amount: i64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{account:6}", row = "balance")]
pub(crate) struct Balance {
    pub(crate) account: u64,
    pub(crate) postings: i64,
    pub(crate) sum: i64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{person:6}", row = "person_{person:6}")]
#[entity(index(name = by_city, partition = "city_{city:3}", row = "{person:6}"))]
pub(crate) struct Resident {
    pub(crate) person: u64,
    pub(crate) city: u64,
    pub(crate) salary: u32,
    pub(crate) version: u64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{city:3}", row = "summary")]
pub(crate) struct Summary {
    pub(crate) city: u64,
    pub(crate) people: i64,
    pub(crate) salary: i64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{album:6}", row = "photo")]
pub(crate) struct Photo {
    pub(crate) album: u64,
    pub(crate) version: u64,
    #[entity(blob)]
    pub(crate) image: String,
}

/// Where everything is, for one process.
#[derive(Clone)]
pub(crate) struct Places {
    pub(crate) account: StorageAccount,
    pub(crate) tasks: Tasks<Job>,
    pub(crate) ledger: Table,
    pub(crate) people: Store<Resident>,
    pub(crate) photos: Store<Photo>,
}

impl Places {
    pub(crate) fn new(account: StorageAccount) -> rowkey::Result<Self> {
        let claims = account.container("claims");
        let tasks = Tasks::new(account.queue("jobs")).claims(claims);
        let cities = View::new("cities", &account.table("cities"), |it: &Resident| {
            Some(Summary::key(it.city))
        })
        .count(Summary::PEOPLE)
        .sum(Summary::SALARY, |person| i64::from(person.salary));
        let people = Store::builder(account.table("people")).queue(account.queue("people-changes"));
        let people = people.following(cities).build()?;
        let photos = Store::builder(account.table("photos"))
            .queue(account.queue("photos-changes"))
            .blobs(account.container("images"))
            .build()?;
        let ledger = account.table("ledger");
        Ok(Self { account, tasks, ledger, people, photos })
    }

    pub(crate) async fn create(&self) -> rowkey::Result<()> {
        self.tasks.create_if_missing().await?;
        self.people.create_if_missing().await?;
        self.photos.create_if_missing().await?;
        for table in ["ledger", "cities"] {
            self.account.table(table).create_if_missing().await?;
        }
        Ok(())
    }

    pub(crate) async fn put(&self, job: &Job) -> rowkey::Result<()> {
        match job {
            Job::Bad { number } if Plan::is_unreadable(*number) => {
                let body = Body::text(format!("bad {number}"));
                self.tasks.queue().put(body).never_expires().send().await.map(drop)
            }
            job => self.tasks.put(job).await.map(drop),
        }
    }
}

/// Does the tasks.
pub(crate) struct Doer(pub(crate) Places);

impl Handler<Job> for Doer {
    async fn handle(&self, job: Job, _: Attempt) -> rowkey::Result<Done> {
        match job {
            Job::Bad { .. } => Ok(Done::Poison("it is bad".to_owned())),
            Job::Move { person, version } => self.relocate(person, version).await,
            Job::Photo { album, version, image } => self.hang(album, version, image).await,
            Job::Post { account, number, amount } => self.post(account, number, amount).await,
        }
    }
}

impl Doer {
    /// The posting and the balance in one transaction; a posting that is there was counted.
    async fn post(&self, account: u64, number: u64, amount: i64) -> rowkey::Result<Done> {
        let ledger = &self.0.ledger;
        let posting = Posting { account, number, amount };
        loop {
            let stored = ledger.get(Balance::key(account)).await?;
            let transaction = ledger.transaction().insert(&posting);
            let posted = if let Some(stored) = stored {
                let balance = stored.map(|balance| {
                    balance.postings += 1;
                    balance.sum += amount;
                });
                transaction.replace(&balance).submit().await
            } else {
                let balance = Balance { account, postings: 1, sum: amount };
                transaction.insert(&balance).submit().await
            };
            match posted {
                Ok(_) => return Ok(Done::Applied),
                Err(error) if error.outcome() == Outcome::Unknown => return Err(error),
                Err(error) if error.is_already_exists() && error.operation_index() == Some(0) => {
                    return Ok(Done::AlreadyApplied);
                }
                // Somebody else has changed the balance.
                Err(error) if error.is_conflict() || error.is_already_exists() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The newest version wins, in whatever order they come.
    async fn relocate(&self, person: u64, version: u64) -> rowkey::Result<Done> {
        let people = &self.0.people;
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
                Err(error) if error.is_conflict() || error.is_already_exists() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The newest version wins, in whatever order they come.
    async fn hang(&self, album: u64, version: u64, image: String) -> rowkey::Result<Done> {
        let photos = &self.0.photos;
        loop {
            let new = Photo { album, version, image: image.clone() };
            let hung = match photos.get(Photo::key(album)).await? {
                Some(known) if known.entity.version >= version => return Ok(Done::AlreadyApplied),
                Some(known) => photos.replace_if(&new, &known.version).await,
                None => photos.insert(&new).await,
            };
            match hung {
                Ok(_) => return Ok(Done::Applied),
                Err(error) if error.is_conflict() || error.is_already_exists() => {}
                Err(error) => return Err(error),
            }
        }
    }
}
