//! The types that the service stores. Each declares its lookups; its store keeps them consistent.

use chrono::{DateTime, Utc};
use rowkey::store::Change;
use rowkey::worker::Task;
use rowkey::{BlobRef, Entity, KeyPart, Property};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Deserialize, Serialize, KeyPart, Property)]
pub(crate) enum State {
    Accepted,
    Moving,
    Delivered,
}

/// A parcel of a tenant, in which a number belongs to one parcel. It is in three lists: that of its courier and
/// that of its state, the newest first, and that of its recipient, which has a partition of its own. The literals of the
/// PartitionKeys keep them apart: a tenant could have the name of a list otherwise.
#[derive(Clone, Deserialize, Serialize, Entity)]
#[entity(store, partition = "tenant_{tenant}", row = "parcel_{id:9}", ignore_serde)]
#[entity(unique(name = by_number, value = "{tenant}_{number}"))]
#[entity(index(name = by_courier, row = "courier_{courier}_{accepted:desc}", many))]
#[entity(index(name = by_state, row = "state_{state}_{accepted:desc}", many))]
#[entity(index(name = by_email, partition = "email_{tenant}_{email:lower}", row = "{id:9}"))]
pub(crate) struct Parcel {
    #[serde(skip_deserializing)]
    pub(crate) tenant: String,
    pub(crate) id: u32,
    pub(crate) number: String,
    pub(crate) email: String,
    pub(crate) accepted: DateTime<Utc>,
    pub(crate) grams: u32,
    pub(crate) courier: Option<String>,
    pub(crate) state: State,
    pub(crate) place: Option<String>,
    /// In a blob, which is deleted with the parcel. It has routes of its own, so it is not in the JSON.
    #[serde(skip)]
    #[entity(blob)]
    pub(crate) photo: Option<BlobRef>,
}

/// What a courier has delivered: a view of the parcels.
#[derive(Serialize, Entity)]
#[entity(partition = "{tenant}", row = "{courier}")]
pub(crate) struct Deliveries {
    pub(crate) tenant: String,
    pub(crate) courier: String,
    pub(crate) parcels: i64,
    pub(crate) grams: i64,
}

/// A state and a place that a parcel had: a row alongside it, the newest first.
#[derive(Serialize, Entity)]
#[entity(partition = "tenant_{tenant}", row = "scan_{parcel:9}_{at:desc}_{operation}")]
pub(crate) struct Scan {
    pub(crate) tenant: String,
    pub(crate) parcel: u32,
    pub(crate) at: DateTime<Utc>,
    pub(crate) operation: String,
    pub(crate) state: State,
    pub(crate) place: Option<String>,
}

impl Scan {
    /// The row for a change of the state or of the place, in the transaction of the parcel.
    pub(crate) fn of(change: Change<'_, Parcel>) -> Option<Self> {
        let seen = |parcel: &Parcel| (parcel.state, parcel.place.clone());
        let parcel = change.after.filter(|after| change.before.map(seen) != Some(seen(after)))?;
        let Parcel { tenant, id, state, place, .. } = parcel.clone();
        let (at, operation) = (change.op().created(), change.op().mark().to_owned());
        Some(Self { tenant, parcel: id, at, operation, state, place })
    }
}

/// A mail to the recipient of a parcel that was delivered.
#[derive(Deserialize, Serialize)]
pub(crate) struct Mail {
    pub(crate) tenant: String,
    pub(crate) parcel: u32,
}

impl Task for Mail {
    const KIND: &'static str = "parcel-delivered";
}

impl Mail {
    /// The task for a delivery, which is put if the change is committed, and only then.
    pub(crate) fn of(change: Change<'_, Parcel>) -> Option<Self> {
        let is_delivered = |parcel: &Parcel| parcel.state == State::Delivered;
        let parcel = change.after.filter(|_| !change.before.is_some_and(is_delivered))?;
        is_delivered(parcel).then(|| Self { tenant: parcel.tenant.clone(), parcel: parcel.id })
    }
}
