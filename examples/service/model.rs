//! The types that the service stores. Each declares its lookups; its store keeps them consistent.

use chrono::{DateTime, Utc};
use rowkey::{Entity, Result};
use rowkey_store::{Change, Contribution, Contributor};
use rowkey_worker::Task;
use serde::{Deserialize, Serialize};

/// A user of a tenant, in which an e-mail address belongs to one user.
#[derive(Clone, Serialize, Deserialize, Entity)]
#[entity(store, partition = "{tenant}", row = "user_{id:9}", ignore_serde)]
#[entity(unique(name = by_email, value = "{tenant}_{email:lower}"))]
pub(crate) struct User {
    #[serde(skip_deserializing)]
    pub(crate) tenant: String,
    pub(crate) id: u32,
    pub(crate) email: String,
}

/// An order, in three lists: its customer's, the newest first; its courier's; and those of its state.
#[derive(Clone, Serialize, Deserialize, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:9}", ignore_serde)]
#[entity(index(name = by_customer, row = "customer_{customer:9}_{placed:desc}", many))]
#[entity(index(name = by_courier, partition = "courier_{tenant}_{courier}", row = "{id:9}"))]
#[entity(index(name = by_state, row = "state_{state}_{placed}", many))]
pub(crate) struct Order {
    #[serde(skip_deserializing)]
    pub(crate) tenant: String,
    pub(crate) id: u32,
    pub(crate) customer: u32,
    pub(crate) placed: DateTime<Utc>,
    pub(crate) cents: i64,
    pub(crate) courier: Option<String>,
    pub(crate) state: String,
}

/// The revenue of a tenant on a day: a view of its orders.
#[derive(Serialize, Entity)]
#[entity(partition = "{tenant}", row = "{day}")]
pub(crate) struct Revenue {
    pub(crate) tenant: String,
    pub(crate) day: String,
    pub(crate) orders: i64,
    pub(crate) cents: i64,
}

/// What happened to an order: a row beside it.
#[derive(Serialize, Entity)]
#[entity(partition = "{tenant}", row = "audit_{order:9}_{operation}")]
pub(crate) struct Audit {
    pub(crate) tenant: String,
    pub(crate) order: u32,
    pub(crate) operation: String,
    pub(crate) state: String,
}

/// Writes the audit row of each change of an order, in its transaction.
pub(crate) struct Audited;

impl Contributor<Order> for Audited {
    fn name(&self) -> &'static str {
        "audit"
    }

    fn operations(&self) -> usize {
        1
    }

    fn contribute(&self, change: Change<'_, Order>, plan: &mut Contribution<'_>) -> Result<()> {
        let Some(order) = change.after.or(change.before) else { return Ok(()) };
        let state = change.after.map_or("deleted", |order| &order.state).to_owned();
        let (tenant, operation) = (order.tenant.clone(), change.op().row_key()?);
        plan.insert(&Audit { tenant, order: order.id, operation, state })
    }
}

/// A mail that is to be sent because an order was placed.
#[derive(Serialize, Deserialize)]
pub(crate) struct Mail {
    pub(crate) tenant: String,
    pub(crate) order: u32,
}

impl Task for Mail {
    const KIND: &'static str = "order-placed";
}
