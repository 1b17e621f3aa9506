//! Every derive in a program without a client: `crate = "rowkey_entity"`.

use rowkey_entity::{
    DynamicEntity, Entity, EntitySet, Flatten, KeyPart, Projection, Properties, Property,
};

/// An order with an index, a list and all shapes of fields.
#[derive(Debug, PartialEq, Entity)]
#[entity(
    store,
    partition = "{shop}",
    row = "order_{id:6}",
    kind = "order",
    crate = "rowkey_entity"
)]
#[entity(index(name = by_state, row = "state_{state}_{id:6}"))]
#[entity(list(name = by_tag, value = "{tags}", max = 8))]
pub struct Order {
    /// In the PartitionKey.
    pub shop: Shop,
    /// In the RowKey.
    pub id: u32,
    /// In the index.
    pub state: State,
    /// In the list.
    #[entity(json)]
    pub tags: Vec<String>,
    /// Properties with a prefix.
    #[entity(flatten, prefix = "Ship_")]
    pub address: Address,
    /// Stored as another type.
    #[entity(as = "String")]
    pub cents: i64,
    /// All else.
    #[entity(rest)]
    pub others: Properties,
}

/// A part of keys.
#[derive(Clone, Debug, PartialEq, KeyPart, Property)]
#[key_part(crate = "rowkey_entity")]
#[property(crate = "rowkey_entity")]
pub struct Shop(String);

/// Written as text.
#[derive(Clone, Copy, Debug, PartialEq, KeyPart, Property)]
#[key_part(crate = "rowkey_entity")]
#[property(crate = "rowkey_entity")]
pub enum State {
    /// Not paid.
    Open,
    /// Paid.
    Paid,
}

/// Two properties.
#[derive(Debug, PartialEq, Flatten)]
#[entity(crate = "rowkey_entity")]
pub struct Address {
    /// The street.
    pub street: String,
    /// The city.
    pub city: Option<String>,
}

/// Some of an order.
#[derive(Debug, PartialEq, Projection)]
#[entity(crate = "rowkey_entity")]
pub struct Slim {
    /// The state.
    pub state: State,
}

/// Everything in the table.
#[derive(Debug, EntitySet)]
#[entity_set(crate = "rowkey_entity")]
pub enum Record {
    /// An order.
    Order(Order),
    /// All else.
    #[entity_set(unknown)]
    Unknown(DynamicEntity),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_made_and_read_without_a_client() {
        let mut others = Properties::new();
        others.set("Note", "fragile");
        let order = Order {
            shop: Shop("leeds".into()),
            id: 7,
            state: State::Paid,
            tags: vec!["new".into()],
            address: Address { street: "1 High St".into(), city: None },
            cents: 995,
            others,
        };
        let row = DynamicEntity::of(&order).unwrap();
        assert_eq!((&*row.partition_key, &*row.row_key), ("leeds", "order_000007"));
        assert_eq!(row.get_as::<String>("cents").as_deref(), Ok("995"));
        let json = row.to_odata_json().unwrap();
        let read = DynamicEntity::from_odata_json(&json).unwrap();
        assert_eq!(read.read_as::<Order>().unwrap(), order);
        assert_eq!(read.read_as::<Slim>().unwrap(), Slim { state: State::Paid });
        assert!(matches!(read.read_as::<Record>(), Ok(Record::Order(read)) if read == order));
        assert_eq!(Order::DECLARED.indexes[0].name, "by_state");
        assert_eq!(Order::DECLARED.lists.len(), 1);
    }
}
