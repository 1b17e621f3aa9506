//! Denormalisation: the copies of an entity's properties change with it.

use std::collections::BTreeMap;

use rowkey::edm::Value;
use rowkey::{Entity, ErrorKind, Match, Outcome, StorageAccount, Table};
use rowkey_patterns::denormalized::Denormalized;
use rowkey_server::{Fault, Operation, Server, Snapshot};
use rowkey_tests::random::{Random, Seed, seeds};
use rowkey_tests::sweep::{account, once, sweep};
use rowkey_tests::{Fixture, TestResult};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{company}", row = "id_{id:6}", rename_all = "PascalCase")]
struct Employee {
    company: String,
    id: u32,
    name: String,
    email: String,
    salary: i32,
    /// The department that the employee manages, if any.
    manages: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{company}", row = "dept_{name}", rename_all = "PascalCase")]
struct Department {
    company: String,
    name: String,
    floor: i32,
    manager_name: Option<String>,
    manager_email: Option<String>,
}

fn employee(id: u32, name: &str, manages: &str) -> Employee {
    Employee {
        company: "contoso".into(),
        id,
        name: name.into(),
        email: format!("{name}@contoso.com"),
        salary: 0,
        manages: (!manages.is_empty()).then(|| manages.into()),
    }
}

fn department(name: &str) -> Department {
    Department {
        company: "contoso".into(),
        name: name.into(),
        floor: 1,
        manager_name: None,
        manager_email: None,
    }
}

fn key(id: u32) -> rowkey::Key<Employee> {
    Employee::key("contoso", id)
}

fn denormalized(table: Table) -> Denormalized<Employee> {
    Denormalized::<Employee>::new(table).copy(
        |employee| employee.manages.as_ref().map(|name| Department::key(&employee.company, name)),
        |employee| (employee.name.clone(), employee.email.clone()),
        |department: &mut Department, manager| {
            (department.manager_name, department.manager_email) = manager.cloned().unzip();
        },
    )
}

async fn start() -> Result<(Server, Denormalized<Employee>), Box<dyn std::error::Error>> {
    let server = Server::builder().manual_clock().start().await?;
    let table = account(&server)?.table("staff");
    table.create().await?;
    for name in ["sales", "it"] {
        table.insert(&department(name)).await?;
    }
    Ok((server, denormalized(table)))
}

/// The name that a department shows.
async fn manager(table: &Table, name: &str) -> rowkey::Result<Option<String>> {
    let found = table.get(Department::key("contoso", name)).await?.unwrap();
    assert_eq!(
        found.entity.manager_email,
        found.entity.manager_name.as_ref().map(|name| format!("{name}@contoso.com")),
        "both or none"
    );
    Ok(found.entity.manager_name)
}

fn text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) => Some(text),
        None => None,
        other => panic!("no text: {other:?}"),
    }
}

/// Each department shows the employee that manages it, who is at most one.
fn assert_copies(snapshot: &Snapshot) {
    let (mut shown, mut wanted) = (BTreeMap::new(), BTreeMap::new());
    for entity in snapshot.table("staff").unwrap().entities() {
        if let Some(name) = entity.row_key().strip_prefix("dept_") {
            if let Some(manager) = text(entity.get("ManagerName")) {
                shown.insert(name.to_owned(), (manager, text(entity.get("ManagerEmail"))));
            }
        } else if let Some(name) = text(entity.get("Manages")) {
            let copied = (text(entity.get("Name")).unwrap(), text(entity.get("Email")));
            assert_eq!(wanted.insert(name, copied), None, "one manager a department");
        }
    }
    assert_eq!(shown, wanted);
}

