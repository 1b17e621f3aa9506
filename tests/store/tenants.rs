//! Everything of a tenant, in several stores and tables, is deleted by one job with one report.

use rowkey::pace::Pace;
use rowkey::patterns::job::{Checkpoint, Job, Jobs, Walk};
use rowkey::store::Store;
use rowkey::{Entity, ErrorKind, StorageAccount, Table};
use rowkey_emulator::{ErrorCode, Fault, Operation, Server, Snapshot};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::once;

use super::rows::{Order, order, start, store};

/// A type with several partitions for each tenant, in a table of its own.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}_{region}", row = "desk_{id:4}")]
#[entity(unique(name = by_label, value = "{tenant}_{label}"))]
struct Desk {
    tenant: String,
    region: String,
    id: u32,
    label: String,
}

/// A type without a store.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{tenant}", row = "event_{number:4}")]
struct Event {
    tenant: String,
    number: u32,
}

const REGIONS: [&str; 3] = ["eu", "us", "west_1"];

fn desks(account: &StorageAccount) -> rowkey::Result<Store<Desk>> {
    Store::builder(account.table("desks")).queue(account.queue("orders")).build()
}

/// Entities of three tenants, two of which begin alike.
async fn begun() -> TestResult<(Server, StorageAccount)> {
    let (server, account) = start().await?;
    let (orders, desks, events) = (store(&account)?, desks(&account)?, account.table("events"));
    desks.create_if_missing().await?;
    events.create().await?;
    for (at, tenant) in ["contoso", "contoso2", "fabrikam"].into_iter().enumerate() {
        for id in 0..3 {
            let number = Some(format!("{tenant}-{id}"));
            let courier = Some(format!("{tenant} kim"));
            orders.insert(&Order { tenant: tenant.into(), number, courier, ..order(id) }).await?;
            let region = REGIONS[id as usize].to_owned();
            let label = format!("{at}-{id}");
            desks.insert(&Desk { tenant: tenant.into(), region, id, label }).await?;
            events.insert(&Event { tenant: tenant.into(), number: id }).await?;
        }
    }
    Ok((server, account))
}

fn of_contoso(
    events: &Table,
) -> Job<
    'static,
    rowkey::patterns::job::Walking<rowkey::patterns::job::Keys, rowkey::patterns::job::Deletion>,
> {
    Job::delete(Walk::new(events, |events| events.query(Event::partition("contoso"))))
}

fn everything(account: &StorageAccount) -> rowkey::Result<Jobs<'static>> {
    let (orders, desks) = (store(account)?, desks(account)?);
    Ok(Jobs::new("tenant")
        .then("orders", orders.delete_where(Order::partition("contoso")))
        .then("desks", desks.delete_under("contoso_")?)
        .then("events", of_contoso(&account.table("events"))))
}

/// How many rows of any kind name a tenant in their keys.
fn rows_of(snapshot: &Snapshot, tenant: &str) -> usize {
    let names = |key: &str| {
        key.match_indices(tenant).any(|(at, _)| !key[at + tenant.len()..].starts_with('2'))
    };
    let tables = ["orders", "desks", "events"].map(|table| snapshot.table(table).unwrap());
    let rows = tables.iter().flat_map(|table| table.entities());
    rows.filter(|row| names(row.partition_key()) || names(row.row_key())).count()
}

#[tokio::test]
async fn one_job_deletes_everything_of_a_tenant_and_nothing_of_others() -> TestResult {
    let (server, account) = begun().await?;
    let others = ["contoso2", "fabrikam"].map(|tenant| rows_of(&server.snapshot(), tenant));
    assert!(rows_of(&server.snapshot(), "contoso") > 18, "with copies and claims elsewhere");
    let mut told = Vec::new();
    let jobs = everything(&account)?.pace(Pace::background().requests_per_second(10_000));
    assert!(format!("{jobs:?}").contains("desks"));
    let report = jobs
        .progress(|progress| {
            told.push((progress.report().total.right, progress.checkpoint.is_finished()));
        })
        .run()
        .await?;
    assert!(report.is_clean());
    let parts = ["orders", "desks", "events"].map(|part| report.part(part).right);
    assert_eq!((parts, report.total.right), ([3, 3, 3], 9), "{report:?}");
    assert_eq!(told.last(), Some(&(9, false)), "{told:?}");
    assert!(told.is_sorted(), "{told:?}");
    assert_eq!(rows_of(&server.snapshot(), "contoso"), 0);
    for (tenant, rows) in ["contoso2", "fabrikam"].into_iter().zip(others) {
        assert_eq!(rows_of(&server.snapshot(), tenant), rows, "{tenant}");
    }
    assert!(store(&account)?.verify().run().await?.is_clean());
    assert!(desks(&account)?.verify().run().await?.is_clean());
    // Again: nothing is left, and an empty prefix is no tenant.
    assert_eq!(everything(&account)?.run().await?.total.examined, 0);
    let error = desks(&account)?.delete_under("").err().ok_or("an empty prefix")?;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(Jobs::new("none").run().await?.total.examined, 0);
    Ok(())
}

