//! Wide entities: entities with too many properties for one row, in several rows of their
//! partition.
//!
//! | row | RowKey | properties |
//! |---|---|---|
//! | head | that of the entity | those that fit; `EntityRows`, the number of rows; `EntityOp`, the mark |
//! | further rows | `wide_`, the RowKey of the head, `_01` and so on | `PrimaryRowKey`, the RowKey of the head; `RowFormat`; `EntityOp`, that of the head; what did not fit before |
//!
//! Each write of an entity writes all its rows in one transaction and with one mark. A reader that finds
//! the same mark in all of them has therefore read one version. An entity that fits into one row has
//! neither further rows nor `EntityRows`.
//!
//! - this file: rows that are filled one after the other, and everything that all wide entities have
//! - `parts`: rows that the names of the properties determine

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryStreamExt as _};
use rowkey_client::edm::{Value, ValueRef, size};
use rowkey_client::entity::{Declarations, RowReader, RowWriter};
use rowkey_client::index::PRIMARY_ROW_KEY;
use rowkey_client::key::KeyWriter;
use rowkey_client::table::EncodedRow;
use rowkey_client::{
    DecodeError, DynamicEntity, Entity, Error, ErrorKind, Key, Partition, Projection, Query,
    Result, Rows, Stored, Table,
};

use crate::row::beside::{Beside, ROWS};
use crate::row::{FORMAT, FORMAT_VERSION, Keys, MARK, check_format, only_written, text};

mod parts;

pub(crate) use crate::row::beside::PARTS;
pub(crate) use parts::Layout;
pub(crate) use parts::Parts;

/// The prefix of the RowKeys of further rows.
pub(crate) const FURTHER: &str = "wide_";

/// The part of a report that counts further rows.
pub(crate) const PART: &str = "further rows";

/// The most properties in a row.
const MAX_PROPERTIES: usize = 252;
/// The properties that the store adds to a head: the mark and the number of rows.
const OF_HEAD: usize = 2;
/// The properties of a further row that are not data.
const OF_FURTHER: usize = 3;
/// The most bytes in a row, as the service counts them.
const MAX_BYTES: usize = 1024 * 1024;
/// The most bytes in the body of a transaction.
const MAX_PAYLOAD: usize = 4 * 1024 * 1024;
/// The most rows that any program writes: the number of a further row has two digits.
const MOST: i32 = 100;

/// Splits the rows of a type.
pub(crate) struct Wide {
    /// The most rows per entity.
    most: usize,
    /// The properties that must be in the head.
    pinned: Vec<&'static str>,
    /// `None` if rows are filled one after the other.
    layout: Option<Layout>,
}

/// The result of reading the further rows of an entity.
pub(crate) enum Gathered {
    /// All properties are in the given row now.
    All(Beside),
    /// The rows do not come from one write. This is the number of further rows that belong to the
    /// head.
    Torn(usize),
}

impl Wide {
    /// Returns `None` if entities of the type have one row.
    pub(crate) fn of<E: Entity>() -> Option<Self> {
        if E::DECLARED.wide.rows > 1 {
            let pointers = E::DECLARED.blobs.iter().map(|field| field.pointer);
            let pointers = pointers.chain(E::DECLARED.references.iter().copied());
            Some(Self::new(E::DECLARED.wide.rows, Layout::of::<E>(), E::DISCRIMINATOR, pointers))
        } else {
            None
        }
    }

    fn new(
        most: usize,
        layout: Option<Layout>,
        discriminator: &'static str,
        pointers: impl Iterator<Item = &'static str>,
    ) -> Self {
        // Readers of these properties read only the head.
        let pinned = [discriminator, "EntityVersion"].into_iter();
        let pinned = pinned.chain(pointers).collect();
        Self { most, pinned, layout }
    }

