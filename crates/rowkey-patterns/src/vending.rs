//! Token vending: a shared access signature for each user, limited to the user's own rows and to a short
//! time.
//!
//! A service with the account key need not proxy its users' data. It authenticates a user and issues a token
//! ([`Vending`]), with which the user's app reads and writes the storage directly. A token needs no request
//! and no stored state: a signature is a function of its fields, which change only when the token is
//! replaced.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey_client::internals::fnv1a;
use rowkey_client::sas::{
    BlobPermissions, QueuePermissions, Sas, SasToken, TablePermissions, Warning,
};
use rowkey_client::{Error, ErrorKind, Result, StorageAccount};

const OPERATION: &str = "Vending";

const LIFETIME: Duration = Duration::from_secs(30 * 60);
const MARGIN: Duration = Duration::from_secs(10 * 60);

/// Issues tokens, each limited to the permissions of one user.
///
/// A closure decides what a user is granted; this type decides for how long. Clones, and other processes with
/// the same account and settings, issue the same tokens.
///
/// # Reuse
///
/// A user gets **the same token again** until its remaining lifetime is no more than the
/// [`margin`](Self::margin); then one that expires later. So apps can request tokens as often as needed,
/// connection strings stay the same for a while, and every issued token is valid for at least the margin and
/// at most the [`lifetime`](Self::lifetime). Tokens of different users are replaced at different times. This
/// needs no table of tokens.
///
/// # Keys
///
/// Tokens are signed with the account's key at the time of the request. When a
/// [`CredentialSlot`](rowkey_client::CredentialSlot) replaces the key, the next token is signed with the new one.
///
/// ```
/// use rowkey::patterns::vending::Vending;
/// use rowkey::sas::{Sas, TablePermissions};
/// use rowkey::{Entity, StorageAccount};
///
/// #[derive(Entity)]
/// #[entity(partition = "{user}", row = "note_{id:6}")]
/// struct Note { user: String, id: u32, text: String }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowkey_emulator::Server::start().await?;
/// # let account = StorageAccount::from_connection_string(server.connection_string())?;
/// # account.table("notes").create().await?;
/// let vending = Vending::new(&account, |user| {
///     let notes = Sas::table("notes").partition(Note::partition(user));
///     notes.permissions(TablePermissions::QUERY | TablePermissions::ADD)
/// });
/// let vended = vending.token("ada")?;
///
/// // In Ada's app, which has only this string:
/// let hers = StorageAccount::from_connection_string(&vended.token.connection_string())?;
/// let notes = hers.table("notes");
/// notes.insert(&Note { user: "ada".into(), id: 1, text: "mine".into() }).await?;
/// assert!(notes.insert(&Note { user: "bob".into(), id: 1, text: "his".into() }).await.is_err());
/// # Ok(()) }
/// ```
///
/// The guide's section is
/// [Enforce access](https://learn.microsoft.com/azure/storage/tables/table-storage-design-guide#enable-access-with-shared-access-signatures).
#[derive(Clone)]
pub struct Vending {
    account: StorageAccount,
    grant: Arc<dyn Fn(&str) -> Grant + Send + Sync>,
    lifetime: Duration,
    margin: Duration,
    policy: Option<String>,
}

/// The permissions of a user: a signature without times, converted by `into` from a [`Sas`] of a table, a
/// queue, a container or a blob.
#[derive(Clone, Debug)]
pub enum Grant {
    /// For a blob, or a container and its blobs.
    Blob(Sas<BlobPermissions>),
    /// For the messages of a queue.
    Queue(Sas<QueuePermissions>),
    /// For a range of keys of a table.
    Table(Sas<TablePermissions>),
}

/// A token, and its times. `Debug` does not show the signature.
#[derive(Clone, Debug)]
pub struct Vended {
    /// The token.
    pub token: SasToken,
    /// When it expires.
    pub expires: DateTime<Utc>,
    /// From this time [`Vending::token`] returns another token: a good time to request it.
    pub renew_after: DateTime<Utc>,
}

impl Vending {
    /// Issues tokens with the permissions that `grant` returns for a user name, signed with the key of
    /// `account`.
    ///
    /// The name must be unique to the user. `grant` puts it into a PartitionKey, preferably as the whole key:
    /// rows whose key begins with `ada` include those of `adam`. It must set no times; this type sets them.
    pub fn new<G: Into<Grant>>(
        account: &StorageAccount,
        grant: impl Fn(&str) -> G + Send + Sync + 'static,
    ) -> Self {
        Self {
            account: account.clone(),
            grant: Arc::new(move |user| grant(user).into()),
            lifetime: LIFETIME,
            margin: MARGIN,
            policy: None,
        }
    }

