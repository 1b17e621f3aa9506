//! Indexes beside their entities: lookups, projections, stored rows, rows that other programs left, and
//! random operations against maps.

use std::collections::BTreeMap;

use futures_util::{TryStreamExt as _, join};
use rowkey::edm::Value;
use rowkey::index::{IndexRange, SamePartition};
use rowkey::store::{Store, Versioned};
use rowkey::{DynamicEntity, Entity, ErrorKind, Key, Match, Outcome, Partition, Projection, Table};
use rowkey_emulator::{Fault, Operation, Server};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::{Arm, Fixture, TestResult, TestTable, arm};

/// Every kind of index: of one entity and of many, sparse by `None` and by a condition, whole and not.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
#[entity(
    index(name = by_email, row = "email_{email:lower}"),
    index(name = by_last_name, row = "last_{last_name}", many),
    index(name = by_manager, row = "mgr_{manager:6}", many, copy(first_name, last_name)),
    index(name = by_badge, row = "badge_{badge}", copy(first_name)),
    index(name = by_pay, row = "pay_{cents:desc}", many, when = "Self::is_active")
)]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    email: String,
    manager: Option<u32>,
    badge: Option<String>,
    cents: i64,
    active: bool,
}

impl Employee {
    fn is_active(&self) -> bool {
        self.active
    }
}

/// Some of a copy, with the keys of the entity.
#[derive(Debug, PartialEq, Projection)]
#[entity(rename_all = "PascalCase")]
struct Name {
    #[entity(row_key)]
    row: String,
    first_name: String,
}

fn employee(id: u32, last_name: &str, email: &str) -> Employee {
    Employee {
        department: "sales".into(),
        id,
        first_name: "Ada".into(),
        last_name: last_name.into(),
        email: email.into(),
        manager: Some(1),
        badge: None,
        cents: i64::from(id) * 100,
        active: true,
    }
}

fn key(id: u32) -> Key<Employee> {
    Employee::key("sales", id)
}

async fn start() -> TestResult<(TestTable, Store<Employee>)> {
    let fixture = Fixture::new().await?;
    let table = fixture.table_with_server().await?;
    let staff = Store::builder(Table::clone(&table)).build()?;
    Ok((table, staff))
}

fn ids(found: &[Versioned<Employee>]) -> Vec<u32> {
    found.iter().map(|employee| employee.entity.id).collect()
}

async fn of(
    staff: &Store<Employee>,
    range: IndexRange<Employee, SamePartition>,
) -> rowkey::Result<Vec<u32>> {
    Ok(ids(&staff.query(range).all().await?))
}

/// Every copy is as its entity is, and each is counted.
async fn assert_in_step(staff: &Store<Employee>) -> TestResult {
    let report = staff.verify().run().await?;
    assert!(report.is_clean() && report.total.skipped == 0, "{report:?}");
    Ok(())
}

