//! Bearer tokens: where they come from, and how long they are kept.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use http::HeaderValue;

use crate::clock::Clock;
use crate::error::{Error, Result};

/// Gives bearer tokens of Microsoft Entra ID.
///
/// The client keeps a token until five minutes before it expires, and never asks twice at the same
/// time, so a provider need not keep tokens itself. With the feature `azure-identity`, every
/// credential of `azure_identity` is one, by `Credential::azure_identity`.
#[async_trait]
pub trait TokenProvider: Send + Sync {
    /// A token for `scope`: `https://storage.azure.com/.default`, or
    /// `https://cosmos.azure.com/.default` for Azure Cosmos DB for Table, unless the account has
    /// [another audience](crate::StorageAccountBuilder::audience).
    ///
    /// The error becomes the source of the operation's error, so it must not quote secrets.
    async fn token(&self, scope: &str) -> Result<AccessToken, TokenError>;
}

/// Why a [`TokenProvider`] has no token: any error.
pub type TokenError = Box<dyn std::error::Error + Send + Sync>;

/// A bearer token and when it expires. `Debug` does not show the token.
#[derive(Clone)]
#[non_exhaustive]
pub struct AccessToken {
    /// The token itself: a secret, to be sent and not to be shown.
    pub secret: String,
    /// Until when it is good.
    pub expires: DateTime<Utc>,
}

impl AccessToken {
    /// A token, without `Bearer`, that is good until `expires`.
    pub fn new(token: impl Into<String>, expires: DateTime<Utc>) -> Self {
        Self { secret: token.into(), expires }
    }
}

#[async_trait]
impl<P: TokenProvider + ?Sized> TokenProvider for Arc<P> {
    async fn token(&self, scope: &str) -> Result<AccessToken, TokenError> {
        (**self).token(scope).await
    }
}

/// A provider, and the tokens that it gave.
pub(super) struct Tokens {
    provider: Box<dyn TokenProvider>,
    /// What was given for each scope. Accounts in several clouds may share a provider.
    caches: Mutex<Vec<(Scope, Arc<Cache>)>>,
}

/// What a token is asked for, `https://storage.azure.com/.default`.
pub(crate) type Scope = Arc<str>;

/// How long before its expiry a token is replaced, at the latest: what Azure's libraries allow.
const MARGIN: TimeDelta = TimeDelta::minutes(5);

/// The pause after a renewal that failed while the old token is still good.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

#[derive(Default)]
struct Cache {
    held: Mutex<Option<Held>>,
    /// Held by the one who asks the provider.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Held {
    header: HeaderValue,
    renew: DateTime<Utc>,
    expires: DateTime<Utc>,
}

impl Tokens {
    pub(super) fn new(provider: Box<dyn TokenProvider>) -> Self {
        Self { provider, caches: Mutex::default() }
    }

    /// The value of the `Authorization` header. Asks the provider if there is no token that is
    /// good for a while; a caller in the meantime waits, or takes the old one while it lasts.
    pub(super) async fn get(&self, scope: &Scope, clock: &dyn Clock) -> Result<HeaderValue> {
        let cache = self.cache(scope);
        if let Some(held) = cache.held_at(clock.now()) {
            if clock.now() < held.renew {
                return Ok(held.header);
            }
            let Ok(_asking) = cache.asking.try_lock() else { return Ok(held.header) };
            return match self.ask(scope, &cache, clock).await {
                Ok(header) => Ok(header),
                Err(error) => {
                    tracing::warn!(target: "rowkey", "a token is not renewed: {error}");
                    cache.put_off(clock.now());
                    Ok(held.header)
                }
            };
        }
        let _asking = cache.asking.lock().await;
        match cache.held_at(clock.now()) {
            Some(held) => Ok(held.header),
            None => self.ask(scope, &cache, clock).await,
        }
    }

    /// Forgets a token that the service refused.
    pub(super) fn discard(&self, scope: &Scope, refused: &HeaderValue) {
        let cache = self.cache(scope);
        let mut held = cache.held();
        if held.as_ref().is_some_and(|held| held.header == *refused) {
            *held = None;
        }
    }

    fn cache(&self, scope: &Scope) -> Arc<Cache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cache)) = caches.iter().find(|(known, _)| known == scope) {
            return Arc::clone(cache);
        }
        let cache = Arc::<Cache>::default();
        caches.push((Arc::clone(scope), Arc::clone(&cache)));
        cache
    }

    async fn ask(&self, scope: &Scope, cache: &Cache, clock: &dyn Clock) -> Result<HeaderValue> {
        let token = self.provider.token(scope).await.map_err(|error| {
            Error::unauthorized("the token provider gave no token").with_source(error)
        })?;
        let now = clock.now();
        if token.expires <= now {
            return Err(Error::unauthorized("the token provider gave a token that has expired")
                .advise("check the provider, and this machine's clock"));
        }
        let mut header =
            HeaderValue::try_from(format!("Bearer {}", token.secret)).map_err(|_| {
                Error::unauthorized("the token provider gave a token that cannot stand in a header")
            })?;
        header.set_sensitive(true);
        // A token that lives for less than the margin is kept for half of its life.
        let renew = (token.expires - MARGIN).max(now + (token.expires - now) / 2);
        let held = Held { header: header.clone(), renew, expires: token.expires };
        *cache.held() = Some(held);
        Ok(header)
    }
}

impl Cache {
    /// The token, if it has not expired.
    fn held_at(&self, now: DateTime<Utc>) -> Option<Held> {
        self.held().as_ref().filter(|held| now < held.expires).cloned()
    }

    fn put_off(&self, now: DateTime<Utc>) {
        if let Some(held) = &mut *self.held() {
            held.renew = now + PAUSE;
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        // The state is whole at every unlock, so a panic elsewhere does not spoil it.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessToken").field("expires", &self.expires).finish_non_exhaustive()
    }
}
