//! Whole tables to files and back, as jobs of the engine in `rowkey::patterns::job`, with its pace, checkpoints and reports.
//!
//! - [`Location`]: a folder, or blobs of a container with a prefix
//! - [`Export`]: a table as a [backup](crate::backup) in a location
//! - [`Comparison`]: whether two tables hold the same, and what only one of them has, which can be deleted
//! - [`Source`]: the rows of a backup, of an AzCopy backup or of one file, as a stream for `Job::upsert`
//!
//! ```
//! use futures_util::TryStreamExt as _;
//! use rowkey::patterns::job::{Job, Walk};
//! use rowkey::{DynamicEntity, StorageAccount};
//! use rowkey_transfer::Compression;
//! use rowkey_transfer::jobs::{Export, Location, Source};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_emulator::Server::start().await?;
//! # let account = StorageAccount::from_connection_string(server.connection_string())?;
//! # let (orders, restored) = (account.table("orders"), account.table("restored"));
//! # orders.create().await?;
//! # restored.create().await?;
//! # let order = DynamicEntity::new("contoso", "7");
//! # orders.insert(&order).await?;
//! let container = account.container("backups");
//! container.create_if_missing().await?;
//! let location = Location::container(&container, "2026-11-27/orders/");
//!
//! let all = Walk::new(&orders, |orders| orders.scan::<DynamicEntity>()).split_automatically();
//! let export = Export::new(&location, orders.name()).compression(Compression::Gzip);
//! export.check_free().await?;
//! let report = export.job(all).run().await?;
//! let manifest = export.finish(&report).await?;
//! assert_eq!(manifest.rows, 1);
//!
//! let backup = Source::open(&location).await?;
//! assert_eq!(backup.verify().await?, 1);
//! let (rows, failure) = backup.entities();
//! let report = failure.or(Job::upsert(&restored, rows).run()).await??;
//! assert_eq!(report.total.right, 1);
//! # Ok(()) }
//! ```

mod compare;
mod decode;
mod export;
mod location;
mod look_up;
mod others;
mod source;

pub use compare::{Comparison, RowBatch};
pub use decode::Failure;
pub use export::{Export, Exporting};
pub use location::Location;
pub use others::Others;
pub use source::Source;
