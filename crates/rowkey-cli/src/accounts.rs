//! Accounts by a connection string, or by a token of Microsoft Entra ID from the crate `azure_identity`. That is a feature, because it
//! brings an HTTP client of its own.

use clap::ValueEnum;
use rowkey::{StorageAccount, StorageAccountBuilder};
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

/// An account by a token.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    pub(crate) account: String,
    pub(crate) credential: TokenSource,
    /// Of another cloud than the public one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint_suffix: Option<String>,
}

/// Parses a connection string. `place` says where it comes from, and is in errors instead of its text.
pub(crate) fn by_text(text: &str, place: &str) -> Result<StorageAccount> {
    StorageAccount::from_connection_string(text.trim())
        .map_err(|error| Error::usage(error.to_string()).during(place))
}

/// Connects by a token. `place` says where it comes from. Sends nothing.
pub(crate) fn by_token(token: &Token, place: &str) -> Result<StorageAccount> {
    let account = named(token).credential(token.credential.credential(place)?);
    account.build().map_err(|error| Error::from(error).during(place))
}

/// The account in its cloud.
fn named(token: &Token) -> StorageAccountBuilder {
    let account = StorageAccount::builder().name(&*token.account);
    match &token.endpoint_suffix {
        Some(suffix) => account.endpoint_suffix(&**suffix),
        None => account,
    }
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

#[cfg(test)]
mod tests {
    use rowkey::Credential;

    use super::*;

    #[test]
    fn the_suffix_selects_the_cloud_and_the_public_one_is_the_default() {
        let address = |endpoint_suffix: Option<&str>| {
            let token = Token {
                account: "shop".to_owned(),
                credential: TokenSource::ManagedIdentity,
                endpoint_suffix: endpoint_suffix.map(str::to_owned),
            };
            let key = Credential::shared_key("shop", "YmFy").unwrap();
            named(&token).credential(key).build().unwrap().table("orders").place()
        };
        assert_eq!(address(None), "https://shop.table.core.windows.net/orders");
        let china = address(Some("core.chinacloudapi.cn"));
        assert_eq!(china, "https://shop.table.core.chinacloudapi.cn/orders");
    }
}
