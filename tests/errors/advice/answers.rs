//! Advices about tokens and what services answer, tried on stubs, and about requests that are never sent.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use rowkey::blob::Check;
use rowkey::sas::{
    AccountPermissions, BlobPermissions, ResourceTypes, Sas, Services, TablePermissions,
};
use rowkey::service::Service;
use rowkey::{
    AccessToken, Credential, DynamicEntity, Filter, Key, ManualClock, Operator, Partition,
    StorageAccount, TokenError, TokenProvider, async_trait,
};
use rowkey_emulator::Server;
use wiremock::{Mock, MockServer, ResponseTemplate, matchers};

use super::{Case, case, refused, start};
use crate::{WHEN, account_at};

/// Gives tokens that expire at this time.
struct Tokens(DateTime<Utc>);

#[async_trait]
impl TokenProvider for Tokens {
    async fn token(&self, _: &str) -> Result<AccessToken, TokenError> {
        Ok(AccessToken::new("x", self.0))
    }
}

/// An account with tokens that expire after `seconds`.
fn with_tokens(uri: &str, seconds: i64) -> rowkey::Result<StorageAccount> {
    let now: DateTime<Utc> = WHEN.parse().unwrap();
    let tokens = Tokens(now + chrono::TimeDelta::seconds(seconds));
    account_at(uri)
        .credential(Credential::token(tokens))
        .clock(ManualClock::auto_advancing(now))
        .build()
}

async fn stub(response: ResponseTemplate) -> MockServer {
    let stub = MockServer::start().await;
    Mock::given(matchers::any()).respond_with(response).mount(&stub).await;
    stub
}

/// A stub that gives user delegation keys.
async fn delegating() -> MockServer {
    let key = "<?xml version=\"1.0\" encoding=\"utf-8\"?><UserDelegationKey>\
               <SignedOid>11111111-2222-3333-4444-555555555555</SignedOid>\
               <SignedTid>66666666-7777-8888-9999-000000000000</SignedTid>\
               <SignedStart>2026-11-20T12:00:00Z</SignedStart>\
               <SignedExpiry>2026-11-20T13:00:00Z</SignedExpiry>\
               <SignedService>b</SignedService><SignedVersion>2026-02-06</SignedVersion>\
               <Value>a2V5</Value></UserDelegationKey>";
    stub(ResponseTemplate::new(200).set_body_raw(key, "application/xml")).await
}

pub(super) const CASES: &[Case] = &[
    case("check the provider, and this machine's clock", || {
        async {
            let missing = ResponseTemplate::new(404)
                .insert_header("x-ms-error-code", "ResourceNotFound")
                .set_body_string(
                    "{\"odata.error\":{\"code\":\"ResourceNotFound\",\
                     \"message\":{\"lang\":\"en-US\",\"value\":\"x\"}}}",
                );
            let stub = stub(missing).await;
            let get = async |seconds| {
                let table = with_tokens(&stub.uri(), seconds)?.table("staff");
                table.get(Key::<DynamicEntity>::new("p", "r")).await
            };
            let error = refused(get(-1).await)?;
            assert!(get(3600).await?.is_none());
            Ok(error)
        }
        .boxed()
    }),
    case("this machine's clock is {minutes} minutes {way} the service's; correct it", || {
        async {
            let (server, _) = start().await?;
            let create = async |minutes| {
                let now = server.clock().now().to_chrono() + chrono::TimeDelta::minutes(minutes);
                StorageAccount::builder()
                    .connection_string(server.connection_string())?
                    .clock(ManualClock::auto_advancing(now))
                    .build()?
                    .table("staff")
                    .create_if_missing()
                    .await
            };
            let behind = refused(create(-20).await)?;
            assert!(behind.to_string().contains("behind"), "{behind}");
            let error = refused(create(20).await)?;
            create(0).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("send or read it again", || {
        async {
            let read = async |md5: &str| {
                let answer = ResponseTemplate::new(200)
                    .insert_header("etag", "\"0x1\"")
                    .insert_header("last-modified", "Fri, 20 Nov 2026 12:00:00 GMT")
                    .insert_header("x-ms-blob-type", "BlockBlob")
                    .insert_header("content-md5", md5)
                    .insert_header("x-ms-blob-content-md5", md5)
                    .set_body_raw("x", "text/plain");
                let stub = stub(answer).await;
                let account = account_at(&stub.uri())
                    .clock(ManualClock::auto_advancing(WHEN.parse().unwrap()))
                    .build()?;
                account.container("photos").blob("one").read().check(Check::Md5).bytes().await
            };
            let error = refused(read("AAAAAAAAAAAAAAAAAAAAAA==").await)?;
            assert!(read("ndTkYSaMgDT1yFZOFVxnpg==").await?.is_some());
            Ok(error)
        }
        .boxed()
    }),
    case("request one with this service", || {
        async {
            let stub = delegating().await;
            let account = with_tokens(&stub.uri(), 3600)?;
            let until = WHEN.parse::<DateTime<Utc>>()? + chrono::TimeDelta::hours(1);
            let key = account.user_delegation_key(Service::Blob, until).await?;
            let token = Sas::table("staff")
                .permissions(TablePermissions::QUERY)
                .valid_for(Duration::from_secs(60));
            let error = refused(token.sign_with(&account, &key))?;
            let of_tables = account.user_delegation_key(Service::Table, until).await?;
            token.sign_with(&account, &of_tables)?;
            Ok(error)
        }
        .boxed()
    }),
    case("sign for a table, a queue or a blob", || {
        async {
            let stub = delegating().await;
            let account = with_tokens(&stub.uri(), 3600)?;
            let until = WHEN.parse::<DateTime<Utc>>()? + chrono::TimeDelta::hours(1);
            let key = account.user_delegation_key(Service::Blob, until).await?;
            let of_all = Sas::account(Services::BLOB, ResourceTypes::OBJECT)
                .permissions(AccountPermissions::READ)
                .valid_for(Duration::from_secs(60));
            let error = refused(of_all.sign_with(&account, &key))?;
            Sas::blob("photos", "one")
                .permissions(BlobPermissions::READ)
                .valid_for(Duration::from_secs(60))
                .sign_with(&account, &key)?;
            Ok(error)
        }
        .boxed()
    }),
    case("give the property another name", || {
        async {
            let row = |name: &str| {
                let mut row = DynamicEntity::new("p", "r");
                row.set(name, 1);
                row
            };
            let text = |name| row(name).to_odata_json().map_err(rowkey::Error::from);
            let error = refused(text("Timestamp"))?;
            text("Time")?;
            Ok(error)
        }
        .boxed()
    }),
    case("make the filter, or the list of properties, shorter, or split the query", || {
        async {
            let (_server, account): (Server, _) = start().await?;
            let table = account.table("staff");
            table.create().await?;
            let is = |length| Filter::dynamic("Note", Operator::Equal, "x".repeat(length));
            let query = async |filter| {
                let all = table.query(Partition::<DynamicEntity>::new("p"));
                all.filter(filter).all().await
            };
            let error = refused(query(is(30_000).or(is(30_000)).or(is(30_000))).await)?;
            query(is(300).or(is(300))).await?;
            query(is(3_000)).await?;
            Ok(error)
        }
        .boxed()
    }),
];
