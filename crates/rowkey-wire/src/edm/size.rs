//! The size of an entity as the service counts it: UTF-16 text, and a fixed cost per property.
//!
//! Formula: `4 + 2·len(PartitionKey + RowKey) + Σ (8 + 2·len(name) + size(value))`, from
//! "How the size of an entity is calculated" (Microsoft, 2011-11-30). Lengths in UTF-16 units.

use super::ValueRef;

/// The bytes of an entity without its properties.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "twice the length of what is in memory, and some"
)]
pub fn of_keys(partition_key: &str, row_key: &str) -> usize {
    4 + 2 * (utf16_len(partition_key) + utf16_len(row_key))
}

/// The bytes of one property.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "twice the length of what is in memory, and some"
)]
pub fn of_property(name: &str, value: &ValueRef<'_>) -> usize {
    8 + 2 * utf16_len(name) + value.size()
}

/// An upper bound that does not read texts: a text never has more units than bytes.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "twice the length of what is in memory, and some"
)]
pub fn of_property_at_most(name: &str, value: &ValueRef<'_>) -> usize {
    let value = match value {
        ValueRef::String(text) => 2 * text.len() + 4,
        value => value.size(),
    };
    8 + 2 * name.len() + value
}

/// The number of UTF-16 units in `text`.
#[expect(clippy::arithmetic_side_effects, reason = "0, 1 or 2")]
pub fn utf16_len(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    // One unit per character, and two for those outside the Basic Multilingual Plane, which have
    // four bytes in UTF-8. Counting the bytes that start a character is several times faster than
    // `encode_utf16`.
    text.bytes().map(|b| usize::from(b & 0xC0 != 0x80) + usize::from(b >= 0xF0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_counts_in_utf16_units() {
        for text in ["", "abc", "é", "日本", "😀", "a😀é"] {
            assert_eq!(utf16_len(text), text.encode_utf16().count(), "{text}");
        }
    }

    #[test]
    fn no_property_has_more_bytes_than_it_has_at_most() {
        for text in ["", "abc", "é", "日本", "😀", "a😀é"] {
            let value = ValueRef::String(text.into());
            assert!(of_property(text, &value) <= of_property_at_most(text, &value), "{text}");
        }
        let ascii = ValueRef::String("abc".into());
        assert_eq!(of_property("Name", &ascii), of_property_at_most("Name", &ascii));
    }

    #[test]
    fn an_entity_counts_as_the_published_formula_says() {
        // PartitionKey "p", RowKey "rr", Name: String "abc", Age: Int32.
        let size = of_keys("p", "rr")
            + of_property("Name", &ValueRef::String("abc".into()))
            + of_property("Age", &ValueRef::Int32(7));
        assert_eq!(size, (4 + 2 * 3) + (8 + 2 * 4 + 2 * 3 + 4) + (8 + 2 * 3 + 4));
    }
}