#[tokio::test]
async fn entities_are_found_by_every_index() -> TestResult {
    let (_table, staff) = start().await?;
    let ada = Employee { badge: Some("B_7/1".into()), ..employee(7, "King", "Ada@Contoso.com") };
    let bob = Employee { manager: None, ..employee(8, "Kingsley", "bob@contoso.com") };
    let cy = Employee { active: false, ..employee(9, "King", "cy@contoso.com") };
    for employee in [&ada, &bob, &cy] {
        staff.insert(employee).await?;
    }

    let found = staff.find(Employee::by_email("sales", "aDA@contoso.COM")).await?.unwrap();
    assert_eq!(found.entity, ada, "the case is that of the entity");
    let found = staff.find(Employee::by_badge("sales", "B_7/1")).await?.unwrap();
    assert_eq!(found.entity, ada, "a copy of some properties leads to the entity");
    assert!(staff.find(Employee::by_email("sales", "dan@contoso.com")).await?.is_none());
    assert!(staff.find(Employee::by_badge("sales", "B_7")).await?.is_none());
    assert!(staff.find(Employee::by_email("elsewhere", "ada@contoso.com")).await?.is_none());

    assert_eq!(of(&staff, Employee::by_last_name("sales", "King")).await?, [7, 9]);
    let kings = Employee::by_last_name_all("sales").prefix("King");
    assert_eq!(of(&staff, kings).await?, [7, 9, 8]);
    assert_eq!(of(&staff, Employee::by_last_name_all("sales")).await?, [7, 9, 8]);
    let managed = Employee::by_manager("sales", 1_u32);
    assert_eq!(of(&staff, managed).await?, [7, 9], "None is in no index");
    let paid = Employee::by_pay_all("sales");
    assert_eq!(of(&staff, paid).await?, [8, 7], "most first, active ones only");
    let middle = Employee::by_pay("sales", 750_i64)..=Employee::by_pay("sales", 900_i64);
    assert_eq!(of(&staff, Employee::by_pay_all("sales").range(middle)).await?, [8]);
    let emails = Employee::by_email("sales", "B")..Employee::by_email("sales", "D");
    assert_eq!(of(&staff, Employee::by_email_all("sales").range(emails)).await?, [8, 9]);
    assert_eq!(of(&staff, Employee::by_email_all("sales").prefix("BOB@")).await?, [8]);

    // The case of an address may change, for its row stays the same; another person cannot have it.
    staff.update(key(7), |e| e.email = "ADA@contoso.com".into()).await?;
    let taken = |e: &mut Employee| e.email = "ada@CONTOSO.com".into();
    let refused = staff.update(key(8), taken).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.details().index),
        (ErrorKind::AlreadyExists, Some("by_email"))
    );
    assert!(!refused.to_string().contains("contoso"), "{refused}");
    assert_in_step(&staff).await
}

#[tokio::test]
async fn index_queries_support_filters_paging_and_projection() -> TestResult {
    let (_table, staff) = start().await?;
    for id in 1..=30 {
        let email = format!("e{id:02}@contoso.com");
        staff.insert(&employee(id, if id % 2 == 0 { "Even" } else { "Odd" }, &email)).await?;
    }
    let even = || staff.query(Employee::by_last_name("sales", "Even"));
    assert_eq!(ids(&even().all().await?), (1..=15).map(|i| 2 * i).collect::<Vec<_>>());
    assert_eq!(ids(&even().page(3, None).await?.entities), [2, 4, 6]);
    assert_eq!(ids(&even().filter(Employee::CENTS.gt(2500)).all().await?), [26, 28, 30]);

    let managed = || staff.query(Employee::by_manager("sales", 1_u32));
    assert_eq!(ids(&managed().all().await?), (1..=30).collect::<Vec<_>>(), "in order, read apart");
    let name = |id| Name { row: format!("id_{id:06}"), first_name: "Ada".into() };
    let names: Vec<_> = managed().stream_as::<Name>().try_collect().await?;
    assert_eq!(names, (1..=30).map(name).collect::<Vec<_>>(), "with the keys of the entities");
    let (names, next) = managed().page_as::<Name>(4, None).await?;
    assert_eq!(names, (1..=4).map(name).collect::<Vec<_>>());
    let (names, _) = managed().page_as::<Name>(2, next).await?;
    assert_eq!(names, [name(5), name(6)]);
    let (names, _) = staff.query(Employee::partition("sales")).page_as::<Name>(1, None).await?;
    assert_eq!(names, [name(1)], "of the entities themselves");
    let found = staff.find_as::<Name, _>(Employee::by_email("sales", "E01@contoso.com")).await?;
    assert_eq!(found, Some(name(1)));
    Ok(())
}

