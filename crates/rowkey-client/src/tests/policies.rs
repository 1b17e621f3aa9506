//! Headers that a program adds to requests, and the attempts that a policy sees.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::script::{Act, Script, answer, builder, get, header, options, post};
use crate::account::StorageAccount;
use crate::account::builder::StorageAccountBuilder;
use crate::clock::ManualClock;
use crate::credential::Credential;
use crate::credential::token::{AccessToken, TokenError, TokenProvider};
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::transport::policy::{Attempt, AttemptResult, Policy};
use crate::transport::{Call, Reply, Safety};

const NOW: &str = "2026-03-01T12:00:00Z";

async fn send(account: &StorageAccount) -> Result<Reply> {
    account.pipeline().send(get(), Call::new("GetEntity", "orders", Safety::Read)).await
}

fn account(script: &Script, policy: &Arc<Seen>) -> Result<StorageAccount> {
    builder(&script.url())
        .options(options())
        .credential(Credential::shared_key("contoso", "YmFy")?)
        .clock(ManualClock::auto_advancing(NOW.parse().unwrap()))
        .header("x-ms-contoso-shop", "14")?
        .header("x-contoso-hop", "account")?
        .application_id("contoso-shop/1.4")?
        .policy(Arc::<Seen>::clone(policy))
        .build()
}

/// Records attempts and their results, and adds a header to each attempt or refuses it.
#[derive(Default)]
struct Seen {
    before: Mutex<Vec<String>>,
    after: Mutex<Vec<(u32, Option<u16>)>>,
    add: Option<(&'static str, &'static str)>,
    refuse_from: Option<u32>,
}

impl Policy for Seen {
    fn before(&self, attempt: &mut Attempt<'_>) -> Result<()> {
        if self.refuse_from.is_some_and(|first| attempt.number >= first) {
            return Err(Error::refused(ErrorKind::Invalid, "the shop is closed"));
        }
        let (operation, resource) = (attempt.operation, attempt.resource);
        let text = format!("{} {operation} {resource}", attempt.method);
        self.before.lock().unwrap().push(format!("{text} {}", attempt.client_request_id()));
        attempt.add_header("x-contoso-hop", &attempt.number.to_string())?;
        self.add.map_or(Ok(()), |(name, value)| attempt.add_header(name, value))
    }

    fn after(&self, attempt: &Attempt<'_>, result: AttemptResult) {
        self.after.lock().unwrap().push((attempt.number, result.status));
    }
}

#[tokio::test]
async fn a_policy_sees_every_attempt_and_adds_headers_to_it() -> Result<()> {
    let script =
        Script::start([answer("503 Busy", "", ""), Act::Close, answer("200 OK", "", "{}")]);
    let policy = Arc::new(Seen::default());
    let account = account(&script, &policy)?;
    assert_eq!(send(&account).await?.attempts, 3);
    assert_eq!(*policy.after.lock().unwrap(), [(1, Some(503)), (2, None), (3, Some(200))]);
    let requests = script.requests();
    let seen = policy.before.lock().unwrap().clone();
    for (number, (request, seen)) in (1..).zip(requests.iter().zip(&seen)) {
        let id = header(request, "x-ms-client-request-id").unwrap();
        assert_eq!(*seen, format!("GET GetEntity orders {id}"));
        assert_eq!(header(request, "x-ms-contoso-shop"), Some("14"));
        assert_eq!(header(request, "x-contoso-hop"), Some(&*format!("{number}")));
        let agent = concat!("contoso-shop/1.4 rowkey/", env!("CARGO_PKG_VERSION"));
        assert_eq!(header(request, "user-agent"), Some(agent));
    }
    assert_eq!((requests.len(), seen.len()), (3, 3));
    Ok(())
}

#[tokio::test]
async fn an_error_of_a_policy_ends_the_operation_before_sending() -> Result<()> {
    let script = Script::start([answer("503 Busy", "", "")]);
    let refusing = |from| Arc::new(Seen { refuse_from: Some(from), ..Seen::default() });
    let error = send(&account(&script, &refusing(1))?).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
    assert!(error.to_string().contains("GetEntity"), "{error}");
    assert!(script.requests().is_empty());
    let error = send(&account(&script, &refusing(2))?).await.unwrap_err();
    assert!(error.to_string().contains("the shop is closed"), "{error}");
    assert_eq!(script.requests().len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_policy_cannot_replace_headers_of_the_client() -> Result<()> {
    let script = Script::start([]);
    for name in ["Authorization", "x-ms-date", "X-MS-Version", "Host", "content-type"] {
        let policy = Arc::new(Seen { add: Some((name, "secret")), ..Seen::default() });
        let account = account(&script, &policy)?;
        let call = Call::new("InsertEntity", "orders", Safety::Insert);
        let error = account.pipeline().send(post(), call).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        assert!(error.to_string().contains("the client sends this header itself"), "{error}");
        assert!(!format!("{error} {error:?} {account:?}").contains("secret"));
    }
    assert!(script.requests().is_empty());
    for (name, value) in [("", "x"), ("a b", "x"), ("x-a", "a\nb"), ("user-agent", "x")] {
        assert_eq!(
            StorageAccount::builder().header(name, value).unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
    for id in ["", "a b", "a-program-of-25-characters", "ä"] {
        assert!(StorageAccount::builder().application_id(id).is_err(), "{id}");
    }
    Ok(())
}

#[derive(Default)]
struct Scopes(Mutex<Vec<String>>);

#[async_trait]
impl TokenProvider for Scopes {
    async fn token(&self, scope: &str) -> std::result::Result<AccessToken, TokenError> {
        let mut scopes = self.0.lock().unwrap();
        scopes.push(scope.to_owned());
        Ok(AccessToken::new(format!("token{}", scopes.len()), "2026-03-01T13:00:00Z".parse()?))
    }
}

#[tokio::test]
async fn tokens_are_requested_and_cached_per_audience() -> Result<()> {
    let script = Script::start([(); 4].map(|()| answer("200 OK", "", "{}")));
    let provider = Arc::new(Scopes::default());
    let credential = Credential::token(Arc::clone(&provider));
    let account = |audience: Option<&str>| {
        let builder = builder(&script.url())
            .name("contoso")
            .credential(credential.clone())
            .clock(ManualClock::auto_advancing(NOW.parse().unwrap()));
        audience.into_iter().fold(builder, StorageAccountBuilder::audience).build()
    };
    let own = "https://contoso.table.core.windows.net/";
    for audience in [None, Some(own), Some("https://storage.azure.com/.default"), Some(own)] {
        send(&account(audience)?).await?;
    }
    let scopes = provider.0.lock().unwrap().clone();
    let expected = ["https://storage.azure.com", "https://contoso.table.core.windows.net"];
    assert_eq!(scopes, expected.map(|audience| format!("{audience}/.default")));
    let tokens: Vec<_> =
        script.requests().iter().map(|r| header(r, "authorization").unwrap().to_owned()).collect();
    assert_eq!(tokens, ["token1", "token2", "token1", "token2"].map(|t| format!("Bearer {t}")));
    Ok(())
}
