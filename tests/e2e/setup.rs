//! Connection strings of other programs, and headers that a program adds to requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::TimeDelta;
use rowkey::sas::{Sas, TablePermissions};
use rowkey::table::ServiceToken;
use rowkey::{Attempt, Match, Policy, Result, StorageAccount, Table};
use rowkey_tests::{Arm, TestResult, arm};

use crate::model::Employee;
use crate::queries::{ids, staff};

const TEN_MINUTES: TimeDelta = TimeDelta::minutes(10);

/// Adds a header that is signed, and counts.
#[derive(Default)]
struct Shop(AtomicU32);

impl Policy for Shop {
    fn before(&self, attempt: &mut Attempt<'_>) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        attempt.add_header("x-ms-contoso-attempt", &attempt.number.to_string())
    }
}

#[tokio::test]
async fn headers_added_by_a_policy_are_signed() -> TestResult {
    if arm() != Arm::Ours {
        return Ok(()); // The connection string is not known here.
    }
    let table = staff(3).await?;
    let text = table.fixture.server.as_ref().unwrap().connection_string();
    let policy = Arc::new(Shop::default());
    let account = StorageAccount::builder()
        .connection_string(text)?
        .header("x-ms-contoso-shop", "14 of 15")?
        .application_id("contoso/1")?
        .policy(policy.clone())
        .build()?;
    let own = account.table(table.name());
    own.delete(Employee::key("sales", 1), Match::Any).await?;
    assert_eq!(ids(&own.query(Employee::partition("sales")).all().await?), [2, 3]);
    own.transaction().delete(Employee::key("sales", 2), Match::Any).submit().await?;
    assert_eq!(policy.0.load(Ordering::Relaxed), 3);
    Ok(())
}

#[tokio::test]
async fn a_continuation_token_of_another_library_is_resumed() -> TestResult {
    let table = staff(5).await?;
    let token = Sas::table(table.name())
        .permissions(TablePermissions::QUERY)
        .expires(table.account().clock().now() + TEN_MINUTES)
        .sign(table.account())?;
    // The request of another library, and the token that it stores.
    let url = token.url();
    let (address, query) = url.split_once('?').unwrap();
    let query = format!("{query}&$filter=PartitionKey%20eq%20'sales'&$top=2");
    let client = reqwest::Client::builder().no_proxy().build()?;
    let request = client.get(format!("{address}()?{query}"));
    let answer = request.header("accept", "application/json;odata=nometadata").send().await?;
    assert_eq!(answer.status(), 200);
    let part = |name| {
        let name = format!("x-ms-continuation-Next{name}");
        answer.headers().get(name).map(|part| part.to_str().unwrap().to_owned())
    };
    let token = ServiceToken {
        next_partition_key: part("PartitionKey").unwrap(),
        next_row_key: part("RowKey"),
    };

    let query = || table.query(Employee::partition("sales"));
    let from = query().continuation(token.clone())?;
    let page = query().page(2, Some(from)).await?;
    assert_eq!(ids(&page.entities), [3, 4]);
    assert_eq!(ids(&query().resume(page.continuation.unwrap()).all().await?), [5]);

    let text = format!("{} {}", token.next_partition_key, part("RowKey").unwrap_or_default());
    assert_eq!(text.parse::<ServiceToken>()?, token);
    let many = query().filter(Employee::SALARY.one_of((1..=40).map(f64::from)));
    assert!(many.continuation(token).unwrap_err().to_string().contains("does not identify"));
    Ok(())
}

#[tokio::test]
async fn a_table_is_opened_by_its_sas_url() -> TestResult {
    let table = staff(2).await?;
    let token = Sas::table(table.name())
        .permissions(TablePermissions::QUERY)
        .expires(table.account().clock().now() + TEN_MINUTES)
        .sign(table.account())?;
    let opened = Table::from_sas_url(&token.url())?;
    assert_eq!((opened.name(), opened.account().name()), (table.name(), table.account().name()));
    assert_eq!(ids(&opened.query(Employee::partition("sales")).all().await?), [1, 2]);
    assert!(opened.delete(Employee::key("sales", 1), Match::Any).await.is_err());
    Ok(())
}
