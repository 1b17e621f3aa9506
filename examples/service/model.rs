//! What the service stores. Each type declares how it is looked up; its store keeps all of that in step.

use chrono::{DateTime, Utc};
use rowkey::{Entity, Result};
use rowkey_eventual::Task;
use rowkey_store::{Change, Contribution, Contributor};
use serde::{Deserialize, Serialize};

/// A user of a tenant. In a tenant, an e-mail address belongs to one user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Entity)]
#[entity(store, partition = "{tenant}", row = "user_{id:9}", ignore_serde)]
#[entity(unique(name = by_email, value = "{tenant}_{email:lower}"))]
pub struct User {
    #[serde(skip_deserializing)]
    pub tenant: String,
    pub id: u32,
    pub email: String,
    pub name: String,
}

/// An order, with three lists: a customer's, newest first; a courier's; and those that are open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:9}", ignore_serde)]
#[entity(index(name = by_customer, row = "customer_{customer:9}_{placed:desc}", many))]
#[entity(index(name = by_courier, partition = "courier_{tenant}_{courier}", row = "{id:9}"))]
#[entity(index(name = not_closed, row = "open_{placed}", many, when = "Self::is_open"))]
pub struct Order {
    #[serde(skip_deserializing)]
    pub tenant: String,
    pub id: u32,
    pub customer: u32,
    pub placed: DateTime<Utc>,
    pub cents: i64,
    pub courier: Option<String>,
    #[serde(default)]
    pub closed: bool,
}

impl Order {
    fn is_open(&self) -> bool {
        !self.closed
    }
}

/// The revenue of a tenant on a day: a view of its orders.
#[derive(Debug, Serialize, Entity)]
#[entity(partition = "{tenant}", row = "{day}", ignore_serde)]
pub struct Revenue {
    pub tenant: String,
    pub day: String,
    pub orders: i64,
    pub cents: i64,
}

/// What happened to an order, beside it.
#[derive(Debug, Serialize, Entity)]
#[entity(partition = "{tenant}", row = "audit_{order:9}_{at}_{operation}", ignore_serde)]
pub struct Audit {
    pub tenant: String,
    pub order: u32,
    pub at: DateTime<Utc>,
    pub operation: String,
    pub what: String,
}

/// A file that belongs to an order. Its bytes lie in a blob, which goes with it.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{tenant}", row = "file_{order:9}_{name}")]
pub struct Attachment {
    pub tenant: String,
    pub order: u32,
    pub name: String,
    #[entity(blob)]
    pub bytes: Vec<u8>,
}

/// A mail that is to be sent when an order was placed.
#[derive(Serialize, Deserialize)]
pub struct Mail {
    pub tenant: String,
    pub user: u32,
    pub order: u32,
}

impl Task for Mail {
    const KIND: &'static str = "order-placed";
}

/// Writes an audit row in the transaction of each change of an order.
pub struct Audited;

impl Contributor<Order> for Audited {
    fn name(&self) -> &str {
        "audit"
    }

    fn operations(&self) -> usize {
        1
    }

    fn contribute(&self, change: Change<'_, Order>, plan: &mut Contribution<'_>) -> Result<()> {
        let Some(order) = change.after.or(change.before) else { return Ok(()) };
        let what = match (change.before, change.after) {
            (None, _) => "placed",
            (_, None) => "deleted",
            (Some(before), Some(after)) if before.closed != after.closed => "closed",
            _ => "changed",
        };
        plan.insert(&Audit {
            tenant: order.tenant.clone(),
            order: order.id,
            at: change.op().created(),
            operation: change.op().mark().to_owned(),
            what: what.to_owned(),
        })
    }
}
