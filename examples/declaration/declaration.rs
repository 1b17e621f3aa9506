//! A custom declaration: a total that each write edits, an audit row, and a row in another partition.

use rowkey::store::{Change, Contribution, Declaration, Settled, Settling};
use rowkey::{DynamicEntity, Entity, Error, Result, async_trait, edm::Value};

use crate::Order;

/// The orders of a customer, in a partition for each customer.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "purchases_{customer}", row = "{order}")]
pub(crate) struct Purchase {
    pub(crate) customer: String,
    pub(crate) order: String,
    pub(crate) cents: i64,
}

pub(crate) struct Ledger;

#[async_trait]
impl Declaration<Order> for Ledger {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn operations(&self) -> usize {
        2 // the total and the audit row
    }

    fn needs_queue(&self) -> bool {
        true // `settle`
    }

    fn reads(&self, _: Change<'_, Order>) -> Result<Vec<String>> {
        Ok(vec!["total".into()])
    }

    fn contribute(&self, change: Change<'_, Order>, plan: &mut Contribution<'_>) -> Result<()> {
        let cents = |order: Option<&Order>| order.map_or(0, |order| order.cents);
        let by = cents(change.after) - cents(change.before);
        plan.edit("total", |row| {
            let total = row.get_or_insert(DynamicEntity::new(change.partition_key(), "total"));
            let before =
                if let Some(Value::Int64(cents)) = total.get("Cents") { *cents } else { 0 };
            total.set("Cents", before + by);
            Ok(())
        })?;
        let row_key = format!("audit_{}_{}", change.row_key(), change.op().mark());
        let mut audit = DynamicEntity::new(change.partition_key(), row_key);
        audit.set("Order", change.row_key());
        audit.set("Cents", by);
        plan.insert(&audit)?;
        for order in change.after.into_iter().chain(change.before) {
            plan.target(&order.customer);
        }
        Ok(())
    }

    async fn settle(&self, settling: &Settling<Order>, customer: &str) -> Result<Settled> {
        let order = settling.key().parts().map_err(Error::no_such_key)?.1.to_owned();
        let key = || Purchase::key(customer, &order);
        // The target first, then the entity: a late call meets a target that has changed.
        let stored = settling.table().get(key()).await?;
        let entity = settling.entity().await?.filter(|entity| entity.customer == customer);
        let new = |cents| Purchase { customer: customer.into(), order: order.clone(), cents };
        let purchase = entity.map(|entity| new(entity.cents));
        let table = settling.table().table();
        match (stored, purchase) {
            (None, None) => Ok(Settled::Done),
            (None, Some(new)) => settling.wrote(table.insert(&new).await),
            (Some(old), Some(new)) => settling.wrote(table.replace((&new, old.etag)).await),
            (Some(old), None) => settling.wrote(table.delete(key(), &old).await),
        }
    }
}
