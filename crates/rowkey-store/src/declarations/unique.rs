//! Unique values: claimed before the commit, released after it.

use rowkey_client::index::Scope;
use rowkey_client::{Entity, Error, ErrorKind, Result};

use crate::declaring::{Change, Contribution, Declaration};
use crate::layer::Demands;
use crate::plan::{NewClaim, Released};
use crate::row::op::ClaimRef;
use crate::row::{Keys, index_keys};

/// The name of the declaration.
pub(crate) const NAME: &str = "unique values";

/// The declared unique values of `E`.
///
/// An entity that keeps its value claims nothing. Its claim stands as long as the head that was read
/// does, and the commit is refused if the head has changed.
pub(crate) struct UniqueValues;

impl<E: Entity + Send + Sync> Declaration<E> for UniqueValues {
    fn name(&self) -> &'static str {
        NAME
    }

    fn operations(&self) -> usize {
        0
    }

    fn contribute(&self, change: Change<'_, E>, plan: &mut Contribution<'_>) -> Result<()> {
        for (position, index) in E::DECLARED.indexes.iter().enumerate() {
            if index.scope != Scope::Claim {
                continue;
            }
            let old = change.old_keys(position);
            let new = match change.after {
                Some(entity) => index_keys(entity, position)?,
                None => None,
            };
            if old == new {
                continue;
            }
            let reference = |keys: Keys| ClaimRef {
                keys,
                row_key: change.keys.1.clone(),
                of: plan.of.to_owned(),
                name: index.name.to_owned(),
                before: None,
                head: None,
            };
            let (old, new) = (old.map(reference), new.map(reference));
            plan.plan.released.extend(old.map(|reference| Released {
                reference: ClaimRef { head: change.mark.map(str::to_owned), ..reference },
                etag: None,
            }));
            if let Some(reference) = new {
                if plan.plan.claims.iter().any(|other| other.reference.keys == reference.keys) {
                    let what = format!(
                        "two entities of the transaction have the same value of `{}`",
                        index.name
                    );
                    return Err(Error::refused(ErrorKind::AlreadyExists, what)
                        .in_index(index.name)
                        .advise("give each entity another value"));
                }
                plan.plan.claims.push(NewClaim {
                    reference,
                    owner: change.keys.clone(),
                    index: index.name,
                    position,
                    demands: Demands::of::<E>(plan.layers),
                    inserts: change.before.is_none(),
                });
            }
        }
        // Sorted in the same order by all writers, so that two writers do not block each other's claims.
        sort(&mut plan.plan.claims);
        Ok(())
    }
}

/// A separate function, so that it is compiled once, and not for each type.
fn sort(claims: &mut [NewClaim]) {
    claims.sort_by(|a, b| a.reference.keys.cmp(&b.reference.keys));
}
