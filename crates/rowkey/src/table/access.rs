//! Stored access policies of a table, which shared access signatures may refer to.

use rowkey_wire::limits::MAX_ACCESS_POLICIES;
use rowkey_wire::table::encode;
use rowkey_wire::xml;
/// A stored access policy: its name, from when until when it holds, and what it permits (`r` query,
/// `a` add, `u` update, `d` delete).
pub use rowkey_wire::xml::SignedIdentifier as AccessPolicy;

use super::handle::Table;
use crate::error::{Error, Result};
use crate::service::unreadable;
use crate::transport::{Call, Safety};

impl Table {
    /// The table's stored access policies. Needs Shared Key.
    ///
    /// [Get Table ACL](https://learn.microsoft.com/rest/api/storageservices/get-table-acl)
    pub async fn access_policies(&self) -> Result<Vec<AccessPolicy>> {
        let call = Call::new("GetTableAcl", self.name(), Safety::Read);
        let reply = self.send(encode::get_acl(self.name()), call).await?;
        xml::decode_acl(&reply.body).map_err(|error| unreadable(error, &call, &reply))
    }

    /// Puts these policies, at most 5, in the place of all others. It may take 30 seconds until
    /// the service heeds them.
    ///
    /// [Set Table ACL](https://learn.microsoft.com/rest/api/storageservices/set-table-acl)
    pub async fn set_access_policies(&self, policies: &[AccessPolicy]) -> Result<()> {
        let call = Call::new("SetTableAcl", self.name(), Safety::Conditional);
        if policies.len() > MAX_ACCESS_POLICIES {
            let what = format!(
                "a table has at most {MAX_ACCESS_POLICIES} stored access policies, not {}",
                policies.len()
            );
            return Err(Error::too_large(what).of(call.operation, call.resource));
        }
        self.send(encode::set_acl(self.name(), xml::encode_acl(policies)), call).await?;
        Ok(())
    }

    /// Stores a policy, in the place of the one with its id if there is one. The others stay.
    ///
    /// Shared access signatures that refer to it follow it within 30 seconds. This reads the policies
    /// and writes them back, and the service has no condition for that: of two callers at the same
    /// time, the last one wins.
    pub async fn set_access_policy(&self, policy: AccessPolicy) -> Result<()> {
        let mut policies = self.access_policies().await?;
        match policies.iter_mut().find(|known| known.id == policy.id) {
            Some(known) => *known = policy,
            None => policies.push(policy),
        }
        self.set_access_policies(&policies).await
    }

    /// Removes the policy with this id, and with it all access by the shared access signatures that
    /// refer to it, within 30 seconds. Says whether there was one. See
    /// [`set_access_policy`](Self::set_access_policy) for what happens to changes at the same time.
    pub async fn revoke_access_policy(&self, id: &str) -> Result<bool> {
        let mut policies = self.access_policies().await?;
        let before = policies.len();
        policies.retain(|policy| policy.id != id);
        if policies.len() == before {
            return Ok(false);
        }
        self.set_access_policies(&policies).await?;
        Ok(true)
    }

    /// Puts another policy, with another id, in the place of the one with this id: shared access
    /// signatures that refer to the old one are refused from then on, and those that refer to the
    /// new one work.
    ///
    /// Fails with [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) when there is none to replace,
    /// and with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when both have the same id, for
    /// then the old signatures would live on.
    pub async fn rotate_access_policy(&self, id: &str, replacement: AccessPolicy) -> Result<()> {
        let operation = "SetTableAcl";
        if replacement.id == id {
            return Err(Error::invalid("the new access policy has the id of the old one")
                .advise("give it another, or old signatures live on")
                .of(operation, self.name()));
        }
        let mut policies = self.access_policies().await?;
        policies.retain(|policy| policy.id != replacement.id);
        let Some(old) = policies.iter_mut().find(|policy| policy.id == id) else {
            return Err(Error::absent().of(operation, self.name()));
        };
        *old = replacement;
        self.set_access_policies(&policies).await
    }
}
