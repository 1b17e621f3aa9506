//! Reads of single properties of a wide entity, from their rows alone.

use std::collections::BTreeSet;

use rowkey_client::edm::Value;
use rowkey_client::{DynamicEntity, Entity, Error, ErrorKind, Key, Properties, Result};
use rowkey_patterns::internals::all_until;

use super::patch::is_data;
use super::{Store, parts};
use crate::layer::wide;
use crate::layer::wide::Layout;
use crate::row::{Keys, check_format};

/// Rows read at once.
const AT_A_TIME: usize = 16;

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Reads properties of an entity whose type has `#[entity(wide = .., parts)]`; `None` if the entity does not
    /// exist. Properties that it does not have are not in the result.
    ///
    /// Costs one request for each row that the names determine, 16 at a time. If the entity lacks such a row, it
    /// is read as a whole: two more requests. Types with encrypted fields or fields in blobs are always read
    /// as a whole.
    ///
    /// The properties of one row are from one state of the entity. Those of several rows may be from states
    /// before and after another write; [`get`](Self::get) reads one version.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # use std::collections::BTreeMap;
    /// # #[derive(Clone, Debug, Entity)]
    /// # #[entity(store, wide = 9, parts, partition = "{city}", row = "year_{year:4}")]
    /// # struct Year { city: String, year: u16, #[entity(rest)] hours: BTreeMap<String, f64> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let years = Store::<Year>::builder(account.table("years")).build()?;
    /// # years.create_if_missing().await?;
    /// let hours = (0..600).map(|hour| (format!("H{hour:04}"), f64::from(hour))).collect();
    /// years.insert(&Year { city: "leeds".into(), year: 2026, hours }).await?;
    /// let names = ["H0012", "H9999"];
    /// let read = years.get_properties(Year::key("leeds", 2026), names).await?.ok_or("not found")?;
    /// assert_eq!(read.get_as::<f64>("H0012")?, 12.0);
    /// assert_eq!(read.get_as::<Option<f64>>("H9999")?, None);
    /// # Ok(()) }
    /// ```
    pub async fn get_properties<N: Into<String>>(
        &self,
        key: Key<E>,
        names: impl IntoIterator<Item = N> + Send,
    ) -> Result<Option<Properties>> {
        let layout = in_parts::<E>()?;
        let names: BTreeSet<String> = names.into_iter().map(Into::into).collect();
        let rows = names.iter().map(|name| layout.part(name)).collect();
        let is_asked = |name: &str| names.contains(name);
        self.of_rows(key, rows, &is_asked).await.map_err(|error| self.named("GetEntity", error))
    }

    /// Reads the properties whose names begin with `text`, of an entity whose type has
    /// `#[entity(wide = .., parts = 5)]`; `None` if the entity does not exist.
    ///
    /// One request, because the first 5 characters of a name choose its row: the hours of one day, if their
    /// names begin with the day. Otherwise like [`get_properties`](Self::get_properties). If `text` is
    /// shorter, or the whole name chooses the row, the entity is read as a whole: two requests.
    ///
    /// ```
    /// # use rowkey::store::Store;
    /// # use rowkey::{Entity, StorageAccount};
    /// # use std::collections::BTreeMap;
    /// #[derive(Clone, Debug, Entity)]
    /// #[entity(store, wide = 32, parts = 3, partition = "{city}", row = "month_{month:6}")]
    /// struct Month { city: String, month: u32, #[entity(rest)] hours: BTreeMap<String, f64> }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let months = Store::<Month>::builder(account.table("months")).build()?;
    /// # months.create_if_missing().await?;
    ///
    /// let hours = (24..768).map(|hour| (format!("D{:02}H{:02}", hour / 24, hour % 24), 1.5));
    /// months.insert(&Month { city: "leeds".into(), month: 202607, hours: hours.collect() }).await?;
    /// let key = Month::key("leeds", 202607);
    /// let day = months.get_properties_starting_with(key, "D07").await?.ok_or("not found")?;
    /// assert_eq!(day.len(), 24);
    /// # Ok(()) }
    /// ```
    pub async fn get_properties_starting_with(
        &self,
        key: Key<E>,
        text: &str,
    ) -> Result<Option<Properties>> {
        let layout = in_parts::<E>()?;
        // Otherwise no row has all of them.
        let row = layout.keeps_together(text).then(|| layout.part(text));
        let is_asked = |name: &str| name.starts_with(text);
        let read = self.of_rows(key, row.into_iter().collect(), &is_asked).await;
        read.map_err(|error| self.named("GetEntity", error))
    }

    /// Reads properties from these parts, or from the whole entity if one is missing or none is given.
    async fn of_rows(
        &self,
        key: Key<E>,
        rows: BTreeSet<usize>,
        is_asked: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<Option<Properties>> {
        // The rows of another version of the type have other RowKeys.
        let is_plain = self.inner.layers.only_wide();
        if let (Some(layout), true) = (Layout::of::<E>(), is_plain && !rows.is_empty()) {
            let keys = parts(&key)?;
            let read = rows.iter().map(|part| self.part(&keys, layout, *part));
            let read = all_until(read, AT_A_TIME, |read| !matches!(read, Ok(Some(_)))).await;
            let read: Vec<Option<DynamicEntity>> = read.into_iter().collect::<Result<_>>()?;
            let read: Option<Vec<_>> = read.into_iter().collect();
            // Fewer if one is missing.
            if let Some(read) = read.filter(|read| read.len() == rows.len()) {
                let properties = read.iter().flat_map(|row| row.iter());
                return Ok(Some(asked(properties, is_asked)));
            }
        }
        let stored = self.inner.layers.head::<E>(&self.inner.table, key).await?;
        let Some(head) = stored.map(|stored| stored.entity) else { return Ok(None) };
        let row = DynamicEntity::of_any_size(&head.entity)?;
        Ok(Some(asked(row.iter().chain(head.unknown.iter()), is_asked)))
    }

    /// Reads a part; `None` if there is none.
    async fn part(
        &self,
        keys: &Keys,
        layout: Layout,
        part: usize,
    ) -> Result<Option<DynamicEntity>> {
        let at = Key::<DynamicEntity>::new(&*keys.0, layout.row_key(&keys.1, part));
        let stored = self.inner.table.get(at).await?;
        let Some(row) = stored.map(|stored| stored.entity) else { return Ok(None) };
        if wide::number_of(&row).is_none_or(|(of, _)| of != keys.1) {
            return Ok(None);
        }
        check_format(&row, "a part of an entity")?;
        Ok(Some(row))
    }
}

/// How the properties of a type are distributed to parts. For a type without parts it does not compile.
fn in_parts<E: Entity>() -> Result<Layout> {
    const {
        assert!(
            E::DECLARED.wide.parts.is_some(),
            "the properties of this type have no known rows: add `parts` beside `wide`, or use `get`"
        );
    }
    let what = "the type has no parts";
    Layout::of::<E>().ok_or_else(|| Error::refused(ErrorKind::Invalid, what))
}

/// Returns the properties that were asked for, without those of the store.
fn asked<'r>(
    properties: impl Iterator<Item = (&'r str, &'r Value)>,
    is_asked: &dyn Fn(&str) -> bool,
) -> Properties {
    let properties = properties.filter(|(name, _)| is_asked(name) && is_data(name));
    properties.map(|(name, value)| (name, value.clone())).collect()
}
