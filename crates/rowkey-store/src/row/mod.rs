//! The rows of a store: heads, copies and claims, with their encoding.
//!
//! | row | purpose | properties besides those of the entity |
//! |---|---|---|
//! | head | the entity itself | `EntityOp`: the mark of the operation that wrote it; `EntityRows` if it has further rows |
//! | copy | a row of an index | `PrimaryRowKey`, `PrimaryPartitionKey`, `IndexName`, `EntityOp` of a whole copy |
//! | claim | reserves a value for one entity | `RowFormat`, `OwnerPartition`, `OwnerRow`, `OpRow` |
//!
//! The mark shows which operation wrote a row. It decides a write whose response was lost.
//!
//! - this file: heads, copies and claims · `op`: op rows, voids, and what they name · `times`: how long they are kept
//! - `beside`: further rows · `envelope`: encryption, as all programs see it · `blob_pointer`, `blobs`: fields in blobs
//! - `declared`: the declarations of a type, as constants · `long_text`: text in several properties

use rowkey_client::edm::Value;
use rowkey_client::entity::{Older, RowReader, RowWriter};
use rowkey_client::index::{Copied, Index, PRIMARY_PARTITION_KEY, PRIMARY_ROW_KEY, Scope};
use rowkey_client::internals::fnv1a;
use rowkey_client::key::KeyWriter;
use rowkey_client::{
    DecodeError, DynamicEntity, Entity, Error, ErrorKind, Projection, Properties, Result, Rows,
};
use rowkey_patterns::internals::finish;
pub(crate) use rowkey_patterns::internals::{Keys, keys_of, not_of_a_store};

use beside::{Beside, PARTS, ROWS};
use envelope::{Envelope, METADATA};

pub(crate) mod beside;
pub(crate) mod blob_pointer;
pub(crate) mod blobs;
pub(crate) mod declared;
pub(crate) mod envelope;
#[doc(hidden)]
pub mod long_text;
pub(crate) mod op;
pub(crate) mod times;

/// The property with the mark of the operation that wrote a row.
pub(crate) const MARK: &str = "EntityOp";

/// The property with the version of the type that wrote an entity; a missing one means 1.
const VERSION: &str = "EntityVersion";

/// The property with the format version of the store's own rows.
pub(crate) const FORMAT: &str = "RowFormat";

/// The only format version so far.
pub(crate) const FORMAT_VERSION: i32 = 1;

/// The property of a copy that names its index.
pub(crate) const INDEX: &str = "IndexName";
const OWNER_PARTITION: &str = "OwnerPartition";
const OWNER_ROW: &str = "OwnerRow";
const OP_ROW: &str = "OpRow";

/// Returns the keys of an entity's row in the index at `position`; `None` if it has none.
pub(crate) fn index_keys<E: Entity>(entity: &E, position: usize) -> Result<Option<Keys>> {
    let (mut partition, mut row) = (KeyWriter::new(), KeyWriter::new());
    if !entity.index_key(position, &mut partition, &mut row) {
        return Ok(None);
    }
    finish(partition, row).map(Some).map_err(|error| {
        let index = E::DECLARED.indexes.get(position).map_or("", |index| index.name);
        error.advise(format!("it is the key of its row in the index `{index}`"))
    })
}

/// A row that the layers of a type made of an entity, without the mark.
#[derive(Clone)]
pub(crate) struct Closed {
    pub(crate) row: DynamicEntity,
    /// The properties that copies do not contain.
    pub(crate) not_copied: Vec<String>,
    /// The further rows of the entity. Their properties are in `row` as well.
    pub(crate) beside: Beside,
}

impl Closed {
    /// Returns the properties of the head.
    fn head(&self) -> &DynamicEntity {
        match &self.beside {
            Beside::Split(head, _) => head,
            Beside::None | Beside::Stored(_) => &self.row,
        }
    }
}

/// The content of an entity's rows: the entity and the properties that its type does not have, or the
/// closed form that layers made of both.
pub(crate) enum Content<'e, E> {
    Plain(&'e E, &'e Properties),
    Closed(&'e Closed),
}

impl<'e, E: Entity> Content<'e, E> {
    /// Chooses the closed form if there is one. `unknown` must not contain properties that the
    /// entity writes.
    pub(crate) fn of(entity: &'e E, unknown: &'e Properties, closed: Option<&'e Closed>) -> Self {
        closed.map_or(Self::Plain(entity, unknown), Self::Closed)
    }