#[tokio::test]
async fn copies_follow_the_entity_wherever_it_goes() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    for name in ["sales", "it"] {
        table.insert(&department(name)).await?;
    }
    let staff = denormalized(table.clone());
    let shown = async || {
        Ok::<_, rowkey::Error>((manager(&table, "sales").await?, manager(&table, "it").await?))
    };
    staff.insert(&employee(1, "ada", "sales")).await?;
    staff.insert(&employee(2, "bob", "")).await?;
    assert_eq!(shown().await?, (Some("ada".into()), None));

    let renamed = staff
        .update(key(1), |e| (e.name, e.email) = ("ann".into(), "ann@contoso.com".into()))
        .await?;
    assert_eq!(table.get(key(1)).await?, Some(renamed), "what is returned is what is stored");
    assert_eq!(shown().await?, (Some("ann".into()), None));

    staff.update(key(1), |e| e.manages = Some("it".into())).await?;
    assert_eq!(shown().await?, (None, Some("ann".into())), "moved");
    staff.update(key(1), |e| e.manages = None).await?;
    assert_eq!(shown().await?, (None, None), "points nowhere");
    staff.update(key(2), |e| e.manages = Some("it".into())).await?;
    assert!(staff.delete(key(2)).await?);
    assert!(!staff.delete(key(2)).await?);
    assert_eq!(shown().await?, (None, None), "deleted");
    Ok(())
}

#[tokio::test]
async fn what_each_operation_costs() -> TestResult {
    let (server, staff) = start().await?;
    let mut before = server.journal();
    let mut cost = || {
        let journal = server.journal().since(&before);
        before = server.journal();
        [Operation::GetEntity, Operation::Transaction, Operation::UpdateEntity]
            .map(|operation| journal.count(operation))
    };
    staff.insert(&employee(1, "ada", "")).await?;
    assert_eq!(cost(), [0, 1, 0], "insert of what is copied nowhere");
    staff.insert(&employee(2, "bob", "sales")).await?;
    assert_eq!(cost(), [1, 1, 0], "insert");
    staff.update(key(2), |e| e.salary = 1).await?;
    assert_eq!(cost(), [1, 0, 1], "update of what is not copied");
    staff.update(key(2), |e| e.name = "ben".into()).await?;
    assert_eq!(cost(), [2, 1, 0], "update of what is copied");
    staff.update(key(2), |e| e.manages = Some("it".into())).await?;
    assert_eq!(cost(), [3, 1, 0], "update of where it is copied to");
    staff.delete(key(2)).await?;
    assert_eq!(cost(), [2, 1, 0], "delete");
    manager(staff.table(), "sales").await?;
    assert_eq!(cost(), [1, 0, 0], "read");
    Ok(())
}

