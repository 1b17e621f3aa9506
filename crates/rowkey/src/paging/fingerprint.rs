//! The fingerprint of a query or a listing, which its continuation tokens contain.

/// A hash of the texts that is the same in every process.
pub(crate) fn fingerprint<'a, T: AsRef<[u8]> + ?Sized + 'a>(
    texts: impl IntoIterator<Item = &'a T>,
) -> u64 {
    // FNV-1a. The standard hasher may change between versions, and this hash is stored.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for text in texts {
        for byte in text.as_ref().iter().chain(&[0xFF]) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}
