//! The client of a key vault: one version of a key, and the requests that use it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use rowkey_client::address::Address;
use rowkey_client::internals::Posts;
use rowkey_client::{AccessToken, Clock, Error, ErrorKind, Result, SystemClock, TokenProvider};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::scope::{Scope, challenged};

const API_VERSION: &str = "7.4";

/// The maximum number of attempts. Requests change nothing in the vault, so they may be repeated.
const ATTEMPTS: u32 = 4;

/// The pause after the first attempt if the vault requests none; doubled each time.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest pause that the vault can request.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The time limit of an attempt.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long before its expiry a token is replaced, as in Azure's libraries.
const MARGIN_SECONDS: i64 = 300;

/// One version of a key in a vault.
pub(super) struct VaultKey {
    pub(super) key_id: Box<str>,
    host: Box<str>,
    http: Posts,
    tokens: Arc<dyn TokenProvider>,
    clock: Arc<dyn Clock>,
    /// `None` until the vault has returned it.
    scope: tokio::sync::Mutex<Option<Scope>>,
    token: tokio::sync::Mutex<Option<AccessToken>>,
}

/// The body of a request.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    pub(super) alg: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<&'a str>,
    pub(super) value: &'a str,
}

/// The response to wrapping, unwrapping and signing.
#[derive(Deserialize)]
struct KeyResponse {
    kid: String,
    value: String,
}

/// The response to verifying.
#[derive(Deserialize)]
struct VerifyResponse {
    value: bool,
}

#[derive(Deserialize)]
struct ErrorResponse {
    error: ErrorBody,
}

#[derive(Deserialize)]
struct ErrorBody {
    code: String,
}

impl VaultKey {
    pub(super) fn new(key_id: &str, tokens: impl TokenProvider + 'static) -> Result<Self> {
        let address = Address::parse(key_id).map_err(|_| malformed())?;
        let path: Vec<_> = address.path.split('/').collect();
        let is_key =
            matches!(&*path, ["", "keys", name, version] if is_name(name) && is_name(version));
        let host = &*address.host;
        let is_local = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
        let is_plain = !address.has_user && address.query.is_none() && !address.has_fragment;
        if !is_key || !is_plain || !(address.secure || is_local) {
            return Err(malformed());
        }
        Ok(Self {
            key_id: key_id.trim().into(),
            host: host.into(),
            http: Posts::new(&address)?,
            tokens: Arc::new(tokens),
            clock: Arc::new(SystemClock),
            scope: tokio::sync::Mutex::new(Scope::of_host(host)),
            token: tokio::sync::Mutex::default(),
        })
    }

    pub(super) fn clock(&mut self, clock: impl Clock + 'static) {
        self.clock = Arc::new(clock);
    }

    /// Requests an operation that returns bytes.
    pub(super) async fn ask(
        &self,
        operation: &'static str,
        alg: &str,
        value: &[u8],
    ) -> Result<Vec<u8>> {
        let value = Zeroizing::new(URL_SAFE_NO_PAD.encode(value));
        let request = Request { alg, digest: None, value: &value };
        let answer = self.send(operation, &request).await?;
        let unreadable = || self.unexpected("the key vault's response cannot be read");
        let answer: KeyResponse = serde_json::from_slice(&answer).map_err(|_| unreadable())?;
        let value = Zeroizing::new(answer.value);
        if !answer.kid.eq_ignore_ascii_case(&self.key_id) {
            return Err(self.unexpected("the key vault used another key"));
        }
        URL_SAFE_NO_PAD.decode(value.trim_end_matches('=')).map_err(|_| unreadable())
    }

    /// Requests whether a signature of a digest is valid.
    pub(super) async fn verify(&self, alg: &str, digest: &[u8], signature: &[u8]) -> Result<bool> {
        let (digest, signature) =
            (URL_SAFE_NO_PAD.encode(digest), URL_SAFE_NO_PAD.encode(signature));
        let request = Request { alg, digest: Some(&digest), value: &signature };
        let answer = match self.send("verify", &request).await {
            Ok(answer) => answer,
            // The signature does not have the algorithm's format.
            Err(error) if error.kind() == ErrorKind::Decode => return Ok(false),
            Err(error) => return Err(error),
        };
        let answer = serde_json::from_slice::<VerifyResponse>(&answer);
        let unreadable = |_| self.unexpected("the key vault's response cannot be read");
        answer.map(|answer| answer.value).map_err(unreadable)
    }

