use rowkey::{KeyPart, Property};

#[derive(Property)]
#[property(rename_all = "lowercase")]
enum Level {
    Junior,
    #[property(rename = "junior")]
    Apprentice,
}

#[derive(KeyPart)]
enum Region {
    North,
    #[key_part(rename = "a\tb")]
    South,
}

fn main() {}