    /// Splits an entity that does not fit into one row.
    pub(crate) fn split(&self, row: &DynamicEntity, mark: &str) -> Result<Beside> {
        let pinned = |name: &str| self.pinned.contains(&name);
        let first = row.iter().filter(|(name, _)| pinned(name));
        let properties: Vec<_> =
            first.chain(row.iter().filter(|(name, _)| !pinned(name))).collect();
        let rows: Vec<(String, Vec<_>)> = if let Some(layout) = self.layout {
            let (head, others) = properties.iter().partition(|(name, _)| pinned(name));
            let of_part = of_further(row, &layout.row_key(&row.row_key, 1), mark);
            let parts = layout.fill(Vec::into_iter(others), of_part)?.into_iter();
            let parts = parts.map(|(part, held)| (layout.row_key(&row.row_key, part), held));
            [(row.row_key.clone(), head)].into_iter().chain(parts).collect()
        } else {
            let rows = pack(row, &properties, mark).into_iter().enumerate();
            rows.map(|(number, held)| (further_key(&row.row_key, number), held)).collect()
        };
        if rows.len() <= 1 {
            return Ok(Beside::None);
        }
        let bytes = || properties.iter().map(|(name, value)| bytes_of(name, value)).sum::<usize>();
        let refused = |what: String| {
            let what = format!(
                "the entity has {} properties of {} bytes in all, which is {} rows; {what}",
                properties.len(),
                bytes(),
                rows.len()
            );
            Err(too_large(what))
        };
        if rows.len() > self.most {
            return match refused(format!("the type allows {}", self.most)) {
                Err(error) if self.most < 98 => Err(error.advise(
                    "raise the number in #[entity(wide = ..)], or keep a part in another entity",
                )),
                other => other,
            };
        }
        if rows[0].1.iter().filter(|(name, _)| pinned(name)).count()
            < properties.iter().filter(|(name, _)| pinned(name)).count()
        {
            return refused(
                "the first has no room for the pointers of its fields in blobs".to_owned(),
            );
        }
        let mut encoded = Vec::with_capacity(rows.len() - 1);
        for (row_key, properties) in &rows[1..] {
            let part = Part {
                partition_key: &row.partition_key,
                row_key,
                of: Some((&row.row_key, mark)),
                properties,
            };
            let longer = row_key.encode_utf16().count() - row.row_key.encode_utf16().count();
            let further = EncodedRow::of(&part).map_err(|error| {
                error.advise(format!(
                    "it is in a further row of the entity, whose RowKey is {longer} longer"
                ))
            });
            encoded.push(further?);
        }
        let (partition_key, row_key) = (&*row.partition_key, &*row.row_key);
        let part = Part { partition_key, row_key, of: None, properties: &rows[0].1 };
        let of_head = EncodedRow::of(&part)?.payload_size();
        let payload = of_head + encoded.iter().map(EncodedRow::payload_size).sum::<usize>();
        if payload > MAX_PAYLOAD {
            return refused(format!(
                "they take more than the {MAX_PAYLOAD} bytes that a transaction has"
            ))
            .map_err(|error| error.advise("keep large properties in blobs: #[entity(blob)]"));
        }
        let mut head = DynamicEntity::of_any_size(&part)?;
        // At most 98.
        head.set(ROWS, i32::try_from(rows.len()).unwrap_or(i32::MAX));
        if let Some(layout) = self.layout {
            head.set(PARTS, Parts { layout, mark: mark.to_owned() }.to_string());
        }
        Ok(Beside::Split(head, encoded))
    }

