//! The ends of ranges of prefixes, in the service's order of keys and text.

use rowkey_wire::key::check;

/// The smallest key that is greater than every key with this `prefix`, or `None` if there is none
/// (an empty prefix, or one that consists of U+FFFF).
///
/// This is the exclusive end of a prefix range: `RowKey ge 'abc' and RowKey lt 'abd'`.
pub fn successor(prefix: &str) -> Option<String> {
    beyond(prefix, |c| check(c.encode_utf8(&mut [0; 4])).is_err())
}

/// The same for the text of a property, in which every character is valid: the successor of `a.` is
/// `a/`, which is not a valid key.
pub(crate) fn text_successor(prefix: &str) -> Option<String> {
    beyond(prefix, |_| false)
}

fn beyond(prefix: &str, skipped: impl Fn(char) -> bool) -> Option<String> {
    let mut head = prefix.to_owned();
    while let Some(last) = head.pop() {
        if let Some(next) = next_in_key_order(last, &skipped) {
            head.push(next);
            return Some(head);
        }
    }
    None
}

/// The next character in UTF-16 order that is not `skipped`.
#[expect(clippy::arithmetic_side_effects, reason = "a character is far below the largest number")]
fn next_in_key_order(character: char, skipped: impl Fn(char) -> bool) -> Option<char> {
    // UTF-16 order: U+0000..U+D7FF, then U+10000.. (surrogates), then U+E000..U+FFFF.
    let mut next = match character {
        '\u{D7FF}' => '\u{10000}',
        '\u{10FFFF}' => '\u{E000}',
        '\u{FFFF}' => return None,
        other => char::from_u32(u32::from(other) + 1)?,
    };
    while skipped(next) {
        next = char::from_u32(u32::from(next) + 1)?;
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use rowkey_wire::key::compare;

    use super::*;

    #[test]
    fn a_successor_is_above_every_key_with_the_prefix_and_below_the_rest() {
        assert_eq!(successor("empid_000123").as_deref(), Some("empid_000124"));
        assert_eq!(successor("a\u{FFFF}").as_deref(), Some("b"));
        assert_eq!(successor(""), None);
        assert_eq!(successor("a.").as_deref(), Some("a0"), "`/` may not stand in a key");
        assert_eq!(text_successor("a.").as_deref(), Some("a/"), "but in text it may");
        for prefix in ["a", "a😀", "\u{D7FF}", "a\u{10FFFF}", "~"] {
            let end = successor(prefix).unwrap();
            assert_eq!(check(&end), Ok(()));
            for tail in ["", "z", "😀", "\u{FFFF}"] {
                assert_eq!(compare(&format!("{prefix}{tail}"), &end), Ordering::Less);
            }
        }
    }
}
