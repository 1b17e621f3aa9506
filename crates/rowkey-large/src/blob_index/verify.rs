//! Whether lists and entities agree: what is missing, left over or damaged, found and mended.

use std::collections::HashMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey::blob::BlobItem;
use rowkey::{Entity, Key, Result};

use super::BlobIndex;
use super::format::{Listed, Page, blob_name};
use crate::guard::service_time;

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Entities that have a value.
    pub entities: u64,
    /// Lists.
    pub lists: u64,
    /// Keys in them.
    pub listed: u64,
    /// Entities that are not in the list of their value.
    pub missing: u64,
    /// Keys whose entity is gone or has another value.
    pub stale: u64,
    /// Lists that cannot be read, or name a chunk that is not there. Their entities count as missing.
    pub damaged: u64,
    /// Blobs that no list leads to, as those leave who die while a list is divided; only old ones
    /// are counted.
    pub unused: u64,
}

impl Report {
    /// Whether every entity is in its list, and nothing else is there.
    pub fn is_sound(&self) -> bool {
        (self.missing, self.stale, self.damaged, self.unused) == (0, 0, 0, 0)
    }
}

/// Verifying.
impl<E: Entity + Send + Sync + 'static> BlobIndex<E> {
    /// Compares all lists with the table and all entities with their lists, and changes nothing.
    ///
    /// Costs a listing of the index, a read of each list, a point query for each key in it, and a scan
    /// of the table with a read of the lists of each page. Writers may go on: what is found is looked at
    /// a second time before it is counted.
    pub async fn verify(&self) -> Result<Report> {
        self.examine(false).await
    }

    /// As [`verify`](Self::verify), and mends what it finds. Entities that were written before there was
    /// an index are listed so, too: on a table without lists, it builds them.
    ///
    /// Ending anywhere does no harm; begin again.
    pub async fn repair(&self) -> Result<Report> {
        self.examine(true).await
    }

    async fn examine(&self, repair: bool) -> Result<Report> {
        let examine = async {
            self.check()?;
            let mut report = Report::default();
            self.examine_lists(repair, &mut report).await?;
            self.examine_entities(repair, &mut report).await?;
            Ok(report)
        };
        examine.await.map_err(|error| self.error(error))
    }

    async fn examine_lists(&self, repair: bool, report: &mut Report) -> Result<()> {
        let lists = &self.lists;
        let now = service_time(&lists.container, &format!("{}.verify", lists.name)).await?;
        let prefix = format!("{}/", lists.name);
        let mut blobs = lists.container.blobs().starting_with(&prefix).stream();
        // Chunks are listed after the first blob of their list, though not always next.
        let mut used: HashMap<String, Vec<String>> = HashMap::new();
        while let Some(BlobItem { name, properties, .. }) = blobs.try_next().await? {
            let Some((list, chunk)) = name[prefix.len()..].split_once('/') else {
                if let Some(value) = self.examine_list(&name, repair, report).await? {
                    used.insert(name, lists.chunk_ids(&value).await?);
                }
                continue;
            };
            let root = format!("{prefix}{list}");
            let is_used = |ids: &Vec<String>| ids.iter().any(|id| id == chunk);
            if used.get(&root).is_some_and(is_used) || !self.guard.is_over(properties.modified, now)
            {
                continue;
            }
            // The list may have changed since. A chunk that is old and in no list comes into none.
            let text = lists.container.blob(&name).get().await?;
            let value = text.and_then(|text| Page::read(&text.bytes)).map(|(value, _)| value);
            if let Some(value) = value
                && lists.chunk_ids(&value).await?.iter().any(|id| id == chunk)
            {
                continue;
            }
            report.unused += 1;
            if repair {
                let blob = lists.container.blob(&name).with_conditions(properties.etag);
                match blob.delete_if_exists().await {
                    Err(error) if !error.is_conflict() => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Compares one list with the table; returns its value.
    async fn examine_list(
        &self,
        name: &str,
        repair: bool,
        report: &mut Report,
    ) -> Result<Option<String>> {
        let Some(text) = self.lists.container.blob(name).get().await? else { return Ok(None) };
        report.lists += 1;
        let stored = Page::read(&text.bytes).map(|(value, _)| value);
        let value = stored.filter(|value| blob_name(&self.lists.name, value) == name);
        let keys = match &value {
            Some(value) => match self.read_list(value, repair).await {
                Ok(keys) => Some(keys),
                Err(error) if error.kind() == rowkey::ErrorKind::Decode => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        let (Some(value), Some(keys)) = (value, keys) else {
            report.damaged += 1;
            if repair {
                let blob = self.lists.container.blob(name);
                match blob.with_conditions(text.properties.etag).delete_if_exists().await {
                    Err(error) if !error.is_conflict() => return Err(error),
                    _ => {}
                }
            }
            return Ok(None);
        };
        report.listed += keys.len() as u64;
        let stale = stream::iter(keys.into_iter().map(|key| self.is_stale(key, &value)))
            .buffered(self.concurrency)
            .try_filter_map(|stale| std::future::ready(Ok(stale)));
        let stale: Vec<Listed> = stale.try_collect().await?;
        for key in stale {
            report.stale += u64::from(self.differs(&key, &value, repair).await?);
        }
        Ok(Some(value))
    }

    async fn read_list(&self, value: &str, repair: bool) -> Result<Vec<Listed>> {
        if repair {
            self.lists.tidy(value).await?;
        }
        self.lists.keys(value).await
    }

    async fn is_stale(&self, key: Listed, value: &str) -> Result<Option<Listed>> {
        let stored = self.rows.get::<E>(key.key()).await?;
        let now = stored.and_then(|stored| self.value_of(&stored.entity));
        Ok((now.as_deref() != Some(value)).then_some(key))
    }

    async fn examine_entities(&self, repair: bool, report: &mut Report) -> Result<()> {
        let mut pages = self.rows.scan::<E>().pages();
        while let Some(page) = pages.try_next().await? {
            let mut by_value: HashMap<String, Vec<Listed>> = HashMap::new();
            for stored in page.entities {
                if let Some(value) = self.value_of(&stored.entity) {
                    let listed = self.listed(&Key::of(&stored.entity))?;
                    by_value.entry(value).or_default().push(listed);
                    report.entities += 1;
                }
            }
            for (value, entities) in by_value {
                let listed = match self.lists.keys(&value).await {
                    Ok(keys) => keys,
                    // Counted with the lists.
                    Err(error) if error.kind() == rowkey::ErrorKind::Decode && !repair => {
                        report.missing += entities.len() as u64;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                for key in entities {
                    if listed.binary_search(&key).is_err() {
                        report.missing += u64::from(self.differs(&key, &value, repair).await?);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a key and a list still disagree; mends it if that is asked for.
    async fn differs(&self, key: &Listed, value: &str, repair: bool) -> Result<bool> {
        if repair {
            return self.settle_listed(key, value).await;
        }
        let Some(slot) = self.lists.locate(value, key).await? else { return Ok(false) };
        Ok(self.is_stale(key.clone(), value).await?.is_some() == slot.contains())
    }
}
