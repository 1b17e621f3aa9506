//! Credentials from `azure_identity` and other implementations of `azure_core` 1.x.

use std::sync::Arc;

use async_trait::async_trait;
use azure_core::credentials::TokenCredential;
use chrono::DateTime;

use super::Credential;
use super::token::{AccessToken, TokenError, TokenProvider};

impl Credential {
    /// Creates a credential from one of `azure_core` 1.x, such as those in `azure_identity`. See
    /// [`token`](Self::token).
    pub fn azure_identity(credential: Arc<dyn TokenCredential>) -> Self {
        Self::token(AzureIdentity(credential))
    }
}

struct AzureIdentity(Arc<dyn TokenCredential>);

#[async_trait]
impl TokenProvider for AzureIdentity {
    async fn token(&self, scope: &str) -> Result<AccessToken, TokenError> {
        let token = self.0.get_token(&[scope], None).await?;
        let expires = DateTime::from_timestamp(token.expires_on.unix_timestamp(), 0)
            .ok_or("the token expires at no time of the calendar")?;
        Ok(AccessToken::new(token.token.secret(), expires))
    }
}
