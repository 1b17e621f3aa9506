//! Further rows in the transaction of their entity.

use std::collections::BTreeMap;

use rowkey_client::edm::Value;
use rowkey_client::table::EncodedRow;
use rowkey_client::{DynamicEntity, Match, Result};

use crate::layer::wide::Layout;
use crate::plan::{Edit, Plan, Source, Write};
use crate::row::{Closed, Keys, MARK};

/// Adds the operations on the further rows of an entity: new rows are inserted, and rows that were read are
/// replaced or deleted on condition that they are unchanged.
pub(crate) fn add(
    plan: &mut Plan,
    owner: &Keys,
    before: Option<&Closed>,
    after: Option<&Closed>,
) -> Result<()> {
    let stored = before.map_or(&[][..], |closed| closed.beside.stored());
    let rows = after.map_or(&[][..], |closed| closed.beside.written());
    let mut rows: BTreeMap<_, _> = rows.iter().map(|row| (row.keys().1, row)).collect();
    let mut push = |row_key: &str, write| {
        let source = Source::Further(owner.clone());
        plan.push(Edit { row_key: row_key.to_owned(), write, source })
    };
    for (row_key, etag) in stored {
        let condition = Match::ETag(etag.clone());
        match rows.remove(&**row_key) {
            Some(row) => push(row_key, Write::Replace(row.clone(), condition))?,
            None => push(row_key, Write::Delete(condition))?,
        }
    }
    for (row_key, row) in rows {
        push(row_key, Write::Insert(row.clone()))?;
    }
    Ok(())
}

/// Adds the operations of a patch: the head gets another mark under the condition, and each part its
/// properties.
pub(crate) fn add_patch<'p>(
    plan: &mut Plan,
    owner: &Keys,
    condition: Match,
    layout: Layout,
    properties: impl Iterator<Item = (&'p str, Value)>,
) -> Result<()> {
    let mut head = DynamicEntity::new(&*owner.0, &*owner.1);
    head.set(MARK, plan.op.mark());
    let write = Write::Merge(EncodedRow::of(&head)?, condition);
    plan.push(Edit { row_key: owner.1.clone(), write, source: Source::Head })?;
    let mut parts: BTreeMap<usize, DynamicEntity> = BTreeMap::new();
    for (name, value) in properties {
        let part = layout.part(name);
        let row = parts
            .entry(part)
            .or_insert_with(|| DynamicEntity::new(&*owner.0, layout.row_key(&owner.1, part)));
        row.set(name, value);
    }
    for row in parts.into_values() {
        // The head, under its condition, guards all rows of the entity.
        let write = Write::Merge(EncodedRow::of(&row)?, Match::Any);
        let source = Source::Further(owner.clone());
        plan.push(Edit { row_key: row.row_key, write, source })?;
    }
    Ok(())
}