    /// Adds the properties of the further rows to those of a head. One range query if there are any.
    pub(crate) fn gather<'a>(
        table: &'a Table,
        head: &'a mut DynamicEntity,
    ) -> BoxFuture<'a, Result<Gathered>> {
        // Boxed, so that it is compiled here, and not again in each program.
        Self::gather_rows(table, head).boxed()
    }

    async fn gather_rows(table: &Table, head: &mut DynamicEntity) -> Result<Gathered> {
        let (rows, parts) = (rows_of(head)?, parts_of(head)?);
        let (rows, [first, last]) = match (rows, &parts) {
            (None, None) => return Ok(Gathered::All(Beside::None)),
            (rows, Some(Parts { layout, .. })) => {
                // Another program removed the number.
                let Some(rows) = rows else { return Ok(Gathered::Torn(0)) };
                (rows, layout.ends().map(|part| layout.row_key(&head.row_key, part)))
            }
            (Some(rows), None) => {
                (rows, [1, rows - 1].map(|number| further_key(&head.row_key, number)))
            }
        };
        let mark = parts.as_ref().map(|parts| &*parts.mark).or_else(|| text(head, MARK));
        let layout = parts.as_ref().map(|parts| parts.layout);
        let key = |row_key: String| Key::<DynamicEntity>::new(&*head.partition_key, row_key);
        let range = Partition::<DynamicEntity>::new(&*head.partition_key);
        let mut found = table.query(range.range(key(first)..=key(last))).stream();
        let mut further = BTreeMap::new();
        while let Some(stored) = found.try_next().await? {
            let is_one = number_of(&stored.entity)
                .is_some_and(|(of, number)| of == head.row_key && number.layout == layout);
            if is_one && text(&stored.entity, MARK) == mark {
                check_format(&stored.entity, "a further row of an entity")?;
                further.insert(stored.entity.row_key.clone(), stored);
            }
        }
        if further.len() + 1 != rows {
            return Ok(Gathered::Torn(further.len()));
        }
        let is_own = |name: &str| [PRIMARY_ROW_KEY, FORMAT, MARK].contains(&name);
        let of_further = further.values().flat_map(|stored| stored.entity.iter());
        let of_head = head.iter().filter(|(name, _)| ![ROWS, PARTS].contains(name));
        let properties: Vec<_> =
            of_head.chain(of_further.filter(|(name, _)| !is_own(name))).collect();
        let (partition_key, row_key) = (&*head.partition_key, &*head.row_key);
        let part = Part { partition_key, row_key, of: None, properties: &properties };
        let all = DynamicEntity::of_any_size(&part)?;
        let stored = further.into_iter().map(|(row_key, stored)| (row_key, stored.etag));
        *head = all;
        Ok(Gathered::All(Beside::Stored(stored.collect())))
    }
}

/// Returns the number of rows of an entity; `None` if it has one.
pub(crate) fn rows_of(head: &DynamicEntity) -> Result<Option<usize>> {
    match head.get(ROWS) {
        None => Ok(None),
        Some(Value::Int32(rows)) if (2..=MOST).contains(rows) => Ok(usize::try_from(*rows).ok()),
        Some(_) => {
            let what = format!("property `{ROWS}` of the entity is not a number of rows");
            Err(Error::refused(ErrorKind::Decode, what).advise("another program wrote it"))
        }
    }
}

/// Returns the parts that a head names; `None` if its rows are filled one after the other.
fn parts_of(head: &DynamicEntity) -> Result<Option<Parts>> {
    let Some(value) = head.get(PARTS) else { return Ok(None) };
    let parts = match value {
        Value::String(text) => Parts::parse(text),
        _ => None,
    };
    parts.map(Some).ok_or_else(|| {
        let what = format!("property `{PARTS}` of the entity does not name its parts");
        Error::refused(ErrorKind::Decode, what).advise("another program wrote it")
    })
}

/// The number of a further row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    /// The layout if the row is a part.
    pub(crate) layout: Option<Layout>,
    pub(crate) number: usize,
}

/// Returns the RowKey of the head of a further row, and the row's number; `None` for other rows.
pub(crate) fn number_of(row: &DynamicEntity) -> Option<(&str, Number)> {
    let (of, end) = row.row_key.strip_prefix(FURTHER)?.rsplit_once('_')?;
    let is_number = end.len() == 2 && end.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number {
        Number { layout: None, number: end.parse().ok()? }
    } else {
        let (layout, number) = Layout::of_end(end)?;
        Number { layout: Some(layout), number }
    };
    let is_one = row.get(FORMAT).is_some() && text(row, PRIMARY_ROW_KEY) == Some(of);
    is_one.then_some((of, number))
}

/// The number of rows of a head and its mark, without its content.
pub(crate) struct HeadRows {
    pub(crate) rows: usize,
    mark: Option<String>,
    parts: Option<Parts>,
}

impl HeadRows {
    /// Whether a whole write of the entity wrote its head and a row with this number and mark.
    pub(crate) fn is_of(&self, number: Number, mark: Option<&str>) -> bool {
        let of_head = match &self.parts {
            Some(parts) if number.layout == Some(parts.layout) => Some(&*parts.mark),
            None if number.layout.is_none() => self.mark.as_deref(),
            _ => None,
        };
        mark.is_some() && of_head == mark
    }

