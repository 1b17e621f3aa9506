//! The identities of a server, which can be changed while it runs.

use std::sync::{Arc, PoisonError, RwLock};

use super::principal::{Identity, IdentityKind};

/// The identities of a server.
#[derive(Debug, Default)]
pub(crate) struct Directory(RwLock<Vec<Arc<Identity>>>);

impl Directory {
    /// A directory with these identities, or with the published ones.
    pub(crate) fn new(identities: Option<&[Identity]>) -> Self {
        let directory = Self::default();
        let published = Identity::development();
        for identity in identities.unwrap_or(&published) {
            directory.add(identity.clone());
        }
        directory
    }

    /// Adds an identity, or replaces the one with its id. Returns `false`, without an effect, if another one has its
    /// object id: tokens name that, so the two would share their roles.
    pub(crate) fn add(&self, identity: Identity) -> bool {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |known: &Identity| known.object_id().eq_ignore_ascii_case(identity.object_id());
        if known.iter().any(|known| is_same(known) && !known.is(identity.id())) {
            return false;
        }
        let identity = Arc::new(identity);
        match known.iter_mut().find(|known| known.is(identity.id())) {
            Some(known) => *known = identity,
            None => known.push(identity),
        }
        true
    }

    /// Removes the identity with this id; `false` if there is none.
    pub(crate) fn remove(&self, id: &str) -> bool {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = known.len();
        known.retain(|known| !known.is(id));
        known.len() < before
    }

    /// All identities, in the order in which they were added.
    pub(crate) fn list(&self) -> Vec<Identity> {
        self.read(|known| known.iter().map(|identity| Identity::clone(identity)).collect())
    }

    /// The identity with this client id or name.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Identity>> {
        self.first(|identity| identity.is(id))
    }

    /// The identity with this object id.
    pub(crate) fn with_object_id(&self, id: &str) -> Option<Arc<Identity>> {
        self.first(|identity| identity.object_id().eq_ignore_ascii_case(id))
    }

    /// The first managed identity, which a machine has if a request names none.
    pub(crate) fn managed(&self) -> Option<Arc<Identity>> {
        self.first(|identity| identity.kind() == IdentityKind::ManagedIdentity)
    }

    fn first(&self, is_meant: impl Fn(&Identity) -> bool) -> Option<Arc<Identity>> {
        self.read(|known| known.iter().find(|identity| is_meant(identity)).cloned())
    }

    fn read<R>(&self, read: impl FnOnce(&[Arc<Identity>]) -> R) -> R {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::role::Role;

    #[test]
    fn an_identity_with_a_known_id_replaces_it() {
        let directory = Directory::new(Some(&[Identity::application("App", "1")]));
        assert!(directory.add(Identity::application("app", "2").role(Role::StorageBlobDelegator)));
        let other = Identity::application("other", "3");
        assert!(directory.add(other.clone().with_object_id("O")) && directory.remove("other"));
        let object_id = directory.find("app").unwrap().object_id().to_uppercase();
        assert!(!directory.add(other.with_object_id(object_id)), "the same tokens");
        assert_eq!(directory.list().len(), 1);
        assert!(directory.find("APP").unwrap().has_secret("2"));
        assert!(directory.remove("aPP") && !directory.remove("App"));
        assert!(directory.list().is_empty());
        assert!(Directory::new(None).managed().is_some(), "the published one");
        assert!(Directory::new(Some(&[])).managed().is_none(), "of a fork whose original has none");
    }
}
