use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{tenant}", row = "{id:6}")]
#[entity(index(name = by_email, partition = "{email}", row = "{id}"))]
struct Without {
    tenant: String,
    id: u32,
    email: String,
}

#[derive(Entity)]
#[entity(partition = "tenant_{tenant}", row = "order_{id:6}")]
#[entity(index(name = by_courier, partition = "tenant_{courier}", row = "order_{id:6}"))]
struct Same {
    tenant: String,
    id: u32,
    courier: String,
}

// Apart: in another table, or by one of the literals.
#[derive(Entity)]
#[entity(partition = "tenant_{tenant}", row = "order_{id:6}")]
#[entity(index(name = by_courier, partition = "tenant_{courier}", row = "order_{id:6}", table = "couriers"))]
#[entity(index(name = by_state, partition = "state_{state}", row = "order_{id:6}"))]
#[entity(index(name = by_place, partition = "tenant_{place}", row = "order_{id:6}_{place}"))]
struct Apart {
    tenant: String,
    id: u32,
    courier: String,
    state: String,
    place: String,
}

fn main() {
    let key = Apart::key("contoso", 7);
    let _: &str = key;
}
