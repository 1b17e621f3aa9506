//! Advices about jobs and views.

use std::time::Duration;

use futures_util::{FutureExt as _, stream};
use rowkey::pace::Pace;
use rowkey::patterns::job::{Attempt, Batch, Checkpoint, Job, Report, Verdict, Walk};
use rowkey::store::{Declaration, Store, StoreBuilder, View};
use rowkey::{Clock as _, DynamicEntity, Entity, Key, StorageAccount, Table, Transaction};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::TestResult;
use rowkey_tests::timeline::Timeline;

use super::{Case, case, refused, reported, start};

/// Inserts a row.
struct Insert(Table, DynamicEntity);

impl Batch for Insert {
    fn keys(&self) -> (&str, &str) {
        (&self.1.partition_key, &self.1.row_key)
    }

    fn entities(&self) -> u64 {
        1
    }

    async fn store(&self, _: Attempt) -> rowkey::Result<Report> {
        Transaction::insert(self.0.transaction(), &self.1).submit().await?;
        Ok(Report::of(Verdict::Right, 1))
    }
}

/// Rows of partitions of their own.
fn inserts(table: &Table, rows: u32) -> impl Iterator<Item = Insert> {
    let row = |row| DynamicEntity::new(format!("p{row}"), "r");
    (0..rows).map(move |number| Insert(table.clone(), row(number)))
}

async fn readings() -> TestResult<(Server, StorageAccount, Table)> {
    let (server, account) = start().await?;
    let table = account.table("readings");
    table.create().await?;
    Ok((server, account, table))
}

fn walk(table: &Table) -> Walk<DynamicEntity> {
    Walk::new(table, Table::scan::<DynamicEntity>)
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{region}", row = "sale_{id}")]
struct Sale {
    region: String,
    id: String,
    group: String,
    amount: i64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "summary")]
struct Group {
    name: String,
    count: i64,
    amount: i64,
}

fn sale(id: &str, group: &str, amount: i64) -> Sale {
    Sale { region: "west".into(), id: id.into(), group: group.into(), amount }
}

/// A view of sums for each group; `prefix` is part of the keys of its summaries.
fn view(account: &StorageAccount, name: &'static str, prefix: &'static str) -> View<Sale, Group> {
    View::new(name, &account.table("groups"), move |sale: &Sale| {
        Some(Group::key(format!("{prefix}{}", sale.group)))
    })
    .count(Group::COUNT)
    .sum(Group::AMOUNT, |sale| sale.amount)
}

fn sales(
    account: &StorageAccount,
    views: impl IntoIterator<Item = impl Declaration<Sale> + 'static>,
) -> rowkey::Result<Store<Sale>> {
    let builder = Store::<Sale>::builder(account.table("sales")).queue(account.queue("sales"));
    views.into_iter().fold(builder, StoreBuilder::with).build()
}

async fn sold() -> TestResult<(Server, StorageAccount)> {
    let (server, account) = start().await?;
    account.table("groups").create().await?;
    sales(&account, [view(&account, "one", "")])?.create_if_missing().await?;
    Ok((server, account))
}

