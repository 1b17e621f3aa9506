//! The roles of Azure for data of storage accounts, and the actions of each.
//!
//! The definitions are those of <https://learn.microsoft.com/azure/role-based-access-control/built-in-roles/storage>,
//! without the beginning `Microsoft.Storage/storageAccounts/` of each action.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! roles {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal [$($action:literal)*],)*) => {
        /// A role of Azure for the data of storage accounts.
        ///
        /// As text, and in JSON, a role has its name in Azure, `Storage Table Data Reader`, as in
        /// `az role assignment create --role`.
        ///
        /// ```
        /// use rowkey_emulator::Role;
        ///
        /// let role: Role = "Storage Table Data Reader".parse()?;
        /// assert_eq!(role, Role::StorageTableDataReader);
        /// assert_eq!(role.name(), "Storage Table Data Reader");
        /// # Ok::<_, String>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Role {
            $($(#[doc = $doc])* #[serde(rename = $text)] $name,)*
        }

        impl Role {
            /// All roles.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name in Azure.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The actions that the role permits. A `*` at the end stands for everything below.
            pub(crate) const fn actions(self) -> &'static [&'static str] {
                match self { $(Self::$name => &[$($action),*],)* }
            }
        }
    };
}

roles! {
    /// Manages accounts: containers, queues, tables, their stored access policies, and the
    /// properties of services; no data.
    StorageAccountContributor "Storage Account Contributor" [
        "blobServices/*" "queueServices/*" "tableServices/*"
    ],
    /// Reads, writes and deletes containers and blobs; no tags.
    StorageBlobDataContributor "Storage Blob Data Contributor" [
        "blobServices/containers/delete"
        "blobServices/containers/read"
        "blobServices/containers/write"
        "blobServices/generateUserDelegationKey/action"
        "blobServices/containers/blobs/delete"
        "blobServices/containers/blobs/read"
        "blobServices/containers/blobs/write"
        "blobServices/containers/blobs/move/action"
        "blobServices/containers/blobs/add/action"
    ],
    /// Everything on containers and blobs, with tags and access policies.
    StorageBlobDataOwner "Storage Blob Data Owner" [
        "blobServices/containers/*"
        "blobServices/generateUserDelegationKey/action"
    ],
    /// Reads and lists containers and blobs.
    StorageBlobDataReader "Storage Blob Data Reader" [
        "blobServices/containers/read"
        "blobServices/generateUserDelegationKey/action"
        "blobServices/containers/blobs/read"
    ],
    /// Gets user delegation keys of the Blob service.
    StorageBlobDelegator "Storage Blob Delegator" [
        "blobServices/generateUserDelegationKey/action"
    ],
    /// Reads, writes and deletes queues and messages.
    StorageQueueDataContributor "Storage Queue Data Contributor" [
        "queueServices/queues/delete"
        "queueServices/queues/read"
        "queueServices/queues/write"
        "queueServices/queues/messages/delete"
        "queueServices/queues/messages/read"
        "queueServices/queues/messages/write"
        "queueServices/queues/messages/process/action"
    ],
    /// Peeks at, receives and deletes messages.
    StorageQueueDataMessageProcessor "Storage Queue Data Message Processor" [
        "queueServices/queues/messages/read"
        "queueServices/queues/messages/process/action"
    ],
    /// Adds messages.
    StorageQueueDataMessageSender "Storage Queue Data Message Sender" [
        "queueServices/queues/messages/add/action"
    ],
    /// Reads and lists queues, and peeks at messages.
    StorageQueueDataReader "Storage Queue Data Reader" [
        "queueServices/queues/read"
        "queueServices/queues/messages/read"
    ],
    /// Gets user delegation keys of the Queue service.
    StorageQueueDelegator "Storage Queue Delegator" [
        "queueServices/generateUserDelegationKey/action"
    ],
    /// Reads, writes and deletes tables and entities.
    StorageTableDataContributor "Storage Table Data Contributor" [
        "tableServices/tables/read"
        "tableServices/tables/write"
        "tableServices/tables/delete"
        "tableServices/tables/entities/read"
        "tableServices/tables/entities/write"
        "tableServices/tables/entities/delete"
        "tableServices/tables/entities/add/action"
        "tableServices/tables/entities/update/action"
    ],
    /// Reads tables and entities.
    StorageTableDataReader "Storage Table Data Reader" [
        "tableServices/tables/read"
        "tableServices/tables/entities/read"
    ],
    /// Gets user delegation keys of the Table service.
    StorageTableDelegator "Storage Table Delegator" [
        "tableServices/generateUserDelegationKey/action"
    ],
}

/// What is data, and permitted only by roles that name it: `*` in a role for managing accounts does
/// not include it.
const DATA: [&str; 3] = [
    "blobServices/containers/blobs/",
    "queueServices/queues/messages/",
    "tableServices/tables/entities/",
];

impl Role {
    /// Whether the role permits an action.
    pub(crate) fn allows(self, action: &str) -> bool {
        if self == Self::StorageAccountContributor
            && DATA.iter().any(|data| action.starts_with(data))
        {
            return false;
        }
        self.actions().iter().any(|known| match known.strip_suffix('*') {
            Some(start) => action.starts_with(start),
            None => *known == action,
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|role| role.name().eq_ignore_ascii_case(text)).ok_or_else(
            || {
                let names: Vec<_> = Self::ALL.iter().map(|role| role.name()).collect();
                format!("unknown role `{text}`: expected one of {}", names.join(", "))
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_role_is_its_text_and_its_json() {
        for role in Role::ALL {
            assert_eq!(role.name().parse(), Ok(*role));
            let json = serde_json::to_string(role).unwrap();
            assert_eq!(json, format!("\"{role}\""));
            assert_eq!(serde_json::from_str::<Role>(&json).unwrap(), *role);
        }
        assert!("Owner".parse::<Role>().unwrap_err().contains("Storage Blob Data Owner"));
    }

    #[test]
    fn a_star_stands_for_everything_below_except_data() {
        let owner = Role::StorageBlobDataOwner;
        assert!(owner.allows("blobServices/containers/blobs/tags/write"));
        assert!(!owner.allows("blobServices/write"));
        let contributor = Role::StorageAccountContributor;
        assert!(contributor.allows("tableServices/write"));
        assert!(contributor.allows("queueServices/queues/setAcl/action"));
        for data in DATA {
            assert!(!contributor.allows(&format!("{data}read")), "{data}");
        }
    }
}
