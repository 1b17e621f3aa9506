//! Dead letters of workers.

use std::time::Duration;

use rowkey::worker::dead_letters::Selection;
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{Result, StorageAccount};
use serde::{Deserialize, Serialize};

use super::{Error, Machine, Running};

/// A task that always fails.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Job {
    number: usize,
}

impl Task for Job {
    const KIND: &'static str = "job";
}

fn tasks(account: &StorageAccount) -> Tasks<Job> {
    Tasks::new(account.queue("jobs"))
}

async fn put(machine: &Machine, elements: usize) -> Result<(), Error> {
    let tasks = tasks(&machine.account);
    tasks.create_if_missing().await?;
    for number in 0..elements {
        tasks.put(&Job { number }).await?;
    }
    Ok(())
}

/// A worker makes a dead letter of each task.
async fn fail(machine: &Machine) -> Result<(), Error> {
    let poison = |_: Job, _: Attempt| async { Result::Ok(Done::Poison("always".to_owned())) };
    let worker = Worker::new(tasks(&machine.account), poison).max_attempts(1);
    while worker.step().await? != Step::Idle {}
    Ok(())
}

async fn count(machine: &Machine, expected: usize) -> Result<(), Error> {
    let letters = tasks(&machine.account).dead_letters().count(&Selection::all()).await?;
    if usize::try_from(letters)? == expected {
        return Ok(());
    }
    Err(format!("{letters} dead letters instead of {expected}").into())
}

pub(super) fn failing(machine: &Machine, elements: usize) -> Running<'_> {
    Box::pin(async move {
        put(machine, elements).await?;
        let cost = machine.cost(fail(machine)).await?;
        count(machine, elements).await?;
        Ok(cost)
    })
}

pub(super) fn redriven(machine: &Machine, elements: usize) -> Running<'_> {
    Box::pin(async move {
        put(machine, elements).await?;
        fail(machine).await?;
        machine.wait(Duration::from_secs(1));
        let redrive = async {
            let summary = tasks(&machine.account).dead_letters().redrive(&Selection::all()).await?;
            if usize::try_from(summary.done)? == elements {
                Ok(())
            } else {
                Err("some failed".into())
            }
        };
        let cost = machine.cost(redrive).await?;
        count(machine, 0).await?;
        Ok(cost)
    })
}
