//! Tests of credentials: valid and invalid ones, `Debug`, and tokens and keys that change.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use chrono::TimeDelta;
use tokio::sync::Notify;

use super::*;
use crate::clock::ManualClock;
use crate::credential::token::{AccessToken, TokenError};
use crate::error::{ErrorKind, Outcome};

#[test]
fn a_sas_is_accepted_with_or_without_a_question_mark() {
    for text in
        ["?sv=2019-02-02&sig=a%2Bb", "sv=2019-02-02&sig=a%2Bb", " sv=2019-02-02&sig=a%2Bb&\n"]
    {
        let credential = Credential::sas(text).unwrap();
        let Authority::Sas(sas) = credential.settled() else { panic!("not a signature") };
        assert_eq!(&*sas, "sv=2019-02-02&sig=a%2Bb");
    }
}

#[test]
fn an_invalid_sas_is_rejected_without_being_quoted() {
    for text in [
        "",
        "sv=2019-02-02",
        "sv=2019-02-02&sig=",
        "https://a.table.core.windows.net/?sig=secret",
        "sv=1&sig=secret#x",
        "sv=1&sig=se cret",
        "sv=1&sig=sécret",
    ] {
        let error = Credential::sas(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
        assert!(!format!("{error} {error:?}").contains("cret"), "{text}");
    }
}

#[test]
fn a_key_that_is_not_base64_is_rejected_without_being_quoted() {
    let error = Credential::shared_key("a", "secret!").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(!format!("{error} {error:?}").contains("secret"));
    assert!(Credential::shared_key("", "YmFy").is_err());
}

#[test]
fn debug_shows_the_kind_and_not_the_secret() {
    for (credential, shown) in [
        (Credential::anonymous(), "Anonymous"),
        (Credential::sas("sv=1&sig=secret").unwrap(), "Sas(..)"),
        (Credential::shared_key("a", "YmFy").unwrap(), "SharedKey { account: \"a\", .. }"),
        (Credential::shared_key_lite("a", "YmFy").unwrap(), "SharedKeyLite { account: \"a\", .. }"),
    ] {
        assert_eq!(format!("{credential:?}"), shown);
    }
}

#[test]
fn debug_of_a_slot_and_of_tokens_shows_no_secret() {
    let slot = CredentialSlot::new(Credential::sas("sv=1&sig=secret").unwrap());
    assert_eq!(format!("{slot:?}"), "CredentialSlot(Sas(..))");
    assert_eq!(format!("{:?}", slot.credential()), "CredentialSlot(Sas(..))");
    let token = AccessToken::new("secret", START.parse().unwrap());
    assert_eq!(format!("{token:?}"), "AccessToken { expires: 2026-03-01T12:00:00Z, .. }");
    assert_eq!(format!("{:?}", Credential::token(TokenSequence::new([]))), "Token(..)");
}

#[test]
fn a_slot_accepts_only_credentials_of_its_account() {
    let key = |account: &str| Credential::shared_key(account, "YmFy").unwrap();
    let slot = CredentialSlot::new(key("a"));
    let error = slot.replace(key("b")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(slot.credential().account(), Some("a"));
    slot.replace(Credential::sas("sv=1&sig=x").unwrap()).unwrap();
    slot.replace(key("a")).unwrap();
    // A slot that contains itself would be resolved forever.
    slot.replace(slot.credential()).unwrap();
    let within = CredentialSlot::new(slot.credential());
    assert!(matches!(within.credential().settled(), Authority::SharedKey(_)));
}

#[test]
fn a_request_keeps_its_credential_and_the_next_uses_the_new_one() {
    let slot = CredentialSlot::new(Credential::sas("sv=1&sig=old").unwrap());
    let credential = slot.credential();
    let old = credential.settled();
    assert!(!credential.has_newer(&scope(), &old));
    slot.replace(Credential::sas("sv=1&sig=new").unwrap()).unwrap();
    assert!(credential.has_newer(&scope(), &old));
    let Authority::Sas(text) = &old else { panic!("a signature") };
    assert_eq!(&**text, "sv=1&sig=old");
    let Authority::Sas(text) = credential.settled() else { panic!("a signature") };
    assert_eq!(&*text, "sv=1&sig=new");
}

/// The scope of tokens for storage.
fn scope() -> Scope {
    "https://storage.azure.com/.default".into()
}

const START: &str = "2026-03-01T12:00:00Z";

/// Returns a token for each entry, valid for that number of seconds; `None`: an error.
struct TokenSequence {
    lives: Mutex<Vec<Option<i64>>>,
    asked: AtomicUsize,
    clock: ManualClock,
    scopes: Mutex<Vec<String>>,
    /// If set, a token is returned only after a test notifies this.
    gate: Option<Notify>,
}

impl TokenSequence {
    fn new(lives: impl IntoIterator<Item = Option<i64>>) -> Arc<Self> {
        Self::with(lives, None)
    }

    fn with(lives: impl IntoIterator<Item = Option<i64>>, gate: Option<Notify>) -> Arc<Self> {
        let mut lives: Vec<_> = lives.into_iter().collect();
        lives.reverse();
        let clock = ManualClock::new(START.parse().unwrap());
        let (asked, scopes) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { lives: Mutex::new(lives), asked, clock, scopes, gate })
    }

    fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl TokenProvider for TokenSequence {
    async fn token(&self, scope: &str) -> Result<AccessToken, TokenError> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.scopes.lock().unwrap().push(scope.to_owned());
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        let life = self.lives.lock().unwrap().pop().flatten().ok_or("no luck")?;
        let expires = self.clock.now() + TimeDelta::seconds(life);
        Ok(AccessToken::new(format!("token{number}"), expires))
    }
}

async fn settle(credential: &Credential, tap: &TokenSequence) -> Result<String> {
    let endpoint = Endpoint::parse("it", "https://contoso.table.core.windows.net").unwrap();
    let limit = Duration::from_secs(20);
    let authority = credential.settle(&scope(), &endpoint, &tap.clock, limit).await?;
    let Authority::Bearer(header) = authority else { panic!("no token") };
    assert!(header.is_sensitive());
    Ok(header.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_token_is_kept_until_five_minutes_before_it_expires() {
    let tap = TokenSequence::new([Some(3600), Some(3600)]);
    let credential = Credential::token(Arc::clone(&tap));
    assert_eq!(settle(&credential, &tap).await.unwrap(), "Bearer token1");
    tap.advance(3600 - 301);
    assert_eq!(settle(&credential.clone(), &tap).await.unwrap(), "Bearer token1");
    assert_eq!(tap.asked(), 1);
    tap.advance(1);
    assert_eq!(settle(&credential, &tap).await.unwrap(), "Bearer token2");
    assert_eq!(tap.asked(), 2);
    assert_eq!(*tap.scopes.lock().unwrap(), ["https://storage.azure.com/.default"; 2]);
}

#[tokio::test]
async fn a_short_lived_token_is_kept_for_half_of_its_lifetime() {
    let tap = TokenSequence::new([Some(100), Some(100)]);
    let credential = Credential::token(Arc::clone(&tap));
    settle(&credential, &tap).await.unwrap();
    tap.advance(49);
    assert_eq!(settle(&credential, &tap).await.unwrap(), "Bearer token1");
    tap.advance(1);
    assert_eq!(settle(&credential, &tap).await.unwrap(), "Bearer token2");
}

#[tokio::test]
async fn concurrent_requests_share_one_token_request() {
    let tap = TokenSequence::with([Some(3600)], Some(Notify::new()));
    let credential = Credential::token(Arc::clone(&tap));
    let (first, second, ()) =
        tokio::join!(settle(&credential, &tap), settle(&credential, &tap), async {
            tap.gate.as_ref().unwrap().notify_one();
        });
    assert_eq!((&*first.unwrap(), &*second.unwrap()), ("Bearer token1", "Bearer token1"));
    assert_eq!(tap.asked(), 1);
}

#[tokio::test]
async fn a_valid_token_is_used_during_and_after_a_failed_renewal() {
    let tap = TokenSequence::with([Some(600), None, Some(600)], Some(Notify::new()));
    let credential = Credential::token(Arc::clone(&tap));
    let gate = tap.gate.as_ref().unwrap();
    gate.notify_one();
    settle(&credential, &tap).await.unwrap();
    tap.advance(301);
    let (renewing, meanwhile) = tokio::join!(settle(&credential, &tap), async {
        let meanwhile = settle(&credential, &tap).await;
        gate.notify_one();
        meanwhile
    });
    assert_eq!(meanwhile.unwrap(), "Bearer token1");
    assert_eq!(renewing.unwrap(), "Bearer token1", "that question was not answered");
    assert_eq!(tap.asked(), 2);
    // After a pause, the provider is asked again.
    assert_eq!(settle(&credential, &tap).await.unwrap(), "Bearer token1");
    assert_eq!(tap.asked(), 2);
    tap.advance(30);
    gate.notify_one();
    assert_eq!(settle(&credential, &tap).await.unwrap(), "Bearer token3");
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    for (life, named) in [(None, "no token"), (Some(0), "has expired")] {
        let tap = TokenSequence::new([life]);
        let credential = Credential::token(Arc::clone(&tap));
        let error = settle(&credential, &tap).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Auth, Outcome::NotSent));
        assert!(error.to_string().contains(named), "{error}");
        assert!(!format!("{error} {error:?}").contains("token1"));
    }
}

#[tokio::test]
async fn a_rejected_token_is_not_reused() {
    let tap = TokenSequence::new([Some(3600), Some(3600)]);
    let credential = CredentialSlot::new(Credential::token(Arc::clone(&tap))).credential();
    let first = settle(&credential, &tap).await.unwrap();
    let refused = Authority::Bearer(HeaderValue::try_from(first).unwrap());
    assert!(credential.has_newer(&scope(), &refused));
    assert_eq!(settle(&credential, &tap).await.unwrap(), "Bearer token2");
    // Another caller's refusal of the old token does not discard the new one.
    assert!(credential.has_newer(&scope(), &refused));
    assert_eq!(settle(&credential, &tap).await.unwrap(), "Bearer token2");
}

#[test]
fn tokens_are_sent_only_over_https_or_to_loopback() {
    let credential = Credential::token(TokenSequence::new([]));
    let slot = CredentialSlot::new(Credential::anonymous());
    slot.replace(credential.clone()).unwrap();
    for (url, allowed) in [
        ("https://contoso.table.core.windows.net", true),
        ("http://127.0.0.1:10002/contoso", true),
        ("http://contoso.localhost:10002", true),
        ("http://contoso.table.core.windows.net", false),
        ("http://10.0.0.1:10002/contoso", false),
    ] {
        let endpoint = Endpoint::parse("it", url).unwrap();
        assert_eq!(credential.check(&endpoint).is_ok(), allowed, "{url}");
        assert_eq!(slot.credential().check(&endpoint).is_ok(), allowed, "{url}");
    }
}

#[cfg(feature = "azure-identity")]
#[tokio::test]
async fn azure_core_credentials_provide_tokens() {
    use azure_core::credentials::{AccessToken as Theirs, TokenCredential, TokenRequestOptions};
    use azure_core::time::OffsetDateTime;

    #[derive(Debug)]
    struct Fake;

    #[async_trait]
    impl TokenCredential for Fake {
        async fn get_token(
            &self,
            scopes: &[&str],
            _: Option<TokenRequestOptions<'_>>,
        ) -> azure_core::Result<Theirs> {
            assert_eq!(scopes, ["https://storage.azure.com/.default"]);
            let expires = OffsetDateTime::from_unix_timestamp(1_772_370_000).unwrap();
            Ok(Theirs::new("theirs".to_owned(), expires))
        }
    }

    let credential = Credential::azure_identity(Arc::new(Fake));
    let tap = TokenSequence::new([]);
    assert_eq!(settle(&credential, &tap).await.unwrap(), "Bearer theirs");
    assert_eq!(format!("{credential:?}"), "Token(..)");
}
