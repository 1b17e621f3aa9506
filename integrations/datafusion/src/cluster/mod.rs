//! Plans for a cluster such as [Ballista](https://datafusion.apache.org/ballista): scans and writes of tables as messages.
//!
//! The client plans: it knows the columns of tables and their ranges of keys. [`TableCodec`] makes messages of the plan, with the names of
//! accounts and no credential. A scheduler divides it; it needs no account. Each executor gives the scans and writes of its part the
//! accounts of its own environment by [`resolve`].
//!
//! The whole way of a plan, here without a scheduler between the client and the executor:
//!
//! ```
//! use std::sync::Arc;
//!
//! use datafusion::physical_plan::collect;
//! use datafusion::prelude::SessionContext;
//! use datafusion_proto::physical_plan::{AsExecutionPlan as _, DefaultPhysicalExtensionCodec};
//! use datafusion_proto::protobuf::PhysicalPlanNode;
//! use rowkey_datafusion::cluster::{TableCodec, is_of_tables, link, prepare, resolve};
//! use rowkey_datafusion::{Accounts, SessionOptions, session_of};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = rowkey_emulator::Server::start().await?;
//! # let account = rowkey::StorageAccount::from_connection_string(server.connection_string())?;
//! # for table in ["airports", "flights"] {
//! #     account.table(table).create().await?;
//! # }
//! # for (table, partition, row) in [("airports", "airport", "ARN"), ("flights", "ARN", "1"), ("flights", "SCL", "2")] {
//! #     account.table(table).insert(&rowkey::DynamicEntity::new(partition, row)).await?;
//! # }
//! // The client. Its codec is that of the cluster, which is Ballista's for a cluster of Ballista, with that of tables before it.
//! let accounts = Accounts::of([account.clone()])?;
//! let session = session_of(&accounts, SessionOptions::default())?;
//! let query = "SELECT flights.RowKey FROM flights JOIN airports ON flights.PartitionKey = airports.RowKey";
//! let plan = session.sql(query).await?.create_physical_plan().await?;
//! // A plan without tables, as that of `SHOW TABLES`, needs no executor and has no message.
//! assert!(is_of_tables(&plan));
//! let codec = TableCodec::new(Arc::new(DefaultPhysicalExtensionCodec {}));
//! let message = PhysicalPlanNode::try_from_physical_plan(prepare(plan)?, &codec)?;
//! let mut bytes = Vec::new();
//! message.try_encode(&mut bytes)?;
//!
//! // The executor, in another process: the message names the accounts, and it finds them among its own.
//! let accounts = Accounts::of([account])?;
//! let executor = SessionContext::new();
//! let message = PhysicalPlanNode::try_decode(&bytes)?;
//! let plan = message.try_into_physical_plan(&executor.task_ctx(), &codec)?;
//! let plan = link(resolve(plan, &accounts)?, executor.copied_config().options())?;
//! let rows = collect(plan, executor.task_ctx()).await?;
//! assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
//! # Ok(()) }
//! ```
//!
//! - `codec`: nodes of plans as messages · `messages`: their fields · `resolve`: accounts by name ·
//!   `pruning`: scans that wait for joins

mod codec;
mod messages;
pub(crate) mod pruning;
mod resolve;

pub use codec::TableCodec;
pub use pruning::{link, prepare};
use resolve::unresolved;
pub use resolve::{is_of_tables, resolve};
