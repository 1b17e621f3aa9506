//! `soak [MINUTES] [FLAG..]`: everything at once for some minutes, ten by default, against a server
//! with these flags.
//!
//! `soak beside [ROUNDS]`: point gets beside long queries.

use std::process::ExitCode;
use std::{env, io};

use compare::soak::{beside, run};

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = arguments.iter().find_map(|text| text.parse().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        if arguments.first().is_some_and(|text| text == "beside") {
            println!("{}", beside::compare(number.unwrap_or(5)).await?);
            return Ok(ExitCode::SUCCESS);
        }
        let flags: Vec<&str> = (arguments.iter().map(String::as_str))
            .filter(|text| text.parse::<usize>().is_err())
            .collect();
        let (report, is_met) = run::soak(number.unwrap_or(10), &flags).await?;
        println!("{report}");
        Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}