#[tokio::test]
async fn a_copy_without_a_place_is_refused_and_nothing_is_written() -> TestResult {
    let (server, staff) = start().await?;
    let error = staff.insert(&employee(1, "ada", "nowhere")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::NotFound, Outcome::NotSent));
    assert!(error.to_string().contains("copies belong in is not there"), "{error}");
    assert!(staff.table().get(key(1)).await?.is_none());

    staff.insert(&employee(1, "ada", "it")).await?;
    let error = staff.update(key(1), |e| e.manages = Some("nowhere".into())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = staff.insert(&employee(1, "bob", "sales")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let error = staff.update(key(1), |e| e.id = 5).await.unwrap_err();
    assert!(error.to_string().contains("keys cannot change"), "{error}");
    assert!(staff.update(key(9), |_| ()).await.unwrap_err().is_not_found());
    assert_copies(&server.snapshot());

    // Nothing is to be taken away where nothing is.
    staff.table().delete(Department::key("contoso", "it"), Match::Any).await?;
    assert!(staff.delete(key(1)).await?);
    Ok(())
}

#[tokio::test]
async fn a_target_in_another_partition_is_refused_before_anything_is_sent() -> TestResult {
    let (server, staff) = start().await?;
    let elsewhere = Denormalized::<Employee>::new(staff.table().clone()).copy(
        |_| Some(Department::key("elsewhere", "sales")),
        |employee| employee.name.clone(),
        |department: &mut Department, name| department.manager_name = name.cloned(),
    );
    let other = Department { company: "elsewhere".into(), ..department("sales") };
    staff.table().insert(&other).await?;
    let error = elsewhere.insert(&employee(1, "ada", "")).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(error.to_string().contains("another partition"), "{error}");
    assert_eq!(server.journal().count(Operation::Transaction), 0);
    Ok(())
}

#[tokio::test]
async fn who_stops_managing_takes_only_their_own_copy_away() -> TestResult {
    let (_server, staff) = start().await?;
    staff.insert(&employee(1, "ada", "sales")).await?;
    staff.insert(&employee(2, "bob", "sales")).await?;
    staff.update(key(1), |e| e.manages = None).await?;
    assert_eq!(manager(staff.table(), "sales").await?.as_deref(), Some("bob"));
    Ok(())
}

#[tokio::test]
async fn several_targets_of_one_entity_change_together() -> TestResult {
    #[derive(Clone, Debug, PartialEq, Entity)]
    #[entity(partition = "{company}", row = "task_{id:3}")]
    struct Task {
        company: String,
        id: u32,
        owner: Option<String>,
    }
    let (_server, staff) = start().await?;
    let table = staff.table().clone();
    for id in 0..3 {
        table.insert(&Task { company: "contoso".into(), id, owner: None }).await?;
    }
    // Two declarations for one type: the department, and every task.
    let staff = staff.copy(
        |employee| (0..3).map(|id| Task::key(&employee.company, id)).collect::<Vec<_>>(),
        |employee| employee.name.clone(),
        |task: &mut Task, owner| task.owner = owner.cloned(),
    );
    staff.insert(&employee(1, "ada", "sales")).await?;
    staff.update(key(1), |e| (e.name, e.email) = ("ann".into(), "ann@contoso.com".into())).await?;
    for id in 0..3 {
        let task = table.get(Task::key("contoso", id)).await?.unwrap();
        assert_eq!(task.entity.owner.as_deref(), Some("ann"));
    }
    assert_eq!(manager(&table, "sales").await?.as_deref(), Some("ann"));
    Ok(())
}

#[tokio::test]
async fn copies_that_are_lacking_are_written_afterwards() -> TestResult {
    let (server, staff) = start().await?;
    // Stored past the declaration.
    staff.table().insert(&employee(1, "ada", "sales")).await?;
    assert!(staff.refresh(key(1)).await?);
    assert_copies(&server.snapshot());
    assert!(!staff.refresh(key(1)).await?, "nothing differs");
    assert!(!staff.refresh(key(9)).await?, "nobody is there");
    // A target that was stored anew.
    staff.table().upsert(&department("sales")).await?;
    assert!(staff.refresh(key(1)).await?);
    assert_copies(&server.snapshot());
    Ok(())
}

#[tokio::test]
async fn a_change_of_the_target_meanwhile_is_kept() -> TestResult {
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "ada", "sales")).await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let meanwhile = async {
        held.wait_until_held().await;
        staff.table().update(Department::key("contoso", "sales"), |d| d.floor = 3).await?;
        held.release();
        Ok::<_, rowkey::Error>(())
    };
    let (updated, other) = tokio::join!(
        staff.update(key(1), |e| (e.name, e.email) = ("ann".into(), "ann@contoso.com".into())),
        meanwhile
    );
    updated?;
    other?;
    let sales = staff.table().get(Department::key("contoso", "sales")).await?.unwrap().entity;
    assert_eq!((sales.floor, sales.manager_name.as_deref()), (3, Some("ann")));
    Ok(())
}

/// (A target that was deleted once passed for the entity.)
#[tokio::test]
async fn a_deletion_whose_answer_was_lost_is_not_taken_for_done_when_a_target_is_gone() -> TestResult
{
    let (server, staff) = start().await?;
    staff.insert(&employee(1, "ada", "sales")).await?;
    // The first attempt is lost, and the target goes before the second.
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_before_commit());
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let (deleted, gone) = tokio::join!(staff.delete(key(1)), async {
        held.wait_until_held().await;
        let gone =
            staff.table().delete_if_exists(Department::key("contoso", "sales"), Match::Any).await;
        held.release();
        gone
    });
    assert!(gone?);
    assert_eq!(lost.hits(), 1);
    assert!(staff.table().get(key(1)).await?.is_some(), "it is still there");
    assert_eq!(deleted.unwrap_err().outcome(), Outcome::Unknown);
    Ok(())
}

