//! Decoders of on-disk data, for the fuzz targets. Only compiled with `--cfg fuzzing`.

use std::path::Path;

use bytes::Bytes;
use rowkey_wire::blob::{AppendLimits, BlockSource};
use rowkey_wire::edm::DateTime;

use super::check;
use super::frames::{self, Scan};
use super::journal::Space;
use super::open;
use crate::account::{AccountData, Rules};
use crate::op::blob::{Description, Guard, ListContainers};
use crate::op::entity::Strictness;
use crate::op::queue::Listing;
use crate::store::Names;
use crate::store::blob::{Content, Kind};

/// The name of the account whose rows are read.
const ACCOUNT: &str = "a";

/// Reads bytes as a journal, and as lists of sorted files.
pub fn journal(input: &[u8]) {
    let mut scan = Scan::default();
    while scan.step(input) {}
    assert!(scan.end <= input.len());
    let used = frames::used(input);
    assert!(input[used..].iter().all(|byte| *byte == 0));
    let rest = &input[scan.end..];
    let _ = (frames::breaks_off(rest), frames::next(input, 0, scan.last));
    let _ = (check::parse_current(input), check::sorted(Path::new("tree"), input).is_ok());
}

/// Reads bytes as rows. Each row is a byte for the space, and a key and a value, each after its
/// length. The rows are read space by space, in the server's order.
pub fn rows(input: &[u8]) {
    let accounts = [ACCOUNT.to_owned()];
    let rules = Rules { strict: Strictness::Strict, names: Names::Blocked };
    let mut rows: Vec<(Space, &[u8], &[u8])> = Vec::new();
    let mut rest = input;
    while let Some((space, after)) = rest.split_first() {
        let space = [Space::Names, Space::Bytes, Space::Rows][usize::from(*space % 3)];
        let Some((key, after)) = piece(after) else { break };
        let Some((value, after)) = piece(after) else { break };
        rows.push((space, key, value));
        rest = after;
    }
    for mut data in open::read_rows(&accounts, rules, &rows).unwrap_or_default() {
        for now in [DateTime::MIN, DateTime::MAX] {
            change(&mut data, now);
        }
    }
}

/// Changes what was read like requests do. Rows that are read without an error must not stop a request.
fn change(data: &mut AccountData, now: DateTime) {
    let listing = Listing { prefix: None, marker: None, max: None, metadata: false };
    let (queues, _) = data.queues.list(&listing, usize::MAX);
    let queues: Vec<_> = queues.into_iter().map(|(name, _)| name.to_owned()).collect();
    for name in queues {
        let id = data.queues.message_id();
        let Ok(queue) = data.queues.queue_mut(&name) else { continue };
        queue.put(id, "".into(), Some(1), 0, now);
        queue.get(u32::MAX, 0, now, |_| ());
    }
    let listing = ListContainers::default();
    let (containers, _) = data.blobs.list(&listing, usize::MAX);
    let containers: Vec<_> = containers.into_iter().map(|(name, _)| name.to_owned()).collect();
    for name in containers {
        let Ok((container, version)) = data.blobs.container_mut(&name, now) else { continue };
        let blobs: Vec<_> = container.blobs().map(str::to_owned).collect();
        for blob in blobs {
            let limits = AppendLimits::default();
            let block = Content::from(Bytes::from_static(b"a"));
            let _ = container.append(&blob, &block, &limits, &Guard::default(), version);
            let entry = container.entry(&blob);
            let Some(Kind::Block(blocks)) =
                entry.and_then(|entry| entry.blob.as_ref()).map(|blob| &blob.kind)
            else {
                continue;
            };
            let list: Vec<_> =
                blocks.iter().map(|(id, _)| (BlockSource::Latest, id.to_string())).collect();
            let description = Description::default();
            let _ = container.put_block_list(&blob, &list, description, &Guard::default(), version);
        }
    }
}

/// Splits off a piece whose length is in the first byte; returns it and the rest.
fn piece(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}
