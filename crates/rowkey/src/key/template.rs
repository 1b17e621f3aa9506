//! Row templates as the derives state them, and RowKeys taken apart by them.

use super::part::{KeyPart, PartFormat};

/// A piece of a key template: text, or the place of a value.
///
/// `"visit_{at:desc}_{who}"` is `visit_`, a part, `_` and a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that every key has there.
    Literal(&'static str),
    /// The place of a value.
    Part {
        /// How the template asks for the value.
        format: PartFormat,
        /// [`KeyPart::PREFIX_FREE`] of the value's type.
        prefix_free: bool,
    },
}

impl Piece {
    /// The place of a `P`.
    pub const fn part<P: KeyPart>(format: PartFormat) -> Self {
        Self::Part { format, prefix_free: P::PREFIX_FREE }
    }
}

/// How the texts of a part sort, as the values of which they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// In the order of the values.
    Ascending,
    /// In the opposite order.
    Descending,
    /// In the order of the values as long as nothing follows: with its separator, which this holds, a
    /// text may lie behind those that continue it.
    Text(char),
    /// Unknown: a value and those that continue it, largest first.
    Unknown,
}

/// Where a part is in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The end of the literal that follows; that of the part if nothing does.
    pub(super) after: usize,
    pub(super) order: Order,
    pub(super) descending: bool,
}

/// Which keys are taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All that is in the text is of the template, and the whole template is in the text.
    Whole,
    /// The text may end where any piece does.
    Beginning,
    /// Something may follow what is of the template, as keys of entities do in an index.
    Row,
}

/// Takes a RowKey apart; `None` if the template cannot have made it.
pub(super) fn split(template: &[Piece], text: &str, extent: Extent) -> Option<Vec<Place>> {
    let mut places: Vec<Place> = Vec::with_capacity(template.len().div_ceil(2));
    let mut at = 0;
    for piece in template {
        if extent == Extent::Beginning && at == text.len() {
            return Some(places);
        }
        let rest = &text[at..];
        match piece {
            Piece::Literal(literal) => {
                if !rest.starts_with(literal) {
                    return None;
                }
                at += literal.len();
                if let Some(last) = places.last_mut() {
                    last.after = at;
                }
            }
            Piece::Part { format, prefix_free } => {
                // No part contains the separator that ends it: see `KeyWriter::part`.
                let end = match format.separator {
                    Some(separator) => at + rest.find(separator)?,
                    None => text.len(),
                };
                let descending = format.descending;
                let order = match (format.separator.filter(|_| !prefix_free), descending) {
                    (None, false) => Order::Ascending,
                    (None, true) => Order::Descending,
                    (Some(separator), false) => Order::Text(separator),
                    (Some(_), true) => Order::Unknown,
                };
                places.push(Place { start: at, end, after: end, order, descending });
                at = end;
            }
        }
    }
    (extent == Extent::Row || at == text.len()).then_some(places)
}

/// Whether RowKeys are in the order of their values, part by part.
pub(crate) fn is_in_order(template: &[Piece]) -> bool {
    template.iter().all(|piece| match piece {
        Piece::Literal(_) => true,
        Piece::Part { format, prefix_free } => {
            !format.descending && (*prefix_free || format.separator.is_none())
        }
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
        let places = split(TEMPLATE, text, extent)?;
        Some(places.iter().map(|place| &text[place.start..place.end]).collect())
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
        let orders: Vec<_> = orders.iter().map(|place| place.order).collect();
        assert_eq!(orders, [Order::Text('_'), Order::Descending, Order::Ascending]);
    }
}