/// A copy that lacks a property does not answer for it.
#[tokio::test]
async fn filters_on_properties_missing_from_copies_are_rejected_before_sending() -> TestResult {
    let (_table, staff) = start().await?;
    let ada = Employee { badge: Some("B1".into()), ..employee(7, "King", "ada@contoso.com") };
    staff.insert(&ada).await?;
    let managed = || staff.query(Employee::by_manager("sales", 1_u32));
    let check = |error: rowkey::Error, index: &str| {
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        assert!(error.to_string().contains(index), "{error}");
    };
    check(managed().filter(Employee::CENTS.ge(1)).all().await.unwrap_err(), "`by_manager`");
    let whole = managed().stream_as::<Employee>().try_collect::<Vec<_>>().await;
    check(whole.unwrap_err(), "`by_manager`");
    check(managed().page_as::<Employee>(1, None).await.unwrap_err(), "`by_manager`");
    let whole = staff.find_as::<Employee, _>(Employee::by_badge("sales", "B1")).await;
    check(whole.unwrap_err(), "`by_badge`");
    assert_eq!(managed().filter(Employee::LAST_NAME.is("King")).all().await?.len(), 1);
    assert!(staff.find_as::<Name, _>(Employee::by_badge("sales", "B1")).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn the_row_format_is_stable() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let staff = rowkey_tests::sweep::account(&server)?.table("staff");
    staff.create().await?;
    let staff = Store::<Employee>::builder(staff).build()?;
    let ada = Employee { badge: Some("B1".into()), ..employee(7, "King_Noel", "Ada@Contoso.com") };
    staff.insert(&ada).await?;
    let snapshot = server.snapshot();
    let rows = snapshot.table("staff").unwrap();
    let mark = rows.entity("sales", "id_000007").unwrap().get("EntityOp").unwrap();
    let whole = [
        ("Active", Value::from(true)),
        ("Badge", "B1".into()),
        ("Cents", 700_i64.into()),
        ("Email", "Ada@Contoso.com".into()),
        ("EntityOp", mark),
        ("FirstName", "Ada".into()),
        ("LastName", "King_Noel".into()),
        ("Manager", 1_i64.into()),
    ];
    let copy = |row: &str, index: &str, names: &[&str]| {
        let of = |name: &str| names.is_empty() || names.contains(&name);
        let mut properties: Vec<_> = whole.iter().filter(|(name, _)| of(name)).cloned().collect();
        properties.push(("IndexName", index.into()));
        properties.push(("PrimaryRowKey", "id_000007".into()));
        (row.to_owned(), properties)
    };
    let expected = [
        copy("badge_B1", "by_badge", &["FirstName"]),
        copy("email_ada@contoso.com", "by_email", &[]),
        ("id_000007".to_owned(), whole.to_vec()),
        copy("last_King^~Noel_id_000007", "by_last_name", &[]),
        copy("mgr_000001_id_000007", "by_manager", &["FirstName", "LastName"]),
        copy("pay_-9999999999999999299_id_000007", "by_pay", &[]),
    ];
    let named = |(row, properties): (String, Vec<(&str, Value)>)| {
        let named = properties.into_iter().map(|(name, value)| (name.to_owned(), value));
        (row, named.collect::<BTreeMap<_, _>>())
    };
    let found: Vec<_> = rows
        .partition("sales")
        .map(|row| named((row.row_key().to_owned(), row.properties().collect())))
        .collect();
    assert_eq!(found, expected.map(named));
    Ok(())
}

#[tokio::test]
async fn stale_index_rows_are_repaired_by_the_next_write() -> TestResult {
    let (table, staff) = start().await?;
    let ada = employee(7, "King", "ada@contoso.com");
    let at = |row_key: &str| Key::<DynamicEntity>::new("sales", row_key);

    // An entity that was deleted without its copies: another one takes its value.
    staff.insert(&ada).await?;
    table.delete(at("id_000007"), Match::Any).await?;
    let eight = employee(8, "King", "ada@contoso.com");
    staff.insert(&eight).await?;
    let found = staff.find(Employee::by_email("sales", "ada@contoso.com")).await?.unwrap();
    assert_eq!(found.entity.id, 8);
    // The same one again finds its old copies.
    staff.insert(&employee(7, "King", "augusta@contoso.com")).await?;
    assert_in_step(&staff).await?;

    // Copies that are gone are written again, or need not be deleted.
    for row in
        ["email_ada@contoso.com", "last_King_id_000008", "pay_-9999999999999999199_id_000008"]
    {
        table.delete(at(row), Match::Any).await?;
    }
    staff.update(key(8), |e| e.last_name = "Noel".into()).await?;
    assert_in_step(&staff).await?;
    for row in ["last_Noel_id_000008", "mgr_000001_id_000008"] {
        table.delete(at(row), Match::Any).await?;
    }
    assert!(staff.delete(key(8)).await?);
    assert_in_step(&staff).await?;

    // A copy that its entity does not demand any more is in no other entity's way.
    staff.insert(&eight).await?;
    let mut changed = table.get(at("id_000008")).await?.unwrap();
    changed.entity.set("Email", "bob@contoso.com");
    table.replace(&changed).await?;
    staff.update(key(7), |e| e.email = "ada@contoso.com".into()).await?;
    staff.update(key(8), |e| e.cents = 5).await?;
    assert_in_step(&staff).await?;

    // A row that is no copy is.
    let mut foreign = DynamicEntity::new("sales", "email_dan@contoso.com");
    foreign.set("What", "not ours");
    table.insert(&foreign).await?;
    let refused = staff.insert(&employee(9, "King", "dan@contoso.com")).await.unwrap_err();
    assert_eq!(refused.details().index, Some("by_email"), "{refused}");
    assert_eq!(table.get(foreign.key()).await?.unwrap().entity, foreign);
    Ok(())
}

#[tokio::test]
async fn a_lookup_by_a_partial_copy_follows_the_value_to_another_entity() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let table = rowkey_tests::sweep::account(&server)?.table("staff");
    table.create().await?;
    let staff = Store::<Employee>::builder(table).build()?;
    let with = |id, badge: Option<&str>| Employee {
        badge: badge.map(Into::into),
        ..employee(id, "King", &format!("e{id}@contoso.com"))
    };
    staff.insert(&with(7, Some("B1"))).await?;
    staff.insert(&with(8, None)).await?;
    // The copy has been read, and the entity is about to be.
    let held = server.inject(Fault::on(Operation::GetEntity).nth(2).hold());
    let (found, moved) = join!(staff.find(Employee::by_badge("sales", "B1")), async {
        held.wait_until_held().await;
        staff.update(key(7), |e| e.badge = None).await?;
        staff.update(key(8), |e| e.badge = Some("B1".into())).await?;
        held.release();
        Ok::<_, rowkey::Error>(())
    });
    moved?;
    assert_eq!(found?.map(|found| found.entity.id), Some(8));
    Ok(())
}