pub(super) const CASES: &[Case] = &[
    case("see the problems of the report; `stop_after` allows more", || {
        async {
            let (_server, _, table) = readings().await?;
            table.insert(&DynamicEntity::new("p1", "r")).await?;
            let load = || Job::load("import", &table, stream::iter(inserts(&table, 3)));
            let stopped = load().concurrency(1).stop_after(0).run().await;
            let Err(interrupted) = stopped else { return Err("it was not stopped".into()) };
            let problem = &interrupted.checkpoint.report().problems[0];
            assert!(problem.error.contains("exists already"), "{}", problem.error);
            assert_eq!(load().stop_after(9).run().await?.total.failed, 2);
            Ok(interrupted.error)
        }
        .boxed()
    }),
    case("resume with the same stream", || {
        async {
            let (server, _, table) = readings().await?;
            let load = |rows| Job::load("import", &table, stream::iter(inserts(&table, rows)));
            let fault = Fault::any().nth(4).reject(ErrorCode::AUTHENTICATION_FAILED);
            let fault = server.inject(fault);
            let stopped = load(9).concurrency(1).run().await;
            drop(fault);
            let Err(interrupted) = stopped else { return Err("it was not stopped".into()) };
            let checkpoint = interrupted.checkpoint.to_string();
            let short = load(2).resume(checkpoint.parse()?).run().await;
            let Err(refused) = short else { return Err("it was not refused".into()) };
            assert_eq!(load(9).resume(checkpoint.parse()?).run().await?.total.right, 9);
            Ok(refused.error)
        }
        .boxed()
    }),
    case("resume the job that wrote it, or start without a checkpoint", || {
        async {
            let (server, _, table) = readings().await?;
            for row in inserts(&table, 3) {
                table.insert(&row.1).await?;
            }
            let fault = Fault::on(Operation::QueryEntities);
            let fault = server.inject(fault.reject(ErrorCode::AUTHENTICATION_FAILED));
            let stopped = Job::count(walk(&table)).run().await;
            drop(fault);
            let Err(interrupted) = stopped else { return Err("it was not stopped".into()) };
            let checkpoint = interrupted.checkpoint.to_string();
            let load = || Job::load("import", &table, stream::iter(inserts(&table, 4)));
            let Err(refused) = load().resume(checkpoint.parse()?).run().await else {
                return Err("it was not refused".into());
            };
            let resumed = Job::count(walk(&table)).resume(checkpoint.parse()?);
            assert_eq!(resumed.run().await?.total.examined, 3);
            assert_eq!(load().run().await?.total.right, 1);
            Ok(refused.error)
        }
        .boxed()
    }),
    case("take another copy of it, or start without a checkpoint", || {
        async {
            let (_server, _, table) = readings().await?;
            let mut stored = String::new();
            let count = Job::count(walk(&table));
            count.progress(|progress| stored = progress.checkpoint.to_string()).run().await?;
            let Err(refused) = stored[1..].parse::<Checkpoint>() else {
                return Err("it was not refused".into());
            };
            Job::count(walk(&table)).resume(stored.parse()?).run().await?;
            Job::count(walk(&table)).run().await?;
            Ok(refused)
        }
        .boxed()
    }),
    case("the deadline has passed; resume the job from its checkpoint", || {
        async {
            let (server, _, table) = readings().await?;
            table.insert(&DynamicEntity::new("p", "r")).await?;
            let timeline = Timeline::new(server.clock());
            let account = StorageAccount::builder()
                .connection_string(server.connection_string())?
                .clock(timeline.clone())
                .build()?;
            let table = account.table("readings");
            let busy = server.inject(Fault::any().reject(ErrorCode::SERVER_BUSY));
            let pace = Pace::background();
            let pace = pace.until(timeline.now() + Duration::from_secs(600));
            let job = Job::count(walk(&table)).pace(pace).run();
            let Err(interrupted) = timeline.run(job).await else {
                return Err("it has no deadline".into());
            };
            drop(busy);
            let resumed = Job::count(walk(&table)).resume(*interrupted.checkpoint).run();
            assert_eq!(timeline.run(resumed).await?.total.examined, 1);
            Ok(interrupted.error)
        }
        .boxed()
    }),
    case("nothing was answered for too long; resume the job from its checkpoint", || {
        async {
            let (server, _, table) = readings().await?;
            table.insert(&DynamicEntity::new("p", "r")).await?;
            let timeline = Timeline::new(server.clock());
            let account = StorageAccount::builder()
                .connection_string(server.connection_string())?
                .clock(timeline.clone())
                .build()?;
            let table = account.table("readings");
            let busy = server.inject(Fault::any().reject(ErrorCode::SERVER_BUSY));
            let job = Job::count(walk(&table)).patience(Duration::from_secs(600)).run();
            let Err(interrupted) = timeline.run(job).await else {
                return Err("it has no patience".into());
            };
            drop(busy);
            let resumed = Job::count(walk(&table)).resume(*interrupted.checkpoint).run();
            assert_eq!(timeline.run(resumed).await?.total.examined, 1);
            Ok(interrupted.error)
        }
        .boxed()
    }),
    case("it contains the keys of the entity and of its summary; shorten them", || {
        async {
            let (_server, account) = sold().await?;
            // The group is in the RowKey of its summaries.
            let long = View::new("long", &account.table("groups"), |sale: &Sale| {
                Some(Key::<Group>::new("all", &*sale.group))
            });
            let sales = sales(&account, [long.count(Group::COUNT)])?;
            let error = refused(sales.insert(&sale("1", &"g".repeat(508), 1)).await)?;
            sales.insert(&sale("1", "g", 1)).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("give the summaries of each view different keys", || {
        async {
            let (_server, account) = sold().await?;
            let one = || view(&account, "one", "");
            sales(&account, [one()])?.insert(&sale("1", "tea", 1)).await?;
            let both = sales(&account, [one(), view(&account, "other", "")])?;
            let error = reported(&both.verify().run().await?, "belongs to another view")?;
            let both = sales(&account, [one(), view(&account, "other", "other_")])?;
            both.repair().run().await?;
            assert!(both.verify().run().await?.is_clean());
            Ok(error)
        }
        .boxed()
    }),
    case("move that row: RowKeys that begin with `from_` are reserved beside summaries", || {
        async {
            let (_server, account) = sold().await?;
            let sales = sales(&account, [view(&account, "one", "")])?;
            sales.insert(&sale("1", "tea", 1)).await?;
            let groups = account.table("groups");
            let rows = groups.scan::<DynamicEntity>().all().await?;
            let of_view =
                |row: &&rowkey::Stored<DynamicEntity>| row.entity.row_key.starts_with("from_");
            let contribution = rows.iter().find(of_view).unwrap().entity.clone();
            let mut foreign = DynamicEntity::new("tea", &*contribution.row_key);
            foreign.set("Note", "x");
            groups.replace((&foreign, rowkey::Match::Any)).await?;
            let report = sales.repair().run().await?;
            let error = reported(&report, "reserved beside summaries")?;
            groups.delete(foreign.key(), rowkey::Match::Any).await?;
            sales.repair().run().await?;
            assert!(sales.verify().run().await?.is_clean());
            Ok(error)
        }
        .boxed()
    }),
    case("sum up a coarser unit, make the groups smaller, or store it as an Int64", || {
        async {
            let (_server, account) = sold().await?;
            let sales = sales(&account, [view(&account, "one", "")])?;
            sales.insert(&sale("1", "tea", i64::MAX)).await?;
            // Committed, but its view cannot be settled.
            sales.insert(&sale("2", "tea", 1)).await?;
            let error = reported(&sales.repair().run().await?, "does not fit the type")?;
            sales.update(Sale::key("west", "2"), |sale| sale.group = "milk".into()).await?;
            sales.repair().run().await?;
            let milk = account.table("groups").get(Group::key("milk")).await?;
            assert_eq!(milk.unwrap().entity.amount, 1);
            Ok(error)
        }
        .boxed()
    }),
];
