//! Names of declarations that a worker reads in rows, and does not have: meters and metrics do not list them.

use std::time::Duration;

use rowkey::cost::Meter;
use rowkey::store::Store;
use rowkey::telemetry::OTHER;
use rowkey::{Entity, ManualClock, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use rowkey_tests::TestResult;

/// The type of another program.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "user_{id:4}")]
#[entity(unique(name = by_email, value = "{email}"))]
struct Other {
    tenant: String,
    id: u32,
    email: String,
}

/// The same without its unique value.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "user_{id:4}")]
struct User {
    tenant: String,
    id: u32,
    email: String,
}

#[tokio::test]
async fn a_name_that_the_program_does_not_declare_is_listed_as_other() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = |seconds| -> TestResult<StorageAccount> {
        let now = server.clock().now().to_chrono() + Duration::from_secs(seconds);
        let builder = StorageAccount::builder().connection_string(server.connection_string())?;
        Ok(builder.clock(ManualClock::auto_advancing(now)).build()?)
    };
    let writer = account(0)?;
    let others = Store::<Other>::builder(writer.table("users")).queue(writer.queue("users"));
    let others = others.build()?;
    others.create_if_missing().await?;
    // The op row and its message stay, so a worker looks at the claim.
    let busy = Fault::on(Operation::DeleteEntity).reject(ErrorCode::INTERNAL_ERROR);
    let busy = server.inject(busy);
    let user = Other { tenant: "contoso".into(), id: 1, email: "ada@contoso.com".into() };
    others.insert(&user).await?;
    assert!(busy.hits() > 0, "the op row was to be deleted");
    drop(busy);

    server.clock().advance(Duration::from_secs(120));
    let (worker, meter) = (account(0)?, Meter::new());
    let worker = worker.with_meter(&meter);
    let users = Store::<User>::builder(worker.table("users")).queue(worker.queue("users"));
    let worked = users.build()?.work_once().await?;
    assert_eq!(worked.undeclared.into_iter().collect::<Vec<_>>(), [("by_email".to_owned(), 1)]);
    let named: Vec<_> = meter.by_declaration().into_keys().collect();
    assert_eq!(named, [OTHER], "a row names any declaration");
    Ok(())
}
