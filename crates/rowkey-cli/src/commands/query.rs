//! `rowkey query`: reads the entities that match a filter, or explains what that would cost.

use std::fmt::Write as _;

use clap::Args;
use futures_util::TryStreamExt as _;
use rowkey::table::Explanation;
use rowkey::{Cost, DynamicEntity, Filter, Partition, ScanPolicy};
use rowkey_transfer::Row;
use serde_json::{Value, json};

use crate::args::{Common, Form};
use crate::connect;
use crate::error::{Error, Result};
use crate::output::{self, Entities};
use crate::prices::{self, Prices};

const EXAMPLES: &str = "\
Examples:
  rowkey query orders --partition contoso
  rowkey query orders \"PartitionKey eq 'contoso' and RowKey ge 'order_0001'\" --select Cents,Note --limit 20
  rowkey query orders \"Cents gt 500L\" --explain --prices prices.json
  rowkey query orders \"Cents gt 500L\" --scan --output csv > orders.csv";

/// Read the entities that match a filter.
///
/// A filter without a single PartitionKey makes the service read the whole table, and needs --scan.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Query {
    /// The name of the table.
    table: String,
    /// An OData filter, such as `Cents gt 500L and Note ne 'paid'`. Without it, all entities match.
    filter: Option<String>,
    /// Read only the partition with this PartitionKey.
    #[arg(long, value_name = "KEY")]
    partition: Option<String>,
    /// Read only these properties and the keys.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    select: Vec<String>,
    /// Read at most this many entities.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Read the whole table if the filter requires it.
    #[arg(long)]
    scan: bool,
    /// Show the first request, what the service reads for it, and the transactions that it costs. Sends nothing.
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    prices: Prices,
}

pub(crate) async fn run(common: &Common, args: Query) -> Result<()> {
    let table = connect::account(common)?.table(&args.table);
    let mut query = match &args.partition {
        Some(key) => table.query(Partition::<DynamicEntity>::new(&**key)),
        None => table.scan::<DynamicEntity>(),
    };
    if let Some(filter) = &args.filter {
        let filter = Filter::raw(filter)
            .map_err(|error| Error::usage(format!("the filter for {}: {error}", args.table)))?;
        query = query.filter(filter);
    }
    if !args.select.is_empty() {
        query = query.select(args.select);
    }
    if let Some(limit) = args.limit {
        query = query.take(limit);
    }
    if args.explain {
        return explain(common.form(), &query.explain()?, &args.prices);
    }
    if args.prices.are_given() {
        return Err(Error::usage("--prices is for --explain; add that, or remove --prices"));
    }
    if query.cost()? == Cost::TableScan && !args.scan {
        return Err(Error::usage(format!(
            "query on {}: the service would read the whole table, because the filter has no single \
             PartitionKey; add --partition KEY, or allow it by --scan",
            args.table
        )));
    }
    let mut entities = Entities::new(common.form())?;
    let mut stream = query.scan_policy(ScanPolicy::Allow).stream();
    while let Some(stored) = stream.try_next().await? {
        entities.write(Row::from(stored))?;
    }
    entities.finish()
}

/// Shows the requests of a query.
fn explain(form: Form, explanation: &Explanation, prices: &Prices) -> Result<()> {
    let price = prices.read()?.map(|table| prices.of(&table, &explanation.usage)).transpose()?;
    let cost = explanation.cost.to_string();
    let class = explanation.usage.iter().map(|(class, _)| class.name()).collect::<Vec<_>>();
    let class = class.join(", ");
    if form == Form::Table {
        let mut text = format!(
            "{explanation}\ntransactions: 1 of the class {class} for each page of up to 1,000 entities\n"
        );
        if let Some([price, currency]) = &price {
            let _ = writeln!(
                text,
                "price: {price} {currency} for each page, without that of its bytes"
            );
        }
        return output::text(text.as_bytes());
    }
    let mut columns = vec!["cost", "class", "method", "url", "filter", "headers"];
    if price.is_some() {
        columns.extend(prices::COLUMNS);
    }
    let rows: Vec<_> = explanation
        .requests
        .iter()
        .map(|request| {
            let headers = request.headers.iter().cloned();
            let headers = headers.map(|(name, value)| (name, Value::from(value)));
            let mut row = vec![
                Value::from(&*cost),
                Value::from(&*class),
                Value::from(&*request.method),
                Value::from(&*request.url),
                json!(request.filter),
                Value::Object(headers.collect()),
            ];
            row.extend(price.iter().flatten().map(|text| Value::from(&**text)));
            row
        })
        .collect();
    output::records(form, &columns, &rows)
}