    /// Writes the properties of the head.
    fn encode_head(&self, out: &mut RowWriter) {
        match self {
            Self::Plain(entity, unknown) => Self::encode_plain(entity, unknown, out),
            Self::Closed(closed) => Self::encode(closed.head().iter(), out),
        }
    }

    /// Writes the properties of copies.
    fn encode_copy(&self, out: &mut RowWriter) {
        match self {
            Self::Plain(entity, unknown) => Self::encode_plain(entity, unknown, out),
            Self::Closed(closed) => {
                let is_copied = |name: &str| !closed.not_copied.iter().any(|other| other == name);
                Self::encode(closed.row.iter().filter(|(name, _)| is_copied(name)), out);
            }
        }
    }

    fn encode_plain(entity: &E, unknown: &Properties, out: &mut RowWriter) {
        entity.encode(out);
        for (name, value) in unknown.iter() {
            out.property(name, value);
        }
    }

    fn encode<'r>(properties: impl Iterator<Item = (&'r str, &'r Value)>, out: &mut RowWriter) {
        for (name, value) in properties {
            match (name, E::KIND, value) {
                // Partial copies contain these two as well.
                (name, Some(kind), _) if name == E::DISCRIMINATOR => {
                    out.of_type(Some((E::DISCRIMINATOR, kind)), 1);
                }
                (VERSION, _, Value::Int32(version)) => out.of_type(None, *version),
                _ => out.property(name, value),
            }
        }
    }
}

impl<E> Clone for Content<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> std::marker::Copy for Content<'_, E> {}

/// A type of row that the store writes and never reads.
macro_rules! only_written {
    ([$($generics:tt)*] $row:ty, $declared:expr) => {
        impl<$($generics)*> rowkey_client::Projection for $row {
            const COLUMNS: Option<&'static [&'static str]> = None;
            const DECLARED: rowkey_client::entity::Declarations = $declared;

            fn decode(
                _: &rowkey_client::entity::RowReader<'_>,
            ) -> Result<Self, rowkey_client::DecodeError> {
                let what = "this type of row is only written";
                Err(rowkey_client::DecodeError::property($crate::row::MARK, what))
            }
        }
    };
}
pub(crate) use only_written;

/// An entity and the mark of the operation that writes it.
pub(crate) struct HeadRow<'e, E> {
    pub(crate) keys: &'e Keys,
    pub(crate) content: Content<'e, E>,
    pub(crate) mark: &'e str,
}

only_written!([E: Entity] HeadRow<'_, E>, E::DECLARED);

impl<E: Entity> Entity for HeadRow<'_, E> {
    const ROWS: Rows = E::ROWS;

    fn partition_key(&self, out: &mut KeyWriter) {
        out.literal(&self.keys.0);
    }

    fn row_key(&self, out: &mut KeyWriter) {
        out.literal(&self.keys.1);
    }

    fn encode(&self, out: &mut RowWriter) {
        self.content.encode_head(out);
        out.property(MARK, &Text(self.mark));
    }
}

/// A copy of an entity in one of its indexes.
pub(crate) struct CopyRow<'e, E> {
    pub(crate) content: Content<'e, E>,
    pub(crate) index: &'static Index,
    pub(crate) keys: &'e Keys,
    pub(crate) primary: &'e Keys,
    pub(crate) mark: &'e str,
}

only_written!([E: Entity] CopyRow<'_, E>, E::DECLARED);

impl<E: Entity> Entity for CopyRow<'_, E> {
    const ROWS: Rows = Rows::All;

    fn partition_key(&self, out: &mut KeyWriter) {
        out.literal(&self.keys.0);
    }

    fn row_key(&self, out: &mut KeyWriter) {
        out.literal(&self.keys.1);
    }

    fn encode(&self, out: &mut RowWriter) {
        if self.index.scope == Scope::OtherPartition {
            out.property(PRIMARY_PARTITION_KEY, &Text(&self.primary.0));
        }
        out.property(PRIMARY_ROW_KEY, &Text(&self.primary.1));
        out.property(INDEX, &Text(self.index.name));
        match self.index.copy {
            Copied::All => {
                self.content.encode_copy(out);
                out.property(MARK, &Text(self.mark));
            }
            Copied::Only(names) => out.only(names, |out| self.content.encode_copy(out)),
        }
    }
}

