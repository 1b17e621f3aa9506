//! `soak [MINUTES] [FLAG..]`: everything at once for some minutes, ten by default, against a server
//! with these flags.
//!
//! `soak beside [ROUNDS]`: point gets beside long queries.
//!
//! `soak service [SECONDS]`: a service on our client; writes its dashboard to `target/dashboard`, three minutes by default.
//!
//! `soak grafana`: writes the dashboard for Grafana to `docs/dashboards`.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use compare::dashboard::{grafana, panels};
use compare::soak::{beside, run, service};

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = arguments.iter().find_map(|text| text.parse().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        if arguments.first().is_some_and(|text| text == "beside") {
            println!("{}", beside::compare(number.unwrap_or(5)).await?);
            return Ok(ExitCode::SUCCESS);
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        if arguments.first().is_some_and(|text| text == "service") {
            let (seconds, results) = (number.unwrap_or(180), folder.join("target/dashboard"));
            let watched = service::watch(seconds as u64, &results).await;
            watched.map_err(|error| io::Error::other(error.to_string()))?;
            println!("{}", results.join("dashboard.html").display());
            return Ok(ExitCode::SUCCESS);
        }
        if arguments.first().is_some_and(|text| text == "grafana") {
            let file = folder.join("../docs/dashboards/rowkey-grafana.json");
            fs::write(file, grafana::dashboard(&panels::sections()))?;
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
