//! The archive worker: employees who left are moved from one account to another, with a photo in a blob and a
//! contract on the disk.
//!
//! No transaction spans accounts, blobs and files. A task on a queue names the employee; a worker performs
//! steps that are safe to repeat, and deletes the message last. If it is interrupted, the message is
//! delivered again, and the next worker detects by reading what remains to be done.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::path::{Path, PathBuf};

use rowkey::blob::Conditions;
use rowkey::store::Deciding;
use rowkey::worker::inbox::Inbox;
use rowkey::worker::steps::{self, Steps};
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{Container, DynamicEntity, Entity, StorageAccount};
use rowkey_emulator::{Fault, Operation, Server};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
struct Employee {
    department: String,
    id: u32,
    name: String,
    salary: f64,
}

#[derive(Serialize, Deserialize)]
struct ArchiveEmployee {
    department: String,
    id: u32,
}

impl Task for ArchiveEmployee {
    const KIND: &'static str = "archive-employee";
}

/// The sources and destinations of a move. `Deciding` reads the primary.
#[derive(Clone)]
struct Archiver {
    current: Deciding,
    photos: Container,
    contracts: PathBuf,
    archive: Deciding,
    archived_photos: Container,
    archived_contracts: PathBuf,
}

// ANCHOR: archiver
impl Archiver {
    async fn archive(&self, task: &ArchiveEmployee, attempt: &Attempt) -> rowkey::Result<Done> {
        // After a conflict, `plan` runs again and reads the current state. The inbox row records a
        // completed task, so that a redelivery does not archive an employee who was hired again.
        let (inbox, key) = (Inbox::new(&self.current), Employee::key(&task.department, task.id));
        steps::run_once(&inbox, &key, attempt, |row| self.plan(task, row)).await
    }

    async fn plan(
        &self,
        task: &ArchiveEmployee,
        row: DynamicEntity,
    ) -> rowkey::Result<Option<Steps>> {
        let key = Employee::key(&task.department, task.id);
        let file = format!("{}.txt", task.id);
        let photo = self.photos.blob(&task.id.to_string());
        let archived_photo = self.archived_photos.blob(&task.id.to_string());

        // Reads the destinations first: if another worker with the same task is faster, the writes of
        // this one fail.
        let there = self.archive.get(key.clone()).await?;
        let photo_there = match archived_photo.properties().await? {
            Some(properties) => Conditions::from(&properties.etag),
            None => Conditions::missing(),
        };

        // Then reads the source. Without an entity, all steps are done.
        let Some(employee) = self.current.get(key).await? else { return Ok(None) };
        let mut steps = Steps::new().write(&self.archive, there.as_ref(), employee.entity.clone());
        if let Some(content) = photo.get().await? {
            steps = steps
                .put_blob(archived_photo.with_conditions(photo_there).put(content.bytes))
                .delete_blob(&photo, &content.properties.etag);
        }
        steps = steps
            .move_file(self.contracts.join(&file), self.archived_contracts.join(&file))
            .call("tell payroll", async || {
                println!("  notifies payroll, perhaps twice");
                Ok(())
            })
            // Deletes the source last, and only if it is unchanged: until then all steps can be repeated.
            .delete_once(&self.current, &employee, row);
        Ok(Some(steps))
    }
}
// ANCHOR_END: archiver

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One server with two accounts; in Azure they may be in different regions.
    let key = ["a2V5"];
    let server = Server::builder().account("staff", key).account("archive", key).start().await?;
    let staff = StorageAccount::from_connection_string(server.connection_string())?;
    let in_archive = server.connection_string().replace("staff", "archive");
    let archive = StorageAccount::from_connection_string(&in_archive)?;

    let folder = std::env::temp_dir().join(format!("rowkey-example-{}", std::process::id()));
    let archiver = Archiver {
        current: Deciding::new(&staff.table("current")),
        photos: staff.container("photos"),
        contracts: folder.join("contracts"),
        archive: Deciding::new(&archive.table("archive")),
        archived_photos: archive.container("photos"),
        archived_contracts: folder.join("archive"),
    };
    archiver.current.table().create().await?;
    archiver.photos.create().await?;
    archiver.archive.table().create().await?;
    archiver.archived_photos.create().await?;
    std::fs::create_dir_all(&archiver.contracts)?;
    std::fs::create_dir_all(&archiver.archived_contracts)?;
    let result = run(&server, &archiver, Tasks::new(staff.queue("leavers"))).await;
    std::fs::remove_dir_all(&folder)?;
    result
}