#[tokio::test]
async fn jobs_resume_from_any_checkpoint_and_run_none_twice() -> TestResult {
    let mut texts: Vec<String> = Vec::new();
    let (_server, account) = begun().await?;
    let jobs = everything(&account)?;
    jobs.progress(|progress| texts.push(progress.checkpoint.to_string())).run().await?;
    assert!(texts.len() >= 6, "a page and an end of each job");
    for text in &texts {
        let (server, account) = begun().await?;
        let checkpoint: Checkpoint = text.parse()?;
        let seen = checkpoint.report().clone();
        let before = server.journal();
        let report = everything(&account)?.resume(checkpoint).run().await?;
        assert!(report.total.examined >= seen.total.examined);
        let since = server.journal().since(&before);
        for (part, resource) in [("orders", "orders"), ("desks", "desks"), ("events", "events")] {
            let is_over = seen.part(part).right == 3;
            let is_left = rows_of_table(&server.snapshot(), resource) > 0;
            assert_eq!(
                is_over, is_left,
                "what the checkpoint has passed is not done again: {part}"
            );
        }
        assert!(!since.is_empty() || seen.total.right == 9);
    }
    // A checkpoint of other jobs.
    let last: Checkpoint = texts.last().ok_or("some")?.parse()?;
    let events = || of_contoso(&account.table("events"));
    let others = [
        Jobs::new("another name").then("orders", events()).then("b", events()).then("c", events()),
        Jobs::new("tenant").then("orders", events()),
        Jobs::new("tenant").then("a", events()).then("b", events()).then("c", events()),
    ];
    for other in others {
        let refused = other.resume(last.clone()).run().await.unwrap_err();
        assert_eq!(refused.error.kind(), ErrorKind::Invalid);
        assert_eq!(*refused.checkpoint, last, "no position is lost");
    }
    Ok(())
}

/// How many rows a table has that name the tenant in their keys.
fn rows_of_table(snapshot: &Snapshot, table: &str) -> usize {
    let rows = snapshot.table(table).unwrap();
    let mut heads = rows.entities().filter(|row| {
        let is_head =
            ["order_", "desk_0", "event_"].iter().any(|head| row.row_key().starts_with(head));
        let partition = row.partition_key();
        is_head && (partition == "contoso" || partition.starts_with("contoso_"))
    });
    heads.by_ref().count()
}

#[tokio::test]
async fn a_job_that_ends_early_names_itself_and_is_resumed() -> TestResult {
    let (server, account) = begun().await?;
    let denied = Fault::on(Operation::QueryEntities).resource("desks");
    let denied = server.inject(denied.reject(ErrorCode::AUTHORIZATION_FAILURE));
    let stopped = everything(&once(&account))?.run().await.unwrap_err();
    assert!(stopped.to_string().contains("desks"), "{stopped}");
    assert!(!stopped.to_string().contains("contoso"), "{stopped}");
    assert_eq!(stopped.checkpoint.report().part("orders").right, 3);
    assert_eq!(rows_of_table(&server.snapshot(), "events"), 3, "the jobs after it are not begun");
    drop(denied);
    let before = server.journal();
    let report = everything(&account)?.resume(*stopped.checkpoint).run().await?;
    assert_eq!(["orders", "desks", "events"].map(|part| report.part(part).right), [3, 3, 3]);
    assert_eq!(rows_of(&server.snapshot(), "contoso"), 0);
    let sent = server.journal().since(&before);
    assert!(sent.of(Operation::QueryEntities).about("orders").is_empty(), "not run again");
    Ok(())
}

/// A parcel that is listed in a partition of its recipient. All its PartitionKeys begin with a literal: a tenant could
/// have the name of the list otherwise.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "tenant_{tenant}", row = "parcel_{id:9}")]
#[entity(index(name = by_email, partition = "email_{tenant}_{email:lower}", row = "{id:9}"))]
#[entity(unique(name = by_number, value = "{tenant}_{number}"))]
struct Parcel {
    tenant: String,
    id: u32,
    email: String,
    number: String,
}

/// No name of a tenant makes its rows part of a list or a value of another one.
#[tokio::test]
async fn a_tenant_with_the_name_of_a_list_of_another_one_adds_nothing_to_it() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let account = rowkey_tests::sweep::account(&server)?;
    let parcels =
        Store::<Parcel>::builder(account.table("parcels")).queue(account.queue("parcels"));
    let parcels = parcels.build()?;
    parcels.create_if_missing().await?;
    let parcel = |tenant: &str, id, number: &str| {
        let (tenant, number) = (tenant.into(), number.into());
        Parcel { tenant, id, email: "ada@contoso.com".into(), number }
    };
    parcels.insert(&parcel("contoso", 1, "A_1")).await?;
    parcels.insert(&parcel("contoso", 2, "A_2")).await?;
    for other in
        ["email_contoso_ada@contoso.com", "contoso_A", "contoso^~A", "../contoso", "con/toso"]
    {
        parcels.insert(&parcel(other, 7, "1")).await?;
        let page = parcels.query(Parcel::by_email_all("contoso", "ada@contoso.com")).page(20, None);
        let listed: Vec<_> = page.await?.entities.into_iter().map(|one| one.entity.id).collect();
        assert_eq!(listed, [1, 2], "{other}");
        let found = parcels.find(Parcel::by_number("contoso", "A_1")).await?.ok_or("none")?;
        assert_eq!(found.entity.tenant, "contoso", "{other}");
    }
    // Nor does a token lead from a list of one tenant to that of another one.
    let of = |tenant: &str| parcels.query(Parcel::by_email_all(tenant, "ada@contoso.com"));
    let token = of("contoso").page(1, None).await?.continuation;
    assert!(token.is_some());
    let refused = of("fabrikam").page(1, token).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    Ok(())
}
