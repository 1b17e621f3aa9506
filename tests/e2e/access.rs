//! Authorization: shared access signatures, revoked policies, rotated keys. (`tokens` has those by a directory.)
//!
//! On our server alone: others enforce ranges in part, know no clock to advance, or need people.

use std::time::Duration;

use rowkey::blob::ContentHeaders;
use rowkey::queue::Body;
use rowkey::sas::{
    AccountPermissions, BlobPermissions, QueuePermissions, ResourceTypes, Sas, SasToken, Services,
    TablePermissions,
};
use rowkey::service::{AccessPolicy, Service};
use rowkey::{
    Credential, CredentialSlot, ErrorCode, ErrorKind, ManualClock, Match, StorageAccount, Table,
};
use rowkey_emulator::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Server};
use rowkey_tests::TestResult;

use crate::model::{Badge, Employee, employee};

/// Where a manual clock of the server begins.
pub(crate) const START: &str = "2026-01-01T00:00:00Z";

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A server by a clock that stands, an account there by a clock of its own, and a table `staff`.
struct Fixture {
    server: Server,
    clock: ManualClock,
    account: StorageAccount,
    staff: Table,
}

impl Fixture {
    async fn new() -> TestResult<Self> {
        let server = Server::builder().manual_clock().start().await?;
        let clock = ManualClock::auto_advancing(START.parse()?);
        let builder = StorageAccount::builder().connection_string(server.connection_string())?;
        let account = builder.clock(clock.clone()).build()?;
        let staff = account.table("staff");
        staff.create().await?;
        Ok(Self { server, clock, account, staff })
    }

    /// The table as the holder of this token sees it.
    fn with(&self, token: &SasToken) -> Result<Table, rowkey::Error> {
        Ok(self.account_with(token)?.table("staff"))
    }

    fn account_with(&self, token: &SasToken) -> Result<StorageAccount, rowkey::Error> {
        let builder = StorageAccount::builder().connection_string(&token.connection_string())?;
        builder.clock(self.clock.clone()).build()
    }

    fn advance(&self, duration: Duration) {
        self.server.clock().advance(duration);
        self.clock.advance(duration);
    }
}

fn of(department: &str, id: u32) -> Employee {
    Employee { department: department.into(), ..employee(id) }
}

pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, rowkey::Error>) -> ErrorCode {
    let error = result.expect_err("it should be refused");
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    error.code().expect("the service says why").clone()
}

#[tokio::test]
async fn a_partition_sas_grants_only_that_partition() -> TestResult {
    let fixture = Fixture::new().await?;
    let others = fixture.account.table("others");
    others.create().await?;
    for department in ["sale", "sales", "sales2", "support"] {
        fixture.staff.insert(&of(department, 1)).await?;
        others.insert(&of(department, 1)).await?;
    }
    let token = Sas::table("staff")
        .permissions(TablePermissions::ALL)
        .partition(rowkey::Partition::<rowkey::DynamicEntity>::new("sales"))
        .valid_for(HOUR)
        .sign(&fixture.account)?;
    let staff = fixture.with(&token)?;

    // All of it can be read and written.
    let stored = staff.get(Employee::key("sales", 1)).await?.ok_or("not there")?;
    staff.insert(&of("sales", 2)).await?;
    staff.upsert(&of("sales", 3)).await?;
    staff.replace(&stored.map(|e| e.salary += 1.0)).await?;
    staff.delete(Employee::key("sales", 2), Match::Any).await?;
    staff.transaction().insert(&of("sales", 4)).upsert(&of("sales", 5)).submit().await?;
    assert_eq!(staff.query(Employee::partition("sales")).all().await?.len(), 4);

    // Of the rest nothing is seen,
    for department in ["sale", "sales2", "support"] {
        assert!(staff.get(Employee::key(department, 1)).await?.is_none(), "{department}");
        assert_eq!(staff.query(Employee::partition(department)).all().await?, []);
    }
    let scanned = staff.scan::<Employee>().all().await?;
    assert_eq!(scanned.len(), 4);
    assert!(scanned.iter().all(|stored| stored.entity.department == "sales"));

    // and nothing is written, in any way.
    let refused = ErrorCode::AUTHORIZATION_FAILURE;
    for department in ["sale", "sales2", "support"] {
        let key = || Employee::key(department, 1);
        let known = fixture.staff.get(key()).await?.ok_or("not there")?;
        assert_eq!(code(staff.insert(&of(department, 9)).await), refused);
        assert_eq!(code(staff.upsert(&of(department, 1)).await), refused);
        assert_eq!(code(staff.upsert_merge(&of(department, 1)).await), refused);
        assert_eq!(code(staff.replace(&known).await), refused);
        assert_eq!(code(staff.delete(key(), Match::Any).await), refused);
        let one = staff.transaction().insert(&of(department, 9));
        assert_eq!(code(one.submit().await), refused);
        let two = staff.transaction().delete(key(), Match::Any).upsert(&of(department, 9));
        assert_eq!(code(two.submit().await), refused);
        assert_eq!(fixture.staff.get(key()).await?.ok_or("gone")?, known);
        assert_eq!(fixture.staff.query(Employee::partition(department)).all().await?.len(), 1);
    }

    // No other table is there, nor anything of tables or of the service.
    let hers = fixture.account_with(&token)?;
    let other = hers.table("others");
    assert_eq!(code(other.get(Employee::key("sales", 1)).await), refused);
    assert_eq!(code(other.query(Employee::partition("sales")).all().await), refused);
    assert_eq!(code(other.insert(&of("sales", 9)).await), refused);
    assert_eq!(code(other.transaction().insert(&of("sales", 9)).submit().await), refused);
    assert_eq!(code(hers.table("new").create().await), refused);
    assert_eq!(code(staff.delete_table().await), refused);
    assert_eq!(code(staff.access_policies().await), refused);
    assert_eq!(code(staff.set_access_policies(&[]).await), refused);
    assert_eq!(code(hers.service_properties(Service::Table).await), refused);
    assert_eq!(others.scan::<Employee>().all().await?.len(), 4);
    Ok(())
}

