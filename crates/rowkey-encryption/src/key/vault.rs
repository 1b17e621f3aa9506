//! A key-encryption key that stays in Azure Key Vault.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{StatusCode, header};
use rowkey::{AccessToken, Clock, Error, ErrorKind, Result, SystemClock, TokenProvider};
use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroizing;

use super::data::DataKey;
use super::wrapper::KeyWrapper;

const API_VERSION: &str = "7.4";
const ALGORITHM: &str = "RSA-OAEP-256";
const SCOPE: &str = "https://vault.azure.net/.default";

/// How often a request is made: wrapping and unwrapping change nothing, so they may be repeated.
const ATTEMPTS: u32 = 4;

/// The pause after the first attempt when the vault asks for none; each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest pause that the vault is obeyed in.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How long an attempt may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Before its expiry a token is replaced: what Azure's libraries allow.
const MARGIN_SECONDS: i64 = 300;

/// A version of a key in Azure Key Vault, which wraps and unwraps there and never leaves it.
///
/// Every write of an entity is a request to the vault, and so is every entity that is read; a vault
/// answers [about 2,000 in ten seconds](https://learn.microsoft.com/azure/key-vault/general/service-limits).
/// For more, keep a key of [`AesKeyWrap`](crate::AesKeyWrap) wrapped by this one in the program's
/// settings, and unwrap it once at the start.
///
/// The token needs the permissions `keys/wrapKey` and `keys/unwrapKey`. Throttling and failures of the
/// vault are waited for and tried again, four times in all.
///
/// ```
/// use rowkey::{AccessToken, TokenError, TokenProvider};
/// use rowkey_encryption::{AesKeyWrap, KeyRing, KeyVault};
///
/// struct Tokens;
///
/// #[async_trait::async_trait]
/// impl TokenProvider for Tokens {
///     async fn token(&self, scope: &str) -> Result<AccessToken, TokenError> {
///         Err(format!("there is no token for {scope} here").into())
///     }
/// }
///
/// let key_id = "https://contoso.vault.azure.net/keys/tables/0698c2156c1a4e1da5b6bab6f6422fd6";
/// let ring = KeyRing::new(KeyVault::new(key_id, Tokens)?).with(AesKeyWrap::new("2026", [1; 32]));
/// # Ok::<(), rowkey::Error>(())
/// ```
///
/// [wrapKey](https://learn.microsoft.com/rest/api/keyvault/keys/wrap-key/wrap-key),
/// [unwrapKey](https://learn.microsoft.com/rest/api/keyvault/keys/unwrap-key/unwrap-key)
pub struct KeyVault {
    key_id: Box<str>,
    algorithm: Box<str>,
    http: reqwest::Client,
    tokens: Arc<dyn TokenProvider>,
    clock: Arc<dyn Clock>,
    token: tokio::sync::Mutex<Option<AccessToken>>,
}

#[derive(Serialize)]
struct Request<'a> {
    alg: &'a str,
    value: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    kid: String,
    value: String,
}

#[derive(Deserialize)]
struct Refusal {
    error: Code,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

impl KeyVault {
    /// The key with this identifier, as the vault gives it, **with its version**:
    /// `https://contoso.vault.azure.net/keys/tables/0698c2156c1a4e1da5b6bab6f6422fd6`. Tokens for
    /// `https://vault.azure.net/.default` come from `tokens`. Nothing is sent.
    ///
    /// Fails with [`ErrorKind::Invalid`] unless it is such an address, with https unless it is on this
    /// machine.
    pub fn new(key_id: &str, tokens: impl TokenProvider + 'static) -> Result<Self> {
        let url = Url::parse(key_id).map_err(|_| malformed())?;
        let path: Vec<_> = url.path_segments().ok_or_else(malformed)?.collect();
        let is_key = matches!(&*path, ["keys", name, version]
            if !name.is_empty() && !version.is_empty());
        let host = url.host_str().unwrap_or_default();
        let is_local = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
        let is_plain =
            url.username().is_empty() && url.query().is_none() && url.fragment().is_none();
        if !is_key || !is_plain || !(url.scheme() == "https" || is_local && url.scheme() == "http")
        {
            return Err(malformed());
        }
        Ok(Self {
            key_id: key_id.into(),
            algorithm: ALGORITHM.into(),
            http: client(url.scheme() == "https")?,
            tokens: Arc::new(tokens),
            clock: Arc::new(SystemClock),
            token: tokio::sync::Mutex::default(),
        })
    }

    /// How keys are wrapped from now on: `RSA-OAEP-256` if this is not said, `RSA-OAEP`, or `A256KW`
    /// with a symmetric key of a managed HSM.
    #[must_use]
    pub fn algorithm(mut self, algorithm: impl Into<Box<str>>) -> Self {
        self.algorithm = algorithm.into();
        self
    }

    /// Where the time comes from, and how it waits.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Asks the vault for an operation on a key: both take and give `value`.
    async fn ask(&self, operation: &'static str, alg: &str, value: &[u8]) -> Result<Vec<u8>> {
        let value = Zeroizing::new(URL_SAFE_NO_PAD.encode(value));
        let body = serde_json::to_vec(&Request { alg, value: &value }).map(Zeroizing::new);
        let body = body.map_err(|_| self.unexpected("the request cannot be written"))?;
        let url = format!("{}/{operation}?api-version={API_VERSION}", self.key_id);
        let mut pause = PAUSE;
        let mut attempt = 1;
        loop {
            let (error, wait) = match self.attempt(&url, body.to_vec()).await {
                Ok(answer) => return self.read(&answer),
                Err(failed) => failed,
            };
            if attempt == ATTEMPTS || !error.is_retryable() {
                return Err(error);
            }
            self.clock.sleep(wait.unwrap_or(pause).min(MAX_PAUSE)).await;
            attempt += 1;
            pause *= 2;
        }
    }

