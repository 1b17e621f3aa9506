//! Keys that stay in Azure Key Vault, or in a managed HSM.
//!
//! - this file: [`KeyVault`], which wraps, and [`KeyVaultSigner`], which signs
//! - `client`: one version of a key, and its requests
//! - `scope`: the tokens that a vault may receive

use std::fmt;

use async_trait::async_trait;
use rowkey_client::{Clock, Error, ErrorKind, Result, TokenProvider};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

use self::client::VaultKey;
use super::data::DataKey;
use super::signer::KeySigner;
use super::wrapper::KeyWrapper;

mod client;
mod scope;

const WRAPS: &str = "RSA-OAEP-256";
const SIGNS: &str = "ES256";

/// A version of a key in Azure Key Vault or in a managed HSM. It wraps and unwraps there and never leaves the
/// vault.
///
/// Only branch keys are wrapped and unwrapped: a program sends a request when it first uses one. A vault
/// answers [about 2,000 in ten seconds](https://learn.microsoft.com/azure/key-vault/general/service-limits).
///
/// The token needs the permissions `keys/wrapKey` and `keys/unwrapKey`. Its scope follows from the host of
/// the key: `vault.azure.net`, `managedhsm.azure.net`, and those of the clouds of China and of the government
/// of the United States. Any other vault first receives a request without a token, which it answers with a
/// resource; it receives a token only if its host is within that resource. Throttling and failures of the
/// vault are retried after a wait, four attempts in all.
///
/// With an RSA key, everyone who has the public key can wrap. A [`KeyRing`](crate::KeyRing) therefore accepts
/// only keys that its [`KeySigner`] has signed.
///
/// ```
/// use rowkey::encryption::{AesKeyWrap, KeyRing, KeyVault, KeyVaultSigner};
/// use rowkey::{AccessToken, TokenError, TokenProvider, async_trait};
///
/// #[derive(Clone)]
/// struct Tokens;
///
/// #[async_trait]
/// impl TokenProvider for Tokens {
///     async fn token(&self, scope: &str) -> Result<AccessToken, TokenError> {
///         Err(format!("there is no token for {scope} here").into())
///     }
/// }
///
/// let vault = "https://contoso.vault.azure.net/keys";
/// let wraps = KeyVault::new(&format!("{vault}/tables/0698c2156c1a4e1da5b6bab6f6422fd6"), Tokens)?;
/// let signs = KeyVaultSigner::new(&format!("{vault}/records/78deebed173b48e48f55abf87ed4cf71"), Tokens)?;
/// let ring = KeyRing::new("patients", wraps, signs).with(AesKeyWrap::new("2026", [1; 32]));
/// # Ok::<(), rowkey::Error>(())
/// ```
///
/// [wrapKey](https://learn.microsoft.com/rest/api/keyvault/keys/wrap-key/wrap-key),
/// [unwrapKey](https://learn.microsoft.com/rest/api/keyvault/keys/unwrap-key/unwrap-key)
pub struct KeyVault {
    key: VaultKey,
    /// The first one wraps.
    algorithms: Vec<Box<str>>,
}

impl KeyVault {
    /// Uses the key with this identifier, as shown by the vault, **with its version**:
    /// `https://contoso.vault.azure.net/keys/tables/0698c2156c1a4e1da5b6bab6f6422fd6`. Sends nothing.
    ///
    /// Fails with [`ErrorKind::Invalid`] unless it is such a URL, with https unless it is on this machine.
    pub fn new(key_id: &str, tokens: impl TokenProvider + 'static) -> Result<Self> {
        Ok(Self { key: VaultKey::new(key_id, tokens)?, algorithms: vec![WRAPS.into()] })
    }

    /// Sets the algorithm that wraps. Default: `RSA-OAEP-256`; use `A256KW` with a symmetric key of a managed
    /// HSM. Only this algorithm unwraps, unless others are added.
    ///
    /// ```
    /// # use rowkey::{AccessToken, TokenError, TokenProvider, async_trait};
    /// # struct Tokens;
    /// # #[async_trait]
    /// # impl TokenProvider for Tokens {
    /// #     async fn token(&self, scope: &str) -> Result<AccessToken, TokenError> {
    /// #         Err(format!("there is no token for {scope} here").into())
    /// #     }
    /// # }
    /// use rowkey::encryption::{KeyVault, KeyWrapper};
    ///
    /// let id = "https://contoso.managedhsm.azure.net/keys/tables/0698c2156c1a4e1da5b6bab6f6422fd6";
    /// let key = KeyVault::new(id, Tokens)?.algorithm("A256KW").unwraps("RSA-OAEP-256");
    /// assert_eq!(KeyWrapper::algorithm(&key), "A256KW");
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    #[must_use]
    pub fn algorithm(mut self, algorithm: impl Into<Box<str>>) -> Self {
        self.algorithms[0] = algorithm.into();
        self
    }

