//! Credentials that can be replaced while clients use them.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Credential, Repr};
use crate::error::{Error, Result};

/// A slot for a credential that can be replaced while accounts use it, for rotated keys and renewed
/// shared access signatures.
///
/// Clones share the slot. An attempt in progress continues with the credential that it began with;
/// the next attempt uses the new one. If the service refuses an attempt and the credential was
/// replaced meanwhile, the attempt is repeated at once with the new one.
///
/// ```
/// use rowkey::{Credential, CredentialSlot, StorageAccount};
///
/// let slot = CredentialSlot::new(Credential::shared_key("contoso", "YmFy")?);
/// let account = StorageAccount::builder().credential(slot.credential()).build()?;
///
/// // Later, before the first key is regenerated:
/// slot.replace(Credential::shared_key("contoso", "YmF6")?)?;
/// # Ok::<(), rowkey::Error>(())
/// ```
#[derive(Clone)]
pub struct CredentialSlot(Arc<Inner>);

struct Inner {
    /// The account of the first credential, for which the users of the slot were built.
    account: Option<String>,
    current: RwLock<Credential>,
}

impl CredentialSlot {
    /// Creates a slot with this credential.
    pub fn new(credential: Credential) -> Self {
        let credential = flat(credential);
        let account = credential.account().map(str::to_owned);
        Self(Arc::new(Inner { account, current: RwLock::new(credential) }))
    }

    /// Returns a credential that always follows this slot, for
    /// [`StorageAccountBuilder::credential`](crate::StorageAccountBuilder::credential).
    pub fn credential(&self) -> Credential {
        Credential(Repr::Slot(self.clone()))
    }

    /// Replaces the credential, immediately for every account that uses this slot.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), and changes nothing, if it is
    /// the key of another account.
    pub fn replace(&self, credential: Credential) -> Result<()> {
        let credential = flat(credential);
        if let (Some(known), Some(other)) = (self.account(), credential.account())
            && known != other
        {
            return Err(Error::invalid("the new credential is the key of another account")
                .advise("build an account of its own for it"));
        }
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = credential;
        Ok(())
    }

    pub(super) fn current(&self) -> Credential {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn account(&self) -> Option<&str> {
        self.0.account.as_deref()
    }
}

/// Resolves a credential that is a slot to the slot's content, so that no slot contains itself.
fn flat(credential: Credential) -> Credential {
    match &credential.0 {
        Repr::Slot(slot) => slot.current(),
        _ => credential,
    }
}

impl fmt::Debug for CredentialSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CredentialSlot").field(&self.current()).finish()
    }
}
