//! Moves the many of a one-to-many relationship to another one: all employees of a department, each with the desk
//! that is linked to it one-to-one.
//!
//! An entity cannot change its PartitionKey, and no transaction spans two partitions. A task names the departments;
//! a worker moves one employee after the other in steps that are safe to repeat, and deletes the message last.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::store::Deciding;
use rowkey::worker::steps::{self, Steps};
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{Entity, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use serde::{Deserialize, Serialize};

/// One of the many: its partition is its department.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
struct Employee {
    department: String,
    id: u32,
    name: String,
    /// The link to the desk: its number, which is its RowKey.
    desk: Option<u32>,
}

/// Linked one-to-one: each side stores the key of the other.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "desks", row = "{number:4}")]
struct Desk {
    number: u32,
    /// The link to the employee: both parts of its key.
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

/// The tables of both sides. `Deciding` reads the primary.
#[derive(Clone)]
struct Staff {
    employees: Deciding,
    desks: Deciding,
}

// ANCHOR: staff
impl Staff {
    /// The handler. What an interrupted attempt has moved is not found any more.
    async fn move_all(&self, task: &MoveEmployees) -> rowkey::Result<Done> {
        let mut done = Done::AlreadyApplied;
        while let Some(next) = self.employees.query(Employee::partition(&task.from)).first().await?
        {
            let moved =
                steps::run(self.employees.table().account(), || self.plan(task, next.entity.id));
            if moved.await? == Done::Applied {
                done = Done::Applied;
            }
        }
        Ok(done)
    }

    /// The steps that move one employee. After a conflict it runs again and reads the current state.
    async fn plan(&self, task: &MoveEmployees, id: u32) -> rowkey::Result<Option<Steps>> {
        // Reads the destination first, then the source: a worker that is overtaken fails, instead of
        // overwriting a newer copy with an older one.
        let there = self.employees.get(Employee::key(&task.to, id)).await?;
        let source = Employee::key(&task.from, id);
        let Some(employee) = self.employees.get(source.clone()).await? else { return Ok(None) };

        let moved = Employee { department: task.to.clone(), ..employee.entity.clone() };
        let mut steps = Steps::new().write(&self.employees, there.as_ref(), moved);
        if let Some(number) = employee.entity.desk
            && let Some(desk) = self.desks.get(Desk::key(number)).await?
            && (desk.entity.department.as_ref(), desk.entity.employee)
                == (Some(&task.from), Some(id))
        {
            let linked = Desk { department: Some(task.to.clone()), ..desk.entity.clone() };
            steps = steps.write(&self.desks, Some(&desk), linked);
        }
        // Deletes the source last, and only if it is unchanged: until then all steps can be repeated.
        Ok(Some(steps.delete(&self.employees, &employee)))
    }

    /// Follows the link of a desk. The two sides may disagree for a moment, so the link is followed back.
    async fn at_desk(&self, number: u32) -> rowkey::Result<Option<Employee>> {
        let Some(desk) = self.desks.get(Desk::key(number)).await? else { return Ok(None) };
        let Desk { department: Some(department), employee: Some(id), .. } = desk.entity else {
            return Ok(None);
        };
        let employee = self.employees.get(Employee::key(department, id)).await?;
        Ok(employee.map(|stored| stored.entity).filter(|employee| employee.desk == Some(number)))
    }
}
// ANCHOR_END: staff

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let staff = Staff {
        employees: Deciding::new(&account.table("employees")),
        desks: Deciding::new(&account.table("desks")),
    };
    staff.employees.table().create().await?;
    staff.desks.table().create().await?;
    for (id, name) in [(7, "Ada"), (8, "Grace"), (9, "Edsger")] {
        // Edsger works at home.
        let desk = (id < 9).then_some(100 + id);
        let employee = Employee { department: "sales".into(), id, name: name.into(), desk };
        staff.employees.table().insert(&employee).await?;
        if let Some(number) = desk {
            let desk = Desk { number, department: Some("sales".into()), employee: Some(id) };
            staff.desks.table().insert(&desk).await?;
        }
    }

    let tasks = Tasks::new(account.queue("moves"));
    tasks.create_if_missing().await?;
    tasks.put(&MoveEmployees { from: "sales".into(), to: "marketing".into() }).await?;
    let handler = staff.clone();
    let worker = Worker::new(tasks, move |task: MoveEmployees, _: Attempt| {
        let staff = handler.clone();
        async move { staff.move_all(&task).await }
    });

    // Grace marries while the worker is about to delete her old row: the change must not be lost.
    let held = server.inject(Fault::on(Operation::DeleteEntity).nth(2).hold());
    let marriage = async {
        held.wait_until_held().await;
        let key = Employee::key("sales", 8);
        let renamed = staff.employees.table().update(key, |grace| grace.name = "Grace H.".into());
        let renamed = renamed.await;
        held.release();
        renamed
    };
    let (step, renamed) = tokio::join!(Box::pin(worker.step()), marriage);
    assert_eq!(step?, Step::Handled);
    assert_eq!(renamed?.entity.name, "Grace H.");

    let left = staff.employees.query(Employee::partition("sales"));
    assert!(left.first().await?.is_none());
    let moved = staff.employees.query(Employee::partition("marketing")).all().await?;
    let names: Vec<_> = moved.iter().map(|employee| &*employee.entity.name).collect();
    assert_eq!(names, ["Ada", "Grace H.", "Edsger"]);
    for stored in &moved {
        if let Some(desk) = stored.entity.desk {
            assert_eq!(staff.at_desk(desk).await?.as_ref(), Some(&stored.entity));
        }
    }
    println!("sales is empty; marketing has {}, and their desks know", names.join(", "));
    Ok(())
}
