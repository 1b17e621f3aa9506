//! Shows the requests of a query without sending them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rowkey_wire::edm::Type;
use rowkey_wire::filter::{self, Filter};

use super::cost::Cost;
use super::handle::Table;
use super::plan::Plan;
use crate::cost::{Class, Usage};
use crate::error::Result;
use crate::paging::Continuation;
use crate::table::wire::encode;

/// The requests that a query would send.
///
/// Its text form is the cost and the first request of each part, with headers. It does not contain
/// credentials; it does contain keys and the values of filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The rows that the service reads.
    pub cost: Cost,
    /// The transactions of the first request of each part. A query takes one for each page of up to 1,000 entities that
    /// it reads.
    pub usage: Usage,
    /// The first request of each part. A query has several parts only when a long list is split, or
    /// when a range of values is several ranges of keys.
    pub requests: Vec<ExplainedRequest>,
    /// The properties that are compared as several types, because rows of other programs may store
    /// either. `#[entity(exact)]` on a field, or [`Column::exact`](crate::Column::exact), limits
    /// the comparison to one type.
    pub compared: BTreeMap<String, BTreeSet<Type>>,
}

/// A request as it would be sent, without the headers that change with every attempt: date, request
/// id and authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRequest {
    /// The method, `GET`.
    pub method: String,
    /// The URL, encoded, without a shared access signature.
    pub url: String,
    /// `$filter` before encoding.
    pub filter: Option<String>,
    /// The headers.
    pub headers: Vec<(String, String)>,
}

impl Explanation {
    /// The requests of a query that starts at `from`; empty if nothing is left to read.
    pub(crate) fn new(
        table: &Table,
        plan: &Plan,
        top: Option<u32>,
        from: Option<&Continuation>,
    ) -> Result<Self> {
        let select: Option<Vec<&str>> =
            plan.select.as_ref().map(|names| names.iter().map(String::as_str).collect());
        let first = from.map_or(plan.filters.len(), |from| from.part.into());
        let parts = plan.filters.iter().enumerate().skip(first).map(|(part, filter)| {
            let query = encode::Query {
                filter: filter.as_deref(),
                select: select.as_deref(),
                top,
                next: from.filter(|_| part == first).and_then(|from| from.token.as_ref()),
            };
            let mut request = encode::query(table.name(), &query);
            table.pipeline().check_length(request.service, &request.target)?;
            let version = table.pipeline().version(request.service);
            request.headers.insert(rowkey_wire::headers::VERSION, version);
            let headers = request.headers.iter().map(|(name, value)| {
                (name.to_string(), value.to_str().unwrap_or_default().to_owned())
            });
            // A token is valid only at the endpoint that issued it.
            let secondary = from.is_some_and(|from| query.next.is_some() && from.secondary);
            let endpoint = if secondary { table.secondary_endpoint() } else { table.endpoint() };
            Ok(ExplainedRequest {
                method: request.method.to_string(),
                url: format!("{endpoint}{}", request.target),
                filter: filter.clone(),
                headers: headers.collect(),
            })
        });
        let (compared, requests) = (compared(plan), parts.collect::<Result<Vec<_>>>()?);
        let usage = Usage::of(Class::TableScan, requests.len() as u64);
        Ok(Self { cost: plan.cost, usage, requests, compared })
    }
}

/// The properties that are compared with constants of several types, with these types.
fn compared(plan: &Plan) -> BTreeMap<String, BTreeSet<Type>> {
    let mut types = BTreeMap::new();
    let texts = plan.filters.iter().flatten();
    // The text was printed by us, so it parses.
    for filter in texts.filter_map(|text| filter::parse(text).ok()) {
        add_types(&filter, &mut types);
    }
    types.retain(|_, types| types.len() > 1);
    types
}

fn add_types(filter: &Filter, types: &mut BTreeMap<String, BTreeSet<Type>>) {
    match filter {
        Filter::And(all) | Filter::Or(all) => all.iter().for_each(|one| add_types(one, types)),
        Filter::Not(one) => add_types(one, types),
        Filter::Compare(comparison) => {
            let of = types.entry(comparison.property.clone()).or_default();
            of.insert(comparison.value.edm_type());
        }
        Filter::Property(_) | Filter::Constant(_) => {}
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cost)?;
        for (property, types) in &self.compared {
            let types: Vec<_> = types.iter().map(|one| one.name()).collect();
            let types = types.join(", ");
            write!(
                f,
                "\n`{property}` is compared as {types}; `#[entity(exact)]` compares it as one"
            )?;
        }
        for request in &self.requests {
            write!(f, "\n{} {}", request.method, request.url)?;
            for (name, value) in &request.headers {
                write!(f, "\n  {name}: {value}")?;
            }
            if let Some(filter) = &request.filter {
                write!(f, "\n  $filter = {filter}")?;
            }
        }
        Ok(())
    }
}
