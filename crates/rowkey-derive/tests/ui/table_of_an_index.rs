use rowkey::Entity;

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_customer, table = "customers", row = "{customer}"))]
#[entity(list(name = by_tag, table = "tags", value = "{tag}"))]
struct WithoutPartitions {
    tenant: String,
    id: u32,
    customer: String,
    tag: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_customer, table = "by_customer", partition = "all", row = "{customer}"))]
struct InvalidIndexTable {
    tenant: String,
    id: u32,
    customer: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(list(name = by_tag, table = "Tables", partition = "all", value = "{tag}"))]
struct ReservedListTable {
    tenant: String,
    id: u32,
    tag: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_customer, table = "Lookups", partition = "all", row = "{customer}"))]
#[entity(index(name = by_courier, table = "lookups", partition = "all", row = "{courier}"))]
struct InOneTable {
    tenant: String,
    id: u32,
    customer: String,
    courier: String,
}

#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(unique(name = by_number, table = "numbers", value = "{number}"))]
struct OfAUniqueValue {
    tenant: String,
    id: u32,
    number: String,
}

// The same rows in two tables.
#[derive(Entity)]
#[entity(store, partition = "{tenant}", row = "order_{id:4}")]
#[entity(index(name = by_customer, table = "customers", partition = "all", row = "{customer}"))]
#[entity(index(name = by_courier, table = "couriers", partition = "all", row = "{courier}"))]
#[entity(index(name = by_desk, partition = "all", row = "{desk}"))]
struct InTwoTables {
    tenant: String,
    id: u32,
    customer: String,
    courier: String,
    desk: u32,
}

fn main() {}
