//! Decoders of on-disk data, for the fuzz targets. Only compiled with `--cfg fuzzing`.

use std::path::Path;

use rowkey_wire::edm::DateTime;

use super::check;
use super::frames::{self, Scan};
use super::journal::Space;
use super::open;
use crate::clock::ServerClock;
use crate::state::State;
use crate::store::Names;
use crate::table::wire::entity::Strictness;

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
    let accounts = [(ACCOUNT.to_owned(), vec!["YmFy".to_owned()])];
    let clock = ServerClock::manual(DateTime::MIN);
    let state = State::new(&accounts, clock, Strictness::Strict, Names::Blocked);
    let Ok(state) = state else { return };
    let mut rows: Vec<(Space, &[u8], &[u8])> = Vec::new();
    let mut rest = input;
    while let Some((space, after)) = rest.split_first() {
        let space = [Space::Names, Space::Bytes, Space::Rows][usize::from(*space % 3)];
        let Some((key, after)) = piece(after) else { break };
        let Some((value, after)) = piece(after) else { break };
        rows.push((space, key, value));
        rest = after;
    }
    open::read_rows(&state, &rows);
}

/// Splits off a piece whose length is in the first byte; returns it and the rest.
fn piece(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}