#[tokio::test]
async fn a_sas_for_a_type_excludes_other_rows_of_the_partition() -> TestResult {
    let fixture = Fixture::new().await?;
    let badge = Badge { department: "sales".into(), number: 1, holder: "Ada".into() };
    fixture.staff.insert(&badge).await?;
    fixture.staff.insert(&of("sales", 1)).await?;
    let token = Sas::table("staff")
        .permissions(TablePermissions::ALL)
        .partition(Employee::partition("sales"))
        .valid_for(HOUR)
        .sign(&fixture.account)?;
    let staff = fixture.with(&token)?;
    staff.insert(&of("sales", 999_999)).await?;
    assert_eq!(staff.query(Employee::partition("sales")).all().await?.len(), 2);
    assert!(staff.get(Badge::key("sales", 1)).await?.is_none());
    assert_eq!(code(staff.upsert(&badge).await), ErrorCode::AUTHORIZATION_FAILURE);
    Ok(())
}

#[tokio::test]
async fn a_sas_grants_only_its_permissions() -> TestResult {
    let fixture = Fixture::new().await?;
    fixture.staff.insert(&of("sales", 1)).await?;
    let open = |permissions| {
        let sas = Sas::table("staff").permissions(permissions).valid_for(HOUR);
        sas.sign(&fixture.account).and_then(|token| fixture.with(&token))
    };
    let denied = ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH;
    let key = || Employee::key("sales", 1);

    let reader = open(TablePermissions::QUERY)?;
    let stored = reader.get(key()).await?.ok_or("not there")?;
    assert_eq!(code(reader.insert(&of("sales", 2)).await), denied);
    assert_eq!(code(reader.replace(&stored).await), denied);
    assert_eq!(code(reader.delete(key(), Match::Any).await), denied);
    assert_eq!(code(reader.transaction().insert(&of("sales", 2)).submit().await), denied);

    let adder = open(TablePermissions::ADD)?;
    adder.insert(&of("sales", 2)).await?;
    assert_eq!(code(adder.get(key()).await), denied);
    assert_eq!(code(adder.upsert(&of("sales", 2)).await), denied);

    let updater = open(TablePermissions::UPDATE)?;
    let stored = stored.map(|e| e.salary += 1.0);
    updater.replace(&stored).await?;
    assert_eq!(code(updater.upsert(&of("sales", 1)).await), denied);

    let both = open(TablePermissions::ADD | TablePermissions::UPDATE)?;
    both.upsert(&of("sales", 3)).await?;
    assert_eq!(code(both.delete(key(), Match::Any).await), denied);

    open(TablePermissions::DELETE)?.delete(key(), Match::Any).await?;
    Ok(())
}

