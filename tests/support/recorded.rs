//! Rows that other libraries wrote: the requests in `tests/interop/fixtures`, sent again byte for byte by an
//! independent HTTP client.

use std::collections::BTreeMap;
use std::time::Duration;

use rowkey::Table;
use rowkey::sas::{AccountPermissions, ResourceTypes, Sas, Services};
use serde::Deserialize;

use crate::{Fixture, unique_name};

/// The library that wrote the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Rust `azure_data_tables` 0.21, plain serde.
    Rust,
    /// Python azure-data-tables 12.7.
    Python,
    /// JavaScript @azure/data-tables 13.3.
    JavaScript,
    /// .NET Azure.Data.Tables.
    DotNet,
    /// The legacy Python library.
    LegacyPython,
}

impl Writer {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Rust, Self::Python, Self::JavaScript, Self::DotNet, Self::LegacyPython];

    const fn text(self) -> &'static str {
        match self {
            Self::Rust => include_str!("../interop/fixtures/azure_data_tables-0.21.jsonl"),
            Self::Python => include_str!("../interop/fixtures/azure-data-tables-12.7.jsonl"),
            Self::JavaScript => include_str!("../interop/fixtures/data-tables-js-13.3.jsonl"),
            Self::DotNet => include_str!("../interop/fixtures/azure-data-tables-dotnet-2021.jsonl"),
            Self::LegacyPython => {
                include_str!("../interop/fixtures/cosmosdb-table-python-2017.jsonl")
            }
        }
    }
}

/// A recorded request.
#[derive(Debug, Deserialize)]
struct Request {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    status: u16,
    body: String,
}

impl Request {
    /// The table that it writes to.
    fn table(&self) -> &str {
        let address = match self.path.strip_prefix("/$batch") {
            Some(_) => self.body.split_once("{endpoint}").map_or("", |(_, after)| after),
            None => &self.path,
        };
        address.trim_start_matches('/').split(['(', ' ', '?']).next().unwrap_or_default()
    }
}

/// Repeats the requests that `writer` sent to its table `name`, on a new table. Fails if a response differs
/// from the recorded one.
pub async fn replay(
    fixture: &Fixture,
    writer: Writer,
    name: &str,
) -> Result<Table, Box<dyn std::error::Error>> {
    let table = fixture.account.table(&unique_name());
    table.create().await?;
    let sas = Sas::account(Services::TABLE, ResourceTypes::ALL)
        .permissions(AccountPermissions::ALL)
        .valid_for(Duration::from_secs(3600))
        .sign(&fixture.account)?;
    // `https://account.table.core.windows.net/?sv=..`, or with the account in the path.
    let (endpoint, query) = sas
        .url()
        .split_once('?')
        .map(|(e, q)| (e.to_owned(), q.to_owned()))
        .ok_or("a signature makes a query")?;
    let endpoint = endpoint.trim_end_matches('/');
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut sent = 0;
    for line in writer.text().lines().skip(1) {
        let request: Request = serde_json::from_str(line)?;
        if request.table() != name {
            continue;
        }
        let own = format!("/{}", table.name());
        let path = request.path.replacen(&format!("/{name}"), &own, 1);
        let body = request
            .body
            .replace(&format!("{{endpoint}}/{name}"), &format!("{endpoint}{own}"))
            .replace(&format!(" /{name}("), &format!(" {endpoint}{own}("));
        let url = format!("{endpoint}{path}?{query}");
        let mut again = client
            .request(request.method.parse()?, url)
            .header("x-ms-version", "2019-02-02")
            .header("accept", "application/json;odata=minimalmetadata")
            .body(body);
        for (header, value) in &request.headers {
            again = again.header(header, value);
        }
        let response = again.send().await.map_err(reqwest::Error::without_url)?;
        let status = response.status().as_u16();
        let text = response.text().await?;
        if status != request.status || text.contains("HTTP/1.1 4") {
            return Err(format!(
                "{writer:?} {} {}: {status}: {text}",
                request.method, request.path
            )
            .into());
        }
        sent += 1;
    }
    if sent == 0 {
        return Err(format!("{writer:?} wrote nothing to {name}").into());
    }
    Ok(table)
}
