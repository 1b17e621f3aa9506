//! Token vending: a shared access signature for each user, of the user's own rows alone, for a short
//! time.
//!
//! A service that has the account key need not stand between its users and their data. It makes sure
//! who a user is and hands out a token ([`Vending`]); with that the user's app reads and writes the
//! storage itself. Nothing is sent for a token, and nothing is kept: a signature is a function of what
//! it says, and what it says changes when its time comes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey::sas::{BlobPermissions, QueuePermissions, Sas, SasToken, TablePermissions, Warning};
use rowkey::{Error, ErrorKind, Result, StorageAccount};

use crate::hash::fnv1a;

const OPERATION: &str = "Vending";

const LIFETIME: Duration = Duration::from_secs(30 * 60);
const MARGIN: Duration = Duration::from_secs(10 * 60);

/// Hands out tokens, each limited to what one user may do.
///
/// What a user is granted a closure says; how long, this says. Clones are as good, and so is another
/// process with the same account and settings: they hand out the same tokens.
///
/// # Reuse
///
/// A user gets **the same token again** until it has no more than the [`margin`](Self::margin) to
/// live; then one that ends later. So apps may ask as often as they like, connection strings stay the
/// same for a while, and every token that is handed out is good for at least the margin and at most
/// the [`lifetime`](Self::lifetime). The turns of different users come at different times. No table of
/// tokens is kept for that, so there is none to bound, to lose or to leak.
///
/// # Keys
///
/// Tokens are signed with the key that the account has when they are asked for. When a
/// [`CredentialSlot`](rowkey::CredentialSlot) gives it another, the next token is of that key.
///
/// ```
/// use rowkey::sas::{Sas, TablePermissions};
/// use rowkey::{Entity, StorageAccount};
/// use rowkey_patterns::vending::Vending;
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
/// // At Ada's, who has nothing but this string:
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

/// What a user may do: a signature without its time, made by `into` from a [`Sas`] of a table, a
/// queue, a container or a blob.
#[derive(Clone, Debug)]
pub enum Grant {
    /// For a blob, or a container and what is in it.
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
    /// When it ends.
    pub expires: DateTime<Utc>,
    /// From when on [`Vending::token`] gives another one: a good time to ask.
    pub renew_after: DateTime<Utc>,
}

impl Vending {
    /// Hands out what `grant` grants to the user of a name, signed with the key of `account`.
    ///
    /// The name tells users apart: no other user has it. `grant` puts it into a
    /// PartitionKey, best as the whole of it: among rows whose key begins with `ada`, those of `adam`
    /// are. It sets no times; those are this type's.
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

    /// How long a token lives at most, in whole seconds. Default: 30 minutes.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// How long a token that is handed out lives at least: longer than what it is for takes, and than
    /// clocks differ. Shorter than the lifetime. Default: 10 minutes.
    #[must_use]
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// Lets tokens refer to this stored access policy, so that they can be revoked before they end:
    /// by [`revoke_access_policy`](rowkey::Table::revoke_access_policy), or by
    /// [`rotate_access_policy`](rowkey::Table::rotate_access_policy) and a vending with the new one.
    ///
    /// The policy says what is permitted and not for how long, and the grant then has no permissions
    /// of its own: the service refuses what both say. It is of all users, for there can be five.
    #[must_use]
    pub fn policy(mut self, id: impl Into<String>) -> Self {
        self.policy = Some(id.into());
        self
    }

    /// The token of a user. Nothing is sent.
    ///
    /// # Errors
    ///
    /// Of kind [`ErrorKind::Invalid`] when the name is empty or cannot be a key, when the account
    /// cannot sign, when the times make no sense, and when the token would be unwise: everything that
    /// [`lint`](rowkey::sas::lint()) warns of is refused here, such as a whole table, or a lifetime
    /// over an hour without a policy. No error quotes the name.
    pub fn token(&self, user: &str) -> Result<Vended> {
        let refused = |what| Err(Error::refused(ErrorKind::Invalid, what).of(OPERATION, ""));
        if user.is_empty() {
            return refused("a user without a name has no rows of their own");
        }
        let now = self.account.clock().now();
        let Some((expires, margin)) = self.expiry(user, now) else {
            return refused("the margin is not shorter than the lifetime, by a second at least");
        };
        let grant = (self.grant)(user);
        let token = grant.sign(&self.account, expires, self.policy.as_deref())?;
        // Now, and when it was new: that it lives too long must not depend on when it is asked for.
        let new = expires - TimeDelta::from_std(self.lifetime).unwrap_or_default();
        let mut warnings = [now, new].into_iter().flat_map(|at| token.lint(at));
        if let Some(warning) = warnings.find(|warning| is_serious(warning, &token)) {
            let what = "the token that is granted would be unwise";
            return Err(Error::refused(ErrorKind::Invalid, what)
                .of(OPERATION, "")
                .advise(warning.to_string()));
        }
        Ok(Vended { token, expires, renew_after: expires - margin })
    }

    /// The first of the user's times to end that is at least the margin away, and the margin. Those
    /// times are the difference of lifetime and margin apart.
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

/// Whether a token with this warning is not to be handed out. Where there is nothing but http, as on
/// an emulator, https cannot be asked for.
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
