//! References to blobs: fields of type `BlobRef`, whose content the program uploads before the write.
//!
//! | when | what |
//! |---|---|
//! | the upload | the blob gets a name that is used once; its metadata names the entity |
//! | the plan is made | a reference that the entity did not have must be newly uploaded for it, and is held for this write |
//! | the commit | the head has the address, length and digest as properties. An entity that drops no reference has no op row for them |
//! | the last settle | the blobs that the head no longer names are deleted: by the writer with one request each |
//!
//! Why a blob that a head names is never deleted:
//!
//! - At most one committed write gives a reference to its entity: after a write that was committed, or may have
//!   been, the reference is spent, with all its clones. So a blob that a head has dropped is never named again,
//!   and may be deleted at any time, as that of a field.
//! - The sweep deletes a blob that no head ever named, [`LEFT`] after its upload, by the clock of the service.
//!   Writers name a blob only within [`USABLE`] of its upload; the rest covers the time in which they send, the
//!   time until requests take effect, and the difference of clocks.

use std::time::Duration;

use chrono::{DateTime, Utc};
use rowkey_client::edm::Value;
use rowkey_client::entity::{Older, Unusable};
use rowkey_client::{BlobRef, DynamicEntity, Entity, Error, ErrorKind, Properties, Result};

use crate::plan::naming::Naming;
use crate::row::Keys;
use crate::row::blobs::Blobs;
use crate::row::times::KEPT;

/// The name of the declaration that frees blobs.
pub(crate) const NAME: &str = "references to blobs";

/// How long after the upload an entity may get the reference.
pub(crate) const USABLE: Duration = Duration::from_secs(60 * 60);

/// How long after its upload a blob is kept if no entity names it.
pub(crate) const LEFT: Duration = Duration::from_secs(2 * 60 * 60);

const _: () = assert!(LEFT.as_secs() > USABLE.as_secs() + KEPT.as_secs());

/// The references of an entity before and after a change.
pub(crate) struct Referring<'e> {
    before: Vec<&'e str>,
    after: Vec<(&'static str, &'e BlobRef)>,
}

impl<'e> Referring<'e> {
    pub(crate) fn of<E: Entity>(
        before: Option<(&'e E, Option<&'e Older>)>,
        after: Option<&'e E>,
    ) -> Self {
        let mut referring = Self { before: Vec::new(), after: Vec::new() };
        if let Some((entity, older)) = before {
            // An older version may have references that the conversion drops.
            referring.before.extend(older.into_iter().flat_map(|o| &o.references).map(|p| &**p));
            entity.references(&mut |_, one| referring.before.push(one.path()));
        }
        if let Some(entity) = after {
            entity.references(&mut |property, one| referring.after.push((property, one)));
        }
        referring
    }

    /// Holds the references that are new for the entity, or refuses one that it cannot have.
    pub(crate) fn hold(
        &self,
        (blobs, of): (&Blobs, &str),
        keys: &Keys,
        now: DateTime<Utc>,
        naming: &mut Naming,
    ) -> Result<()> {
        for (property, reference) in &self.after {
            let path = reference.path();
            let is_known = self.before.contains(&path) || naming.has(path);
            if is_known {
                continue;
            }
            let held = reference.hold(keys).map_err(|why| unusable(property, why))?;
            // Released with the plan, if one of the checks below refuses it.
            naming.add(reference);
            if !blobs.is_reference(of, path) {
                return Err(unusable(property, Unusable::OfAnother));
            }
            if (now - held).to_std().is_ok_and(|age| age >= USABLE) {
                let what = format!(
                    "the blob of `{property}` was uploaded more than an hour ago, and a sweep may delete it"
                );
                return Err(Error::refused(ErrorKind::Invalid, what)
                    .advise("upload the content shortly before the entity is written"));
            }
        }
        Ok(())
    }

    /// Returns the paths of the blobs of the store that the change frees: those that the entity no longer names. Other
    /// versions of the type may have a reference where this one has a text, or a property that it does not know.
    pub(crate) fn freed<E: Entity>(
        &self,
        (blobs, of): (&Blobs, &str),
        (after, unknown): (Option<&E>, &Properties),
    ) -> Result<Vec<String>> {
        let mut freed: Vec<_> = self.before.clone();
        freed.sort_unstable();
        freed.dedup();
        let is_kept = |path: &str| self.after.iter().any(|(_, after)| after.path() == path);
        freed.retain(|path| !is_kept(path) && blobs.is_reference(of, path));
        if let Some(after) = after.filter(|_| !freed.is_empty()) {
            let row = DynamicEntity::of_any_size(after)?;
            freed.retain(|path| !is_named(row.iter().chain(unknown.iter()), path));
        }
        Ok(freed.into_iter().map(str::to_owned).collect())
    }
}

fn unusable(property: &str, why: Unusable) -> Error {
    let refused = |what: &str| {
        let kind = match why {
            Unusable::InUse => ErrorKind::Conflict,
            Unusable::Read | Unusable::OfAnother | Unusable::Spent => ErrorKind::Invalid,
        };
        Error::refused(kind, format!("the reference in `{property}` {what}"))
    };
    match why {
        Unusable::Read => refused("neither is in the stored entity nor was uploaded by this program")
            .advise(
                "keep the reference of the stored entity, as `Store::update` does, or upload the content",
            ),
        Unusable::OfAnother => refused("was uploaded for another entity")
            .advise("upload the content for each entity: its blob is deleted with it"),
        Unusable::Spent => refused("was written before, and its blob may have been deleted since")
            .advise("read the entity: if it does not have the reference, upload the content again"),
        Unusable::InUse => refused("is being written by another call")
            .advise("wait for the other call, or upload the content for each"),
    }
}

/// Whether any property names the blob with this path. Other versions of the type have other fields, so all properties
/// are compared.
pub(crate) fn is_named<'r>(
    mut properties: impl Iterator<Item = (&'r str, &'r Value)>,
    path: &str,
) -> bool {
    properties.any(|(_, value)| matches!(value, Value::String(text) if text == path))
}
