//! Stored access policies of a table, which shared access signatures can refer to.

/// A stored access policy: its name, start and expiry, and permissions (`r` query, `a` add, `u`
/// update, `d` delete).
use rowkey_wire::xml;

use super::handle::Table;
use crate::error::Result;
use crate::service::AccessPolicy;
use crate::service::policies::{self, policies};
use crate::service::unreadable;
use crate::table::wire::encode;
use crate::transport::{Call, Safety};

impl Table {
    /// The table's stored access policies. Needs Shared Key.
    ///
    /// [Get Table ACL](https://learn.microsoft.com/rest/api/storageservices/get-table-acl)
    pub async fn access_policies(&self) -> Result<Vec<AccessPolicy>> {
        let call = Call::new("GetTableAcl", self.name(), Safety::Read);
        let reply = self.send(encode::get_acl(self.name()), call).await?;
        xml::decode_acl(&reply.body).map_err(|error| unreadable(error, &call, &reply))
    }

    /// Replaces all stored access policies with these, at most 5. The service may take 30 seconds
    /// to apply them.
    ///
    /// [Set Table ACL](https://learn.microsoft.com/rest/api/storageservices/set-table-acl)
    ///
    /// ```
    /// # use std::time::Duration;
    /// use rowkey::service::AccessPolicy;
    /// use rowkey::sas::{Sas, TablePermissions};
    ///
    /// # use rowkey::StorageAccount;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// # let table = account.table("orders");
    /// # table.create().await?;
    /// let reads = AccessPolicy {
    ///     id: "reads".into(),
    ///     permission: Some(TablePermissions::QUERY.to_string()),
    ///     ..AccessPolicy::default()
    /// };
    /// table.set_access_policies(&[reads]).await?;
    /// assert_eq!(table.access_policies().await?[0].id, "reads");
    ///
    /// let token = Sas::table("orders").policy("reads").valid_for(Duration::from_secs(3600));
    /// assert!(token.sign(&account)?.query().contains("si=reads"));
    /// assert!(table.revoke_access_policy("reads").await?);
    /// # Ok(()) }
    /// ```
    pub async fn set_access_policies(&self, policies: &[AccessPolicy]) -> Result<()> {
        let call = Call::new("SetTableAcl", self.name(), Safety::Conditional);
        policies::check(policies).map_err(|error| error.of(call.operation, call.resource))?;
        self.send(encode::set_acl(self.name(), xml::encode_acl(policies)), call).await?;
        Ok(())
    }

    policies!("SetTableAcl", access_policies, set_access_policies);
}
