//! Probes: which key to ask for to find keys behind a position that nothing is known of, with queries for a row or a few.
//!
//! A probe asks for a key that begins as the position does and differs in one character. Walks use the next character, which finds
//! the nearest other prefix; samples use one in the [`middle`] as well, which halves what is left.

use rowkey_client::{Filter, Operator, Query};

pub(crate) const PARTITION_KEY: &str = "PartitionKey";
pub(crate) const ROW_KEY: &str = "RowKey";

/// The lowest character that a key may have.
pub(crate) const LOWEST: char = ' ';

/// The first characters of kinds that keys rarely mix: digits, letters by case, scripts, and what is between them.
const KINDS: [char; 10] =
    [':', 'A', '[', 'a', '{', '\u{a0}', '\u{370}', '\u{3000}', '\u{a000}', '\u{10000}'];

/// The surrogates of UTF-16, the place of astral characters in the order of the service.
const SURROGATES: u32 = 0xD800;
const ASTRAL: u32 = 0x1_0000;
const ASTRALS: u32 = 0x10_0000;
/// The characters from U+E000 to U+FFFF, which are behind the astral ones.
const LAST: u32 = 0xE000;
const BEHIND_ALL: u32 = SURROGATES + ASTRALS + ASTRAL - LAST;

/// The rows of a query whose key is in a range: from a key on, and before another one.
pub(crate) fn between<P: rowkey_client::Projection + Send + 'static>(
    mut query: Query<P>,
    name: &'static str,
    (from, to): (Option<&str>, Option<&str>),
) -> Query<P> {
    let bound = |operator, key: &str| Filter::dynamic(name, operator, key);
    if let Some(from) = from {
        query = query.filter(bound(Operator::GreaterOrEqual, from));
    }
    if let Some(to) = to {
        query = query.filter(bound(Operator::Less, to));
    }
    query
}

/// The next character that a key may have, in the order of the service.
pub(crate) fn next(character: char) -> Option<char> {
    (rank(character) + 1..).map_while(of_rank).find(|next| !next.is_control())
}

/// A character between two others, or behind the first one: the first one of another kind if there is any between them, otherwise
/// that in the middle.
pub(crate) fn middle(low: char, high: Option<char>) -> Option<char> {
    let (low_rank, limit) = (rank(low), high.map_or(BEHIND_ALL, rank));
    let is_between = |one: &char| rank(*one) > low_rank && rank(*one) < limit;
    let middle = || {
        let middle = of_rank(low_rank + limit.saturating_sub(low_rank) / 2);
        // Control characters are between `~` and the kinds behind it.
        middle.filter(|one| is_between(one) && !one.is_control())
    };
    let kind = KINDS.into_iter().find(is_between);
    kind.or_else(middle).or_else(|| next(low).filter(is_between))
}

/// How many characters there are from one up to another.
pub(crate) fn distance(low: char, high: char) -> u32 {
    rank(high).saturating_sub(rank(low))
}

/// The characters before one of them, and another one in its place.
pub(crate) fn changed(key: &str, at: usize, character: char) -> String {
    key.chars().take(at).chain([character]).collect()
}

/// How many characters two keys have in common at the beginning.
pub(crate) fn common(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

/// The place of a character in the order of the service, that of UTF-16.
fn rank(character: char) -> u32 {
    match u32::from(character) {
        astral @ ASTRAL.. => astral - ASTRAL + SURROGATES,
        last @ LAST.. => last - LAST + SURROGATES + ASTRALS,
        code => code,
    }
}

/// The character at a place; `None` behind the last one.
fn of_rank(rank: u32) -> Option<char> {
    char::from_u32(match rank {
        BEHIND_ALL.. => return None,
        last if last >= SURROGATES + ASTRALS => last - SURROGATES - ASTRALS + LAST,
        astral @ SURROGATES.. => astral - SURROGATES + ASTRAL,
        code => code,
    })
}

#[cfg(test)]
mod tests {
    use rowkey_client::internals::compare_keys;

    use super::*;

    #[test]
    fn characters_follow_each_other_as_in_utf_16() {
        for (character, following) in [
            (' ', Some('!')),
            ('9', Some(':')),
            ('~', Some('\u{a0}')),
            ('\u{d7ff}', Some('\u{10000}')),
            (char::MAX, Some('\u{e000}')),
            ('\u{ffff}', None),
        ] {
            assert_eq!(next(character), following, "{character:?}");
            if let Some(following) = following {
                let texts = [character.to_string(), following.to_string()];
                assert!(compare_keys(&texts[0], &texts[1]).is_lt(), "{texts:?}");
            }
        }
        for code in [0x20, 0x7e, 0xd7ff, 0xe000, 0xffff, 0x1_0000, 0x10_ffff] {
            let character = char::from_u32(code);
            assert_eq!(character.map(rank).and_then(of_rank), character);
        }
        assert_eq!(rank('\u{ffff}') + 1, BEHIND_ALL);
    }

    #[test]
    fn the_middle_is_another_kind_or_halves_what_is_between() {
        for (low, high, expected) in [
            ('0', None, Some(':')),
            ('0', Some(':'), Some('5')),
            ('5', Some(':'), Some('7')),
            ('8', Some(':'), Some('9')),
            ('9', Some(':'), None),
            ('0', Some('z'), Some(':')),
            ('a', Some('{'), Some('n')),
            ('{', Some('\u{a0}'), Some('|')),
            ('~', Some('\u{a0}'), None),
            ('\u{4e00}', None, Some('\u{a000}')),
            ('\u{ffff}', None, None),
            ('b', Some('a'), None),
        ] {
            assert_eq!(middle(low, high), expected, "{low:?} {high:?}");
        }
        // Halving reaches each character.
        let mut low = '\u{20000}';
        while let Some(middle) = middle(low, None) {
            assert!(compare_keys(&low.to_string(), &middle.to_string()).is_lt());
            low = middle;
        }
        assert_eq!(low, '\u{ffff}');
    }
}
