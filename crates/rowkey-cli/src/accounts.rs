//! Accounts by a connection string, or by a token of Microsoft Entra ID from the crate `azure_identity`. That is a feature, because it
//! brings an HTTP client of its own.

use clap::ValueEnum;
use rowkey::StorageAccount;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Where the token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TokenSource {
    /// What the user has signed in to: the Azure CLI, then the Azure Developer CLI.
    DeveloperTools,
    /// The managed identity of this machine or service in Azure.
    ManagedIdentity,
    /// The workload identity of this pod in Kubernetes.
    WorkloadIdentity,
}

/// Parses a connection string. `place` says where it comes from, and is in errors instead of its text.
pub(crate) fn by_text(text: &str, place: &str) -> Result<StorageAccount> {
    StorageAccount::from_connection_string(text.trim())
        .map_err(|error| Error::usage(error.to_string()).during(place))
}

/// Connects to the account of this name. `place` says where both come from. Sends nothing.
pub(crate) fn by_token(name: &str, source: TokenSource, place: &str) -> Result<StorageAccount> {
    let account = StorageAccount::builder().name(name).credential(source.credential(place)?);
    account.build().map_err(|error| Error::from(error).during(place))
}

#[cfg(feature = "azure-identity")]
impl TokenSource {
    fn credential(self, place: &str) -> Result<rowkey::Credential> {
        use std::sync::Arc;

        use azure_core::credentials::TokenCredential;
        use azure_identity::{
            DeveloperToolsCredential, ManagedIdentityCredential, WorkloadIdentityCredential,
        };

        let credential: azure_core::Result<Arc<dyn TokenCredential>> = match self {
            Self::DeveloperTools => DeveloperToolsCredential::new(None).map(|it| it as _),
            Self::ManagedIdentity => ManagedIdentityCredential::new(None).map(|it| it as _),
            Self::WorkloadIdentity => WorkloadIdentityCredential::new(None).map(|it| it as _),
        };
        let credential = credential.map_err(|error| Error::usage(format!("{place}: {error}")))?;
        Ok(rowkey::Credential::azure_identity(credential))
    }
}

#[cfg(not(feature = "azure-identity"))]
impl TokenSource {
    #[expect(clippy::unused_self, reason = "the same as with the feature")]
    fn credential(self, place: &str) -> Result<rowkey::Credential> {
        Err(Error::usage(format!(
            "{place}: this program was built without azure_identity; install it with \
             `--features azure-identity`, or use a connection string"
        )))
    }
}
