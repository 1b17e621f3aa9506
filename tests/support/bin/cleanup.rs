//! Deletes the tables, queues and containers of a run of the end-to-end tests in an account. Their names begin with
//! `ROWKEY_RUN`. `tests/interop/azure` runs it after the tests.

#![expect(clippy::print_stdout, reason = "a program for people")]

use futures_util::TryStreamExt as _;
use rowkey::StorageAccount;
use rowkey_tests::{AZURE_VARIABLE, TestResult};

#[tokio::main]
async fn main() -> TestResult {
    let run = std::env::var("ROWKEY_RUN").unwrap_or_default();
    // A prefix of letters and digits with which no other program's names begin.
    if !run.starts_with("rowkeyrun") || run.len() < 12 {
        return Err("ROWKEY_RUN is not the prefix of a run; nothing is deleted".into());
    }
    let text = std::env::var(AZURE_VARIABLE).map_err(|_| format!("{AZURE_VARIABLE} is not set"))?;
    let account = StorageAccount::from_connection_string(&text)?;

    let names: Vec<_> = account.tables().starting_with(&run).stream().try_collect().await?;
    for name in &names {
        account.table(name).delete_table_if_exists().await?;
    }
    println!("{} tables deleted", names.len());
    if std::env::var_os("ROWKEY_TABLES_ONLY").is_some() {
        return Ok(());
    }

    let queues: Vec<_> = account.queues().starting_with(&run).stream().try_collect().await?;
    for queue in &queues {
        account.queue(&queue.name).delete_queue_if_exists().await?;
    }
    let containers: Vec<_> =
        account.containers().starting_with(&run).stream().try_collect().await?;
    for container in &containers {
        account.container(&container.name).delete_if_exists().await?;
    }
    println!("{} queues and {} containers deleted", queues.len(), containers.len());
    Ok(())
}
