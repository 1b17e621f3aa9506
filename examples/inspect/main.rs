//! Inspects a table that another program fills: `cargo run --example inspect -- TABLE [ROWS]` with
//! `AZURE_STORAGE_CONNECTION_STRING` set. Without arguments it fills a table in the way of a program on
//! `azure_data_tables` 0.21.

#![expect(clippy::print_stdout, reason = "the example says what it found")]

use rowkey::patterns::inspect::{check, inspect};
use rowkey::{DynamicEntity, Entity, StorageAccount};
use rowkey_emulator::Server;

/// What `declaration` prints for the table below.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{partition}", row = "{row}")]
struct Job {
    partition: String,
    row: String,
    attempts: i32,
    note: Option<String>,
    #[entity(as = "Double")]
    size: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    if let Some(name) = arguments.next() {
        let rows = arguments.next().map_or(Ok(10_000), |rows| rows.parse())?;
        let sample = inspect(&StorageAccount::from_env()?.table(&name), rows).await?;
        println!("{sample}\n{}", sample.declaration("Row"));
        return Ok(());
    }

    let server = Server::start().await?;
    let jobs = StorageAccount::from_connection_string(server.connection_string())?.table("jobs");
    jobs.create().await?;
    for (row, size) in [("0D391D16-97F1-4B9A-BE68-4CC871F90001", 7), ("2", 5_000_000_000_i64)] {
        let mut job = DynamicEntity::new("mail", row);
        job.set("attempts", 1_i32);
        // An integer beyond Int32 without a type is stored as a Double.
        match i32::try_from(size) {
            Ok(small) => job.set("size", small),
            Err(_) => job.set("size", 5e9),
        };
        if row == "2" {
            job.set("note", "large");
        }
        jobs.insert(&job).await?;
    }

    let sample = inspect(&jobs, 10_000).await?;
    println!("{sample}\n{}", sample.declaration("Job"));
    assert_eq!(sample.row_keys["GUID"], 1);
    assert_eq!(sample.columns["size"].types["Edm.Double"], 1);
    assert!(sample.declaration("Job").contains("#[entity(as = \"Double\")]\n    pub size: i64"));

    let report = check::<Job>(&jobs).await?;
    print!("{report}");
    assert_eq!((report.rows, report.faulty), (2, 1), "the size that is an Int32 would be a Double");
    Ok(())
}
