//! Prices from a file, for what requests cost.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use rowkey::cost::{PriceTable, Usage};

use crate::error::{Error, Exit, Result};

/// The flag that names the file.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Prices {
    /// Show the price, of a job on its progress line, by the prices in this JSON file:
    /// `{"currency":"USD","per_10_000":{"table_read":"0.00036","table_scan":"0.00036"}}`.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// Two columns: the price of requests, and its currency.
pub(crate) const COLUMNS: [&str; 2] = ["price", "currency"];

impl Prices {
    /// Reads the file, if one is named.
    pub(crate) fn read(&self) -> Result<Option<PriceTable>> {
        let Some(path) = &self.prices else { return Ok(None) };
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| {
            Error::new(Exit::Failed, format!("the prices in {shown} cannot be read: {error}"))
        })?;
        let table = serde_json::from_str(&text);
        table.map(Some).map_err(|error| {
            Error::usage(format!(
                "{shown} is no table of prices: {error}; write it as \
                 {{\"currency\":\"USD\",\"per_10_000\":{{\"table_read\":\"0.00036\"}}}}"
            ))
        })
    }

    pub(crate) const fn are_given(&self) -> bool {
        self.prices.is_some()
    }

    /// The price of requests and its currency.
    pub(crate) fn of(&self, table: &PriceTable, usage: &Usage) -> Result<[String; 2]> {
        let price = table.of(usage).map_err(|error| {
            let file = self.prices.as_deref().unwrap_or_else(|| "the file of prices".as_ref());
            Error::from(error.advise(format!("add it to `per_10_000` in {}", file.display())))
        })?;
        Ok([price.to_string(), table.currency().to_owned()])
    }
}