#[tokio::test]
async fn eight_writers_of_one_partition_leave_copies_in_step() -> TestResult {
    let fixture = Fixture::new().await?;
    let table = fixture.table().await?;
    let staff = denormalized(table.clone());
    let names: Vec<_> = (1..9).map(|n| format!("d{n}")).collect();
    table.insert(&department("d0")).await?;
    for name in &names {
        table.insert(&department(name)).await?;
    }
    staff.insert(&employee(100, "x", "d0")).await?;
    let work = (0..8).map(async |writer: u32| {
        staff.insert(&employee(writer, "x", &names[writer as usize])).await?;
        for n in 0..5 {
            // All of them change the first employee, and the floor of the first department.
            let name = format!("w{writer}n{n}");
            staff
                .update(key(100), |e| {
                    e.email = format!("{name}@contoso.com");
                    e.name.clone_from(&name);
                    e.salary += 1;
                })
                .await?;
            table.update(Department::key("contoso", "d0"), |d| d.floor += 1).await?;
        }
        Ok::<_, rowkey::Error>(())
    });
    futures_util::future::try_join_all(work).await?;
    let first = table.get(key(100)).await?.unwrap().entity;
    assert_eq!(first.salary, 40, "no change was lost");
    assert_eq!(manager(&table, "d0").await?, Some(first.name));
    let floor = table.get(Department::key("contoso", "d0")).await?.unwrap().entity.floor;
    assert_eq!(floor, 41, "no change of the target was lost");
    Ok(())
}

#[tokio::test]
async fn the_sweep_leaves_entities_and_copies_in_step() -> TestResult {
    let (server, prepared) = start().await?;
    prepared.insert(&employee(1, "ada", "sales")).await?;
    let scenario = async |account: &StorageAccount| {
        let staff = denormalized(account.table("staff"));
        staff.update(key(1), |e| e.manages = Some("it".into())).await?;
        staff.insert(&employee(2, "bob", "sales")).await?;
        staff.update(key(2), |e| e.salary = 7).await?;
        staff.delete(key(1)).await
    };
    let check = |snapshot: &Snapshot, result: &rowkey::Result<bool>| {
        assert_copies(snapshot);
        match result {
            Ok(deleted) => assert!(deleted),
            Err(error) => assert_eq!(error.outcome(), Outcome::Unknown, "{error}"),
        }
    };
    let runs = sweep(&server, scenario, async |_, _| Ok(()), check).await?;
    assert_eq!(runs.requests, 4 + 2 + 2 + 3);
    let unrepeated = async |account: &StorageAccount| scenario(&once(account)).await;
    let check = |snapshot: &Snapshot, _: &rowkey::Result<bool>| assert_copies(snapshot);
    sweep(&server, unrepeated, async |_, _| Ok(()), check).await?;
    Ok(())
}

#[tokio::test]
async fn the_model_and_the_table_agree_after_any_operations() -> TestResult {
    let (_server, staff) = start().await?;
    let table = staff.table();
    for seed in seeds(100) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        let company = format!("c{seed}");
        let names = ["sales", "it", "hr"];
        for name in names {
            table.insert(&Department { company: company.clone(), ..department(name) }).await?;
        }
        let key = |id| Employee::key(&*company, id);
        // Who manages what, with a name that changes; one at most.
        let mut model: BTreeMap<u32, (String, &str)> = BTreeMap::new();
        for step in 0..12 {
            let id = random.below(4);
            let free = |name: &&str| !model.iter().any(|(of, (_, what))| what == name && *of != id);
            let manages: Vec<_> = names.into_iter().filter(free).chain([""]).collect();
            let (name, manages) = (format!("n{step}"), random.pick(&manages));
            let entity = Employee { company: company.clone(), ..employee(id, &name, manages) };
            match random.below(5) {
                0 | 1 => match staff.insert(&entity).await {
                    Ok(_) => assert_eq!(model.insert(id, (name, manages)), None),
                    Err(error) => assert!(error.is_already_exists() && model.contains_key(&id)),
                },
                2 | 3 => match staff.update(key(id), |e| *e = entity.clone()).await {
                    Ok(_) => assert!(model.insert(id, (name, manages)).is_some()),
                    Err(error) => assert!(error.is_not_found() && !model.contains_key(&id)),
                },
                _ => assert_eq!(staff.delete(key(id)).await?, model.remove(&id).is_some()),
            }
        }
        for name in names {
            let found = table.get(Department::key(&*company, name)).await?.unwrap().entity;
            let manager = model.values().find(|(_, manages)| *manages == name);
            assert_eq!(found.manager_name, manager.map(|(manager, _)| manager.clone()), "{name}");
            assert_eq!(found.floor, 1);
        }
    }
    Ok(())
}
