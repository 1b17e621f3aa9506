//! Derived names, and suggestions for misspelt ones.

use syn::{Error, LitStr, Result};

/// The maximum length of a property name, in UTF-16 code units.
const MAX_PROPERTY_NAME: usize = 255;

/// The cases of `rename_all`.
#[derive(Clone, Copy)]
pub(crate) enum Case {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
}

const CASES: [(&str, Case); 7] = [
    ("lowercase", Case::Lower),
    ("UPPERCASE", Case::Upper),
    ("PascalCase", Case::Pascal),
    ("camelCase", Case::Camel),
    ("snake_case", Case::Snake),
    ("SCREAMING_SNAKE_CASE", Case::ScreamingSnake),
    ("kebab-case", Case::Kebab),
];

impl Case {
    pub(crate) fn parse(text: &LitStr) -> Result<Self> {
        let value = text.value();
        let found = CASES.iter().find(|(name, _)| *name == value);
        found.map(|(_, case)| *case).ok_or_else(|| {
            let all = CASES.map(|(name, _)| format!("{name:?}")).join(", ");
            let hint = did_you_mean(&value, CASES.iter().map(|(name, _)| *name));
            Error::new(text.span(), format!("`rename_all` must be one of {all}{hint}"))
        })
    }

    /// Converts the name of a field or a variant to this case.
    pub(crate) fn apply(self, name: &str) -> String {
        let words = words(name);
        let each = |form: fn(&str) -> String, between: &str| {
            words.iter().map(|word| form(word)).collect::<Vec<_>>().join(between)
        };
        match self {
            Self::Lower => each(str::to_lowercase, ""),
            Self::Upper => each(str::to_uppercase, ""),
            Self::Pascal => each(capitalized, ""),
            Self::Camel => {
                let (first, rest) = words.split_first().map_or(("", &[][..]), |(f, r)| (f, r));
                rest.iter().fold(first.to_lowercase(), |all, word| all + &capitalized(word))
            }
            Self::Snake => each(str::to_lowercase, "_"),
            Self::ScreamingSnake => each(str::to_uppercase, "_"),
            Self::Kebab => each(str::to_lowercase, "-"),
        }
    }
}

/// The name of the constant for the column of a field. A leading `_` is kept.
pub(crate) fn constant(field: &str) -> String {
    let name = Case::ScreamingSnake.apply(field);
    if field.starts_with('_') || name.is_empty() { format!("_{name}") } else { name }
}

/// Checks that the service accepts `name` as the name of a property.
pub(crate) fn check_property(name: &str) -> std::result::Result<(), String> {
    let mut characters = name.chars();
    let first = characters.next().is_some_and(|c| c.is_alphabetic() || c == '_');
    if !first || !characters.all(|c| c.is_alphanumeric() || c == '_') {
        return Err(format!(
            "invalid property name {name:?}: a name consists of letters, digits and `_`, and does \
             not begin with a digit"
        ));
    }
    let units = name.encode_utf16().count();
    if units > MAX_PROPERTY_NAME {
        return Err(format!(
            "the property name has {units} characters; the maximum is {MAX_PROPERTY_NAME}"
        ));
    }
    Ok(())
}

/// `; did you mean ..?`, or nothing if no candidate is similar.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    let near = candidates
        .into_iter()
        .map(|candidate| (distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 1 + name.len() / 4);
    near.map_or_else(String::new, |(_, candidate)| format!("; did you mean `{candidate}`?"))
}

/// The edit distance: how many characters must be added, removed or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// `line_items` and `LineItems` are both `line`, `items`; `HTTPError` is `HTTP`, `Error`.
fn words(name: &str) -> Vec<&str> {
    let characters: Vec<(usize, char)> = name.char_indices().collect();
    let mut words = Vec::new();
    let mut start = 0;
    for (i, &(at, character)) in characters.iter().enumerate().skip(1) {
        let before = characters[i - 1].1;
        let after = characters.get(i + 1).map(|(_, character)| *character);
        let begins = character.is_uppercase()
            && (!before.is_uppercase() || after.is_some_and(char::is_lowercase));
        if begins {
            words.push(&name[start..at]);
            start = at;
        }
    }
    words.push(&name[start..]);
    words.into_iter().flat_map(|word| word.split('_')).filter(|word| !word.is_empty()).collect()
}

fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>())
        + characters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_variants_are_renamed_word_by_word() {
        let forms = |name: &str| CASES.map(|(_, case)| case.apply(name));
        let expected = [
            "lineitems",
            "LINEITEMS",
            "LineItems",
            "lineItems",
            "line_items",
            "LINE_ITEMS",
            "line-items",
        ];
        assert_eq!(forms("line_items"), expected);
        assert_eq!(forms("LineItems"), expected);
        assert_eq!(Case::Snake.apply("HTTPError"), "http_error");
        assert_eq!(Case::Pascal.apply("HTTPError"), "HTTPError");
        assert_eq!(Case::Pascal.apply("line_2"), "Line2");
    }

    #[test]
    fn constants_are_upper_case_and_keep_a_leading_underscore() {
        assert_eq!(constant("line_items"), "LINE_ITEMS");
        assert_eq!(constant("lineItems"), "LINE_ITEMS");
        assert_eq!(constant("_hidden"), "_HIDDEN");
        assert_eq!(constant("_1"), "_1");
        assert_eq!(constant("größe"), "GRÖSSE");
    }

    #[test]
    fn similar_names_are_suggested_and_others_are_not() {
        assert_eq!(did_you_mean("patition", ["row", "partition"]), "; did you mean `partition`?");
        assert_eq!(did_you_mean("Row", ["row", "partition"]), "; did you mean `row`?");
        assert_eq!(did_you_mean("colour", ["row", "partition"]), "");
    }

    #[test]
    fn property_names_that_the_service_rejects_are_rejected() {
        for name in ["", "1st", "a-b", "a b", "a.b"] {
            assert!(check_property(name).is_err(), "{name:?}");
        }
        for name in ["a", "_a1", "größe", "日本"] {
            assert_eq!(check_property(name), Ok(()), "{name:?}");
        }
        assert!(check_property(&"a".repeat(255)).is_ok());
        assert!(check_property(&"a".repeat(256)).is_err());
    }
}