    /// Whether the entity has a row with this number. All rows of a layout may be parts of the entity.
    pub(crate) fn has(&self, number: Number) -> bool {
        match &self.parts {
            Some(parts) => number.layout == Some(parts.layout),
            None => number.layout.is_none() && number.number < self.rows,
        }
    }
}

impl Projection for HeadRows {
    const COLUMNS: Option<&'static [&'static str]> = Some(&["Timestamp", ROWS, PARTS, MARK]);

    fn decode(row: &RowReader<'_>) -> std::result::Result<Self, DecodeError> {
        let rows = row.property::<Option<i32>>(ROWS)?;
        let rows = rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(1);
        let parts: Option<String> = row.property(PARTS)?;
        let parts = parts.and_then(|parts| Parts::parse(&parts));
        Ok(Self { rows, mark: row.property(MARK)?, parts })
    }
}

/// The query of all further rows that an entity may have.
fn all_further(table: &Table, head: &Keys) -> Query<DynamicEntity> {
    let key = |number| Key::<DynamicEntity>::new(&*head.0, further_key(&head.1, number));
    table.query(Partition::<DynamicEntity>::new(&*head.0).range(key(1)..=key(99)))
}

/// Returns the numbers of the further rows that were written with a head. One range query.
pub(crate) async fn written_with(
    table: &Table,
    keys: &Keys,
    head: &HeadRows,
) -> Result<BTreeSet<usize>> {
    let found = all_further(table, keys).all().await?;
    let numbers = found.iter().filter_map(|stored| {
        let (of, number) = number_of(&stored.entity)?;
        let is_of = of == keys.1 && head.is_of(number, text(&stored.entity, MARK));
        is_of.then_some(number.number)
    });
    Ok(numbers.collect())
}

/// What is left of an entity some of whose further rows are missing or come from another write.
pub(crate) struct Remains {
    head: Stored<DynamicEntity>,
    further: Vec<Stored<DynamicEntity>>,
}

impl Remains {
    /// Reads the further rows of a head. One range query.
    pub(crate) async fn read(table: &Table, head: Stored<DynamicEntity>) -> Result<Self> {
        let keys = (head.entity.partition_key.clone(), head.entity.row_key.clone());
        let mut further = all_further(table, &keys).all().await?;
        further.retain(|row| number_of(&row.entity).is_some_and(|(of, _)| of == keys.1));
        Ok(Self { head, further })
    }

    /// Describes the damage, and what can be done.
    pub(crate) fn error(&self) -> Error {
        let rows = rows_of(&self.head.entity).ok().flatten().unwrap_or(1);
        let parts = parts_of(&self.head.entity).ok().flatten();
        let mark = text(&self.head.entity, MARK).map(str::to_owned);
        let head = HeadRows { rows, mark, parts };
        let own = self.further.iter().filter_map(|row| {
            let (_, number) = number_of(&row.entity)?;
            head.has(number).then(|| head.is_of(number, text(&row.entity, MARK)))
        });
        let (right, other): (Vec<_>, Vec<_>) = own.partition(|is_right| *is_right);
        let gone = (rows - 1).saturating_sub(right.len() + other.len());
        let what = format!(
            "of {} further rows of the entity, {gone} are gone with the properties in them, and {} come \
             from another write",
            rows - 1,
            other.len()
        );
        Error::refused(ErrorKind::Decode, what).advise(
            "restore them from a backup; or delete what is left with `Store::delete_remains`, then run \
             `Store::repair` and write the entity again",
        )
    }

    /// Deletes all rows in one transaction, if they are unchanged.
    pub(crate) async fn delete(self, table: &Table) -> Result<()> {
        let Self { head, further } = self;
        let delete = |transaction: rowkey_client::Transaction, row: &Stored<DynamicEntity>| {
            transaction.delete(row.entity.key(), row)
        };
        let transaction = delete(table.transaction(), &head);
        further.iter().fold(transaction, delete).submit().await.map(drop)
    }
}

/// Estimates the number of rows of an entity, before layers change its values.
pub(crate) fn estimate<E: Entity>(entity: &E) -> usize {
    if E::DECLARED.wide.rows <= 1 {
        return 1;
    }
    // An entity that cannot be encoded is refused when it is written.
    DynamicEntity::of_any_size(entity).map_or(1, |row| {
        let properties: Vec<_> = row.iter().collect();
        if let Some(layout) = Layout::of::<E>() {
            let parts: BTreeSet<_> = properties.iter().map(|(name, _)| layout.part(name)).collect();
            return 1 + parts.len();
        }
        pack(&row, &properties, "0123456789abcdef").len()
    })
}

