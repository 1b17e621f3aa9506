//! Tests of merging operations in a plan, and of its limits.

use chrono::DateTime;
use rowkey_client::ErrorKind;

use super::*;

fn plan() -> Plan {
    let op = Op::new(DateTime::from_timestamp(0, 0).unwrap_or_default(), [1; 8]);
    Plan::new("p".into(), op)
}

fn row(row_key: &str) -> EncodedRow {
    EncodedRow::of(&DynamicEntity::new("p", row_key)).unwrap()
}

fn copy(index: &'static str) -> Source {
    let demands = Demands::of::<DynamicEntity>(&crate::layer::Layers::default());
    Source::Copy(CopyOf { index, position: 0, owner: ("p".into(), "e".into()), demands })
}

#[test]
fn a_unique_value_moves_between_entities_of_one_plan() {
    let delete =
        || Edit { row_key: "c".into(), write: Write::Delete(Match::Any), source: copy("i") };
    let insert = || Edit { row_key: "c".into(), write: Write::Insert(row("c")), source: copy("i") };
    for pair in [[delete(), insert()], [insert(), delete()]] {
        let mut plan = plan();
        for edit in pair {
            plan.push(edit).unwrap();
        }
        assert!(matches!(plan.edits[..], [Edit { write: Write::Replace(_, Match::Any), .. }]));
    }
}

#[test]
fn two_entities_of_one_plan_cannot_share_a_unique_value() {
    let mut plan = plan();
    let insert = || Edit { row_key: "c".into(), write: Write::Insert(row("c")), source: copy("i") };
    plan.push(insert()).unwrap();
    let error = plan.push(insert()).unwrap_err();
    assert_eq!((error.kind(), error.details().index), (ErrorKind::AlreadyExists, Some("i")));
}

#[test]
fn an_entity_occurs_once_in_a_plan() {
    let mut plan = plan();
    let head =
        || Edit { row_key: "e".into(), write: Write::Insert(row("e")), source: Source::Head };
    plan.push(head()).unwrap();
    assert_eq!(plan.push(head()).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_plan_with_more_than_100_operations_is_rejected() {
    let mut plan = plan();
    for at in 0..100 {
        let row_key = format!("e{at}");
        let write = Write::Insert(row(&row_key));
        plan.push(Edit { row_key, write, source: Source::Head }).unwrap();
    }
    assert_eq!(plan.operations().unwrap().len(), 100);
    let write = Write::Insert(row("f"));
    plan.push(Edit { row_key: "f".into(), write, source: Source::Note }).unwrap();
    assert_eq!(plan.operations().map(drop).unwrap_err().kind(), ErrorKind::TooLarge);
}
