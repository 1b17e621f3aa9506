//! Sweeping: a job over the blobs of a store that removes those that no entity names.

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryStreamExt as _, stream};
use rowkey_client::blob::BlobItem;
use rowkey_client::entity::{BlobField, Declarations};
use rowkey_client::index::ListPlace;
use rowkey_client::{DynamicEntity, Entity, Result};
use rowkey_patterns::internals::try_all;
use rowkey_patterns::job::{Attempt, Batch, Job, Loading, Report, Verdict};

use super::Store;
use crate::declarations::blob_field::NAME as FIELDS;
use crate::declarations::blob_list;
use crate::declarations::blob_list::Listed;
use crate::declarations::blob_ref::{LEFT, NAME as REFERENCES, is_named};
use crate::declarations::list::list_keys;
use crate::execute::announce::no_queue;
use crate::execute::claim::give_up;
use crate::layer::deciding::{Deciding, is_lost};
use crate::layer::wide::{Gathered, Wide};
use crate::row::blobs::Blobs;
use crate::row::declared::prefix;
use crate::row::times::KEPT;
use crate::row::{Keys, blob_pointer, op};

/// Entities read at once.
const AT_A_TIME: usize = 16;

/// A group of blobs that are checked one after the other: an item of the stream of
/// [`Store::sweep`].
#[derive(Debug)]
pub struct Sweeping<E> {
    store: Store<E>,
    /// The prefix of the names of the blobs.
    prefix: String,
    kind: Kind,
}

/// What the blobs of a group belong to.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The list at this position.
    List(usize),
    Fields,
    References,
}