async fn run(
    server: &Server,
    archiver: &Archiver,
    tasks: Tasks<ArchiveEmployee>,
) -> Result<(), Box<dyn std::error::Error>> {
    for (id, name) in [(7, "Ada"), (8, "Grace")] {
        let employee = Employee { department: "sales".into(), id, name: name.into(), salary: 1e5 };
        archiver.current.table().insert(&employee).await?;
        archiver.photos.blob(&id.to_string()).put(format!("{name}'s photo")).send().await?;
        std::fs::write(archiver.contracts.join(format!("{id}.txt")), format!("{name}'s contract"))?;
    }

    // ANCHOR: worker
    tasks.create_if_missing().await?;
    tasks.put(&ArchiveEmployee { department: "sales".into(), id: 7 }).await?;

    let handler = archiver.clone();
    let worker = Worker::new(tasks.clone(), move |task: ArchiveEmployee, attempt: Attempt| {
        let archiver = handler.clone();
        async move { archiver.archive(&task, &attempt).await }
    });
    assert_eq!(Box::pin(worker.step()).await?, Step::Handled);
    // ANCHOR_END: worker
    is_archived(archiver, 7).await?;
    println!("Ada, her photo and her contract are in the archive");

    // A raise while a worker is about to delete the old row must not be lost. With the key, a repeated put is
    // the same task.
    let leave = ArchiveEmployee { department: "sales".into(), id: 8 };
    tasks.put_with_key("8 left in 2026", &leave).await?;
    let held = server.inject(Fault::on(Operation::Transaction).nth(1).hold());
    let raise = async {
        held.wait_until_held().await;
        let key = Employee::key("sales", 8);
        let raised = archiver.current.table().update(key, |grace| grace.salary += 5_000.0).await;
        held.release();
        raised
    };
    let (step, raised) = tokio::join!(Box::pin(worker.step()), raise);
    assert_eq!(step?, Step::Handled);
    let grace = is_archived(archiver, 8).await?;
    assert_eq!(grace, raised?.entity);
    println!("Grace got her raise, and it is in the archive: {}", grace.salary);

    // Grace is hired again, and the queue delivers the same task again: she is not archived.
    archiver.current.table().insert(&grace).await?;
    tasks.put_with_key("8 left in 2026", &leave).await?;
    assert_eq!(Box::pin(worker.step()).await?, Step::Suppressed);
    assert!(archiver.current.get(Employee::key("sales", 8)).await?.is_some());
    Ok(())
}

async fn is_archived(archiver: &Archiver, id: u32) -> Result<Employee, Box<dyn std::error::Error>> {
    let key = Employee::key("sales", id);
    assert!(archiver.current.get(key.clone()).await?.is_none());
    let archived = archiver.archive.get(key).await?.ok_or("no row in the archive")?;

    let name = &archived.entity.name;
    assert!(archiver.photos.blob(&id.to_string()).get().await?.is_none());
    let photo = archiver.archived_photos.blob(&id.to_string()).get().await?.ok_or("no photo")?;
    assert_eq!(photo.bytes, format!("{name}'s photo"));

    let contract = |folder: &Path| std::fs::read_to_string(folder.join(format!("{id}.txt")));
    assert!(contract(&archiver.contracts).is_err());
    assert_eq!(contract(&archiver.archived_contracts)?, format!("{name}'s contract"));
    Ok(archived.entity)
}