#[tokio::test]
async fn an_account_sas_grants_services_and_resource_types() -> TestResult {
    let fixture = Fixture::new().await?;
    let open = |services, types, permissions| {
        let sas = Sas::account(services, types).permissions(permissions).valid_for(HOUR);
        sas.sign(&fixture.account).and_then(|token| fixture.account_with(&token))
    };
    let all = AccountPermissions::ALL;
    let whole = open(Services::ALL, ResourceTypes::ALL, all)?;
    whole.table("more").create().await?;
    whole.table("more").insert(&employee(1)).await?;
    assert_eq!(
        code(whole.table("more").access_policies().await),
        ErrorCode::AUTHORIZATION_FAILURE,
        "no signature opens policies"
    );
    let data = open(Services::TABLE, ResourceTypes::OBJECT, all)?;
    data.table("more").insert(&employee(2)).await?;
    assert_eq!(
        code(data.table("most").create().await),
        ErrorCode::AUTHORIZATION_RESOURCE_TYPE_MISMATCH
    );
    // The table's endpoint with a signature for queues.
    let queues = Sas::account(Services::QUEUE, ResourceTypes::ALL).permissions(all);
    let queues = queues.valid_for(HOUR).sign(&fixture.account)?;
    let account = StorageAccount::builder()
        .name(DEVELOPMENT_ACCOUNT)
        .credential(queues.credential()?)
        .endpoint(Service::Table, fixture.server.table_endpoint())?
        .build()?;
    assert_eq!(
        code(account.table("more").get(Employee::key("sales", 1)).await),
        ErrorCode::AUTHORIZATION_SERVICE_MISMATCH
    );
    Ok(())
}

#[tokio::test]
async fn a_queue_sas_grants_only_the_messages_of_its_queue() -> TestResult {
    let fixture = Fixture::new().await?;
    for queue in ["jobs", "other"] {
        fixture.account.queue(queue).create().await?;
    }
    let token = Sas::queue("jobs")
        .permissions(QueuePermissions::ADD | QueuePermissions::READ)
        .valid_for(HOUR)
        .sign(&fixture.account)?;
    let hers = fixture.account_with(&token)?;
    let jobs = hers.queue("jobs");
    jobs.put(Body::text("work")).send().await?;
    assert_eq!(jobs.peek(1).await?.len(), 1);
    let denied = ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH;
    assert_eq!(code(jobs.receive(1, HOUR).await), denied);
    assert_eq!(code(jobs.clear().await), denied);
    assert_eq!(code(jobs.delete_queue().await), ErrorCode::AUTHORIZATION_FAILURE);
    let failed = ErrorCode::AUTHENTICATION_FAILED;
    assert_eq!(code(hers.queue("other").peek(1).await), failed, "that was not signed for");
    Ok(())
}

#[tokio::test]
async fn a_blob_sas_grants_one_blob_and_a_container_sas_all_of_them() -> TestResult {
    let fixture = Fixture::new().await?;
    for container in ["logs", "other"] {
        let container = fixture.account.container(container);
        container.create().await?;
        for blob in ["a/b c.txt", "d"] {
            container.blob(blob).put("text").insert().await?;
        }
    }
    let failed = ErrorCode::AUTHENTICATION_FAILED;
    let one = Sas::blob("logs", "a/b c.txt").permissions(BlobPermissions::READ);
    let one = fixture.account_with(&one.valid_for(HOUR).sign(&fixture.account)?)?;
    let blob = one.container("logs").blob("a/b c.txt");
    assert!(blob.properties().await?.is_some());
    assert_eq!(
        code(blob.set_metadata(&[("team", "sales")]).await),
        ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH
    );
    assert_eq!(code(one.container("logs").blob("d").get().await), failed);

    let all = Sas::container("logs").permissions(BlobPermissions::ALL);
    let all = fixture.account_with(&all.valid_for(HOUR).sign(&fixture.account)?)?;
    assert!(all.container("logs").blob("d").get().await?.is_some());
    all.container("logs").blob("e").put("new").insert().await?;
    assert_eq!(code(all.container("other").blob("d").get().await), failed);
    Ok(())
}

