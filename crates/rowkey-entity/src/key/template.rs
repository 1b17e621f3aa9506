//! Row templates as the derives declare them, and how RowKeys are split by them.

use std::cmp::Ordering;

use rowkey_wire::key as wire;

use super::notation::{PartKind, Sorting};
use super::part::{KeyPart, PartFormat};
use super::read::integer;

/// A piece of a key template: literal text, or a placeholder for a value.
///
/// `"visit_{at:desc}_{who}"` is `visit_`, a part, `_` and a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that every key has in this position.
    Literal(&'static str),
    /// A placeholder for a value.
    Part {
        /// The format of the value.
        format: PartFormat,
        /// [`KeyPart::KIND`] of the value's type.
        kind: PartKind,
    },
}

impl Piece {
    /// A placeholder for a `P`.
    pub const fn part<P: KeyPart>(format: PartFormat) -> Self {
        Self::Part { format, kind: P::KIND }
    }
}

/// How the texts of a part sort, compared with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Like the values.
    Ascending,
    /// In the opposite order of the values.
    Descending,
    /// Like the values if nothing follows. With its separator, which this variant holds, a text may
    /// sort after texts that continue it.
    Text(char),
    /// Not like the values, which are integers without leading zeros.
    Integer,
}

impl Order {
    /// Compares the values of two texts; `None` if one is not valid in the notation.
    pub(super) fn compare(self, a: &str, b: &str) -> Option<Ordering> {
        Some(match self {
            Self::Ascending | Self::Text(_) => wire::compare(a, b),
            Self::Descending => wire::compare(b, a),
            Self::Integer => integer(a).ok()?.cmp(&integer(b).ok()?),
        })
    }
}

/// The position of a part in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartRange {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The end of the literal that follows, or of the part if none does.
    pub(super) after: usize,
    pub(super) order: Order,
}

/// How much of a key matches the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The text is exactly the whole template.
    Whole,
    /// The text may end after any piece.
    Beginning,
    /// Other text may follow the template, such as the keys of entities in an index.
    Row,
}

/// Splits a RowKey into parts; `None` if it does not match the template.
pub(super) fn split(template: &[Piece], text: &str, extent: Extent) -> Option<Vec<PartRange>> {
    let mut parts: Vec<PartRange> = Vec::with_capacity(template.len().div_ceil(2));
    let mut at = 0;
    for piece in template {
        if extent == Extent::Beginning && at == text.len() {
            return Some(parts);
        }
        let rest = &text[at..];
        match piece {
            Piece::Literal(literal) => {
                if !rest.starts_with(literal) {
                    return None;
                }
                at += literal.len();
                if let Some(last) = parts.last_mut() {
                    last.after = at;
                }
            }
            Piece::Part { format, kind } => {
                // A part does not contain the separator that ends it: see `KeyWriter::part`.
                let end = match format.separator {
                    Some(separator) => at + rest.find(separator)?,
                    None => text.len(),
                };
                let order = match (kind.sorting(format.notation), format.separator) {
                    (Sorting::Fixed, _) if format.descending => Order::Descending,
                    (Sorting::Fixed, _) | (Sorting::Text, None) => Order::Ascending,
                    (Sorting::Text, Some(separator)) => Order::Text(separator),
                    (Sorting::Integer, _) if integer(&text[at..end]).is_err() => return None,
                    (Sorting::Integer, _) => Order::Integer,
                };
                parts.push(PartRange { start: at, end, after: end, order });
                at = end;
            }
        }
    }
    (extent == Extent::Row || at == text.len()).then_some(parts)
}

/// Whether RowKeys sort like their values, part by part.
pub fn is_in_order(template: &[Piece]) -> bool {
    template.iter().all(|piece| match piece {
        Piece::Literal(_) => true,
        Piece::Part { format, kind } => match kind.sorting(format.notation) {
            Sorting::Fixed => !format.descending,
            Sorting::Text => format.separator.is_none(),
            Sorting::Integer => false,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn text(separator: Option<char>) -> PartFormat {
        PartFormat { separator, ..PartFormat::DEFAULT }
    }

    const TEMPLATE: &[Piece] = &[
        Piece::Literal("id_"),
        Piece::part::<String>(text(Some('_'))),
        Piece::Literal("_at_"),
        Piece::part::<u8>(PartFormat { descending: true, ..text(Some(';')) }),
        Piece::Literal(";"),
        Piece::part::<String>(text(None)),
    ];

    fn parts(text: &str, extent: Extent) -> Option<Vec<&str>> {
        let parts = split(TEMPLATE, text, extent)?;
        Some(parts.iter().map(|part| &text[part.start..part.end]).collect())
    }

    #[test]
    fn a_key_is_taken_apart_at_its_separators() {
        use Extent::{Beginning, Row, Whole};
        assert_eq!(parts("id_a^~b_at_007;x;y", Whole).unwrap(), ["a^~b", "007", "x;y"]);
        assert_eq!(parts("id__at_;", Row).unwrap(), ["", "", ""]);
        assert_eq!(parts("id_a_at_", Beginning).unwrap(), ["a"]);
        assert_eq!(parts("id_", Beginning).unwrap(), [""; 0]);
        for (key, extent) in
            [("id_a_at_", Whole), ("ID_a_at_007;x", Whole), ("id_a_x", Row), ("id_a", Beginning)]
        {
            assert_eq!(parts(key, extent), None, "{key}");
        }
        let orders: Vec<_> = split(TEMPLATE, "id_a_at_007;x", Whole).unwrap();
        let orders: Vec<_> = orders.iter().map(|part| part.order).collect();
        assert_eq!(orders, [Order::Text('_'), Order::Descending, Order::Ascending]);
    }
}
