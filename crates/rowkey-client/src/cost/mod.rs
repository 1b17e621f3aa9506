//! What requests cost: transactions by billing class, bytes, and prices.
//!
//! A [`Meter`] counts what the requests of an account, a handle, a call or a test use, a [`Usage`] is such a count or a prediction
//! of one, and a [`PriceTable`], which the program fills with the prices of its region, prices it.
//! The page "Cost" of the book shows them together. What the service *reads* for a query is another
//! question, answered by [`Cost`](crate::Cost).
//!
//! ```
//! use rowkey::cost::{Class, Meter, PriceTable};
//! use rowkey::{DynamicEntity, StorageAccount};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_emulator::Server::start().await?;
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! let meter = Meter::new();
//! let orders = account.with_meter(&meter).table("orders");
//! orders.create().await?;
//! orders.insert(&DynamicEntity::new("contoso", "1")).await?;
//! assert_eq!(meter.usage().transactions(Class::TableWrite), 2);
//!
//! // Prices of the account's region.
//! let prices = PriceTable::new("USD").per_10_000(Class::TableWrite, "0.05".parse()?);
//! assert_eq!(prices.of(&meter.usage())?.to_string(), "0.00001");
//! # Ok(()) }
//! ```

mod class;
mod meter;
mod price;
mod usage;

pub use class::Class;
pub(crate) use class::has_class;
pub use meter::Meter;
pub(crate) use meter::{Counting, Meters, Received, Request, Response, declared};
pub use price::{Amount, PriceTable};
pub use usage::Usage;
