//! The tables of an account: a handle by name, and the list of names.

use std::sync::Arc;

use rowkey_entity::Filter;
use rowkey_entity::internals::successor;
use rowkey_wire::edm::Value;
use rowkey_wire::filter::{Filter as WireFilter, Operator};

use super::handle::Table;
use crate::account::StorageAccount;
use crate::error::{Error, Result};
use crate::paging::listing::{Listing, NextPage, PageEntries};
use crate::table::wire::page;
use crate::table::wire::{decode as headers, encode};
use crate::transport::{Call, Safety};

const LIST: &str = "QueryTables";

impl StorageAccount {
    /// Returns the table with this name. Sends and checks nothing.
    pub fn table(&self, name: &str) -> Table {
        Table::new(self.clone(), name)
    }

    /// Lists the names of the account's tables, in case-insensitive order.
    ///
    /// [Query Tables](https://learn.microsoft.com/rest/api/storageservices/query-tables)
    ///
    /// ```
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("orders");
    /// table.create().await?;
    /// account.table("invoices").create().await?;
    /// assert_eq!(account.tables().all().await?, ["invoices", "orders"]);
    /// assert_eq!(account.tables().starting_with("o").all().await?, ["orders"]);
    /// # Ok(()) }
    /// ```
    pub fn tables(&self) -> Listing<String> {
        Listing::new(self, LIST, |listing, next| Box::pin(page(listing, next))).of_tables()
    }
}

impl Listing<String> {
    /// Lists only tables that match `filter`; the only column is `TableName`.
    pub fn filter(mut self, filter: Filter) -> Self {
        match filter.into_wire() {
            Ok(filter) => {
                self.filter = Some(WireFilter::narrowed(self.filter.take(), filter));
            }
            Err(error) => self.refuse(Error::invalid(error.to_string())),
        }
        self
    }
}

/// Table names from `prefix` on and before its successor: a prefix as a filter.
fn beginning_with(prefix: &str) -> WireFilter {
    let compare = |operator, name: &str| {
        WireFilter::compare("TableName", operator, Value::String(name.to_owned()))
    };
    let begin = compare(Operator::GreaterOrEqual, prefix);
    match successor(prefix) {
        Some(end) => begin.and(compare(Operator::Less, &end)),
        None => begin,
    }
}

async fn page(
    listing: Arc<Listing<String>>,
    next: Option<NextPage>,
) -> Result<PageEntries<String>> {
    let call = Call::new(LIST, "", Safety::Read).at(NextPage::host(next.as_ref()));
    let filter = match listing.prefix.as_deref().map(beginning_with) {
        Some(range) => Some(WireFilter::narrowed(listing.filter.clone(), range)),
        None => listing.filter.clone(),
    };
    let filter = filter.as_ref().map(rowkey_wire::filter::print);
    let marker = NextPage::marker(next.as_ref());
    let request = encode::query_tables(filter.as_deref(), listing.page_size, marker);
    let reply = listing.account.pipeline().send(request, call).await?;
    let names =
        page::tables(&reply.body).map_err(|error| Error::from(error).of_answer(&call, &reply))?;
    Ok((names, NextPage::after(&reply, headers::next_table(&reply.headers))))
}
