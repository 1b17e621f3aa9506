use rowkey::Projection;

#[derive(Projection)]
#[entity(partition = "{department}")]
struct Slim {
    department: String,
}

fn main() {}
