//! Files of this machine and of blob containers as tables, by their paths.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::datasource::listing::{
    ListingTable, ListingTableConfig, ListingTableConfigExt as _, ListingTableUrl,
};
use datafusion::execution::SessionState;
use datafusion::object_store;
use datafusion::prelude::SessionContext;

/// Opens files with the state of a session. Of the engine's factory it has what knows the session alone: that takes each error for a file
/// that does not exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths(Arc<DynamicListTableFactory>);

impl Paths {
    /// Opens files for this session from now on, without keeping it.
    pub(crate) fn of(&self, session: &SessionContext) {
        self.0.session_store().with_state(session.state_weak_ref());
    }

    fn state(&self) -> Result<SessionState> {
        let session = self.0.session_store().get_session().upgrade();
        let state = session.and_then(|session| session.read().as_any().downcast_ref().cloned());
        state.ok_or_else(|| internal_datafusion_err!("the session of the files has ended"))
    }

    /// The table of a file or folder. None if it does not exist, or if its format is not known by its name.
    pub(crate) async fn open(&self, path: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let is_address = path.contains("://");
        let url = match ListingTableUrl::parse(path) {
            Ok(url) => url,
            Err(error) if is_address => return Err(error),
            Err(_) => return Ok(None),
        };
        // The empty path is the folder of the process, and a name with a colon is no address.
        if path.is_empty() || (!is_address && url.scheme() != "file") {
            return Ok(None);
        }
        let state = self.state()?;
        let config = match ListingTableConfig::new(url.clone()).infer_options(&state).await {
            Ok(config) => config,
            Err(error) if is_of_reading(&error, is_address) => return Err(error),
            Err(_) => return Ok(None),
        };
        let config = config.infer_partitions_from_path(&state).await?;
        let config = config.infer_schema(&state).await?;
        Ok(Some(Arc::new(ListingTable::try_new(config)?)))
    }
}

/// Whether an error says more than that there is no such file.
fn is_of_reading(error: &DataFusionError, is_address: bool) -> bool {
    match error.find_root() {
        // Of a path that is missing. A container says so in its own words.
        DataFusionError::ObjectStore(error) => {
            is_address || !matches!(**error, object_store::Error::NotFound { .. })
        }
        // Of an account that is not known.
        DataFusionError::Plan(_) => true,
        _ => false,
    }
}