/// Borrowed text as a property value.
struct Text<'a>(&'a str);

impl rowkey_client::Property for Text<'_> {
    fn to_value(
        &self,
    ) -> Result<Option<rowkey_client::edm::ValueRef<'_>>, rowkey_client::entity::PropertyError>
    {
        Ok(Some(rowkey_client::edm::ValueRef::String(self.0.into())))
    }

    fn from_value(
        _: rowkey_client::edm::ValueRef<'_>,
    ) -> Result<Self, rowkey_client::entity::PropertyError> {
        Err(rowkey_client::entity::PropertyError::new("borrowed text is only written"))
    }
}

/// A head that was read: the entity and the mark of the operation that wrote it.
pub(crate) struct Head<E> {
    pub(crate) entity: E,
    /// `None` if no store wrote the entity.
    pub(crate) mark: Option<String>,
    /// The stored row, if the type has layers.
    pub(crate) closed: Option<Closed>,
    /// Stored properties that the type does not have, if the head was read to be written or copied.
    pub(crate) unknown: Properties,
    /// Sealed properties that the type does not have. With keys, they are not among the unknown ones.
    pub(crate) sealed: Vec<String>,
    /// Whether another program signed all properties, and this one has no keys.
    pub(crate) is_signed: bool,
    /// The old rows, if an older version of the type wrote the entity.
    pub(crate) older: Option<Older>,
}

impl<E: Entity> Head<E> {
    pub(crate) fn content(&self) -> Content<'_, E> {
        Content::of(&self.entity, &self.unknown, self.closed.as_ref())
    }
}

/// A head that was read to be written or copied, with the properties that its type does not have.
pub(crate) struct Whole<E>(pub(crate) Head<E>);

impl<E: Entity> Projection for Whole<E> {
    const COLUMNS: Option<&'static [&'static str]> = None;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let mut head = Head::<E>::decode(row)?;
        head.unknown = row.beside_sealed(&head.sealed).unknown(&head.entity)?;
        // The store writes its own properties again.
        head.unknown.retain(|name, value| match name {
            MARK | INDEX | PRIMARY_PARTITION_KEY | PRIMARY_ROW_KEY => false,
            // If it is not a number, it is a property of the entity.
            ROWS => !matches!(value, Value::Int32(_)),
            PARTS => !matches!(value, Value::String(_)),
            _ => true,
        });
        Ok(Self(head))
    }
}

impl<E: Entity> Projection for Head<E> {
    // All properties are read, because the mark is one of them.
    const COLUMNS: Option<&'static [&'static str]> = None;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        check_version::<E>(row)?;
        check_rows(row)?;
        // With keys, the row has been opened.
        let (sealed, is_signed) = envelope(row);
        let opened;
        let row = match &*sealed {
            [] => row,
            names => {
                opened = row.beside_sealed(names);
                &opened
            }
        };
        let (entity, older) = (E::decode(row)?, E::older(row)?);
        if older.is_some() {
            let keys = keys_of(&entity).ok();
            let is_kept = keys.is_some_and(|(partition, key)| {
                row.partition_key() == Ok(&*partition) && row.row_key() == Ok(&*key)
            });
            if !is_kept {
                let what = "the conversion from an older version of the type changes its key";
                return Err(DecodeError::property("RowKey", what));
            }
        }
        let mark = row.property(MARK)?;
        let unknown = Properties::new();
        Ok(Self { entity, mark, closed: None, unknown, sealed, is_signed, older })
    }
}

/// Reads how another program encrypted a row: what a program without keys leaves out, and whether the rest is
/// signed.
fn envelope(row: &RowReader<'_>) -> (Vec<String>, bool) {
    // If it is not a String, it is a property of the entity.
    let metadata = row.beside_sealed(&[]).property::<Option<String>>(METADATA).ok().flatten();
    let envelope = metadata.map(|metadata| Envelope::read(&metadata));
    envelope.map(|envelope| (envelope.left_out(), envelope.is_signed)).unwrap_or_default()
}

