//! Bearer tokens: the provider and the cache.

use rowkey_wire::shown;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use http::HeaderValue;

use crate::clock::Clock;
use crate::error::{Error, Result};

/// Provides bearer tokens of Microsoft Entra ID.
///
/// The client caches a token until five minutes before it expires and never makes two concurrent
/// calls for one, so a provider needs no cache. With the feature `azure-identity`,
/// `Credential::azure_identity` takes any credential of `azure_identity`.
///
/// ```
/// use std::env;
///
/// use rowkey::{AccessToken, Credential, StorageAccount, TokenError, TokenProvider, async_trait};
///
/// /// The token of a short program, which its caller has requested.
/// struct Given;
///
/// #[async_trait]
/// impl TokenProvider for Given {
///     async fn token(&self, _scope: &str) -> Result<AccessToken, TokenError> {
///         Ok(AccessToken::new(env::var("TOKEN")?, env::var("TOKEN_EXPIRES")?.parse()?))
///     }
/// }
///
/// let credential = Credential::token(Given);
/// let account = StorageAccount::builder().name("contoso").credential(credential).build()?;
/// # Ok::<(), rowkey::Error>(())
/// ```
#[async_trait]
pub trait TokenProvider: Send + Sync {
    /// Returns a token for `scope`: `https://storage.azure.com/.default`, or
    /// `https://cosmos.azure.com/.default` for Azure Cosmos DB for Table, unless the account has
    /// [another audience](crate::StorageAccountBuilder::audience).
    ///
    /// The error becomes the source of the operation's error, so it must not quote secrets.
    async fn token(&self, scope: &str) -> Result<AccessToken, TokenError>;
}

/// The error type of [`TokenProvider`], which can be any error.
pub type TokenError = Box<dyn std::error::Error + Send + Sync>;

/// A bearer token and its expiry. `Debug` does not show the token.
#[derive(Clone)]
#[non_exhaustive]
pub struct AccessToken {
    /// The token itself. It is a secret and must not be shown.
    pub secret: String,
    /// When it expires.
    pub expires: DateTime<Utc>,
}

impl AccessToken {
    /// Creates a token, without `Bearer`, that is valid until `expires`.
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

/// A provider and its cached tokens.
pub(super) struct Tokens {
    provider: Box<dyn TokenProvider>,
    /// The cache of each scope. Accounts in several clouds may share a provider.
    caches: Mutex<Vec<(Scope, Arc<Cache>)>>,
}

/// The scope of a token, such as `https://storage.azure.com/.default`.
pub(crate) type Scope = Arc<str>;

/// How long before its expiry a token is renewed, as in Azure's libraries.
const MARGIN: TimeDelta = TimeDelta::minutes(5);

/// The pause after a failed renewal while the old token is still valid.
const PAUSE: TimeDelta = TimeDelta::seconds(30);

#[derive(Default)]
struct Cache {
    token: Mutex<Option<CachedToken>>,
    /// Held by the caller that requests a token from the provider.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct CachedToken {
    header: HeaderValue,
    renew: DateTime<Utc>,
    expires: DateTime<Utc>,
}

impl Tokens {
    pub(super) fn new(provider: Box<dyn TokenProvider>) -> Self {
        Self { provider, caches: Mutex::default() }
    }

    /// The value of the `Authorization` header. Asks the provider if the token is missing or about
    /// to expire; meanwhile other callers use the old token while it is valid, or wait.
    pub(super) async fn get(&self, scope: &Scope, clock: &dyn Clock) -> Result<HeaderValue> {
        let cache = self.cache(scope);
        if let Some(cached) = cache.valid_at(clock.now()) {
            if clock.now() < cached.renew {
                return Ok(cached.header);
            }
            let Ok(_asking) = cache.asking.try_lock() else { return Ok(cached.header) };
            return match self.ask(scope, &cache, clock).await {
                Ok(header) => Ok(header),
                Err(error) => {
                    tracing::warn!(target: "rowkey", "a token is not renewed: {error}");
                    cache.put_off(clock.now());
                    Ok(cached.header)
                }
            };
        }
        let _asking = cache.asking.lock().await;
        match cache.valid_at(clock.now()) {
            Some(cached) => Ok(cached.header),
            None => self.ask(scope, &cache, clock).await,
        }
    }

    /// Forgets a token that the service refused.
    pub(super) fn discard(&self, scope: &Scope, refused: &HeaderValue) {
        let cache = self.cache(scope);
        let mut cached = cache.cached();
        if cached.as_ref().is_some_and(|cached| cached.header == *refused) {
            *cached = None;
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
        let mut header = HeaderValue::try_from(format!("Bearer {}", token.secret))
            .map_err(|_| Error::unauthorized("the token provider returned an invalid token"))?;
        header.set_sensitive(true);
        // A token with a lifetime shorter than twice the margin is kept for half of it.
        let renew = (token.expires - MARGIN).max(now + (token.expires - now) / 2);
        let cached = CachedToken { header: header.clone(), renew, expires: token.expires };
        *cache.cached() = Some(cached);
        Ok(header)
    }
}

impl Cache {
    /// The token, if it has not expired.
    fn valid_at(&self, now: DateTime<Utc>) -> Option<CachedToken> {
        self.cached().as_ref().filter(|cached| now < cached.expires).cloned()
    }

    fn put_off(&self, now: DateTime<Utc>) {
        if let Some(cached) = &mut *self.cached() {
            cached.renew = now + PAUSE;
        }
    }

    fn cached(&self) -> MutexGuard<'_, Option<CachedToken>> {
        // The state is consistent at every unlock, so a poisoned lock is safe to use.
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

shown!(AccessToken: expires);
