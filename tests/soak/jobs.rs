//! The tasks, how they are put, the rows that they change, and where.

use std::time::Duration;

use rowkey::queue::Body;
use rowkey::store::{Deciding, Store, View};
use rowkey::worker::outbox::Outbox as _;
use rowkey::worker::{Task, Tasks};
use rowkey::{Entity, StorageAccount, Table};
use serde::{Deserialize, Serialize};

/// How long a message stays hidden when its worker dies.
pub(crate) const VISIBILITY: Duration = Duration::from_secs(5);
/// How often a task is tried.
pub(crate) const ATTEMPTS: u32 = 8;

const CITIES: u64 = 100;
/// The number of ids between the first and the last employee of a department.
const DEPARTMENT: u64 = 2_000;

/// One of the tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Can never be done.
    Bad { number: u64 },
    /// An employee leaves: from one table into another, by steps.
    Leave { number: u64 },
    /// A person moves: an entity that is indexed elsewhere and counted in a view.
    Move { number: u64, person: u64 },
    /// A new photo, too large for a message and for a row.
    Photo { number: u64, album: u64, image: String },
    /// An amount is added to an account, once.
    Post { number: u64, account: u64, amount: i64 },
}

impl Task for Job {
    const KIND: &'static str = "soak";
}

impl Job {
    pub(crate) fn number(&self) -> u64 {
        match self {
            Self::Bad { number }
            | Self::Leave { number }
            | Self::Move { number, .. }
            | Self::Photo { number, .. }
            | Self::Post { number, .. } => *number,
        }
    }
}

/// How a task that can never be done shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    Fails,
    Panics,
    Said,
    /// Its message is no task.
    Unreadable,
}

impl Bad {
    pub(crate) fn of(number: u64) -> Self {
        match number / 100 % 5 {
            0 => Self::Fails,
            1 => Self::Panics,
            2 | 3 => Self::Said,
            _ => Self::Unreadable,
        }
    }
}

/// Which task is which.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) tasks: u64,
    pub(crate) keys: u64,
}

impl Plan {
    pub(crate) fn new(tasks: u64) -> Self {
        Self { tasks, keys: (tasks / 20).clamp(100, 1000) }
    }

    /// Of two hundred tasks one is bad, one is a photo, four move a person, ten employees leave, and the others
    /// add something; of these eight are parts of a transaction.
    pub(crate) fn job(&self, number: u64) -> Job {
        let key = number.wrapping_mul(7919) / 100 % self.keys;
        match number % 200 {
            0 if number.is_multiple_of(400) => Job::Bad { number },
            1 => Job::Photo { number, album: key, image: image(key, number + 1) },
            2..6 => Job::Move { number, person: key },
            6..16 => Job::Leave { number },
            _ => Job::Post { number, account: self.account(number), amount: amount(number) },
        }
    }

    pub(crate) fn is_in_transaction(number: u64) -> bool {
        (16..24).contains(&(number % 200))
    }

    fn account(&self, number: u64) -> u64 {
        number / 7 % self.keys
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

/// Written by the transaction that adds the amount.
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

/// Written with the task of its posting, both or neither.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{account:6}", row = "order_{number:9}")]
pub(crate) struct Order {
    pub(crate) account: u64,
    pub(crate) number: u64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department:6}", row = "employee_{number:9}")]
pub(crate) struct Employee {
    pub(crate) department: u64,
    pub(crate) number: u64,
    /// How often they were hired.
    pub(crate) hired: i32,
}

impl Employee {
    pub(crate) fn new(number: u64) -> Self {
        Self { department: number / DEPARTMENT, number, hired: 1 }
    }
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

/// The stores, whose messages and op rows are gone in the end.
pub(crate) const STORES: [&str; 3] = ["orders", "people", "photos"];

/// Where everything is, for one process.
#[derive(Clone)]
pub(crate) struct Places {
    pub(crate) account: StorageAccount,
    pub(crate) tasks: Tasks<Job>,
    pub(crate) ledger: Deciding,
    pub(crate) current: Deciding,
    pub(crate) archive: Deciding,
    pub(crate) orders: Store<Order>,
    pub(crate) people: Store<Resident>,
    pub(crate) photos: Store<Photo>,
}

impl Places {
    pub(crate) fn new(account: StorageAccount) -> rowkey::Result<Self> {
        let tasks = Tasks::new(account.queue("jobs")).claims(account.container("claims"));
        let cities = View::new("cities", &account.table("cities"), |it: &Resident| {
            Some(Summary::key(it.city))
        })
        .count(Summary::PEOPLE)
        .sum(Summary::SALARY, |person| i64::from(person.salary));
        let [orders, people, photos] = STORES.map(|name| account.table(name));
        let queue = |table: &Table| account.queue(&format!("{}-changes", table.name()));
        let people = Store::builder(people.clone()).queue(queue(&people)).with(cities);
        let orders = Store::builder(orders.clone()).queue(queue(&orders)).with(tasks.clone());
        let photos = Store::builder(photos.clone()).queue(queue(&photos));
        Ok(Self {
            tasks,
            ledger: Deciding::new(&account.table("ledger")),
            current: Deciding::new(&account.table("current")),
            archive: Deciding::new(&account.table("archive")),
            orders: orders.build()?,
            people: people.build()?,
            photos: photos.blobs(account.container("images")).build()?,
            account,
        })
    }

    /// Creates everything; the employees who are to leave are there before.
    pub(crate) async fn create(&self, plan: &Plan) -> rowkey::Result<()> {
        self.tasks.create_if_missing().await?;
        self.orders.create_if_missing().await?;
        self.people.create_if_missing().await?;
        self.photos.create_if_missing().await?;
        for table in ["ledger", "cities", "current", "archive"] {
            self.account.table(table).create_if_missing().await?;
        }
        let leaving = plan.jobs().filter(|job| matches!(job, Job::Leave { .. }));
        let leaving: Vec<_> = leaving.map(|job| Employee::new(job.number())).collect();
        for department in leaving.chunk_by(|one, other| one.department == other.department) {
            let empty = self.current.table().transaction();
            let all = department.iter().fold(empty, rowkey::Transaction::insert);
            all.submit().await?;
        }
        Ok(())
    }

    /// Puts a task, in the way of its kind.
    pub(crate) async fn put(&self, job: &Job) -> rowkey::Result<()> {
        match job {
            Job::Bad { number } if Bad::of(*number) == Bad::Unreadable => {
                let body = Body::text(format!("bad {number}"));
                self.tasks.queue().put(body).ttl(None).send().await.map(drop)
            }
            Job::Post { number, account, .. } if Plan::is_in_transaction(*number) => {
                let order = Order { account: *account, number: *number };
                match self.orders.transaction().insert(&order).task(job).submit().await {
                    // By an earlier call, whose end was unknown.
                    Err(error) if error.kind() == rowkey::ErrorKind::AlreadyExists => Ok(()),
                    submitted => submitted.map(drop),
                }
            }
            job => {
                let key = job.number().to_string();
                self.tasks.put_with_key(&key, job).await.map(drop)
            }
        }
    }
}