/// As many indexes as an entity may have in its partition, all of the same value.
macro_rules! of_49_indexes {
    ($($name:ident $row:literal)*) => {
        #[derive(Clone, Debug, PartialEq, Entity)]
        #[entity(store, partition = "all", row = "id_{id}")]
        $(#[entity(index(name = $name, row = $row))])*
        struct Wide {
            id: u8,
            value: String,
        }
    };
}

of_49_indexes! {
    i10 "10_{value}" i11 "11_{value}" i12 "12_{value}" i13 "13_{value}" i14 "14_{value}"
    i15 "15_{value}" i16 "16_{value}" i17 "17_{value}" i18 "18_{value}" i19 "19_{value}"
    i20 "20_{value}" i21 "21_{value}" i22 "22_{value}" i23 "23_{value}" i24 "24_{value}"
    i25 "25_{value}" i26 "26_{value}" i27 "27_{value}" i28 "28_{value}" i29 "29_{value}"
    i30 "30_{value}" i31 "31_{value}" i32 "32_{value}" i33 "33_{value}" i34 "34_{value}"
    i35 "35_{value}" i36 "36_{value}" i37 "37_{value}" i38 "38_{value}" i39 "39_{value}"
    i40 "40_{value}" i41 "41_{value}" i42 "42_{value}" i43 "43_{value}" i44 "44_{value}"
    i45 "45_{value}" i46 "46_{value}" i47 "47_{value}" i48 "48_{value}" i49 "49_{value}"
    i50 "50_{value}" i51 "51_{value}" i52 "52_{value}" i53 "53_{value}" i54 "54_{value}"
    i55 "55_{value}" i56 "56_{value}" i57 "57_{value}" i58 "58_{value}"
}

#[tokio::test]
async fn forty_nine_indexes_change_in_one_transaction() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    let wide = Store::<Wide>::builder(Table::clone(&table)).build()?;
    wide.insert(&Wide { id: 1, value: "a".into() }).await?;
    wide.update(Wide::key(1), |wide| wide.value = "b".into()).await?;
    assert!(wide.find(Wide::i10("a")).await?.is_none());
    assert_eq!(wide.find(Wide::i58("b")).await?.unwrap().entity.id, 1);
    assert_eq!(table.query(Partition::<DynamicEntity>::new("all")).all().await?.len(), 50);
    Ok(())
}

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

    async fn write(&mut self, staff: &Store<Employee>) -> rowkey::Result<()> {
        let id = self.random.below(6);
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
                // Through every row.
                let old = &self.entities[&id];
                let read = match self.random.below(3) {
                    0 => staff.get(self.key(id)).await?,
                    1 => staff.find(Employee::by_email(&self.department, &old.email)).await?,
                    _ => {
                        let same = Employee::by_last_name(&self.department, &old.last_name);
                        let all = staff.query(same).all().await?;
                        all.into_iter().find(|found| found.entity.id == id)
                    }
                };
                let read = read.expect("it is there");
                assert_eq!(read.entity, *old);
                staff.replace_if(&entity, &read.version).await.map(drop)
            }
            4 => {
                let deleted = staff.delete(self.key(id)).await?;
                assert_eq!(deleted, self.entities.remove(&id).is_some(), "delete {id}");
                return Ok(());
            }
            _ => match staff.update(self.key(id), |e| e.clone_from(&entity)).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    assert!(!present, "update {id}");
                    return Ok(());
                }
                result => result.map(|updated| assert_eq!(updated.entity, entity)),
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

    async fn read(&mut self, staff: &Store<Employee>) -> rowkey::Result<()> {
        let department = self.department.clone();
        let entity = |found: Option<Versioned<Employee>>| found.map(|found| found.entity);
        match self.random.below(6) {
            0 => {
                let id = self.random.below(6);
                let read = staff.get(self.key(id)).await?;
                assert_eq!(entity(read).as_ref(), self.entities.get(&id));
            }
            1 => {
                let email = self.random.pick(&EMAILS);
                let found = staff.find(Employee::by_email(&department, email)).await?;
                let same = |e: &&Employee| e.email.to_lowercase() == email.to_lowercase();
                assert_eq!(entity(found).as_ref(), self.entities.values().find(same));
            }
            2 => {
                let badge = format!("B{}", self.random.below(3));
                let found = staff.find(Employee::by_badge(&department, &badge)).await?;
                let same = |e: &&Employee| e.badge.as_ref() == Some(&badge);
                assert_eq!(entity(found).as_ref(), self.entities.values().find(same));
            }
            3 => {
                let prefix = self.random.pick(&["", "Jo", "Jon", "Jones", "J", "K", "King/", "x"]);
                let range = Employee::by_last_name_all(&department).prefix(prefix);
                let expected = self.expect(|e| {
                    e.last_name.starts_with(prefix).then(|| (e.last_name.clone(), e.id))
                });
                assert_eq!(of(staff, range).await?, expected, "prefix {prefix:?}");
            }
            4 => {
                let manager = self.random.below(3);
                let found = of(staff, Employee::by_manager(&department, manager)).await?;
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
                assert_eq!(of(staff, range).await?, expected, "from {high} down to {low}");
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn random_operations_agree_with_a_model() -> TestResult {
    let (_table, staff) = start().await?;
    let usual = if arm() == Arm::Ours { 100 } else { 20 };
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
        let stored = staff.query(Employee::partition(&department)).all().await?;
        let stored: Vec<_> = stored.into_iter().map(|stored| stored.entity).collect();
        assert_eq!(stored, model.entities.into_values().collect::<Vec<_>>());
    }
    assert_in_step(&staff).await
}
