//! Pseudorandom numbers that a seed repeats, for ids and for pages that a test cuts. Not for secrets.

/// Returns the next number of Sebastiano Vigna's `splitmix64`, which has a cycle of 2^64 numbers without repetition.
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}
