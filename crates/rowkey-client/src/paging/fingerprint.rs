//! The fingerprint of a query or a listing, which its continuation tokens contain.

use rowkey_entity::internals::fnv1a;

/// A hash of the texts that is the same in every process.
pub(crate) fn fingerprint<'a, T: AsRef<[u8]> + ?Sized + 'a>(
    texts: impl IntoIterator<Item = &'a T>,
) -> u64 {
    // The standard hasher may change between versions, and this hash is stored. UTF-8 has no byte 0xFF, which
    // ends each text.
    fnv1a(texts.into_iter().flat_map(|text| text.as_ref().iter().copied().chain([0xFF])))
}
