//! What belongs to the Table service of an account: its tables, properties and statistics.

use std::fmt;
use std::sync::Arc;

use crate::table::wire::odata::decode;
use crate::table::wire::{decode as headers, encode};
use futures_util::TryStreamExt as _;
use rowkey_wire::edm::Value;
use rowkey_wire::filter::{Filter as WireFilter, Operator};
use rowkey_wire::limits::MAX_PAGE;

use super::handle::{Table, body_error};
use super::pages::Stream;
use crate::account::StorageAccount;
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::service::listing::{self, Next, Of, Read};
use crate::service::progress::{Limits, limits};
use crate::service::{self, ServiceProperties, ServiceStats};
use crate::transport::{Call, Safety};

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
        let limits = Limits::default();
        Tables { account: self.account.clone(), filter: None, page_size: None, limits, error: None }
    }

    /// Logging, metrics and CORS rules. Not offered by Cosmos DB.
    ///
    /// [Get Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-table-service-properties)
    pub async fn properties(&self) -> Result<ServiceProperties> {
        let request = encode::get_service_properties();
        service::properties(&self.account, "GetTableServiceProperties", request).await
    }

    /// Changes logging, metrics and CORS rules. Sections that are `None` stay as they are.
    ///
    /// [Set Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties)
    pub async fn set_properties(&self, properties: &ServiceProperties) -> Result<()> {
        let operation = "SetTableServiceProperties";
        let request = encode::set_service_properties;
        service::set_properties(&self.account, operation, request, properties).await
    }

    /// How far the secondary is behind. Asked of the secondary endpoint.
    ///
    /// [Get Table Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats)
    pub async fn statistics(&self) -> Result<ServiceStats> {
        let request = encode::get_service_stats();
        service::statistics(&self.account, "GetTableServiceStats", request).await
    }
}

/// A listing of tables, from [`TableService::tables`].
#[must_use = "nothing is listed until `stream` or `all`"]
pub struct Tables {
    account: StorageAccount,
    filter: Option<WireFilter>,
    page_size: Option<u32>,
    limits: Limits,
    error: Option<Error>,
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

    limits!();

    /// The names, one by one.
    pub fn stream(mut self) -> Stream<String> {
        let of = Of { operation: "QueryTables", limits: self.limits, ..Of::default() };
        let begun = match self.error.take() {
            Some(error) => Err(error.of("QueryTables", "")),
            None => Ok((self, None)),
        };
        listing::entries(listing::pages(begun, of, Self::page))
    }

    /// All names.
    pub async fn all(self) -> Result<Vec<String>> {
        self.stream().try_collect().await
    }

    async fn page(self: Arc<Self>, next: Option<Next>) -> Result<Read<String>> {
        let call = Call::new("QueryTables", "", Safety::Read).at(Next::host(next.as_ref()));
        let filter = self.filter.as_ref().map(rowkey_wire::filter::print);
        let marker = Next::marker(next.as_ref());
        let request = encode::query_tables(filter.as_deref(), self.page_size, marker);
        let reply = self.account.pipeline().send(request, call).await?;
        let names = decode::tables(&reply.body)
            .map_err(|error| body_error(error).of_answer(&call, &reply))?;
        Ok((names, Next::after(&reply, headers::next_table(&reply.headers))))
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").field("account", &self.account).finish_non_exhaustive()
    }
}
