//! Tests of addresses in an index that is declared by hand.

use super::*;
use crate::declaration::Declarations;
use crate::entity::traits::Rows;
use crate::entity::{DecodeError, Projection, RowReader, RowWriter};
use crate::key::Notation;
use crate::key::stretch::Stretch;

/// An entity with an index on one text, implemented by hand.
struct Person;

impl Projection for Person {
    const COLUMNS: Option<&'static [&'static str]> = None;
    const DECLARED: Declarations = Declarations {
        indexes: &[Index {
            name: "by_name",
            scope: Scope::SamePartition,
            table: None,
            unique: true,
            partition_head: "",
            row_head: "name_",
            row_template: &[
                Piece::Literal("name_"),
                Piece::part::<String>(LOWER),
                Piece::Literal("_"),
            ],
            copy: Copied::Only(&["Age"]),
        }],
        ..Declarations::NONE
    };

    fn decode(_: &RowReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

impl Entity for Person {
    const ROWS: Rows = Rows::Head("id_");

    fn partition_key(&self, _: &mut KeyWriter) {}
    fn row_key(&self, _: &mut KeyWriter) {}
    fn encode(&self, _: &mut RowWriter) {}
}

type Names = IndexRange<Person, SamePartition>;

const LOWER: PartFormat =
    PartFormat { notation: Notation::Lower, descending: false, separator: Some('_') };

fn writer(text: &str) -> KeyWriter {
    let mut out = KeyWriter::new();
    out.literal(text);
    out
}

fn written(position: usize, partition_key: &str, row_key: &str) -> WrittenKeys {
    let (partition_key, row_key) = (writer(partition_key), writer(row_key));
    WrittenKeys { position, partition_key, row_key, next: LOWER }
}

fn all() -> Names {
    written(0, "p", "name_").into()
}

fn name(text: &str) -> IndexKey<Person, SamePartition> {
    written(0, "p", &format!("name_{text}_")).into()
}

/// The rows of one name, as in an index that is not unique.
fn every(text: &str) -> Names {
    written(0, "p", &format!("name_{text}_")).into()
}

fn bounds(range: Names) -> Stretch {
    let span = range.span.unwrap();
    let [one] = span.rows.stretches() else { panic!("there is one") };
    one.clone()
}

fn from_to(from: &str, to: &str) -> Stretch {
    (Bound::Included(from.to_owned()), Bound::Excluded(to.to_owned()))
}

#[test]
fn a_prefix_is_written_as_the_template_writes_the_value() {
    assert_eq!(bounds(all()), from_to("name_", "name`"));
    assert_eq!(bounds(all().prefix("Jo")), from_to("name_jo", "name_jp"));
    assert_eq!(bounds(all().prefix("ΑΣ")), from_to("name_ασ", "name_ατ"), "not a final sigma");
    assert_eq!(bounds(all().prefix("j/")), from_to("name_j.~", "name_j.\u{a0}"));
    assert_eq!(bounds(all().prefix("")), from_to("name_", "name`"));
}

#[test]
fn a_prefix_that_looks_like_half_an_escape_does_not_find_what_is_escaped() {
    // `a_` is written as `a^~`, and `a^~` as `a^}~`.
    assert_eq!(bounds(all().prefix("a^")), from_to("name_a^", "name_a^~"));
    assert_eq!(bounds(all().prefix("a.")), from_to("name_a.", "name_a.~"));
}

#[test]
fn ranges_read_all_that_may_lie_between_their_ends_and_drop_the_rest() {
    let range = all().range(every("b x")..every("d"));
    // `b_` sorts after `b x_`, and `_`, the empty name, after all others.
    let rows = range.span.as_ref().map(|span| span.rows.clone()).unwrap();
    assert_eq!(bounds(range), from_to("name_b x", "name_d`"));
    let holds = |row| rows.checks().iter().all(|check| check.contains(row));
    assert!(holds("name_b x_") && holds("name_b y_") && holds("name_bc_1") && holds("name_c_"));
    assert!(!holds("name_b_") && !holds("name_b w_") && !holds("name_d_") && !holds("name_dx_"));
    assert!(!holds("name_c") && !holds("Name_c_"), "the template makes no such rows");
    let one = bounds(all().range(name("b")..=name("c")));
    assert_eq!(one, from_to("name_b", "name_c`"));
    assert_eq!(bounds(all().range(every("b")..)), from_to("name_b", "name`"));
    // Everything up to `B`, and separately the empty name.
    let upper = all().range(..every("B"));
    let stretches = upper.span.as_ref().unwrap().rows.stretches().to_vec();
    assert_eq!(stretches, [from_to("name_", "name_B`"), from_to("name__", "name_`")]);
}

#[test]
fn an_end_that_is_a_part_of_its_rows_is_refused() {
    let range = all().range(every("b").prefix("x")..);
    assert_eq!(range.span, Err(KeyError::NotOfTemplate));
    let range = all().range(..all().range(..every("b")));
    assert_eq!(range.span, Err(KeyError::NotOfTemplate));
}

#[test]
fn ranges_of_other_partitions_and_indexes_are_refused() {
    let elsewhere: Names = written(0, "q", "name_b").into();
    let range = all().range(elsewhere..);
    assert_eq!(range.span, Err(KeyError::OtherPartition));
    let other: Names = written(1, "p", "name_b").into();
    assert_eq!(all().range(..other).span, Err(KeyError::OtherIndex));
    assert!(matches!(all().prefix("\n").span, Err(KeyError::ControlCharacter)));
}

#[test]
fn addresses_are_those_of_rows_of_another_type() {
    let key: Key<crate::DynamicEntity> = name("b").key_of();
    assert_eq!(key.parts(), Ok(("p", "name_b_")));
    let rows: Partition<crate::DynamicEntity> = all().partition_of();
    assert_eq!(rows.partition_key(), Ok("p"));
}
