//! Random operations against maps in memory, and by many at once.

use std::collections::BTreeMap;

use rowkey::index::{IndexRange, SamePartition};
use rowkey::{ErrorKind, Key};
use rowkey_patterns::local_index::LocalIndex;
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::{Arm, Fixture, TestResult, arm};

use super::{Employee, all_rows, assert_in_step, ids};

/// Operations of a run, enough that entities meet in every index.
const OPERATIONS: usize = 14;
const NAMES: [&str; 5] = ["Jones", "Jo", "Jon_es", "jones", "King/Noel"];
const EMAILS: [&str; 5] = ["a@x.org", "A@x.org", "B@x.org", "c_d@x.org", "E#e@x.org"];

/// The staff of one department, as it should be.
struct Model<'a> {
    random: &'a mut Random,
    department: String,
    entities: BTreeMap<u32, Employee>,
}

impl Model<'_> {
    fn id(&mut self) -> u32 {
        self.random.below(6)
    }

    fn key(&self, id: u32) -> Key<Employee> {
        Employee::key(&self.department, id)
    }

    fn employee(&mut self, id: u32) -> Employee {
        let random = &mut *self.random;
        Employee {
            department: self.department.clone(),
            id,
            first_name: format!("Number {}", random.below(100)),
            last_name: random.pick(&NAMES).into(),
            email: random.pick(&EMAILS).into(),
            manager: (!random.one_in(3)).then(|| random.below(3)),
            badge: random.one_in(3).then(|| format!("B{}", random.below(3))),
            cents: i64::from(random.below(4)) - 2,
            city: "Leeds".into(),
            active: !random.one_in(4),
        }
    }

    /// Whether another entity has a value of `entity`'s that only one may have.
    fn is_taken(&self, entity: &Employee) -> bool {
        self.entities.values().filter(|other| other.id != entity.id).any(|other| {
            other.email.to_lowercase() == entity.email.to_lowercase()
                || (other.badge.is_some() && other.badge == entity.badge)
        })
    }

    fn expect(&self, sorted: impl Fn(&Employee) -> Option<(String, u32)>) -> Vec<u32> {
        let mut found: Vec<_> = self.entities.values().filter_map(sorted).collect();
        found.sort();
        found.into_iter().map(|(_, id)| id).collect()
    }

    async fn write(&mut self, staff: &LocalIndex<Employee>) -> rowkey::Result<()> {
        let id = self.id();
        let entity = self.employee(id);
        let present = self.entities.contains_key(&id);
        let taken = self.is_taken(&entity);
        let result = match self.random.below(6) {
            0 => {
                let result = staff.insert(&entity).await.map(drop);
                assert_eq!(result.is_ok(), !present && !taken, "insert {id}");
                result
            }
            1 | 2 => staff.upsert(&entity).await.map(drop),
            3 if present => {
                // Whichever row it is read through.
                let old = &self.entities[&id];
                let read = match self.random.below(3) {
                    0 => staff.get(self.key(id)).await?,
                    1 => staff.find(Employee::by_email(&self.department, &old.email)).await?,
                    _ => {
                        let same = Employee::by_last_name(&self.department, &old.last_name);
                        let all = staff.query(same).all().await?;
                        all.into_iter().find(|found| found.id == id)
                    }
                };
                let read = read.expect("it is there");
                assert_eq!(*read, *old);
                staff.replace(&read.map(|e| e.clone_from(&entity))).await.map(drop)
            }
            4 => {
                let deleted = staff.delete_if_exists(self.key(id)).await?;
                assert_eq!(deleted, self.entities.remove(&id).is_some(), "delete {id}");
                return Ok(());
            }
            _ => match staff.update(self.key(id), |e| e.clone_from(&entity)).await {
                Err(error) if error.is_not_found() => {
                    assert!(!present, "update {id}");
                    return Ok(());
                }
                result => result.map(|updated| assert_eq!(*updated, entity)),
            },
        };
        match result {
            Ok(()) => {
                assert!(!taken, "{id} has taken what another has");
                self.entities.insert(id, entity);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
                assert!(taken || present, "{error}");
            }
        }
        Ok(())
    }

    async fn read(&mut self, staff: &LocalIndex<Employee>) -> rowkey::Result<()> {
        let department = self.department.clone();
        let all = async |range: IndexRange<Employee, SamePartition>| {
            Ok::<_, rowkey::Error>(ids(&staff.query(range).all().await?))
        };
        match self.random.below(6) {
            0 => {
                let id = self.id();
                let read = staff.get(self.key(id)).await?;
                assert_eq!(read.as_deref(), self.entities.get(&id));
            }
            1 => {
                let email = self.random.pick(&EMAILS);
                let found = staff.find(Employee::by_email(&department, email)).await?;
                let same = |e: &&Employee| e.email.to_lowercase() == email.to_lowercase();
                assert_eq!(found.as_deref(), self.entities.values().find(same));
            }
            2 => {
                let badge = format!("B{}", self.random.below(3));
                let found = staff.find(Employee::by_badge(&department, &badge)).await?;
                let same = |e: &&Employee| e.badge.as_ref() == Some(&badge);
                assert_eq!(found.as_deref(), self.entities.values().find(same));
            }
            3 => {
                let prefix = self.random.pick(&["", "Jo", "Jon", "Jones", "J", "K", "King/", "x"]);
                let range = Employee::by_last_name_all(&department).prefix(prefix);
                let expected = self.expect(|e| {
                    e.last_name.starts_with(prefix).then(|| (e.last_name.clone(), e.id))
                });
                assert_eq!(all(range).await?, expected, "prefix {prefix:?}");
            }
            4 => {
                let manager = self.random.below(3);
                let found = all(Employee::by_manager(&department, manager)).await?;
                let same = |e: &Employee| e.manager == Some(manager);
                assert_eq!(found, self.expect(|e| same(e).then(|| (String::new(), e.id))));
            }
            _ => {
                let (low, high) = (i64::from(self.random.below(3)) - 2, 1);
                let pay = |cents: i64| Employee::by_pay(&department, cents);
                let range = Employee::by_pay_all(&department).range(pay(low)..=pay(high));
                let within = |e: &Employee| e.active && e.cents <= high && e.cents >= low;
                let expected =
                    self.expect(|e| within(e).then(|| (format!("{:03}", 500 - e.cents), e.id)));
                assert_eq!(all(range).await?, expected, "from {high} down to {low}");
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn random_operations_do_what_maps_do() -> TestResult {
    let fixture = Fixture::new().await?;
    let staff = LocalIndex::<Employee>::new(fixture.table().await?);
    let usual = if arm() == Arm::Ours { 250 } else { 20 };
    for seed in seeds(usual) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        // A partition a run.
        let department = format!("department {seed}");
        let mut model = Model {
            random: &mut random,
            department: department.clone(),
            entities: BTreeMap::new(),
        };
        for _ in 0..OPERATIONS {
            model.write(&staff).await?;
            model.read(&staff).await?;
        }
        let stored = assert_in_step(all_rows(staff.table(), &department).await?);
        assert_eq!(stored, model.entities);
    }
    Ok(())
}

/// One of many writers, who take what they get.
async fn writer(staff: LocalIndex<Employee>, seed: u64, department: String) -> rowkey::Result<u32> {
    let mut random = Random(seed);
    let mut model = Model { random: &mut random, department, entities: BTreeMap::new() };
    let mut done = 0;
    for _ in 0..40 {
        let id = model.id();
        let entity = model.employee(id);
        let result = match model.random.below(7) {
            0 => staff.insert(&entity).await.map(drop),
            1 => staff.upsert(&entity).await.map(drop),
            2 => staff.delete_if_exists(model.key(id)).await.map(drop),
            3 | 4 => staff.update(model.key(id), |e| e.clone_from(&entity)).await.map(drop),
            other => {
                let read = if other == 5 {
                    staff.find(Employee::by_email(&model.department, &entity.email)).await?
                } else {
                    let range = Employee::by_last_name_all(&model.department);
                    staff.query(range).first().await?
                };
                match read {
                    Some(read) if model.random.one_in(3) => staff.delete(&read).await,
                    Some(read) => {
                        let id = read.id;
                        let changed = read.map(|e| *e = Employee { id, ..entity.clone() });
                        staff.replace(&changed).await.map(drop)
                    }
                    None => Ok(()),
                }
            }
        };
        match result {
            Ok(()) => done += 1,
            Err(error) => assert!(
                matches!(
                    error.kind(),
                    ErrorKind::AlreadyExists | ErrorKind::Conflict | ErrorKind::NotFound
                ),
                "{error}"
            ),
        }
    }
    Ok(done)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_writers_at_once_leave_nothing_out_of_step() -> TestResult {
    let fixture = Fixture::new().await?;
    let staff = LocalIndex::<Employee>::new(fixture.table().await?);
    let rounds = if arm() == Arm::Ours { 5 } else { 1 };
    for round in 0..rounds {
        let department = format!("department {round}");
        let mut writers = tokio::task::JoinSet::new();
        for seed in 0..10 {
            writers.spawn(writer(staff.clone(), round * 100 + seed, department.clone()));
        }
        let mut done = 0;
        while let Some(result) = writers.join_next().await {
            done += result??;
        }
        assert!(done > 100, "{done} of 400 operations were not refused");
        assert_in_step(all_rows(staff.table(), &department).await?);
    }
    Ok(())
}
