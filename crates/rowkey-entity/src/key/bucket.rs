//! Buckets: a hash that spreads values over the partitions of a template, `{device:bucket(8)}`.

/// The number of the bucket that a text belongs to, from 0 on.
///
/// The function is the same in every version and easy to implement in any language, because its
/// result is stored in keys: FNV-1a of 64 bits over the UTF-8 of the text, then the finalizer of
/// `MurmurHash3`, modulo the number of buckets. For numbers, dates and GUIDs the text is their text
/// in a key: `7_u32` is `0000000007`. In Python:
///
/// ```text
/// def bucket_of(text, buckets):
///     h = 0xcbf29ce484222325
///     for byte in text.encode():
///         h = (h ^ byte) * 0x100000001b3 % 2**64
///     h = (h ^ h >> 33) * 0xff51afd7ed558ccd % 2**64
///     h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53 % 2**64
///     return (h ^ h >> 33) % buckets
/// ```
///
/// ```
/// use rowkey::Entity;
/// use rowkey::key::bucket_of;
///
/// #[derive(Debug, PartialEq, Entity)]
/// #[entity(partition = "{day:8}_{device:bucket(8)}", row = "{device}_{second:5}")]
/// struct Event {
///     day: u32,
///     device: String,
///     second: u32,
/// }
///
/// assert_eq!(bucket_of("door", 8), 7);
/// let key = Event::key(20_260_101, "door", 3);
/// assert_eq!(key.parts(), Ok(("20260101_7", "door_00003")));
/// assert_eq!(Event::partitions(20_260_101).len(), 8);
/// ```
///
/// # Panics
///
/// If `buckets` is 0.
pub fn bucket_of(text: &str, buckets: u16) -> u16 {
    // FNV alone mixes the last byte into too few bits: the lowest bit is a parity of the bytes.
    let mut hash = fnv1a(text.bytes());
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    u16::try_from((hash ^ (hash >> 33)) % u64::from(buckets)).unwrap_or_default()
}

/// FNV-1a, 64 bits: the same in every process and version, so its values may be stored.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The number of digits of the largest bucket.
pub(super) fn digits(buckets: u16) -> u8 {
    match buckets {
        0..=10 => 1,
        11..=100 => 2,
        101..=1000 => 3,
        1001..=10_000 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_the_same_in_every_version_and_language() {
        // Computed by the Python program of the documentation.
        for (text, of_8, of_16, of_1000) in KNOWN {
            let buckets = [8, 16, 1000].map(|buckets| bucket_of(text, buckets));
            assert_eq!(buckets, [of_8, of_16, of_1000], "{text}");
        }
    }

    #[test]
    fn texts_that_hardly_differ_are_spread_evenly() {
        let families: [fn(u32) -> String; 3] =
            [|n| n.to_string(), |n| format!("device-{n:06}"), |n| format!("{n}{n}")];
        for text in families {
            for buckets in [2, 3, 8, 16, 100] {
                let mut counts = vec![0_u32; usize::from(buckets)];
                for n in 0..10_000 {
                    counts[usize::from(bucket_of(&text(n), buckets))] += 1;
                }
                let even = 10_000 / u32::from(buckets);
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                assert!(*least > even / 2 && *most < even * 2, "{buckets}: {least} to {most}");
            }
        }
    }

    #[test]
    fn the_number_of_the_largest_bucket_has_the_digits_of_all() {
        for buckets in 1..=u16::MAX {
            assert_eq!((buckets - 1).to_string().len(), usize::from(digits(buckets)), "{buckets}");
        }
    }

    const KNOWN: [(&str, u16, u16, u16); 5] = [
        ("", 6, 6, 342),
        ("a", 3, 11, 315),
        ("door", 7, 15, 71),
        ("device-000223", 2, 10, 266),
        ("Zürich 😀", 7, 15, 935),
    ];
}
