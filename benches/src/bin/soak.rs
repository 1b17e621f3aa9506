//! `soak beside [ROUNDS]`: point gets beside long queries.

use std::{env, io};

use compare::soak::beside;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = arguments.iter().find_map(|text| text.parse().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        println!("{}", beside::compare(number.unwrap_or(5)).await?);
        Ok(())
    })
}
