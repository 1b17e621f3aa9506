use rowkey::Projection;

#[derive(Projection)]
struct Contact {
    name: String,
    #[entity(encrypt)]
    phone: String,
}

fn main() {}
