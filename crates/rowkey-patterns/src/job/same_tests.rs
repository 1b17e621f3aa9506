//! An entity counts as stored if what the table has is the same, type for type and bit for bit.

use futures_util::stream;
use rowkey_client::{DynamicEntity, StorageAccount, Table};
use rowkey_emulator::{Fault, Operation, Server};

use super::Job;

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

async fn table(server: &Server) -> TestResult<Table> {
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("readings");
    table.create().await?;
    Ok(table)
}

fn reading(number: u32, degrees: f64) -> DynamicEntity {
    let mut row = DynamicEntity::new("sensor", format!("{number:02}"));
    row.set("Degrees", degrees);
    row
}

#[tokio::test]
async fn what_is_not_a_number_is_stored_when_the_answer_is_lost_and_when_a_load_is_repeated()
-> TestResult {
    let server = Server::start().await?;
    let table = table(&server).await?;
    // Not a number in several ways, of which a table stores one.
    let numbers = [f64::NAN, -f64::NAN, f64::from_bits(0x7ff8_0000_0000_0001), f64::INFINITY, 20.5];
    let rows =
        || stream::iter((0..).zip(numbers).map(|(number, degrees)| reading(number, degrees)));
    let lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_after_commit());
    let report = Job::insert(&table, rows()).run().await?;
    assert_eq!(lost.hits(), 1);
    assert_eq!((report.total.right, report.is_clean()), (5, true), "{:?}", report.problems);
    drop(lost);
    let report = Job::insert(&table, rows()).run().await?;
    assert_eq!((report.total.right, report.is_clean()), (5, true), "{:?}", report.problems);
    Ok(())
}

#[tokio::test]
async fn the_sign_of_zero_and_the_type_of_a_number_are_content() -> TestResult {
    let server = Server::start().await?;
    let table = table(&server).await?;
    let rows = || stream::iter([reading(0, 0.0), reading(1, -0.0), reading(2, f64::NAN)]);
    let _lost = server.inject(Fault::on(Operation::Transaction).nth(1).close_after_commit());
    assert!(Job::insert(&table, rows()).run().await?.is_clean());

    let mut whole = DynamicEntity::new("sensor", "00");
    whole.set("Degrees", 0);
    for other in [reading(0, -0.0), reading(1, 0.0), reading(2, 0.0), reading(0, f64::NAN), whole] {
        let report = Job::insert(&table, stream::iter([other.clone()])).run().await?;
        assert_eq!((report.total.right, report.total.failed), (0, 1), "{other:?}");
    }
    Ok(())
}