impl<E: Entity + Clone + Send + Sync + 'static> Store<E> {
    /// Checks every blob of the store and removes unused data: blobs of fields and references that a writer
    /// uploaded but never committed, and list entries of entities that are gone or have another value. Programs that write
    /// without the store leave such entries.
    ///
    /// Costs a listing, a read of the entity of each blob of a field or reference, a read of each list, and a read of
    /// each entity in it. Programs may write in the meantime: a blob of a field is ignored for 45 minutes, and its
    /// operation is ended before the blob is deleted; a blob of a reference is ignored for two hours; a list is
    /// read before its entities, and is written only if it is unchanged. [`verify`](Self::verify) finds blobs
    /// and entries that are missing, and [`repair`](Self::repair) adds the entries.
    ///
    /// ```
    /// use rowkey::store::Store;
    /// use rowkey::{Entity, StorageAccount};
    ///
    /// #[derive(Clone, Debug, PartialEq, Entity)]
    /// #[entity(store, partition = "{tenant}", row = "order_{id:6}")]
    /// #[entity(list(name = by_customer, value = "{customer}", blob))]
    /// struct Order { tenant: String, id: u32, customer: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let orders = Store::<Order>::builder(account.table("orders"))
    ///     .queue(account.queue("orders"))
    ///     .blobs(account.container("orders"))
    ///     .build()?;
    /// orders.create_if_missing().await?;
    /// orders.insert(&Order { tenant: "contoso".into(), id: 1, customer: "ada".into() }).await?;
    /// orders.insert(&Order { tenant: "fabrikam".into(), id: 1, customer: "ada".into() }).await?;
    /// assert_eq!(orders.query(Order::by_customer("ada")).all().await?.len(), 2);
    ///
    /// let report = orders.sweep().run().await?;
    /// assert!(report.is_clean() && report.total.right == 2);
    /// # Ok(()) }
    /// ```
    pub fn sweep(&self) -> Job<'static, Loading<stream::Iter<std::vec::IntoIter<Sweeping<E>>>>> {
        let mut units = Vec::new();
        if let Some(blobs) = &self.inner.blobs {
            for (prefix, kind) in prefixes(blobs, &E::DECLARED, prefix::<E>()) {
                units.push(Sweeping { store: self.clone(), prefix, kind });
            }
        }
        let units = stream::iter(units);
        Job::load(format!("sweep {}", prefix::<E>()), &self.inner.table, units)
    }

    /// Removes entities that do not have the value from a list.
    async fn sweep_list(&self, name: &str, position: usize, report: &mut Report) -> Result<()> {
        let (blobs, list) = (self.inner.blobs()?, &E::DECLARED.lists[position]);
        let Some(content) = blobs.deciding().blob(name).get().await? else { return Ok(()) };
        let (row_key, listed) = blob_list::parse(&content.bytes, list)?;
        // Read the list, then the entities, then write the list under its ETag, as settling does.
        let named = listed.len();
        let examined = listed.into_iter().map(|keys| self.if_listed(keys, position, &row_key));
        let right = try_all(examined, AT_A_TIME).await?;
        let right: Listed = right.into_iter().flatten().collect();
        let orphaned = (named - right.len()) as u64;
        report.note(Some(list.name), Verdict::Right, right.len() as u64);
        if orphaned == 0 {
            return Ok(());
        }
        report.note(Some(list.name), Verdict::Orphaned, orphaned);
        let blob = blobs.deciding().blob(name);
        let etag = content.properties.etag;
        match blob_list::write(&blob, &row_key, &right, Some(&etag)).await {
            Ok(()) => report.repaired(Some(list.name), orphaned),
            // Another writer changed the list. The next run checks it again.
            Err(error) if is_lost(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Deletes the blob of a field if its entity does not name it and no write ever will.
    async fn sweep_field(&self, blob: &BlobItem, report: &mut Report) -> Result<()> {
        let part = |property: Option<&'static str>| property.or(Some(FIELDS));
        let Some((owner, op)) = Blobs::origin(&blob.properties.metadata) else {
            // Another program wrote it.
            report.note(part(None), Verdict::Skipped, 1);
            return Ok(());
        };
        if let Some((property, verdict)) = self.names(&owner, &blob.name).await? {
            report.note(part(property), verdict, 1);
            return Ok(());
        }
        let deciding = &self.inner.deciding;
        let created = op::created_of(&op.1);
        let age = created.map(|created| (deciding.clock().now() - created).to_std());
        // On a slow clock, the age of a new blob is negative.
        if !age.is_some_and(|age| age.is_ok_and(|age| age >= KEPT)) {
            report.note(part(None), Verdict::Skipped, 1);
            return Ok(());
        }
        // Once the operation has a void, nothing commits it, unless it was committed before. Then
        // the entity says whether it names the blob.
        let announcer = self.inner.announcer.as_ref().ok_or_else(no_queue)?;
        give_up(deciding, announcer, &op).await?;
        if let Some((property, verdict)) = self.names(&owner, &blob.name).await? {
            report.note(part(property), verdict, 1);
            return Ok(());
        }
        report.note(part(None), Verdict::Orphaned, 1);
        let blob = self.inner.blobs()?.deciding().blob(&blob.name);
        if blob.delete_if_exists().await? {
            report.repaired(part(None), 1);
        }
        Ok(())
    }

    /// Deletes an uploaded blob if its entity does not refer to it and no write ever will.
    async fn sweep_reference(&self, blob: &BlobItem, report: &mut Report) -> Result<()> {
        let Some(owner) = Blobs::owner(&blob.properties.metadata) else {
            // Another program wrote it.
            report.note(Some(REFERENCES), Verdict::Skipped, 1);
            return Ok(());
        };
        let deciding = &self.inner.deciding;
        // Before the head is read: a writer may name the blob until it is this old.
        let age = (deciding.clock().now() - blob.properties.modified).to_std();
        let path = self.inner.blobs()?.path(&blob.name);
        let found = whole(deciding, &owner).await?;
        let verdict = if let Found::Row(row) = &found
            && is_named(row.iter(), &path)
        {
            Verdict::Right
        } else if matches!(found, Found::Torn) {
            Verdict::Skipped
        } else if age.is_ok_and(|age| age >= LEFT) {
            Verdict::Orphaned
        } else {
            // On a slow clock, the age of a new blob is negative.
            Verdict::Skipped
        };
        report.note(Some(REFERENCES), verdict, 1);
        if verdict == Verdict::Orphaned {
            let blob = self.inner.blobs()?.deciding().blob(&blob.name);
            if blob.delete_if_exists().await? {
                report.repaired(Some(REFERENCES), 1);
            }
        }
        Ok(())
    }

    /// Returns the property of an entity whose value is in the blob, and the verdict on the blob; `None` if it has
    /// none. The property is `None` if the type does not have it, because another version or kind of the type does.
    async fn names(
        &self,
        owner: &Keys,
        blob: &str,
    ) -> Result<Option<(Option<&'static str>, Verdict)>> {
        Ok(match whole(&self.inner.deciding, owner).await? {
            Found::None => None,
            Found::Torn => Some((None, Verdict::Skipped)),
            Found::Row(row) => match property_of(E::DECLARED.blobs, &row, blob) {
                Some(property) => Some((Some(property), Verdict::Right)),
                None => blob_pointer::is_named(&row, blob).then_some((None, Verdict::Right)),
            },
        })
    }

    /// Returns the keys of an entity if it belongs on a list.
    async fn if_listed(&self, keys: Keys, position: usize, row_key: &str) -> Result<Option<Keys>> {
        let head = self.read_before(&keys).await?;
        let is_listed = head.is_some_and(|head| {
            list_keys(&head.entity, position).contains(&(String::new(), row_key.to_owned()))
        });
        Ok(is_listed.then_some(keys))
    }
}

/// The rows of an entity.
enum Found {
    None,
    /// They do not come from one write.
    Torn,
    Row(DynamicEntity),
}

/// Reads all rows of an entity as one. A program without a field may have moved the property that names its blob
/// from the head into a further row.
async fn whole(table: &Deciding, keys: &Keys) -> Result<Found> {
    let Some(head) = table.row(keys).await? else { return Ok(Found::None) };
    let mut row = head.entity;
    Ok(match Wide::gather(table.table(), &mut row).await? {
        Gathered::All(_) => Found::Row(row),
        Gathered::Torn(_) => Found::Torn,
    })
}

/// Returns the property of a row whose value is in the blob.
fn property_of(
    fields: &'static [BlobField],
    row: &DynamicEntity,
    blob: &str,
) -> Option<&'static str> {
    let mut named = blob_pointer::named(fields, row).into_iter();
    named.find(|(_, name)| name == blob).map(|(property, _)| property)
}

/// Returns the prefixes of the names of all blobs, with what they belong to.
fn prefixes(blobs: &Blobs, declared: &Declarations, of: &str) -> Vec<(String, Kind)> {
    let lists = declared.lists.iter().enumerate();
    let lists = lists.filter(|(_, list)| list.place == ListPlace::Blob);
    let lists = lists.map(|(position, list)| (blobs.prefix(list.row_head), Kind::List(position)));
    // The names continue with a random digit, so there is one prefix per digit.
    let each = |is_declared: bool, head: String, kind| {
        let digits = if is_declared { 0..16 } else { 0..0 };
        digits.map(move |digit| (blobs.name(&format!("{head}{digit:x}")), kind))
    };
    let fields = each(!declared.blobs.is_empty(), Blobs::field_head(of), Kind::Fields);
    let head = Blobs::reference_head(of);
    let references = each(!declared.references.is_empty(), head, Kind::References);
    lists.chain(fields).chain(references).collect()
}

/// Sweeps one blob of a list.
type SweepList<E> =
    for<'a> fn(&'a Store<E>, &'a str, usize, &'a mut Report) -> BoxFuture<'a, Result<()>>;