/// Refuses an entity whose type version this program does not know. (A type that declares a version
/// checks it itself.)
fn check_version<E: Entity>(row: &RowReader<'_>) -> Result<(), DecodeError> {
    if E::VERSION > 1 {
        return Ok(());
    }
    // If it is not a number, it is a property of the entity.
    let stored = row.property::<Option<i32>>(VERSION).ok().flatten().unwrap_or(1);
    if stored <= 1 {
        return Ok(());
    }
    let what = format!(
        "the entity is of version {stored} and the type of version 1; a newer program wrote it"
    );
    Err(DecodeError::property(VERSION, what))
}

/// Refuses an entity of several rows if only one is read. (Those of a wide type are gathered before.)
fn check_rows(row: &RowReader<'_>) -> Result<(), DecodeError> {
    match row.property::<Option<i32>>(ROWS) {
        Ok(Some(rows)) if rows > 1 => {
            let what = format!(
                "the entity has {rows} rows, and the type one; a program wrote it whose type has \
                 #[entity(wide = ..)]"
            );
            Err(DecodeError::property(ROWS, what))
        }
        // If it is not a number, it is a property of the entity.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns the version of the type that wrote a row.
pub(crate) fn version_of(row: &DynamicEntity) -> i32 {
    match row.get(VERSION) {
        Some(Value::Int32(version)) => *version,
        _ => 1,
    }
}

/// A copy that was read.
#[derive(Clone, Debug)]
pub(crate) struct Copy<P> {
    pub(crate) value: P,
    pub(crate) primary: Keys,
    pub(crate) mark: Option<String>,
    /// The digest of the entity's properties in the copy.
    pub(crate) digest: u64,
}

impl<E: Entity> Projection for Copy<E> {
    const COLUMNS: Option<&'static [&'static str]> = None;

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let primary = primary_of(row)?.ok_or_else(|| DecodeError::missing(PRIMARY_ROW_KEY))?;
        check_version::<E>(row)?;
        let (names, _) = envelope(row);
        let value = E::decode(&row.with_keys(&primary.0, &primary.1).beside_sealed(&names))?;
        let digest = digest(&DynamicEntity::decode(row)?);
        Ok(Self { value, primary, mark: row.property(MARK)?, digest })
    }
}

/// Returns a digest of the properties of an entity. It does not depend on their order, and is the same
/// in the head and in whole copies. It detects a change by another program, which keeps the mark.
pub(crate) fn digest(row: &DynamicEntity) -> u64 {
    let is_own =
        |name: &str| ![MARK, INDEX, PRIMARY_PARTITION_KEY, PRIMARY_ROW_KEY].contains(&name);
    // The hashes of properties are added, because a Merge may change their order.
    let of = |(name, value): (&str, &Value)| {
        let hash = |kind: u8, bytes: &[u8]| {
            fnv1a(name.bytes().chain([0, kind]).chain(bytes.iter().copied()))
        };
        match value {
            Value::Binary(bytes) => hash(1, bytes),
            Value::Boolean(value) => hash(2, &[u8::from(*value)]),
            Value::DateTime(time) => hash(3, &time.ticks().to_le_bytes()),
            Value::Double(value) => hash(4, &value.to_bits().to_le_bytes()),
            Value::Guid(guid) => hash(5, guid.to_string().as_bytes()),
            Value::Int32(value) => hash(6, &value.to_le_bytes()),
            Value::Int64(value) => hash(7, &value.to_le_bytes()),
            Value::String(text) => hash(8, text.as_bytes()),
        }
    };
    row.iter().filter(|(name, _)| is_own(name)).map(of).fold(0, u64::wrapping_add)
}

/// Whether a row is the copy of an entity in an index.
pub(crate) fn is_copy_of(row: &DynamicEntity, index: &str, owner: &Keys) -> bool {
    text(row, INDEX) == Some(index) && primary_keys(row).as_ref() == Some(owner)
}

/// The keys of the entity that a copy belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Pointer(pub(crate) Keys);

impl Projection for Pointer {
    const COLUMNS: Option<&'static [&'static str]> =
        Some(&["PartitionKey", "RowKey", "Timestamp", PRIMARY_ROW_KEY, PRIMARY_PARTITION_KEY]);

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        primary_of(row)?.map(Self).ok_or_else(|| DecodeError::missing(PRIMARY_ROW_KEY))
    }
}

/// A copy read as a `P` with the keys of the entity. The request selects only the properties of `P`.
pub(crate) struct Seen<P>(pub(crate) P);

/// The most names that the service accepts in `$select`.
const MAX_SELECT: usize = 252;

