use rowkey::Entity;

#[derive(Entity)]
#[entity(partition = "{department}", row = "{score}")]
struct Employee {
    department: String,
    score: f64,
}

fn main() {}
