//! Parts: wide entities in which the name of a property determines its row.
//!
//! | row | RowKey | properties |
//! |---|---|---|
//! | head | that of the entity | those that readers look for in the head; `EntityRows`, the number of rows; `EntityParts`, the layout and the mark of the further rows; `EntityOp`, the mark of the last write or patch |
//! | part | `wide_`, the RowKey of the head, `_64-07`, or `_64.5v2-07` for names that are compared by 5 characters in version 2 of the type | as in other wide entities; `EntityOp` is the mark of the last write of all rows |
//!
//! A patch merges properties into the head, which gets another mark and another ETag, and into parts, whose marks
//! stay. So every whole write notices the patch, because it replaces the head under its ETag, and a reader still
//! finds one mark in all parts. The RowKey of a part names the layout and the version of the type, so a patch by a
//! program with another layout or version finds no row.

use std::collections::BTreeMap;
use std::fmt;

use rowkey_client::edm::Value;
use rowkey_client::internals::fnv1a;
use rowkey_client::{Entity, Result};

use super::{FURTHER, MAX_BYTES, MAX_PROPERTIES, OF_FURTHER, bytes_of, too_large};

/// The rule that gives each property its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The most rows of an entity, including the head: 2 to 98.
    rows: usize,
    /// How many characters of a name count; `None` for all.
    first: Option<usize>,
    /// The version of the type that wrote the entity.
    version: i32,
}

impl Layout {
    /// Returns `None` if the properties of the type have no rows of their own.
    pub(crate) fn of<E: Entity>() -> Option<Self> {
        let first = E::DECLARED.wide.parts?;
        let first = Some(first).filter(|first| *first != usize::MAX);
        (E::DECLARED.wide.rows > 1).then_some(Self {
            rows: E::DECLARED.wide.rows,
            first,
            version: E::VERSION,
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let (rows, version) = match text.split_once('v') {
            Some((rows, version)) => (rows, version.parse().ok()?),
            None => (text, 1),
        };
        let (rows, first) = match rows.split_once('.') {
            Some((rows, first)) => (rows, Some(first.parse().ok()?)),
            None => (rows, None),
        };
        let layout = Self { rows: rows.parse().ok()?, first, version };
        // Only the text that a store writes.
        ((2..=98).contains(&layout.rows) && layout.to_string() == text).then_some(layout)
    }

    /// Returns the number of the part of a property.
    pub(crate) fn part(self, name: &str) -> usize {
        let end = self.first.and_then(|first| name.char_indices().nth(first));
        let name = end.map_or(name, |(end, _)| &name[..end]);
        // With a final mix, which spreads the last byte.
        let hash = fnv1a(name.bytes());
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        // The number of parts is small, so this fits.
        1 + usize::try_from(hash % (self.rows as u64 - 1)).unwrap_or_default()
    }

    /// Whether all names that begin with `text` have the same part.
    pub(crate) fn keeps_together(self, text: &str) -> bool {
        self.first.is_some_and(|first| text.chars().count() >= first)
    }

    /// The numbers of the first and the last part.
    pub(super) fn ends(self) -> [usize; 2] {
        [1, self.rows - 1]
    }

    /// Returns the RowKey of a part.
    pub(crate) fn row_key(self, of: &str, part: usize) -> String {
        format!("{FURTHER}{of}_{self}-{part:02}")
    }

    /// Reads the end of a RowKey, after the last `_`.
    pub(super) fn of_end(end: &str) -> Option<(Self, usize)> {
        let (layout, part) = end.rsplit_once('-')?;
        let layout = Self::parse(layout)?;
        let number = part.parse().ok().filter(|number| (1..layout.rows).contains(number))?;
        (part.len() == 2).then_some((layout, number))
    }

    /// Puts each property into its part, or refuses if one has too many.
    pub(super) fn fill<'r>(
        self,
        properties: impl Iterator<Item = (&'r str, &'r Value)>,
        of_further: usize,
    ) -> Result<BTreeMap<usize, Vec<(&'r str, &'r Value)>>> {
        let mut parts: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for (name, value) in properties {
            parts.entry(self.part(name)).or_default().push((name, value));
        }
        for (part, properties) in &parts {
            let bytes = properties.iter().map(|(name, value)| bytes_of(name, value)).sum::<usize>();
            if properties.len() > MAX_PROPERTIES - OF_FURTHER || of_further + bytes > MAX_BYTES {
                let what = format!(
                    "part {part} of the entity has {} properties of {bytes} bytes, and a row has room \
                     for {} and 1 MiB",
                    properties.len(),
                    MAX_PROPERTIES - OF_FURTHER
                );
                return Err(too_large(what).advise(
                    "raise the number in #[entity(wide = ..)], so that fewer names share a part, or let more \
                     characters of a name choose it in #[entity(parts = ..)]",
                ));
            }
        }
        Ok(parts)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}", self.rows)?;
        self.first.map_or(Ok(()), |first| write!(f, ".{first}"))?;
        if self.version == 1 { Ok(()) } else { write!(f, "v{}", self.version) }
    }
}

/// The parts of an entity, as its head names them: their layout and their mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) layout: Layout,
    pub(crate) mark: String,
}

impl Parts {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (layout, mark) = text.split_once('/')?;
        Some(Self { layout: Layout::parse(layout)?, mark: mark.to_owned() })
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.layout, self.mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_name_never_changes() {
        let all = Layout { rows: 64, first: None, version: 1 };
        let day = Layout { first: Some(5), ..all };
        let known =
            ["H07011200", "H07011300", "Unit", ""].map(|name| (all.part(name), day.part(name)));
        assert_eq!(known, [(13, 1), (7, 1), (15, 15), (16, 16)]);
        let one = Layout { rows: 2, ..all };
        assert_eq!(one.part("anything"), 1);
        let mut sizes = BTreeMap::new();
        for name in 0..8760 {
            *sizes.entry(all.part(&format!("H{name:05}"))).or_insert(0) += 1;
        }
        assert_eq!((sizes.len(), *sizes.keys().next_back().unwrap()), (63, 63));
        assert!(sizes.values().all(|size| (90..190).contains(size)), "{sizes:?}");
    }

    #[test]
    fn row_keys_name_the_layout_and_only_those_of_a_store_are_read() {
        let layout = Layout { rows: 64, first: Some(5), version: 1 };
        assert_eq!(layout.row_key("year_2026", 7), "wide_year_2026_64.5-07");
        assert_eq!(Layout::of_end("64.5-07"), Some((layout, 7)));
        let of_8 = Layout { rows: 8, first: None, version: 12 };
        assert_eq!(of_8.row_key("year", 7), "wide_year_08v12-07");
        assert_eq!(Layout::of_end("08v12-07"), Some((of_8, 7)));
        for other in
            ["07", "64.5-7", "64.05-07", "8-07", "08-08", "08-00", "99-01", "08.-01", "08v1-01"]
        {
            assert_eq!(Layout::of_end(other), None, "{other}");
        }
        let parts = Parts { layout, mark: "00ff".into() };
        assert_eq!(Parts::parse(&parts.to_string()), Some(parts));
        assert!(layout.keeps_together("H0701") && !layout.keeps_together("H070"));
    }
}
