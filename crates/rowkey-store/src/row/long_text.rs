//! Text that is longer than the limit of a property, split over several: `Targets`, `Targets2`,
//! `Targets3`. Public for the other crates of the workspace, and not part of the public interface.

use rowkey_client::DynamicEntity;

use super::text;

/// The most UTF-16 units in a text property.
const MAX_TEXT: usize = 32 * 1024;

/// Writes text into as many properties as needed; returns their number.
pub fn set_text(row: &mut DynamicEntity, name: &str, text: &str) -> usize {
    let parts = parts(text);
    for (at, part) in parts.iter().enumerate() {
        row.set(numbered(name, at), *part);
    }
    // Remove properties of a longer text.
    for at in parts.len().. {
        if row.remove(&numbered(name, at)).is_none() {
            break;
        }
    }
    parts.len()
}

/// Returns the text that [`set_text`] wrote.
pub fn whole_text(row: &DynamicEntity, name: &str) -> String {
    (0..).map_while(|at| text(row, &numbered(name, at))).collect()
}

fn numbered(name: &str, at: usize) -> String {
    if at == 0 { name.to_owned() } else { format!("{name}{}", at + 1) }
}

/// Splits text at the length limit of a property, but never within a character.
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
    fn text_is_split_at_the_property_size_limit() {
        let odd = format!("x{}", "\u{1F600}".repeat(MAX_TEXT / 2));
        let cut = parts(&odd);
        assert_eq!((cut.len(), cut.concat()), (2, odd.clone()));
        assert!(cut.iter().all(|part| part.encode_utf16().count() <= MAX_TEXT));
    }
}