    /// Adds an algorithm that only unwraps, for keys that were wrapped before: `RSA-OAEP`. Never `RSA1_5`:
    /// its errors reveal the wrapped key.
    #[must_use]
    pub fn unwraps(mut self, algorithm: impl Into<Box<str>>) -> Self {
        self.algorithms.push(algorithm.into());
        self
    }

    /// Sets the clock that provides the time and waits.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.key.clock(clock);
        self
    }
}

#[async_trait]
impl KeyWrapper for KeyVault {
    fn key_id(&self) -> &str {
        &self.key.key_id
    }

    fn algorithm(&self) -> &str {
        &self.algorithms[0]
    }

    async fn wrap_key(&self, key: &DataKey) -> Result<Vec<u8>> {
        self.key.ask("wrapkey", &self.algorithms[0], key.as_bytes()).await
    }

    async fn unwrap_key(&self, algorithm: &str, wrapped: &[u8]) -> Result<DataKey> {
        if !self.algorithms.iter().any(|allowed| **allowed == *algorithm) {
            let what = "a key is wrapped by an algorithm that this key does not unwrap by";
            return Err(Error::refused(ErrorKind::Decode, what)
                .advise("name it in `KeyVault::unwraps` if it was used before"));
        }
        let key = Zeroizing::new(self.key.ask("unwrapkey", algorithm, wrapped).await?);
        DataKey::new(&key)
    }
}

impl fmt::Debug for KeyVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyVault")
            .field("key_id", &self.key.key_id)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}

/// A version of a key in Azure Key Vault or in a managed HSM that signs the records of branch keys.
///
/// It must differ from the wrapping key. Programs that only read need `keys/verify`; those that write also
/// need `keys/sign`. Tokens, retries and identifiers are as with [`KeyVault`].
///
/// [sign](https://learn.microsoft.com/rest/api/keyvault/keys/sign/sign),
/// [verify](https://learn.microsoft.com/rest/api/keyvault/keys/verify/verify)
pub struct KeyVaultSigner {
    key: VaultKey,
    algorithm: Box<str>,
}

impl KeyVaultSigner {
    /// Uses the key with this identifier, **with its version**. Sends nothing.
    ///
    /// Fails with [`ErrorKind::Invalid`] unless it is such a URL, with https unless it is on this machine.
    pub fn new(key_id: &str, tokens: impl TokenProvider + 'static) -> Result<Self> {
        Ok(Self { key: VaultKey::new(key_id, tokens)?, algorithm: SIGNS.into() })
    }

    /// Sets the signature algorithm. Default: `ES256`; also `ES384`, `ES512`, and with an RSA key `PS256`,
    /// `PS384` or `PS512`. Using any other algorithm fails with [`ErrorKind::Invalid`].
    #[must_use]
    pub fn algorithm(mut self, algorithm: impl Into<Box<str>>) -> Self {
        self.algorithm = algorithm.into();
        self
    }

    /// Sets the clock that provides the time and waits.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.key.clock(clock);
        self
    }

    /// The digest that the vault signs.
    fn digest(&self, message: &[u8]) -> Result<Vec<u8>> {
        Ok(match &*self.algorithm {
            "ES256" | "PS256" => Sha256::digest(message).to_vec(),
            "ES384" | "PS384" => Sha384::digest(message).to_vec(),
            "ES512" | "PS512" => Sha512::digest(message).to_vec(),
            _ => {
                let what = "records are signed by ES256, ES384, ES512, PS256, PS384 or PS512";
                return Err(Error::refused(ErrorKind::Invalid, what));
            }
        })
    }
}

#[async_trait]
impl KeySigner for KeyVaultSigner {
    fn key_id(&self) -> &str {
        &self.key.key_id
    }

    fn algorithm(&self) -> &str {
        &self.algorithm
    }

    async fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        self.key.ask("sign", &self.algorithm, &self.digest(message)?).await
    }

    async fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool> {
        self.key.verify(&self.algorithm, &self.digest(message)?, signature).await
    }
}

impl fmt::Debug for KeyVaultSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyVaultSigner")
            .field("key_id", &self.key.key_id)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}
