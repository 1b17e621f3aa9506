//! The order of the `x-ms-` headers that a signature covers.
//!
//! The service sorts them as .NET does in the culture `en-US`, not by bytes: punctuation comes
//! before digits (`chunk_count` before `chunk1`), and hyphens only decide between names that are
//! otherwise equal. The official libraries implement this order with tables of weights, and the
//! service rejects a request signed in another order.

use std::cmp::Ordering;

/// The characters of header names that have a weight, in ascending order. Hyphens and apostrophes
/// have none.
const ASCENDING: &[u8] = b"!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz";

/// The weight of each byte, 0 for none.
const WEIGHTS: [u8; 256] = weights();

/// Compares two header names, both in lower case. A total order.
///
/// Costs little more than a comparison of bytes: most names first differ in two characters of
/// different weights, which decides.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[common..], &b[common..]);
    weights_of(a).cmp(weights_of(b)).then_with(|| match (a.first(), b.first()) {
        // Equal except for characters without weight. Where the names first differ, the end comes
        // first, then a character with a weight, then one without.
        (Some(a), Some(b)) => (is_weightless(*a), a).cmp(&(is_weightless(*b), b)),
        (a, b) => a.cmp(&b),
    })
}

fn weights_of(name: &[u8]) -> impl Iterator<Item = u8> {
    name.iter().map(|byte| WEIGHTS[usize::from(*byte)]).filter(|weight| *weight != 0)
}

fn is_weightless(byte: u8) -> bool {
    WEIGHTS[usize::from(byte)] == 0
}

#[expect(clippy::arithmetic_side_effects, reason = "49 characters")]
const fn weights() -> [u8; 256] {
    let mut weights = [0; 256];
    let mut weight = 0;
    while weight < ASCENDING.len() {
        #[expect(clippy::cast_possible_truncation, reason = "49 characters")]
        let next = weight as u8 + 1;
        weights[ASCENDING[weight] as usize] = next;
        weight += 1;
    }
    weights
}
