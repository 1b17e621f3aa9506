//! What belongs to the Table service of an account: its tables, properties and statistics.

use std::fmt;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use rowkey_wire::edm::Value;
use rowkey_wire::filter::{Filter as WireFilter, Operator};
use rowkey_wire::limits::MAX_PAGE;
use rowkey_wire::odata::decode;
use rowkey_wire::table::{decode as headers, encode};
use rowkey_wire::xml;
pub use rowkey_wire::xml::{
    CorsRule, GeoStatus, Logging, Metrics, ServiceProperties, ServiceStats,
};

use super::handle::{Table, body_error};
use super::pages::Stream;
use crate::account::StorageAccount;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::transport::{Call, Host, Reply, Safety};

impl StorageAccount {
    /// The table with this name. Nothing is sent or checked.
    pub fn table(&self, name: &str) -> Table {
        Table::new(self.clone(), name)
    }

    /// The account's Table service: its tables, its properties, its statistics.
    pub fn table_service(&self) -> TableService {
        TableService { account: self.clone() }
    }
}

/// The Table service of an account, from [`StorageAccount::table_service`].
#[derive(Clone, Debug)]
pub struct TableService {
    account: StorageAccount,
}

impl TableService {
    /// The account's tables, in the order of their names without case.
    ///
    /// [Query Tables](https://learn.microsoft.com/rest/api/storageservices/query-tables)
    pub fn tables(&self) -> Tables {
        Tables { account: self.account.clone(), filter: None, page_size: None, error: None }
    }

    /// Logging, metrics and CORS rules. Not offered by Cosmos DB.
    ///
    /// [Get Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-table-service-properties)
    pub async fn properties(&self) -> Result<ServiceProperties> {
        let call = Call::new("GetTableServiceProperties", "", Safety::Read);
        let reply = self.account.pipeline().send(encode::get_service_properties(), call).await?;
        xml::decode_properties(&reply.body).map_err(|error| unreadable(error, &call))
    }

    /// Changes logging, metrics and CORS rules. Sections that are `None` stay as they are.
    ///
    /// [Set Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties)
    pub async fn set_properties(&self, properties: &ServiceProperties) -> Result<()> {
        let call = Call::new("SetTableServiceProperties", "", Safety::Conditional);
        let request = encode::set_service_properties(xml::encode_properties(properties));
        self.account.pipeline().send(request, call).await?;
        Ok(())
    }

    /// How far the secondary is behind. Asked of the secondary endpoint.
    ///
    /// [Get Table Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats)
    pub async fn statistics(&self) -> Result<ServiceStats> {
        let call = Call::new("GetTableServiceStats", "", Safety::Read).at(Host::Secondary);
        let reply = self.account.pipeline().send(encode::get_service_stats(), call).await?;
        xml::decode_stats(&reply.body).map_err(|error| unreadable(error, &call))
    }
}

/// A listing of tables, from [`TableService::tables`].
#[must_use = "nothing is listed until `stream` or `all`"]
pub struct Tables {
    account: StorageAccount,
    filter: Option<WireFilter>,
    page_size: Option<u32>,
    error: Option<Error>,
}

/// A page of names.
struct Names {
    names: Vec<String>,
    next: Option<Next>,
}

#[derive(Clone)]
struct Next {
    table: String,
    host: Host,
}

impl Tables {
    /// Only tables for which `filter` holds; the one column is `TableName`.
    pub fn filter(mut self, filter: Filter) -> Self {
        match filter.into_wire() {
            Ok(filter) => {
                self.filter = Some(WireFilter::narrowed(self.filter.take(), filter));
            }
            Err(error) => self.error = Some(Error::invalid(error.to_string())),
        }
        self
    }

    /// Only tables whose names begin with `prefix`, case included.
    pub fn starting_with(mut self, prefix: &str) -> Self {
        let compare = |operator, name: &str| {
            WireFilter::compare("TableName", operator, Value::String(name.to_owned()))
        };
        let mut range = compare(Operator::GreaterOrEqual, prefix);
        if let Some(end) = rowkey_wire::key::successor(prefix) {
            range = range.and(compare(Operator::Less, &end));
        }
        self.filter = Some(WireFilter::narrowed(self.filter.take(), range));
        self
    }

    /// How many names a page has at most, 1 to 1000.
    pub fn page_size(mut self, tables: u32) -> Self {
        if !(1..=MAX_PAGE).contains(&tables) {
            self.error = Some(Error::invalid(format!("a page has 1 to {MAX_PAGE} tables")));
        }
        self.page_size = Some(tables);
        self
    }

    /// The names, one by one.
    pub fn stream(mut self) -> Stream<String> {
        if let Some(error) = self.error.take() {
            return stream::once(async { Err(error.of("QueryTables", "")) }).boxed();
        }
        stream::try_unfold((self, Some(None)), |(tables, next)| async move {
            let Some(next) = next else { return Ok(None) };
            let page = tables.page(next).await?;
            Ok(Some((page.names, (tables, page.next.map(Some)))))
        })
        .map_ok(|names| stream::iter(names.into_iter().map(Ok)))
        .try_flatten()
        .boxed()
    }

    /// All names.
    pub async fn all(self) -> Result<Vec<String>> {
        self.stream().try_collect().await
    }

    async fn page(&self, next: Option<Next>) -> Result<Names> {
        let host = next.as_ref().map_or(Host::Any, |next| next.host);
        let call = Call::new("QueryTables", "", Safety::Read).at(host);
        let filter = self.filter.as_ref().map(rowkey_wire::filter::print);
        let token = next.as_ref().map(|next| next.table.as_str());
        let request = encode::query_tables(filter.as_deref(), self.page_size, token);
        let reply: Reply = self.account.pipeline().send(request, call).await?;
        let names = decode::tables(&reply.body)
            .map_err(|error| body_error(error).of(call.operation, call.resource))?;
        let next =
            headers::next_table(&reply.headers).map(|table| Next { table, host: reply.host() });
        Ok(Names { names, next })
    }
}

#[cold]
pub(crate) fn unreadable(error: xml::XmlError, call: &Call<'_>) -> Error {
    Error::decode("the answer's XML cannot be read")
        .with_source(error)
        .of(call.operation, call.resource)
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("account", &self.account).finish_non_exhaustive()
    }
}
