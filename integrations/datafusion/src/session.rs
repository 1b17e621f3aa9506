//! Sessions that fit tables.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::JoinPruning;

/// The settings of a session that fit tables: names of columns keep their case, so `SELECT PartitionKey` needs no quotes.
pub fn config() -> SessionConfig {
    SessionConfig::new().set_bool("datafusion.sql_parser.enable_ident_normalization", false)
}

/// A session with the settings of [`config`], in which scans wait for joins ([`JoinPruning`]).
pub fn session() -> SessionContext {
    session_with(config())
}

/// A session with other settings.
pub fn session_with(config: SessionConfig) -> SessionContext {
    let state = SessionStateBuilder::new().with_default_features().with_config(config);
    SessionContext::new_with_state(
        state.with_physical_optimizer_rule(Arc::new(JoinPruning)).build(),
    )
}