/// Returns the error of an entity whose rows do not come from one write, although no writer is
/// active.
pub(crate) fn damaged(found: usize) -> Error {
    let what = format!(
        "further rows of the entity are missing, or another program wrote them: {found} are as the \
         entity's own row says"
    );
    // Not `Damaged`, which would mean that another attempt may succeed.
    Error::refused(ErrorKind::Decode, what).advise(
        "restore them; or delete what is left with `Store::delete_remains`, and run `Store::repair`, which \
         removes its rows in indexes",
    )
}

/// Returns the error of an entity that another writer changed during each read.
pub(crate) fn torn() -> Error {
    Error::refused(ErrorKind::Conflict, "the entity was changed each time while it was read")
        .advise("try again later")
}

fn too_large(what: String) -> Error {
    Error::refused(ErrorKind::TooLarge, what)
}

fn further_key(row_key: &str, number: usize) -> String {
    format!("{FURTHER}{row_key}_{number:02}")
}

fn bytes_of(name: &str, value: &Value) -> usize {
    size::of_property(name, &value.as_ref())
}

/// Fills rows one after the other.
fn pack<'r>(
    row: &DynamicEntity,
    properties: &[(&'r str, &'r Value)],
    mark: &str,
) -> Vec<Vec<(&'r str, &'r Value)>> {
    let of_text = |name: &str, text: &str| size::of_property(name, &ValueRef::String(text.into()));
    let of_rows = size::of_property(ROWS, &ValueRef::Int32(0));
    let of_mark = of_text(MARK, mark);
    let of_head = size::of_keys(&row.partition_key, &row.row_key) + of_mark;
    let all = properties.iter().map(|(name, value)| bytes_of(name, value)).sum::<usize>();
    if properties.len() < MAX_PROPERTIES && of_head + all <= MAX_BYTES {
        return vec![properties.to_vec()];
    }
    let of_further = of_further(row, &further_key(&row.row_key, 1), mark);
    let mut rows = vec![Vec::new()];
    let (mut count, mut bytes) = (OF_HEAD, of_head + of_rows);
    for (name, value) in properties {
        let more = bytes_of(name, value);
        if count == MAX_PROPERTIES || (bytes + more > MAX_BYTES && count > OF_FURTHER) {
            rows.push(Vec::new());
            (count, bytes) = (OF_FURTHER, of_further);
        }
        (count, bytes) = (count + 1, bytes + more);
        if let Some(row) = rows.last_mut() {
            row.push((*name, *value));
        }
    }
    rows
}

/// The bytes of a further row with this RowKey that are not data.
fn of_further(row: &DynamicEntity, row_key: &str, mark: &str) -> usize {
    let of_text = |name: &str, text: &str| size::of_property(name, &ValueRef::String(text.into()));
    size::of_keys(&row.partition_key, row_key)
        + of_text(MARK, mark)
        + of_text(PRIMARY_ROW_KEY, &row.row_key)
        + size::of_property(FORMAT, &ValueRef::Int32(0))
}

/// A row that is being filled.
struct Part<'r> {
    partition_key: &'r str,
    row_key: &'r str,
    /// For a further row, the RowKey of the head and the mark.
    of: Option<(&'r str, &'r str)>,
    properties: &'r [(&'r str, &'r Value)],
}

only_written!([] Part<'_>, Declarations::NONE);

impl Entity for Part<'_> {
    const ROWS: Rows = Rows::All;

    fn partition_key(&self, out: &mut KeyWriter) {
        out.literal(self.partition_key);
    }

    fn row_key(&self, out: &mut KeyWriter) {
        out.literal(self.row_key);
    }

    fn encode(&self, out: &mut RowWriter) {
        if let Some((of, mark)) = self.of {
            out.property(PRIMARY_ROW_KEY, &of.to_owned());
            out.property(FORMAT, &FORMAT_VERSION);
            out.property(MARK, &mark.to_owned());
        }
        for (name, value) in self.properties {
            out.property(name, *value);
        }
    }
}