impl<P: Projection> Seen<P> {
    /// The properties of `P` and those with the keys of the entity.
    const NAMES: &'static [&'static str; MAX_SELECT] = &{
        let mut names = [PRIMARY_PARTITION_KEY; MAX_SELECT];
        if let Some(own) = P::COLUMNS {
            let mut at = 0;
            while at < own.len() && at + 1 < MAX_SELECT {
                names[at] = own[at];
                at += 1;
            }
            names[at] = PRIMARY_ROW_KEY;
        }
        names
    };
}

impl<P: Projection> Projection for Seen<P> {
    const COLUMNS: Option<&'static [&'static str]> = match P::COLUMNS {
        Some(own) if own.len() + 1 < MAX_SELECT => Some(Self::NAMES.split_at(own.len() + 2).0),
        _ => None,
    };

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        let primary = primary_of(row)?.ok_or_else(|| DecodeError::missing(PRIMARY_ROW_KEY))?;
        P::decode(&row.with_keys(&primary.0, &primary.1)).map(Self)
    }
}

fn primary_of(row: &RowReader<'_>) -> Result<Option<Keys>, DecodeError> {
    let Some(row_key) = row.property(PRIMARY_ROW_KEY)? else { return Ok(None) };
    let partition_key: Option<String> = row.property(PRIMARY_PARTITION_KEY)?;
    let partition_key = match partition_key {
        Some(partition_key) => partition_key,
        None => row.partition_key()?.to_owned(),
    };
    Ok(Some((partition_key, row_key)))
}

/// Returns the keys of the entity that a copy belongs to; `None` if the row is not a copy.
pub(crate) fn primary_keys(row: &DynamicEntity) -> Option<Keys> {
    let partition = text(row, PRIMARY_PARTITION_KEY).unwrap_or(&row.partition_key);
    Some((partition.to_owned(), text(row, PRIMARY_ROW_KEY)?.to_owned()))
}

/// The mark of a row, without its content.
pub(crate) struct Marked(pub(crate) Option<String>);

impl Projection for Marked {
    const COLUMNS: Option<&'static [&'static str]> = Some(&["Timestamp", MARK]);

    fn decode(row: &RowReader<'_>) -> Result<Self, DecodeError> {
        row.property(MARK).map(Self)
    }
}

/// A claim: the row that reserves a value for an entity that has it or is about to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) owner: Keys,
    /// The RowKey of the op row of the operation that wrote the claim, in the owner's partition.
    pub(crate) op: String,
}

impl Claim {
    pub(crate) fn row(&self, keys: &Keys) -> DynamicEntity {
        let mut row = DynamicEntity::new(&*keys.0, &*keys.1);
        row.set(FORMAT, FORMAT_VERSION);
        row.set(OWNER_PARTITION, &*self.owner.0);
        row.set(OWNER_ROW, &*self.owner.1);
        row.set(OP_ROW, &*self.op);
        row
    }

    pub(crate) fn read(row: &DynamicEntity) -> Result<Self> {
        check_format(row, "a claim")?;
        let part = |name| text(row, name).map(str::to_owned);
        let claim =
            || Some(Self { owner: (part(OWNER_PARTITION)?, part(OWNER_ROW)?), op: part(OP_ROW)? });
        claim().ok_or_else(|| Error::refused(ErrorKind::Decode, "a claim does not name its owner"))
    }
}

/// Refuses a row whose format version this program does not know.
pub(crate) fn check_format(row: &DynamicEntity, what: &str) -> Result<()> {
    match row.get(FORMAT) {
        Some(Value::Int32(FORMAT_VERSION)) => Ok(()),
        Some(Value::Int32(newer)) => {
            let what =
                format!("{what} has format {newer}, and this program supports {FORMAT_VERSION}");
            Err(Error::refused(ErrorKind::Decode, what).advise("use a newer program"))
        }
        _ => Err(Error::refused(ErrorKind::Decode, format!("{what} has no format"))),
    }
}

/// Whether the format of a row belongs to a newer program.
pub(crate) fn is_newer(row: &DynamicEntity) -> bool {
    matches!(row.get(FORMAT), Some(Value::Int32(version)) if *version > FORMAT_VERSION)
}

/// Returns a text property.
pub(crate) fn text<'r>(row: &'r DynamicEntity, name: &str) -> Option<&'r str> {
    match row.get(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}
