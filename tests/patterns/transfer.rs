//! Moving the many of a one-to-many relationship, with what is linked one-to-one: all of it happens in the end, if
//! requests fail or workers stop.

use rowkey::store::Deciding;
use rowkey::worker::steps::{self, Steps};
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{Entity, StorageAccount};
use rowkey_emulator::{Server, Snapshot, StoredEntity};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, sweep_every_way};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    desk: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "desks", row = "{number:4}", rename_all = "PascalCase")]
struct Desk {
    number: u32,
    department: Option<String>,
    employee: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct MoveEmployees {
    from: String,
    to: String,
}

impl Task for MoveEmployees {
    const KIND: &'static str = "move-employees";
}

async fn move_all(account: StorageAccount, task: MoveEmployees) -> rowkey::Result<Done> {
    let employees = Deciding::new(&account.table("employees"));
    let desks = Deciding::new(&account.table("desks"));
    while let Some(next) = employees.query(Employee::partition(&task.from)).first().await? {
        let id = next.entity.id;
        let plan = async || {
            let there = employees.get(Employee::key(&task.to, id)).await?;
            let source = Employee::key(&task.from, id);
            let Some(employee) = employees.get(source.clone()).await? else { return Ok(None) };
            let moved = Employee { department: task.to.clone(), ..employee.entity.clone() };
            let mut steps = Steps::new().write(&employees, there.as_ref(), moved);
            if let Some(number) = employee.entity.desk
                && let Some(desk) = desks.get(Desk::key(number)).await?
                && (desk.entity.department.as_ref(), desk.entity.employee)
                    == (Some(&task.from), Some(id))
            {
                let linked = Desk { department: Some(task.to.clone()), ..desk.entity.clone() };
                steps = steps.write(&desks, Some(&desk), linked);
            }
            Ok(Some(steps.delete(&employees, &employee)))
        };
        steps::run(&account, plan).await?;
    }
    Ok(Done::Applied)
}

fn tasks(account: &StorageAccount) -> Tasks<MoveEmployees> {
    Tasks::new(account.queue("moves"))
}

async fn work(account: &StorageAccount) -> rowkey::Result<Step> {
    let program = account.clone();
    let handler = move |task: MoveEmployees, _: Attempt| move_all(program.clone(), task);
    Box::pin(Worker::new(tasks(account), handler).step()).await
}

/// All employees are in marketing, each once, and each desk is linked to its employee there.
fn assert_moved(snapshot: &Snapshot) {
    let employees = snapshot.table("employees").unwrap();
    let keys = employees.entities().map(StoredEntity::partition_key);
    assert_eq!(keys.collect::<Vec<_>>(), ["marketing"; 3]);
    for desk in snapshot.table("desks").unwrap().entities() {
        assert_eq!(desk.get("Department"), Some("marketing".into()));
    }
    let messages = snapshot.queue("moves").map_or(0, |queue| queue.messages().count());
    assert_eq!(messages, 0, "the task is done");
}

#[tokio::test]
async fn employees_and_their_desks_move_after_any_fault_or_stop() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let office = account(&server)?;
    let (employees, desks) = (office.table("employees"), office.table("desks"));
    employees.create().await?;
    desks.create().await?;
    for id in 7..10 {
        let desk = (id < 9).then_some(100 + id);
        employees.insert(&Employee { department: "sales".into(), id, desk }).await?;
        if let Some(number) = desk {
            let (department, employee) = (Some("sales".into()), Some(id));
            desks.insert(&Desk { number, department, employee }).await?;
        }
    }
    tasks(&office).create_if_missing().await?;
    tasks(&office).put(&MoveEmployees { from: "sales".into(), to: "marketing".into() }).await?;
    let recover = async |account: &StorageAccount| {
        while work(account).await? != Step::Idle {}
        Ok(())
    };
    sweep_every_way(&server, async |account| work(account).await, recover, assert_moved).await
}
