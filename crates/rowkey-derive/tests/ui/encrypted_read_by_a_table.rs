use rowkey::{Entity, StorageAccount};

#[derive(Entity)]
#[entity(store, partition = "{ward}", row = "id_{id}")]
struct Patient {
    ward: String,
    id: u32,
    #[entity(encrypt)]
    name: String,
}

fn main() {
    let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
    let table = account.table("patients");
    let _read = table.get(Patient::key("north", 1));
    let _found = table.query(Patient::partition("north")).all();
}
