//! Text that is longer than a property may be, in as many properties as it takes: `Targets`, `Targets2`,
//! `Targets3`. Public for the crates beside this one, and no part of its interface.

use rowkey::DynamicEntity;

use crate::row::text;

/// The most UTF-16 units that a text property has.
const MAX_TEXT: usize = 32 * 1024;

/// Writes text into as many properties as it takes; says how many those are.
pub fn set_text(row: &mut DynamicEntity, name: &str, text: &str) -> usize {
    let parts = parts(text);
    for (at, part) in parts.iter().enumerate() {
        row.set(numbered(name, at), *part);
    }
    // What is left of a longer one.
    for at in parts.len().. {
        if row.remove(&numbered(name, at)).is_none() {
            break;
        }
    }
    parts.len()
}

/// The text that [`set_text`] wrote.
pub fn whole_text(row: &DynamicEntity, name: &str) -> String {
    (0..).map_while(|at| text(row, &numbered(name, at))).collect()
}

fn numbered(name: &str, at: usize) -> String {
    if at == 0 { name.to_owned() } else { format!("{name}{}", at + 1) }
}

/// Cuts text where a property ends, and never within a character.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut units) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        units += character.len_utf16();
        if units > MAX_TEXT {
            parts.push(&text[from..at]);
            (from, units) = (at, character.len_utf16());
        }
    }
    parts.push(&text[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_where_a_property_ends() {
        let odd = format!("x{}", "\u{1F600}".repeat(MAX_TEXT / 2));
        let cut = parts(&odd);
        assert_eq!((cut.len(), cut.concat()), (2, odd.clone()));
        assert!(cut.iter().all(|part| part.encode_utf16().count() <= MAX_TEXT));
    }
}
