//! The rights of a token, besides what its kind of credential permits: the roles of its identity.

#[cfg(feature = "oauth")]
use std::sync::Arc;

use rowkey_wire::auth::Resource;
#[cfg(feature = "oauth")]
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use crate::account::{Account, Tokens};
use crate::front::operation::Operation;
#[cfg(feature = "oauth")]
use crate::identity::Identity;

/// The rights of a token, or of the holder of a user delegation key.
#[derive(Clone, Debug)]
pub(crate) enum Rights {
    /// Everything: the server knows no roles.
    All,
    /// The roles of an identity, for an account.
    #[cfg(feature = "oauth")]
    Roles { identity: Arc<Identity>, account: String },
}

impl Rights {
    /// The rights of the identity with this object id on an account.
    pub(super) fn of(account: &Account, object_id: Option<&str>) -> Self {
        match &account.tokens {
            Tokens::Refused | Tokens::Unsigned => {
                let _ = object_id;
                Self::All
            }
            #[cfg(feature = "oauth")]
            Tokens::Issued(issuer) => Self::Roles {
                identity: issuer.identity(object_id.unwrap_or_default()),
                account: account.name.clone(),
            },
        }
    }

    /// Rejects an operation on a resource that no role permits; `None` is the account.
    #[cfg_attr(not(feature = "oauth"), expect(clippy::unnecessary_wraps, reason = "as with it"))]
    pub(crate) fn allow(
        &self,
        operation: Operation,
        resource: Option<Resource<'_>>,
    ) -> Result<(), Rejection> {
        match self {
            Self::All => {
                let _ = (operation, resource);
                Ok(())
            }
            #[cfg(feature = "oauth")]
            Self::Roles { identity, account } => {
                let required = super::actions::required(operation);
                let may = |action: &&str| identity.may(action, account, resource);
                if required.is_empty() || required.iter().any(|all| all.iter().all(may)) {
                    return Ok(());
                }
                Err(Rejection::new(ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH)
                    .because("no role of the token's identity permits the operation"))
            }
        }
    }
}