    /// Sets the maximum lifetime of a token, in whole seconds. Default: 30 minutes.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # use rowkey::patterns::vending::Vending;
    /// # use rowkey::sas::{Sas, TablePermissions};
    /// # use std::time::Duration;
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// # let grant = |user: &str| {
    /// #     let notes = Sas::table("notes").partition(rowkey::Partition::<rowkey::DynamicEntity>::new(user));
    /// #     notes.permissions(TablePermissions::QUERY)
    /// # };
    /// let vending = Vending::new(&account, grant)
    ///     .lifetime(Duration::from_secs(600))
    ///     .margin(Duration::from_secs(60));
    /// let vended = vending.token("ada")?;
    /// let left = (vended.expires - account.clock().now()).to_std()?;
    /// assert!((60..=600).contains(&left.as_secs()));
    /// assert!(vended.renew_after < vended.expires);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Sets the minimum remaining lifetime of an issued token: longer than its use takes, plus the difference
    /// between clocks. Must be shorter than the lifetime. Default: 10 minutes.
    #[must_use]
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// Makes tokens refer to this stored access policy, so that they can be revoked before they expire: by
    /// [`revoke_access_policy`](rowkey_client::Table::revoke_access_policy), or by
    /// [`rotate_access_policy`](rowkey_client::Table::rotate_access_policy) and a `Vending` with the new policy.
    ///
    /// The policy sets the permissions but no expiry, and the grant must then have no permissions: the
    /// service refuses a field that both set. All users share the policy, because a table can have only five.
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # use rowkey::patterns::vending::Vending;
    /// # use rowkey::sas::Sas;
    /// # let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true")?;
    /// # let notes = |user: &str| Sas::table("notes").partition(rowkey::Partition::<rowkey::DynamicEntity>::new(user));
    /// let vending = Vending::new(&account, move |user| notes(user)).policy("apps-1");
    /// assert!(vending.token("ada")?.token.query().contains("si=apps-1"));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn policy(mut self, id: impl Into<String>) -> Self {
        self.policy = Some(id.into());
        self
    }

    /// Issues the token of a user. Sends nothing.
    ///
    /// # Errors
    ///
    /// Of kind [`ErrorKind::Invalid`] if the name is empty or cannot be a key, if the account cannot sign, if
    /// the times are inconsistent, or if the token would be unsafe: every warning of
    /// [`lint`](rowkey_client::sas::lint()) is an error here, such as access to a whole table, or a lifetime over an
    /// hour without a policy. No error quotes the name.
    pub fn token(&self, user: &str) -> Result<Vended> {
        let refused = |what| Err(Error::refused(ErrorKind::Invalid, what).of(OPERATION, ""));
        if user.is_empty() {
            return refused("the user name is empty");
        }
        let now = self.account.clock().now();
        let Some((expires, margin)) = self.expiry(user, now) else {
            return refused("the margin must be at least a second shorter than the lifetime");
        };
        let grant = (self.grant)(user);
        let token = grant.sign(&self.account, expires, self.policy.as_deref())?;
        // Checked for now and for the time of issue: whether it lives too long must not depend on the time of
        // the request.
        let new = expires - TimeDelta::from_std(self.lifetime).unwrap_or_default();
        let mut warnings = [now, new].into_iter().flat_map(|at| token.lint(at));
        if let Some(warning) = warnings.find(|warning| is_serious(warning, &token)) {
            let what = "the granted token would be unsafe";
            return Err(Error::refused(ErrorKind::Invalid, what)
                .of(OPERATION, "")
                .advise(warning.to_string()));
        }
        Ok(Vended { token, expires, renew_after: expires - margin })
    }

    /// The first of the user's expiry times that is at least the margin away, and the margin. There is
    /// one expiry time every (lifetime − margin).
    fn expiry(&self, user: &str, now: DateTime<Utc>) -> Option<(DateTime<Utc>, TimeDelta)> {
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).ok();
        let margin = seconds(self.margin)? + i64::from(self.margin.subsec_nanos() > 0);
        let step = seconds(self.lifetime)?.checked_sub(margin).filter(|step| *step > 0)?;
        let earliest = now.timestamp() + i64::from(now.timestamp_subsec_nanos() > 0);
        let earliest = earliest.checked_add(margin)?;
        // Unsigned and halved, so that it fits.
        let turn = i64::try_from(fnv1a(user.bytes()) >> 1).ok()?.rem_euclid(step);
        let wait = (turn - earliest.rem_euclid(step)).rem_euclid(step);
        let expires = DateTime::from_timestamp(earliest.checked_add(wait)?, 0)?;
        Some((expires, TimeDelta::try_seconds(margin)?))
    }
}

impl Grant {
    fn sign(
        self,
        account: &StorageAccount,
        expires: DateTime<Utc>,
        policy: Option<&str>,
    ) -> Result<SasToken> {
        macro_rules! sign {
            ($sas:expr) => {{
                let sas = $sas.expires(expires);
                match policy {
                    Some(policy) => sas.policy(policy).sign(account),
                    None => sas.sign(account),
                }
            }};
        }
        match self {
            Self::Blob(sas) => sign!(sas),
            Self::Queue(sas) => sign!(sas),
            Self::Table(sas) => sign!(sas),
        }
    }
}

/// Returns whether a token with this warning must not be issued. Endpoints that only support http, such as
/// emulators, cannot require https.
fn is_serious(warning: &Warning, token: &SasToken) -> bool {
    *warning != Warning::AllowsHttp || token.url().starts_with("https:")
}

impl From<Sas<BlobPermissions>> for Grant {
    fn from(sas: Sas<BlobPermissions>) -> Self {
        Self::Blob(sas)
    }
}

impl From<Sas<QueuePermissions>> for Grant {
    fn from(sas: Sas<QueuePermissions>) -> Self {
        Self::Queue(sas)
    }
}

impl From<Sas<TablePermissions>> for Grant {
    fn from(sas: Sas<TablePermissions>) -> Self {
        Self::Table(sas)
    }
}

impl fmt::Debug for Vending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vending")
            .field("account", &self.account.name())
            .field("lifetime", &self.lifetime)
            .field("margin", &self.margin)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