    /// Sends a request until it succeeds, at most four times.
    async fn send(
        &self,
        operation: &'static str,
        request: &Request<'_>,
    ) -> Result<Zeroizing<Vec<u8>>> {
        let body = serde_json::to_vec(request).map(Zeroizing::new);
        let body = body.map_err(|_| self.unexpected("the request cannot be serialized"))?;
        let url = format!("{}/{operation}?api-version={API_VERSION}", self.key_id);
        let mut pause = PAUSE;
        let mut attempt = 1;
        loop {
            let (error, wait) = match self.attempt(operation, &url, body.to_vec()).await {
                Ok(answer) => return Ok(answer),
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

    /// The scope of tokens: derived from the vault's host, or from the response to a request without a token.
    async fn scope(&self, url: &str) -> std::result::Result<Scope, (Error, Option<Duration>)> {
        let mut held = self.scope.lock().await;
        if let Some(scope) = &*held {
            return Ok(scope.clone());
        }
        let answer = self.post(url, HeaderMap::new(), Vec::new()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            let status = answer.status();
            let wait = wait(&answer);
            return Err((self.refused("challenge", status, &[]), wait));
        }
        let challenge = answer.headers().get(header::WWW_AUTHENTICATE);
        let challenge = challenge.and_then(|challenge| challenge.to_str().ok()).unwrap_or_default();
        let scope = challenged(challenge, &self.host).map_err(|error| (error, None))?;
        *held = Some(scope.clone());
        Ok(scope)
    }

    /// Sends one request; on failure, also returns how long the vault asks to wait.
    async fn attempt(
        &self,
        operation: &'static str,
        url: &str,
        body: Vec<u8>,
    ) -> std::result::Result<Zeroizing<Vec<u8>>, (Error, Option<Duration>)> {
        let scope = self.scope(url).await?;
        let token = self.token(&scope).await.map_err(|error| (error, None))?;
        let json = header::HeaderValue::from_static("application/json");
        let headers = [(header::AUTHORIZATION, token), (header::CONTENT_TYPE, json)];
        let answer = self.post(url, headers.into_iter().collect(), body).await?;
        let status = answer.status();
        let wait = wait(&answer);
        let body = Zeroizing::new(answer.into_body().to_vec());
        if status.is_success() {
            return Ok(body);
        }
        if status == StatusCode::UNAUTHORIZED {
            *self.token.lock().await = None;
        }
        Err((self.refused(operation, status, &body), wait))
    }

    /// The value of the `Authorization` header.
    async fn token(&self, scope: &Scope) -> Result<header::HeaderValue> {
        let mut held = self.token.lock().await;
        let good_until = |token: &AccessToken| token.expires.timestamp() - MARGIN_SECONDS;
        let now = self.clock.now().timestamp();
        if held.as_ref().is_none_or(|token| good_until(token) <= now) {
            let token = self.tokens.token(&scope.0).await.map_err(|error| {
                let what = "the token provider returned no token for the key vault";
                Error::refused(ErrorKind::Auth, what).with_source(error)
            })?;
            *held = Some(token);
        }
        let token = held.as_ref().map(|token| &*token.secret).unwrap_or_default();
        let mut header =
            header::HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                let what = "the token provider returned an invalid token";
                Error::refused(ErrorKind::Auth, what)
            })?;
        header.set_sensitive(true);
        Ok(header)
    }

    fn refused(&self, operation: &str, status: StatusCode, body: &[u8]) -> Error {
        let kind = match status.as_u16() {
            400 => ErrorKind::Decode,
            401 | 403 => ErrorKind::Auth,
            404 => ErrorKind::NotFound,
            429 => ErrorKind::Throttled,
            408 | 500..=599 => ErrorKind::Unavailable,
            _ => ErrorKind::Unexpected,
        };
        // The message may contain data; the code is from a fixed set.
        let code =
            serde_json::from_slice::<ErrorResponse>(body).map(|response| response.error.code);
        let code = code
            .ok()
            .filter(|code| code.len() <= 64 && code.bytes().all(|b| b.is_ascii_alphanumeric()));
        let status = status.as_u16();
        let code = code.map(|code| format!(" {code}")).unwrap_or_default();
        let what =
            format!("the key vault refuses {operation} by `{}` ({status}{code})", self.key_id);
        let error = Error::refused(kind, what);
        match kind {
            ErrorKind::Auth => {
                error.advise(
                    "check the token, and that it may do keys/wrapKey and keys/unwrapKey with keys that \
                     wrap, keys/sign and keys/verify with keys that sign",
                )
            }
            ErrorKind::Decode => {
                error.advise("the data to unwrap was wrapped by another key, or altered")
            }
            _ => error,
        }
    }

    async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> std::result::Result<Response<Bytes>, (Error, Option<Duration>)> {
        self.http.post(url, headers, body.into(), TIMEOUT).await.map_err(|error| {
            let what = format!("the key vault of `{}` did not respond", self.key_id);
            (Error::refused(ErrorKind::Unavailable, what).with_source(error), None)
        })
    }

    fn unexpected(&self, what: &str) -> Error {
        Error::refused(ErrorKind::Unexpected, format!("{what} (`{}`)", self.key_id))
            .advise("check the identifier of the key")
    }
}

/// How long the vault asks to wait.
fn wait(answer: &Response<Bytes>) -> Option<Duration> {
    let wait = answer.headers().get(header::RETRY_AFTER)?;
    wait.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// Returns whether a text has the characters of names and versions of keys. What else there may be, such as `..` or `%2F`,
/// a server could read as another path.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn malformed() -> Error {
    Error::refused(ErrorKind::Invalid, "invalid identifier of a key version").advise(
        "it is https://VAULT.vault.azure.net/keys/NAME/VERSION, or that of a managed HSM, and the version must be named: the \
         vault's newest is another one after it was rotated",
    )
}

impl fmt::Debug for VaultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VaultKey").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}
