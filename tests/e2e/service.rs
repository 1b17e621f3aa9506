//! What belongs to the account: properties, statistics, stored access policies, credentials.

use rowkey::service::AccessPolicy;
use rowkey::service::{CorsRule, ServiceProperties};
use rowkey::{Credential, ErrorKind, StorageAccount};
use rowkey_tests::{Arm, Fixture, TestResult, arm};

use crate::model::{Employee, employee};

#[tokio::test]
async fn access_policies_round_trip() -> TestResult {
    let table = Fixture::new().await?.table_with_server().await?;
    assert_eq!(table.access_policies().await?, []);
    let policies = [AccessPolicy {
        id: "readers".into(),
        start: Some("2026-01-01T00:00:00Z".parse()?),
        expiry: Some("2036-01-01T00:00:00Z".parse()?),
        permission: Some("r".into()),
    }];
    table.set_access_policies(&policies).await?;
    assert_eq!(table.access_policies().await?, policies);
    table.set_access_policies(&[]).await?;
    assert_eq!(table.access_policies().await?, []);
    let six = vec![AccessPolicy::default(); 6];
    assert_eq!(table.set_access_policies(&six).await.unwrap_err().kind(), ErrorKind::TooLarge);
    Ok(())
}

#[tokio::test]
async fn setting_service_properties_changes_only_the_given_ones() -> TestResult {
    if arm() != Arm::Ours {
        return Ok(()); // They belong to the whole account.
    }
    let fixture = Fixture::new().await?;
    let (account, service) = (&fixture.account, rowkey::service::Service::Table);
    let before = account.service_properties(service).await?;
    let rule = CorsRule {
        allowed_origins: vec!["https://contoso.com".into()],
        allowed_methods: vec!["GET".into()],
        ..CorsRule::default()
    };
    let change = ServiceProperties { cors: Some(vec![rule.clone()]), ..Default::default() };
    account.set_service_properties(service, &change).await?;
    let after = account.service_properties(service).await?;
    assert_eq!(after, ServiceProperties { cors: Some(vec![rule]), ..before });
    Ok(())
}

#[tokio::test]
async fn statistics_are_read_from_the_secondary() -> TestResult {
    if arm() != Arm::Ours {
        return Ok(()); // Needs an account with a secondary.
    }
    let fixture = Fixture::new().await?;
    let stats = fixture.account.service_statistics(rowkey::service::Service::Table).await?;
    assert!(stats.last_sync.is_some());
    Ok(())
}

#[tokio::test]
async fn a_lagging_secondary_returns_old_data_and_its_last_sync_time() -> TestResult {
    if arm() != Arm::Ours {
        return Ok(()); // No other secondary can be held back.
    }
    let fixture = Fixture::new().await?;
    let server = fixture.server.as_ref().unwrap();
    let table = fixture.account.table("lagging");
    table.create().await?;
    let key = server.connection_string().split(';').find_map(|p| p.strip_prefix("AccountKey="));
    let secondary = StorageAccount::builder()
        .endpoint(
            rowkey::service::Service::Table,
            &format!("{}-secondary", server.table_endpoint()),
        )?
        .credential(Credential::shared_key("devstoreaccount1", key.unwrap())?)
        .build()?
        .table("lagging");
    let last_sync = async || {
        fixture
            .account
            .service_statistics(rowkey::service::Service::Table)
            .await
            .map(|s| s.last_sync)
    };

    let behind = server.hold_back_secondary();
    let since = last_sync().await?;
    table.insert(&employee(1)).await?;
    server.clock().advance(std::time::Duration::from_secs(60));
    assert!(secondary.get(Employee::key("sales", 1)).await?.is_none());
    assert_eq!(last_sync().await?, since);

    drop(behind);
    assert!(secondary.get(Employee::key("sales", 1)).await?.is_some());
    assert!(last_sync().await? > since);
    Ok(())
}

#[tokio::test]
async fn a_wrong_key_is_an_authentication_error_that_does_not_show_it() -> TestResult {
    if arm() != Arm::Ours {
        return Ok(()); // The endpoint is not known here.
    }
    let fixture = Fixture::new().await?;
    let server = fixture.server.as_ref().unwrap();
    let key = "c2VjcmV0LXdyb25nLWtleQ==";
    let account = StorageAccount::builder()
        .name("devstoreaccount1")
        .endpoint(rowkey::service::Service::Table, server.table_endpoint())?
        .credential(Credential::shared_key("devstoreaccount1", key)?)
        .build()?;
    let table = account.table("anything");
    let error = table.create().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert_eq!(error.details().status, Some(403));
    let shown = format!("{error} {error:?} {account:?} {table:?}");
    assert!(!shown.contains(key) && !shown.contains("Signature"), "{shown}");
    Ok(())
}

#[tokio::test]
async fn shared_key_lite_is_accepted() -> TestResult {
    if arm() != Arm::Ours {
        return Ok(()); // The key is not known here.
    }
    let fixture = Fixture::new().await?;
    let server = fixture.server.as_ref().unwrap();
    let parts = server.connection_string().to_owned();
    let key = parts.split(';').find_map(|p| p.strip_prefix("AccountKey=")).unwrap().to_owned();
    let account = StorageAccount::builder()
        .name("devstoreaccount1")
        .endpoint(rowkey::service::Service::Table, server.table_endpoint())?
        .credential(Credential::shared_key_lite("devstoreaccount1", &key)?)
        .build()?;
    let table = account.table("lite");
    table.create().await?;
    table.insert(&employee(1)).await?;
    assert!(table.get(Employee::key("sales", 1)).await?.is_some());
    Ok(())
}
