//! Random writes of every type and version, through the set and around it, against a plain map.

use std::collections::BTreeMap;

use rowkey::edm::Value;
use rowkey::{DynamicEntity, Key, Match, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;

use rowkey_tests::random::{Random, seeds};

use super::{Employee, EmployeeV1, EmployeeV2, Record, Review};

const SEEDS: u64 = 100;
const STEPS: usize = 25;

/// Shows the seed of a run that failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with seed {}", self.0);
        }
    }
}

/// The expected decoded row for a RowKey.
type Model = BTreeMap<String, Record>;

fn below(random: &mut Random, end: u32) -> u32 {
    u32::try_from(random.within(end.into())).unwrap()
}

fn row(record: &Record) -> String {
    Key::of(record).parts().unwrap().1.to_owned()
}

#[tokio::test]
async fn records_agree_with_a_model_of_the_newest_versions() -> TestResult {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    for seed in seeds(SEEDS) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let table = account.table(&format!("model{seed}"));
        table.create().await?;
        let mut model = Model::new();
        for step in 1..=STEPS {
            let id = 1 + below(&mut random, 3);
            let department = || "sales".to_owned();
            match below(&mut random, 7) {
                0 => {
                    let salary = f64::from(below(&mut random, 100));
                    let old = EmployeeV1 { department: department(), id, salary };
                    table.upsert(&old).await?;
                    let new = Record::Employee(old.into());
                    model.insert(row(&new), new);
                }
                1 => {
                    let cents = i64::from(below(&mut random, 100));
                    let old = EmployeeV2 { department: department(), id, cents };
                    table.upsert(&old).await?;
                    let new = Record::Employee(old.into());
                    model.insert(row(&new), new);
                }
                2 => {
                    let year = 2020 + u16::try_from(below(&mut random, 2)).unwrap();
                    let review = Review { department: department(), employee: id, year, rating: 3 };
                    let review = Record::Review(review);
                    table.upsert(&review).await?;
                    model.insert(row(&review), review);
                }
                3 => {
                    // A newer version, another type, or a row like an employee's of no version.
                    let head = ["id_00000", "note_", "id_x"][below(&mut random, 3) as usize];
                    let mut other = DynamicEntity::new("sales", format!("{head}{id}"));
                    other.set("EntityVersion", 4 + i32::try_from(below(&mut random, 2)).unwrap());
                    other.set("Text", Value::from("€ 😀"));
                    let other = Record::Unknown(other);
                    table.upsert(&other).await?;
                    model.insert(row(&other), other);
                }
                4 | 5 => change(&table, &mut random, &mut model).await?,
                _ => {
                    let key = Employee::key("sales", id);
                    let deleted = table.delete_if_exists(key.cast::<Record>(), Match::Any).await?;
                    assert_eq!(deleted, model.remove(&format!("id_{id:06}")).is_some());
                }
            }
            if !step.is_multiple_of(5) {
                continue;
            }
            let found = table.query(Employee::partition("sales").whole::<Record>()).all().await?;
            let found: Vec<_> = found.into_iter().map(|stored| stored.entity).collect();
            assert_eq!(found, model.values().cloned().collect::<Vec<_>>());
        }
    }
    Ok(())
}

/// Reads one record, changes it, and replaces it under its ETag.
async fn change(table: &rowkey::Table, random: &mut Random, model: &mut Model) -> TestResult {
    let at = below(random, 8) as usize;
    let Some(record) = model.values().nth(at).cloned() else { return Ok(()) };
    let stored = table.get(Key::of(&record)).await?.unwrap();
    assert_eq!(stored.entity, record);
    let number = i32::try_from(below(random, 100)).unwrap();
    let changed = stored.map(|record| match record {
        Record::Employee(employee) => employee.title = Some(number.to_string()),
        Record::Review(review) => review.rating = number,
        Record::Unknown(other) => drop(other.set("Worth", number)),
        Record::Department(_) => unreachable!("none is stored"),
    });
    table.replace(&changed).await?;
    model.insert(row(&changed.entity), changed.entity);
    Ok(())
}
