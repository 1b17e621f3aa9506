//! Code shared by the programs.
//!
//! - [`servers`], [`growth`], [`patterns`], [`clients`], [`bulk`], [`indexed`], [`scan`], [`durable`]: the comparisons
//! - [`workloads`]: what [`patterns`] measures
//! - [`soak`]: a server under load for minutes, and beside long queries; a service on our client
//! - [`dashboard`]: the metrics of that service as a page, and as a dashboard of Grafana
//! - [`report`]: medians, ratios, goals, tables; [`charts`]: the charts of the book
//! - [`results`]: figures as files; [`publish`]: tables and charts in README.md and in the book
//! - [`bare`]: the minimal server; [`process`]: servers as processes, their CPU and memory
//! - [`requests`], [`small`], [`load`]: signed bytes, and who sends them
//! - [`model`], [`sign`]: the entity, and Shared Key written by hand

pub mod bare;
pub mod bulk;
pub mod charts;
pub mod clients;
pub mod copied;
pub mod dashboard;
pub mod durable;
pub mod growth;
pub mod indexed;
pub mod load;
pub mod model;
pub mod patterns;
pub mod process;
pub mod publish;
pub mod report;
pub mod requests;
pub mod results;
pub mod scan;
pub mod servers;
pub mod sign;
pub mod small;
pub mod soak;
pub mod stored;
// What the test of requests counts, too; that package is in another workspace.
#[path = "../../tests/support/growth/mod.rs"]
pub mod workloads;