#[tokio::test]
async fn a_sas_overrides_response_headers() -> TestResult {
    let fixture = Fixture::new().await?;
    let container = fixture.account.container("shown");
    container.create().await?;
    container.blob("7.jpg").put("x").content_type("image/jpeg").send().await?;
    let shown = ContentHeaders {
        content_disposition: Some("attachment; filename=\"ada & co.jpg\"".to_owned()),
        content_type: Some("image/png".to_owned()),
        ..ContentHeaders::default()
    };
    let token = Sas::blob(container.name(), "7.jpg")
        .permissions(BlobPermissions::READ)
        .answer_headers(shown.clone())
        .valid_for(HOUR)
        .sign(&fixture.account)?;
    let reader = fixture.account_with(&token)?;
    let read = reader.container(container.name()).blob("7.jpg").get().await?.ok_or("just put")?;
    let headers = read.properties.headers;
    assert_eq!(headers.content_disposition, shown.content_disposition);
    assert_eq!(headers.content_type, shown.content_type);
    Ok(())
}

#[tokio::test]
async fn a_sas_enforces_start_expiry_and_ip_range() -> TestResult {
    let fixture = Fixture::new().await?;
    let sas = || Sas::table("staff").permissions(TablePermissions::QUERY).valid_for(HOUR);
    let ends = fixture.with(&sas().sign(&fixture.account)?)?;
    let begins = sas().starts("2026-01-01T00:30:00Z".parse()?).sign(&fixture.account)?;
    let begins = fixture.with(&begins)?;
    let elsewhere = fixture
        .with(&sas().ip([10, 0, 0, 1].into()..=[10, 0, 0, 1].into()).sign(&fixture.account)?)?;
    let here = sas().ip([127, 0, 0, 0].into()..=[127, 0, 0, 9].into());
    let here = fixture.with(&here.sign(&fixture.account)?)?;
    let key = || Employee::key("sales", 1);
    let failed = ErrorCode::AUTHENTICATION_FAILED;

    assert!(ends.get(key()).await?.is_none());
    assert!(here.get(key()).await?.is_none());
    assert_eq!(code(begins.get(key()).await), failed);
    assert_eq!(code(elsewhere.get(key()).await), ErrorCode::AUTHORIZATION_SOURCE_IP_MISMATCH);
    fixture.advance(HOUR / 2);
    assert!(begins.get(key()).await?.is_none());
    fixture.advance(HOUR / 2);
    assert_eq!(code(ends.get(key()).await), failed);
    Ok(())
}

