//! Changes to single stored access policies of a table, queue or container.

use rowkey_wire::limits::{MAX_ACCESS_POLICIES, MAX_POLICY_ID};

use crate::error::{Error, Result};
use crate::service::AccessPolicy;

/// Refuses more policies than a table, queue or container can have, and invalid ids.
pub(crate) fn check(policies: &[AccessPolicy]) -> Result<()> {
    if policies.len() > MAX_ACCESS_POLICIES {
        let number = policies.len();
        let what =
            format!("there are at most {MAX_ACCESS_POLICIES} stored access policies, not {number}");
        return Err(Error::too_large(what));
    }
    policies.iter().try_for_each(|policy| check_id(&policy.id))
}

/// Refuses an invalid policy id.
pub(crate) fn check_id(id: &str) -> Result<()> {
    let length = id.chars().count();
    if !(1..=MAX_POLICY_ID).contains(&length) {
        return Err(Error::invalid(format!(
            "a policy id must have 1 to {MAX_POLICY_ID} characters, not {length}"
        )));
    }
    match id.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(Error::invalid(format!(
            "the id of a stored access policy has a control character at position {at}"
        ))),
        None => Ok(()),
    }
}

/// Replaces the policy with the same id, or appends `policy`.
pub(crate) fn set(policies: &mut Vec<AccessPolicy>, policy: AccessPolicy) {
    match policies.iter_mut().find(|known| known.id == policy.id) {
        Some(known) => *known = policy,
        None => policies.push(policy),
    }
}

/// Removes the policy with this id. Returns whether it existed.
pub(crate) fn revoke(policies: &mut Vec<AccessPolicy>, id: &str) -> bool {
    let before = policies.len();
    policies.retain(|policy| policy.id != id);
    policies.len() < before
}

/// Replaces the policy with this id by `replacement`.
pub(crate) fn rotate(
    policies: &mut Vec<AccessPolicy>,
    id: &str,
    replacement: AccessPolicy,
) -> Result<()> {
    policies.retain(|policy| policy.id != replacement.id);
    let old = policies.iter_mut().find(|policy| policy.id == id).ok_or_else(Error::absent)?;
    *old = replacement;
    Ok(())
}

/// Refuses to rotate a policy to one with the same id.
pub(crate) fn check_rotation(id: &str, replacement: &AccessPolicy) -> Result<()> {
    if replacement.id != id {
        return Ok(());
    }
    Err(Error::invalid("the new access policy has the id of the old one")
        .advise("give it another, or old signatures live on"))
}

/// The methods of a handle that change one policy. `read` and `write` are its methods that get and
/// set all policies.
macro_rules! policies {
    ($operation:literal, $read:ident, $write:ident) => {
        /// Adds a stored access policy, or replaces the one with the same id. The others do not
        /// change.
        ///
        /// Takes effect within 30 seconds for shared access signatures that refer to it. This reads
        /// all policies and writes them back, and the service supports no condition for that: of
        /// two concurrent callers, the last one wins.
        pub async fn set_access_policy(
            &self,
            policy: $crate::service::AccessPolicy,
        ) -> $crate::error::Result<()> {
            let mut stored = self.$read().await?;
            $crate::service::policies::set(stored.as_mut(), policy);
            self.$write(&stored).await
        }

        /// Removes the policy with this id, which revokes all shared access signatures that refer
        /// to it within 30 seconds. Returns whether the policy existed. For concurrent changes see
        /// [`set_access_policy`](Self::set_access_policy).
        pub async fn revoke_access_policy(&self, id: &str) -> $crate::error::Result<bool> {
            let mut stored = self.$read().await?;
            if !$crate::service::policies::revoke(stored.as_mut(), id) {
                return Ok(false);
            }
            self.$write(&stored).await?;
            Ok(true)
        }

        /// Replaces the policy with this id by one with another id. From then on, shared access signatures
        /// that refer to the old id are refused, and those that refer to the new id work.
        ///
        /// Fails with [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if no policy has this id,
        /// and with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if both ids are the same,
        /// because the old signatures would then stay valid.
        ///
        /// ```
        /// use rowkey::service::AccessPolicy;
        ///
        /// # use rowkey::StorageAccount;
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let server = rowkey_emulator::Server::start().await?;
        /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
        /// let orders = account.table("orders");
        /// # orders.create().await?;
        /// let reads = |id: &str| AccessPolicy {
        ///     id: id.into(),
        ///     permission: Some("r".into()),
        ///     ..AccessPolicy::default()
        /// };
        /// orders.set_access_policy(reads("reads-1")).await?;
        /// orders.rotate_access_policy("reads-1", reads("reads-2")).await?;
        /// assert_eq!(orders.access_policies().await?, [reads("reads-2")]);
        /// # Ok(()) }
        /// ```
        pub async fn rotate_access_policy(
            &self,
            id: &str,
            replacement: $crate::service::AccessPolicy,
        ) -> $crate::error::Result<()> {
            let of = |error: $crate::error::Error| error.of($operation, self.name());
            $crate::service::policies::check_rotation(id, &replacement).map_err(of)?;
            let mut stored = self.$read().await?;
            $crate::service::policies::rotate(stored.as_mut(), id, replacement).map_err(of)?;
            self.$write(&stored).await
        }
    };
}

pub(crate) use policies;
