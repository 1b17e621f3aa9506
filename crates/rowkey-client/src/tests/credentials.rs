//! Credentials that change while in use: rotated keys, refused tokens.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::script::{Act, KEY, Script, answer, builder, get, header, options, refusal};
use crate::account::StorageAccount;
use crate::clock::{Clock, ManualClock};
use crate::credential::Credential;
use crate::credential::slot::CredentialSlot;
use crate::credential::token::{AccessToken, TokenError, TokenProvider};
use crate::error::{Error, ErrorKind, Outcome};
use crate::options::{ClientOptions, RetryOptions};
use crate::transport::{Call, Reply, Safety};

const NOW: &str = "2026-03-01T12:00:00Z";

async fn send(account: &StorageAccount) -> Result<Reply, Error> {
    account.pipeline().send(get(), Call::new("GetEntity", "orders", Safety::Read)).await
}

fn key(key: &str) -> Credential {
    Credential::shared_key("contoso", key).unwrap()
}

/// A clock that replaces the credential in the slot when it is first read. That is after the
/// credential of the request was chosen, when the request is dated.
#[derive(Debug)]
struct Rotator {
    slot: CredentialSlot,
    next: Credential,
    asked: AtomicUsize,
    time: ManualClock,
}

impl Clock for Rotator {
    fn now(&self) -> DateTime<Utc> {
        if self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
            self.slot.replace(self.next.clone()).unwrap();
        }
        self.time.now()
    }

    /// The log of slow calls asks for this before a credential is chosen.
    fn elapsed(&self) -> Duration {
        self.time.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.time.sleep(duration)
    }
}

/// An account whose key is rotated during the first attempt.
fn rotated(script: &Script, options: ClientOptions) -> (StorageAccount, ManualClock) {
    rotated_between(script, options, (key(KEY), key("YmFy")))
}

fn rotated_between(
    script: &Script,
    options: ClientOptions,
    (first, next): (Credential, Credential),
) -> (StorageAccount, ManualClock) {
    let slot = CredentialSlot::new(first);
    let time = ManualClock::auto_advancing(NOW.parse().unwrap());
    let clock =
        Rotator { slot: slot.clone(), next, asked: AtomicUsize::new(0), time: time.clone() };
    let builder = builder(&script.url()).credential(slot.credential()).clock(clock);
    (builder.options(options).build().unwrap(), time)
}

#[tokio::test]
async fn a_rejected_attempt_is_retried_at_once_with_a_rotated_key() {
    let refused = || refusal("403 Forbidden", "AuthenticationFailed");
    let script = Script::start([refused(), answer("200 OK", "", "{}")]);
    let (account, time) = rotated(&script, options());
    let reply = send(&account).await.unwrap();
    assert_eq!(reply.attempts, 2);
    assert!(time.slept().is_empty(), "there is nothing to wait for");
    let requests = script.requests();
    let signature = |at: usize| header(&requests[at], "authorization").unwrap();
    assert_ne!(signature(0), signature(1));
}

#[tokio::test]
async fn a_rejection_is_final_without_another_key_or_attempt() {
    let refused = || refusal("403 Forbidden", "AuthenticationFailed");
    let script = Script::start([refused()]);
    let slot = CredentialSlot::new(key(KEY));
    let account = builder(&script.url()).credential(slot.credential()).build().unwrap();
    let error = send(&account).await.unwrap_err();
    assert_eq!((error.kind(), error.details().attempts), (ErrorKind::Auth, 1));

    let script = Script::start([refused()]);
    let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
    let (account, _) = rotated(&script, ClientOptions { retry, ..options() });
    assert_eq!(send(&account).await.unwrap_err().details().attempts, 1);

    // The newer key is refused, too.
    let script = Script::start([refused(), refused()]);
    let (account, _) = rotated(&script, options());
    assert_eq!(send(&account).await.unwrap_err().details().attempts, 2);

    // A new key does not change the caller's permissions.
    let script = Script::start([refusal("403 Forbidden", "AuthorizationFailure")]);
    let (account, _) = rotated(&script, options());
    assert_eq!(send(&account).await.unwrap_err().details().attempts, 1);
}

#[tokio::test]
async fn a_retry_uses_the_current_credential() {
    let busy = answer("503 Busy", "x-ms-error-code: ServerBusy\r\n", "");
    let script = Script::start([busy, answer("200 OK", "", "{}")]);
    let (account, time) = rotated(&script, options());
    assert_eq!(send(&account).await.unwrap().attempts, 2);
    assert_eq!(time.slept().len(), 1);
    let requests = script.requests();
    assert_ne!(header(&requests[0], "authorization"), header(&requests[1], "authorization"));
}

#[tokio::test]
async fn an_unknown_outcome_stays_unknown_if_the_retry_cannot_be_signed() {
    let script = Script::start([Act::Close]);
    let unfit = Credential::shared_key("conto\nso", KEY).unwrap();
    let (account, _) = rotated_between(&script, options(), (Credential::anonymous(), unfit));
    let call = Call::new("UpdateEntity", "orders", Safety::Conditional);
    let error = account.pipeline().send(get(), call).await.unwrap_err();
    assert_eq!((error.outcome(), script.requests().len()), (Outcome::Unknown, 1), "{error}");
}

/// Returns `token1`, `token2` and so on.
#[derive(Default)]
struct Counter(AtomicUsize);

#[async_trait]
impl TokenProvider for Counter {
    async fn token(&self, scope: &str) -> Result<AccessToken, TokenError> {
        assert_eq!(scope, "https://storage.azure.com/.default");
        let number = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(AccessToken::new(format!("token{number}"), "2026-03-01T13:00:00Z".parse()?))
    }
}

#[tokio::test]
async fn a_token_is_sent_with_a_supporting_version_and_replaced_when_rejected() {
    let challenge = "WWW-Authenticate: Bearer authorization_uri=https://login.example.org\r\n";
    let script = Script::start([
        answer("200 OK", "", "{}"),
        answer("401 Unauthorized", challenge, ""),
        answer("200 OK", "", "{}"),
        answer("401 Unauthorized", challenge, ""),
        answer("401 Unauthorized", challenge, ""),
    ]);
    let provider = Arc::new(Counter::default());
    let account = builder(&script.url())
        .name("contoso")
        .credential(Credential::token(provider.clone()))
        .clock(ManualClock::auto_advancing(NOW.parse().unwrap()))
        .build()
        .unwrap();
    assert_eq!(send(&account).await.unwrap().attempts, 1);
    assert_eq!(send(&account).await.unwrap().attempts, 2);
    // If a fresh token is refused as well, the token is not the cause.
    let error = send(&account).await.unwrap_err();
    assert_eq!((error.kind(), error.details().attempts), (ErrorKind::Auth, 2));
    assert!(!format!("{error} {error:?} {account:?}").contains("token"));
    let requests = script.requests();
    let tokens: Vec<_> = requests.iter().map(|r| header(r, "authorization").unwrap()).collect();
    let expected = ["token1", "token1", "token2", "token2", "token3"];
    assert_eq!(tokens, expected.map(|token| format!("Bearer {token}")));
    assert_eq!(header(&requests[0], "x-ms-version"), Some("2020-12-06"));
}