#[tokio::test]
async fn rotating_or_deleting_a_policy_revokes_its_sas() -> TestResult {
    let fixture = Fixture::new().await?;
    let policy = |id: &str| AccessPolicy {
        id: id.into(),
        start: None,
        expiry: Some("2026-06-01T00:00:00Z".parse().unwrap()),
        permission: Some(TablePermissions::QUERY.to_string()),
    };
    let open = |id: &str| {
        let token = Sas::table("staff").policy(id).sign(&fixture.account)?;
        assert_eq!(token.lint("2026-01-01T00:00:00Z".parse().unwrap()).len(), 2, "{token:?}");
        fixture.with(&token)
    };
    let (first, second, other) = (open("first")?, open("second")?, open("other")?);
    let key = || Employee::key("sales", 1);
    let failed = ErrorCode::AUTHENTICATION_FAILED;
    assert_eq!(code(first.get(key()).await), failed, "there is no such policy yet");

    fixture.staff.set_access_policy(policy("first")).await?;
    fixture.staff.set_access_policy(policy("other")).await?;
    assert!(first.get(key()).await?.is_none());
    assert_eq!(
        code(first.insert(&employee(1)).await),
        ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH
    );

    // A policy that is changed changes what its signatures permit.
    let more = (TablePermissions::QUERY | TablePermissions::ADD).to_string();
    let changed = AccessPolicy { permission: Some(more), ..policy("first") };
    fixture.staff.set_access_policy(changed).await?;
    assert_eq!(fixture.staff.access_policies().await?.len(), 2);
    first.insert(&employee(1)).await?;

    fixture.staff.rotate_access_policy("first", policy("second")).await?;
    assert_eq!(code(first.get(key()).await), failed);
    assert!(second.get(key()).await?.is_some());
    let error = fixture.staff.rotate_access_policy("first", policy("third")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = fixture.staff.rotate_access_policy("second", policy("second")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);

    assert!(fixture.staff.revoke_access_policy("second").await?);
    assert!(!fixture.staff.revoke_access_policy("second").await?);
    assert_eq!(code(second.get(key()).await), failed);
    assert!(other.get(key()).await?.is_some(), "the other policy is still there");
    Ok(())
}

#[tokio::test]
async fn credentials_are_replaced_in_a_live_account() -> TestResult {
    let keys = ["Zmlyc3Q=", "c2Vjb25k"];
    let server = Server::builder().account("contoso", keys).start().await?;
    let key = |text: &str| Credential::shared_key("contoso", text);
    let slot = CredentialSlot::new(key("b2xk")?);
    let account = StorageAccount::builder()
        .credential(slot.credential())
        .endpoint(Service::Table, server.table_endpoint())?
        .build()?;
    let staff = account.table("staff");
    assert_eq!(code(staff.create().await), ErrorCode::AUTHENTICATION_FAILED, "that key is gone");
    for good in keys {
        slot.replace(key(good)?)?;
        staff.create_if_missing().await?;
    }
    // A signature by either key, for the same account.
    let sas = Sas::table("staff").permissions(TablePermissions::ADD).valid_for(HOUR);
    let token = sas.sign(&account)?;
    slot.replace(token.credential()?)?;
    staff.insert(&employee(1)).await?;
    assert_eq!(
        code(staff.get(Employee::key("sales", 1)).await),
        ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH
    );
    slot.replace(key(keys[0])?)?;
    assert!(staff.get(Employee::key("sales", 1)).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn accounts_have_separate_keys_and_tables() -> TestResult {
    let server = Server::builder()
        .account("one", ["b25l", "b25lMg=="])
        .account("two", ["dHdv"])
        .start()
        .await?;
    let base = server.table_endpoint().strip_suffix("/one").ok_or("another account")?;
    let open = |account: &str, key: &str| {
        StorageAccount::builder()
            .credential(Credential::shared_key(account, key)?)
            .endpoint(Service::Table, &format!("{base}/{account}"))?
            .build()
    };
    open("one", "b25l")?.table("staff").create().await?;
    open("one", "b25lMg==")?.table("staff").insert(&employee(1)).await?;
    let two = open("two", "dHdv")?.table("staff");
    assert_eq!(two.get(Employee::key("sales", 1)).await.unwrap_err().kind(), ErrorKind::NotFound);
    let wrong = open("two", "b25l")?.table("staff");
    assert_eq!(code(wrong.create().await), ErrorCode::AUTHENTICATION_FAILED);
    let sas = Sas::table("staff").permissions(TablePermissions::ADD).valid_for(HOUR);
    let token = sas.sign(&open("one", "b25l")?)?;
    let crossed = StorageAccount::builder()
        .name("two")
        .credential(token.credential()?)
        .endpoint(Service::Table, &format!("{base}/two"))?
        .build()?;
    let result = crossed.table("staff").insert(&employee(2)).await;
    assert_eq!(code(result), ErrorCode::AUTHENTICATION_FAILED);
    Ok(())
}

#[tokio::test]
async fn a_slow_clock_is_named_in_the_error() -> TestResult {
    let fixture = Fixture::new().await?;
    fixture.server.clock().advance(Duration::from_secs(40 * 60));
    let error = fixture.staff.get(Employee::key("sales", 1)).await.unwrap_err();
    assert_eq!(error.code(), Some(&ErrorCode::AUTHENTICATION_FAILED));
    let text = error.to_string();
    assert!(text.contains("clock is 40 minutes behind the service's"), "{text}");
    fixture.clock.advance(Duration::from_secs(80 * 60));
    let error = fixture.staff.get(Employee::key("sales", 1)).await.unwrap_err();
    assert!(error.to_string().contains("40 minutes ahead of the service's"), "{error}");
    Ok(())
}

#[tokio::test]
async fn an_https_only_sas_is_rejected_over_http() -> TestResult {
    let fixture = Fixture::new().await?;
    // Signed for an account elsewhere, and used here.
    let remote = StorageAccount::builder()
        .credential(Credential::shared_key(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY)?)
        .clock(fixture.clock.clone())
        .build()?;
    let sas = Sas::table("staff").permissions(TablePermissions::QUERY).valid_for(HOUR);
    let account = StorageAccount::builder()
        .name(DEVELOPMENT_ACCOUNT)
        .credential(sas.sign(&remote)?.credential()?)
        .endpoint(Service::Table, fixture.server.table_endpoint())?
        .build()?;
    assert_eq!(
        code(account.table("staff").get(Employee::key("sales", 1)).await),
        ErrorCode::AUTHORIZATION_PROTOCOL_MISMATCH
    );
    Ok(())
}
