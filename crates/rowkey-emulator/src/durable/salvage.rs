//! Restores or removes rows that depend on lost changes, during a repair.
//!
//! A table, queue or container whose row is lost is restored under another name, because the next
//! start removes rows without an owner. A blob that has lost a part of its bytes is removed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

use rowkey_wire::edm::DateTime;

use super::code::{Encoder, invalid};
use super::disk::Disk;
use super::journal::{Space, Unit};
use super::names::{self, Kind};
use super::{blobs, contents, queues, tables};
use crate::account::DEVELOPMENT_ACCOUNT;
use crate::op::entity::Strictness;
use crate::store::queue::Queues;
use crate::store::{Account, Key, Names};

/// The start of 1970, for resources without a stored time.
const LONG_AGO: i64 = 621_355_968_000_000_000;

/// The changes to make, and the findings to report.
#[derive(Debug, Default)]
pub(super) struct Salvage {
    pub(super) unit: Unit,
    pub(super) findings: Vec<String>,
}

/// Finds rows that depend on lost data.
pub(super) fn salvage(disk: &Disk) -> io::Result<Salvage> {
    let mut owners = HashMap::new();
    let mut account = None;
    disk.read(Space::Names, |key, value| {
        let (of, kind, name) = names::read_key(key)?;
        account.get_or_insert_with(|| of.to_owned());
        if kind.is_owner() {
            owners.insert(names::read_owner(&value)?, (kind, name.to_owned()));
        }
        Ok(())
    })?;
    let account = account.as_deref().unwrap_or(DEVELOPMENT_ACCOUNT);
    let mut pieces: HashMap<u64, BTreeSet<u32>> = HashMap::new();
    disk.read(Space::Bytes, |key, _| {
        let (content, place) = names::split_owner(key)?;
        let place = place.try_into().map_err(invalid)?;
        pieces.entry(content).or_default().insert(u32::from_be_bytes(place));
        Ok(())
    })?;
    let mut found = Salvage::default();
    let mut unowned = BTreeMap::new();
    let mut named = HashSet::new();
    disk.read(Space::Rows, |key, value| {
        let (owner, rest) = names::split_owner(key)?;
        let (kind, container) = match owners.get(&owner) {
            Some((kind, name)) => (Some(*kind), name.as_str()),
            None => (*unowned.entry(owner).or_insert_with(|| guess(rest, &value)), "recovered"),
        };
        if kind != Some(Kind::Container) {
            return Ok(());
        }
        let is_there = |content, place| {
            pieces.get(&content).is_some_and(|pieces: &BTreeSet<u32>| pieces.contains(&place))
        };
        let segments = blobs::read_segments(&value)?;
        if contents::places(&segments).all(|(content, place)| is_there(content, place)) {
            named.extend(contents::places(&segments).map(|(content, _)| content));
        } else {
            found.findings.push(format!(
                "a blob, snapshot or block in container {container} is removed: a part of its \
                 bytes is lost"
            ));
            found.unit.remove(Space::Rows, key.to_vec());
        }
        Ok(())
    })?;
    // Chunks keep their positions even if earlier ones are lost. Unreferenced chunks are removed
    // later.
    for (content, there) in &pieces {
        if !there.contains(&0) && !named.contains(content) {
            continue;
        }
        let last = there.last().copied().unwrap_or_default();
        for place in (0..last).filter(|place| !there.contains(place)) {
            let key = [&content.to_be_bytes()[..], &place.to_be_bytes()].concat();
            found.unit.put(Space::Bytes, key, Vec::new());
        }
    }
    for (owner, kind) in unowned {
        let Some(kind) = kind else { continue };
        let (what, name) = match kind {
            Kind::Container => ("container", format!("recovered-{owner}")),
            Kind::Queue => ("queue", format!("recovered-{owner}")),
            _ => ("table", format!("recovered{owner}")),
        };
        let row = describe(kind, owner, &name)?;
        found.unit.put(Space::Names, names::key(account, kind, &name), row);
        found.findings.push(format!(
            "the creation of a {what} is lost or its deletion was incomplete: its contents are now \
             in {what} {name} of account {account}"
        ));
    }
    Ok(found)
}

/// Guesses the kind of the owner of a row.
fn guess(key: &[u8], value: &[u8]) -> Option<Kind> {
    let table = Key::from("recovered");
    let mut account = Account::new(Strictness::Strict, Names::Blocked);
    if tables::read_entity(&mut account, &table, key, value).is_ok() {
        return Some(Kind::Table);
    }
    let mut queues = Queues::new(Names::Blocked, 0);
    if queues::read_message(&mut queues, "recovered", key, value).is_ok() {
        return Some(Kind::Queue);
    }
    blobs::read_segments(value).is_ok().then_some(Kind::Container)
}

/// Creates the row of a table, queue or container that has only a name.
fn describe(kind: Kind, owner: u64, name: &str) -> io::Result<Vec<u8>> {
    let long_ago = DateTime::from_ticks(LONG_AGO).map_err(invalid)?;
    let mut out = Encoder::default();
    out.u64(owner);
    match kind {
        // Tag, time, access, metadata, policies, lease.
        Kind::Container => out.u64(1).instant(long_ago).byte(0).bytes(b"").text("").byte(0),
        // Metadata, policies.
        Kind::Queue => out.bytes(b"").text(""),
        // Name, time, policies.
        _ => out.text(name).instant(long_ago).text(""),
    };
    Ok(out.finish())
}