    /// One request; on failure, how long the vault asks to wait.
    async fn attempt(
        &self,
        url: &str,
        body: Vec<u8>,
    ) -> std::result::Result<Zeroizing<Vec<u8>>, (Error, Option<Duration>)> {
        let token = self.token().await.map_err(|error| (error, None))?;
        let sent = self
            .http
            .post(url)
            .header(header::AUTHORIZATION, token)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .send();
        let lost = |error: reqwest::Error| {
            let what = format!("the key vault of `{}` did not answer", self.key_id);
            let error = error.without_url();
            (Error::refused(ErrorKind::Unavailable, what).with_source(error), None)
        };
        let answer = sent.await.map_err(lost)?;
        let status = answer.status();
        let wait = answer.headers().get(header::RETRY_AFTER);
        let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok()).map(Duration::from_secs);
        let body = Zeroizing::new(answer.bytes().await.map_err(lost)?.to_vec());
        if status.is_success() {
            return Ok(body);
        }
        if status == StatusCode::UNAUTHORIZED {
            *self.token.lock().await = None;
        }
        Err((self.refused(status, &body), wait))
    }

    /// The value of the `Authorization` header.
    async fn token(&self) -> Result<header::HeaderValue> {
        let mut held = self.token.lock().await;
        let good_until = |token: &AccessToken| token.expires().timestamp() - MARGIN_SECONDS;
        let now = self.clock.now().timestamp();
        if held.as_ref().is_none_or(|token| good_until(token) <= now) {
            let token = self.tokens.token(SCOPE).await.map_err(|error| {
                let what = "the token provider gave no token for the key vault";
                Error::refused(ErrorKind::Auth, what).with_source(error)
            })?;
            *held = Some(token);
        }
        let token = held.as_ref().map(AccessToken::secret).unwrap_or_default();
        let mut header =
            header::HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                let what = "the token provider gave a token that cannot stand in a header";
                Error::refused(ErrorKind::Auth, what)
            })?;
        header.set_sensitive(true);
        Ok(header)
    }

    fn read(&self, body: &[u8]) -> Result<Vec<u8>> {
        let unreadable = || self.unexpected("the key vault's answer cannot be read");
        let answer: Answer = serde_json::from_slice(body).map_err(|_| unreadable())?;
        let value = Zeroizing::new(answer.value);
        if !answer.kid.eq_ignore_ascii_case(&self.key_id) {
            return Err(self.unexpected("the key vault used another key"));
        }
        URL_SAFE_NO_PAD.decode(value.trim_end_matches('=')).map_err(|_| unreadable())
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Error {
        let kind = match status.as_u16() {
            400 => ErrorKind::Decode,
            401 | 403 => ErrorKind::Auth,
            404 => ErrorKind::NotFound,
            429 => ErrorKind::Throttled,
            408 | 500..=599 => ErrorKind::Unavailable,
            _ => ErrorKind::Unexpected,
        };
        // The message may quote; the code is a word of the vault's.
        let code = serde_json::from_slice::<Refusal>(body).map(|refusal| refusal.error.code);
        let code = code
            .ok()
            .filter(|code| code.len() <= 64 && code.bytes().all(|b| b.is_ascii_alphanumeric()));
        let status = status.as_u16();
        let code = code.map(|code| format!(" {code}")).unwrap_or_default();
        let what = format!("the key vault refuses `{}` ({status}{code})", self.key_id);
        let error = Error::refused(kind, what);
        match kind {
            ErrorKind::Auth => {
                error.advise("check the token, and that it may do keys/wrapKey and keys/unwrapKey")
            }
            ErrorKind::Decode => {
                error.advise("what is to be unwrapped was wrapped by another key, or altered")
            }
            _ => error,
        }
    }

    fn unexpected(&self, what: &str) -> Error {
        Error::refused(ErrorKind::Unexpected, format!("{what} (`{}`)", self.key_id))
            .advise("check the identifier of the key")
    }
}

#[async_trait]
impl KeyWrapper for KeyVault {
    fn key_id(&self) -> &str {
        &self.key_id
    }

    fn algorithm(&self) -> &str {
        &self.algorithm
    }

    async fn wrap_key(&self, key: &DataKey) -> Result<Vec<u8>> {
        self.ask("wrapkey", &self.algorithm, key.as_bytes()).await
    }

    async fn unwrap_key(&self, algorithm: &str, wrapped: &[u8]) -> Result<DataKey> {
        let key = Zeroizing::new(self.ask("unwrapkey", algorithm, wrapped).await?);
        DataKey::new(&key)
    }
}

fn malformed() -> Error {
    Error::refused(ErrorKind::Invalid, "this is not the identifier of a version of a key").advise(
        "it is https://VAULT.vault.azure.net/keys/NAME/VERSION, and the version must be named: the \
         vault's newest is another one after it was rotated",
    )
}

/// As the client of tables has it.
fn client(secure: bool) -> Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        // A token is for one address, and must not be shown to another.
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .retry(reqwest::retry::never().max_retries_per_request(0))
        .timeout(TIMEOUT)
        .http1_only()
        .tls_backend_rustls();
    if !secure {
        // This machine. Reading the system's roots would take longer than the request.
        builder = builder.no_proxy().tls_certs_only([]);
    }
    builder.build().map_err(|error| {
        Error::refused(ErrorKind::Invalid, "the HTTP client cannot be built")
            .with_source(error.without_url())
    })
}

impl fmt::Debug for KeyVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyVault")
            .field("key_id", &self.key_id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