/// Sweeps one blob of a field or a reference.
type SweepField<E> =
    for<'a> fn(&'a Store<E>, &'a BlobItem, &'a mut Report) -> BoxFuture<'a, Result<()>>;

/// What is compiled only for types that have such blobs.
impl<E: Entity + Clone + Send + Sync + 'static> Sweeping<E> {
    const TYPE: Declarations = E::DECLARED;

    const OF_LIST: Option<SweepList<E>> = if Self::TYPE.has_list(ListPlace::Blob) {
        Some(|store, name, list, report| store.sweep_list(name, list, report).boxed())
    } else {
        None
    };

    const OF_FIELD: Option<SweepField<E>> = if Self::TYPE.blobs.is_empty() {
        None
    } else {
        Some(|store, blob, report| store.sweep_field(blob, report).boxed())
    };

    const OF_REFERENCE: Option<SweepField<E>> = if Self::TYPE.references.is_empty() {
        None
    } else {
        Some(|store, blob, report| store.sweep_reference(blob, report).boxed())
    };
}

impl<E: Entity + Clone + Send + Sync + 'static> Batch for Sweeping<E> {
    fn keys(&self) -> (&str, &str) {
        (&self.prefix, "")
    }

    fn entities(&self) -> u64 {
        1
    }

    async fn store(&self, _: Attempt) -> Result<Report> {
        let mut report = Report::default();
        let blobs = self.store.inner.blobs()?;
        let listing = blobs.deciding().blobs().starting_with(&self.prefix).with_metadata();
        let mut listing = listing.stream();
        while let Some(blob) = listing.try_next().await? {
            let of_one = match self.kind {
                Kind::List(_) => None,
                Kind::Fields => Self::OF_FIELD,
                Kind::References => Self::OF_REFERENCE,
            };
            let swept = match (self.kind, Self::OF_LIST, of_one) {
                (Kind::List(list), Some(sweep), _) => {
                    sweep(&self.store, &blob.name, list, &mut report)
                }
                (Kind::Fields | Kind::References, _, Some(sweep)) => {
                    sweep(&self.store, &blob, &mut report)
                }
                _ => continue,
            };
            let swept = swept.await;
            match swept {
                Err(error) if error.kind() == rowkey_client::ErrorKind::Decode => {
                    let part = Some(match self.kind {
                        Kind::List(list) => E::DECLARED.lists[list].name,
                        Kind::Fields => FIELDS,
                        Kind::References => REFERENCES,
                    });
                    report.problem(part, Verdict::Unreadable, (&blob.name, ""), &error);
                }
                result => result?,
            }
        }
        Ok(report)
    }
}
