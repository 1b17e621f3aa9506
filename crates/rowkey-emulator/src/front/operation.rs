//! The REST operations of the three services, and how a request's operation is identified.
//!
//! The operation follows from the method, the address and a few headers, before the request is
//! authenticated or validated: faults and the journal also cover invalid requests.

use std::borrow::Cow;

use http::Method;
use http::header::{HeaderMap, HeaderName, IF_MATCH};
use http::request::Parts;
use rowkey_wire::auth::Service;
use rowkey_wire::headers;

use super::route;
use crate::wire::options::decode_path;

const COPY_SOURCE: HeaderName = HeaderName::from_static("x-ms-copy-source");
const COPY_REQUIRES_SYNC: HeaderName = HeaderName::from_static("x-ms-requires-sync");
const BLOB_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-type");

macro_rules! operations {
    ($($(#[doc = $doc:literal])* $name:ident $service:ident $kind:ident,)*) => {
        /// An operation of one of the services, named as in their REST reference.
        ///
        /// It includes operations that the server does not implement, so that faults and the
        /// journal can name them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Operation {
            $($(#[doc = $doc])* $name,)*
            /// A request that is not an operation of the Blob service.
            UnknownBlob,
            /// A request that is not an operation of the Queue service.
            UnknownQueue,
            /// A request that is not an operation of the Table service.
            UnknownTable,
        }

        impl Operation {
            /// The service it belongs to.
            pub const fn service(self) -> Service {
                match self {
                    $(Self::$name => Service::$service,)*
                    Self::UnknownBlob => Service::Blob,
                    Self::UnknownQueue => Service::Queue,
                    Self::UnknownTable => Service::Table,
                }
            }

            /// Whether it changes something when it succeeds. Get Messages does: it hides the
            /// messages.
            pub const fn is_write(self) -> bool {
                match self {
                    $(Self::$name => operations!(@ $kind),)*
                    Self::UnknownBlob | Self::UnknownQueue | Self::UnknownTable => false,
                }
            }
        }
    };
    (@ write) => { true };
    (@ read) => { false };
}

operations! {
    /// [Abort Copy Blob](https://learn.microsoft.com/rest/api/storageservices/abort-copy-blob)
    AbortCopyBlob Blob write,
    /// [Append Block](https://learn.microsoft.com/rest/api/storageservices/append-block)
    AppendBlock Blob write,
    /// [Append Block From URL](https://learn.microsoft.com/rest/api/storageservices/append-block-from-url)
    AppendBlockFromUrl Blob write,
    /// [Blob Batch](https://learn.microsoft.com/rest/api/storageservices/blob-batch)
    BlobBatch Blob write,
    /// [Clear Messages](https://learn.microsoft.com/rest/api/storageservices/clear-messages)
    ClearMessages Queue write,
    /// [Copy Blob](https://learn.microsoft.com/rest/api/storageservices/copy-blob)
    CopyBlob Blob write,
    /// [Copy Blob From URL](https://learn.microsoft.com/rest/api/storageservices/copy-blob-from-url)
    CopyBlobFromUrl Blob write,
    /// [Create Container](https://learn.microsoft.com/rest/api/storageservices/create-container)
    CreateContainer Blob write,
    /// [Create Queue](https://learn.microsoft.com/rest/api/storageservices/create-queue4)
    CreateQueue Queue write,
    /// [Create Table](https://learn.microsoft.com/rest/api/storageservices/create-table)
    CreateTable Table write,
    /// [Delete Blob](https://learn.microsoft.com/rest/api/storageservices/delete-blob)
    DeleteBlob Blob write,
    /// [Delete Container](https://learn.microsoft.com/rest/api/storageservices/delete-container)
    DeleteContainer Blob write,
    /// [Delete Entity](https://learn.microsoft.com/rest/api/storageservices/delete-entity1)
    DeleteEntity Table write,
    /// [Delete Message](https://learn.microsoft.com/rest/api/storageservices/delete-message2)
    DeleteMessage Queue write,
    /// [Delete Queue](https://learn.microsoft.com/rest/api/storageservices/delete-queue3)
    DeleteQueue Queue write,
    /// [Delete Table](https://learn.microsoft.com/rest/api/storageservices/delete-table)
    DeleteTable Table write,
    /// [Find Blobs by Tags](https://learn.microsoft.com/rest/api/storageservices/find-blobs-by-tags)
    FindBlobsByTags Blob read,
    /// [Get Account Information](https://learn.microsoft.com/rest/api/storageservices/get-account-information)
    GetAccountInformation Blob read,
    /// [Get Blob](https://learn.microsoft.com/rest/api/storageservices/get-blob)
    GetBlob Blob read,
    /// [Get Blob Metadata](https://learn.microsoft.com/rest/api/storageservices/get-blob-metadata)
    GetBlobMetadata Blob read,
    /// [Get Blob Properties](https://learn.microsoft.com/rest/api/storageservices/get-blob-properties)
    GetBlobProperties Blob read,
    /// [Get Blob Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-blob-service-properties)
    GetBlobServiceProperties Blob read,
    /// [Get Blob Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-blob-service-stats)
    GetBlobServiceStats Blob read,
    /// [Get Blob Tags](https://learn.microsoft.com/rest/api/storageservices/get-blob-tags)
    GetBlobTags Blob read,
    /// [Get Block List](https://learn.microsoft.com/rest/api/storageservices/get-block-list)
    GetBlockList Blob read,
    /// [Get Container ACL](https://learn.microsoft.com/rest/api/storageservices/get-container-acl)
    GetContainerAcl Blob read,
    /// [Get Container Metadata](https://learn.microsoft.com/rest/api/storageservices/get-container-metadata)
    GetContainerMetadata Blob read,
    /// [Get Container Properties](https://learn.microsoft.com/rest/api/storageservices/get-container-properties)
    GetContainerProperties Blob read,
    /// Gets one entity by its keys: [Query
    /// Entities](https://learn.microsoft.com/rest/api/storageservices/query-entities) with keys in
    /// the address.
    GetEntity Table read,
    /// [Get Messages](https://learn.microsoft.com/rest/api/storageservices/get-messages)
    GetMessages Queue write,
    /// [Get Page Ranges](https://learn.microsoft.com/rest/api/storageservices/get-page-ranges)
    GetPageRanges Blob read,
    /// [Get Queue ACL](https://learn.microsoft.com/rest/api/storageservices/get-queue-acl)
    GetQueueAcl Queue read,
    /// [Get Queue Metadata](https://learn.microsoft.com/rest/api/storageservices/get-queue-metadata)
    GetQueueMetadata Queue read,
    /// [Get Queue Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-queue-service-properties)
    GetQueueServiceProperties Queue read,
    /// [Get Queue Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-queue-service-stats)
    GetQueueServiceStats Queue read,
    /// Gets one table by its name: [Query
    /// Tables](https://learn.microsoft.com/rest/api/storageservices/query-tables) with a name in
    /// the address.
    GetTable Table read,
    /// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key)
    /// of the Queue service
    GetQueueUserDelegationKey Queue read,
    /// [Get Table ACL](https://learn.microsoft.com/rest/api/storageservices/get-table-acl)
    GetTableAcl Table read,
    /// [Get Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/get-table-service-properties)
    GetTableServiceProperties Table read,
    /// [Get Table Service Stats](https://learn.microsoft.com/rest/api/storageservices/get-table-service-stats)
    GetTableServiceStats Table read,
    /// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key)
    /// of the Table service
    GetTableUserDelegationKey Table read,
    /// [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key)
    /// of the Blob service
    GetUserDelegationKey Blob read,
    /// [Insert Entity](https://learn.microsoft.com/rest/api/storageservices/insert-entity)
    InsertEntity Table write,
    /// [Insert Or Merge Entity](https://learn.microsoft.com/rest/api/storageservices/insert-or-merge-entity)
    InsertOrMergeEntity Table write,
    /// [Insert Or Replace Entity](https://learn.microsoft.com/rest/api/storageservices/insert-or-replace-entity)
    InsertOrReplaceEntity Table write,
    /// [Lease Blob](https://learn.microsoft.com/rest/api/storageservices/lease-blob)
    LeaseBlob Blob write,
    /// [Lease Container](https://learn.microsoft.com/rest/api/storageservices/lease-container)
    LeaseContainer Blob write,
    /// [List Blobs](https://learn.microsoft.com/rest/api/storageservices/list-blobs)
    ListBlobs Blob read,
    /// [List Containers](https://learn.microsoft.com/rest/api/storageservices/list-containers2)
    ListContainers Blob read,
    /// [List Queues](https://learn.microsoft.com/rest/api/storageservices/list-queues1)
    ListQueues Queue read,
    /// [Merge Entity](https://learn.microsoft.com/rest/api/storageservices/merge-entity)
    MergeEntity Table write,
    /// [Peek Messages](https://learn.microsoft.com/rest/api/storageservices/peek-messages)
    PeekMessages Queue read,
    /// Sent by browsers before a cross-origin request: [Preflight Blob
    /// Request](https://learn.microsoft.com/rest/api/storageservices/preflight-blob-request)
    PreflightBlobRequest Blob read,
    /// [Preflight Queue Request](https://learn.microsoft.com/rest/api/storageservices/preflight-queue-request)
    PreflightQueueRequest Queue read,
    /// [Preflight Table Request](https://learn.microsoft.com/rest/api/storageservices/preflight-table-request)
    PreflightTableRequest Table read,
    /// [Put Blob](https://learn.microsoft.com/rest/api/storageservices/put-blob)
    PutBlob Blob write,
    /// [Put Blob From URL](https://learn.microsoft.com/rest/api/storageservices/put-blob-from-url)
    PutBlobFromUrl Blob write,
    /// [Put Block](https://learn.microsoft.com/rest/api/storageservices/put-block)
    PutBlock Blob write,
    /// [Put Block From URL](https://learn.microsoft.com/rest/api/storageservices/put-block-from-url)
    PutBlockFromUrl Blob write,
    /// [Put Block List](https://learn.microsoft.com/rest/api/storageservices/put-block-list)
    PutBlockList Blob write,
    /// [Put Message](https://learn.microsoft.com/rest/api/storageservices/put-message)
    PutMessage Queue write,
    /// [Put Page](https://learn.microsoft.com/rest/api/storageservices/put-page)
    PutPage Blob write,
    /// [Query Blob Contents](https://learn.microsoft.com/rest/api/storageservices/query-blob-contents)
    QueryBlobContents Blob read,
    /// [Query Entities](https://learn.microsoft.com/rest/api/storageservices/query-entities)
    QueryEntities Table read,
    /// [Query Tables](https://learn.microsoft.com/rest/api/storageservices/query-tables)
    QueryTables Table read,
    /// [Restore Container](https://learn.microsoft.com/rest/api/storageservices/restore-container)
    RestoreContainer Blob write,
    /// [Append Blob Seal](https://learn.microsoft.com/rest/api/storageservices/append-blob-seal)
    SealAppendBlob Blob write,
    /// [Set Blob Expiry](https://learn.microsoft.com/rest/api/storageservices/set-blob-expiry)
    SetBlobExpiry Blob write,
    /// [Set Blob Metadata](https://learn.microsoft.com/rest/api/storageservices/set-blob-metadata)
    SetBlobMetadata Blob write,
    /// [Set Blob Properties](https://learn.microsoft.com/rest/api/storageservices/set-blob-properties)
    SetBlobProperties Blob write,
    /// [Set Blob Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-blob-service-properties)
    SetBlobServiceProperties Blob write,
    /// [Set Blob Tags](https://learn.microsoft.com/rest/api/storageservices/set-blob-tags)
    SetBlobTags Blob write,
    /// [Set Blob Tier](https://learn.microsoft.com/rest/api/storageservices/set-blob-tier)
    SetBlobTier Blob write,
    /// [Set Container ACL](https://learn.microsoft.com/rest/api/storageservices/set-container-acl)
    SetContainerAcl Blob write,
    /// [Set Container Metadata](https://learn.microsoft.com/rest/api/storageservices/set-container-metadata)
    SetContainerMetadata Blob write,
    /// [Set Blob Immutability
    /// Policy](https://learn.microsoft.com/rest/api/storageservices/set-blob-immutability-policy),
    /// deleting the policy, and legal holds.
    SetImmutability Blob write,
    /// [Set Queue ACL](https://learn.microsoft.com/rest/api/storageservices/set-queue-acl)
    SetQueueAcl Queue write,
    /// [Set Queue Metadata](https://learn.microsoft.com/rest/api/storageservices/set-queue-metadata)
    SetQueueMetadata Queue write,
    /// [Set Queue Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-queue-service-properties)
    SetQueueServiceProperties Queue write,
    /// [Set Table ACL](https://learn.microsoft.com/rest/api/storageservices/set-table-acl)
    SetTableAcl Table write,
    /// [Set Table Service Properties](https://learn.microsoft.com/rest/api/storageservices/set-table-service-properties)
    SetTableServiceProperties Table write,
    /// [Snapshot Blob](https://learn.microsoft.com/rest/api/storageservices/snapshot-blob)
    SnapshotBlob Blob write,
    /// An entity group transaction:
    /// [Perform Entity Group Transaction](https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions).
    /// It is one request, with any number of operations.
    Transaction Table write,
    /// [Undelete Blob](https://learn.microsoft.com/rest/api/storageservices/undelete-blob)
    UndeleteBlob Blob write,
    /// [Update Entity](https://learn.microsoft.com/rest/api/storageservices/update-entity2)
    UpdateEntity Table write,
    /// [Update Message](https://learn.microsoft.com/rest/api/storageservices/update-message)
    UpdateMessage Queue write,
}

/// The operation, account and resource of a request, as far as its head tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject<'a> {
    pub(crate) operation: Operation,
    /// The account that the address names.
    pub(crate) account: &'a str,
    /// The table, the queue, the container, or `container/blob`. Empty for a service.
    pub(crate) resource: Cow<'a, str>,
}

impl<'a> Subject<'a> {
    pub(crate) fn of(service: Service, request: &'a Parts) -> Self {
        let Some((account, path)) = route::account_and_path(request) else {
            return Self { operation: unknown(service), account: "", resource: Cow::Borrowed("") };
        };
        let parts = RequestParts {
            method: effective_method(service, request),
            parameters: Parameters::of(request.uri.query().unwrap_or_default()),
            headers: &request.headers,
        };
        let path = path.strip_prefix('/').unwrap_or(path);
        let (operation, resource) = match service {
            Service::Blob => parts.blob(path),
            Service::Queue => parts.queue(path),
            Service::Table => parts.table(path),
        };
        Self { operation, account, resource: decode_path(resource).unwrap_or(resource.into()) }
    }
}

/// The parameters that distinguish operations.
#[derive(Clone, Copy, Debug, Default)]
struct Parameters<'a> {
    comp: &'a str,
    restype: &'a str,
    peek: bool,
}

impl<'a> Parameters<'a> {
    fn of(query: &'a str) -> Self {
        let mut found = Self::default();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "comp" => found.comp = value,
                "peekonly" => found.peek = value.eq_ignore_ascii_case("true"),
                "restype" => found.restype = value,
                _ => {}
            }
        }
        found
    }
}

/// The parts of a request that identify its operation.
struct RequestParts<'a> {
    method: Method,
    parameters: Parameters<'a>,
    headers: &'a HeaderMap,
}

impl RequestParts<'_> {
    fn table<'a>(&self, path: &'a str) -> (Operation, &'a str) {
        use Operation as Op;
        let (get, put) = (self.method == Method::GET, self.method == Method::PUT);
        let (post, delete) = (self.method == Method::POST, self.method == Method::DELETE);
        let Parameters { comp, restype, .. } = self.parameters;
        if self.method == Method::OPTIONS {
            return (Op::PreflightTableRequest, "");
        }
        let (name, keys) = match path.split_once('(') {
            Some((name, keys)) => (name, keys.strip_suffix(')').unwrap_or(keys)),
            None => (path, ""),
        };
        let operation = match name {
            "" => match (comp, restype == "service") {
                ("properties", true) if get => Op::GetTableServiceProperties,
                ("properties", true) if put => Op::SetTableServiceProperties,
                ("stats", true) if get => Op::GetTableServiceStats,
                ("userdelegationkey", true) if post => Op::GetTableUserDelegationKey,
                _ => Op::UnknownTable,
            },
            "$batch" if post => Op::Transaction,
            "Tables" => {
                let named = keys.trim_matches('\'');
                let operation = match () {
                    () if keys.is_empty() && get => Op::QueryTables,
                    () if keys.is_empty() && post => Op::CreateTable,
                    () if get => Op::GetTable,
                    () if delete => Op::DeleteTable,
                    () => Op::UnknownTable,
                };
                return (operation, named);
            }
            _ if comp == "acl" && get => Op::GetTableAcl,
            _ if comp == "acl" && put => Op::SetTableAcl,
            _ if keys.is_empty() && get => Op::QueryEntities,
            _ if keys.is_empty() && post => Op::InsertEntity,
            _ if keys.is_empty() => Op::UnknownTable,
            _ if get => Op::GetEntity,
            _ if delete => Op::DeleteEntity,
            _ if put && self.headers.contains_key(IF_MATCH) => Op::UpdateEntity,
            _ if put => Op::InsertOrReplaceEntity,
            _ if !self.is_merge() => Op::UnknownTable,
            _ if self.headers.contains_key(IF_MATCH) => Op::MergeEntity,
            _ => Op::InsertOrMergeEntity,
        };
        (operation, if operation == Op::Transaction { "" } else { name })
    }

    fn is_merge(&self) -> bool {
        self.method == Method::PATCH || self.method.as_str() == "MERGE"
    }

    fn queue<'a>(&self, path: &'a str) -> (Operation, &'a str) {
        use Operation as Op;
        let mut segments = path.split('/');
        let name = segments.next().unwrap_or_default();
        let messages = segments.next() == Some("messages");
        let message = segments.next().is_some_and(|id| !id.is_empty());
        let Parameters { comp, restype, peek } = self.parameters;
        let operation = match (self.method.as_str(), comp) {
            ("OPTIONS", _) => Op::PreflightQueueRequest,
            ("GET", "list") if name.is_empty() => Op::ListQueues,
            ("GET", "properties") if restype == "service" => Op::GetQueueServiceProperties,
            ("PUT", "properties") if restype == "service" => Op::SetQueueServiceProperties,
            ("GET", "stats") if restype == "service" => Op::GetQueueServiceStats,
            ("POST", "userdelegationkey") if restype == "service" => Op::GetQueueUserDelegationKey,
            _ if name.is_empty() => Op::UnknownQueue,
            ("PUT", _) if messages && message => Op::UpdateMessage,
            ("DELETE", _) if messages && message => Op::DeleteMessage,
            ("GET", _) if messages && peek => Op::PeekMessages,
            ("GET", _) if messages => Op::GetMessages,
            ("POST", _) if messages => Op::PutMessage,
            ("DELETE", _) if messages => Op::ClearMessages,
            _ if messages => Op::UnknownQueue,
            ("GET" | "HEAD", "acl") => Op::GetQueueAcl,
            ("PUT", "acl") => Op::SetQueueAcl,
            ("GET" | "HEAD", "metadata") => Op::GetQueueMetadata,
            ("PUT", "metadata") => Op::SetQueueMetadata,
            ("PUT", "") => Op::CreateQueue,
            ("DELETE", "") => Op::DeleteQueue,
            _ => Op::UnknownQueue,
        };
        (operation, name)
    }

    fn blob<'a>(&self, path: &'a str) -> (Operation, &'a str) {
        let Parameters { comp, restype, .. } = self.parameters;
        let container = restype == "container" || restype == "account" && !path.contains('/');
        let operation = match () {
            () if self.method == Method::OPTIONS => Operation::PreflightBlobRequest,
            () if restype == "account" => Operation::GetAccountInformation,
            () if path.is_empty() => self.blob_service(comp, restype),
            () if container => self.container(comp),
            // Without a container in the address, the blob is in the container `$root`.
            () => self.one_blob(comp),
        };
        (operation, path)
    }

    fn blob_service(&self, comp: &str, restype: &str) -> Operation {
        use Operation as Op;
        match (self.method.as_str(), comp) {
            ("GET", "list") => Op::ListContainers,
            ("GET", "properties") if restype == "service" => Op::GetBlobServiceProperties,
            ("PUT", "properties") if restype == "service" => Op::SetBlobServiceProperties,
            ("GET", "stats") => Op::GetBlobServiceStats,
            ("GET", "blobs") => Op::FindBlobsByTags,
            ("POST", "batch") => Op::BlobBatch,
            ("POST", "userdelegationkey") => Op::GetUserDelegationKey,
            _ => Op::UnknownBlob,
        }
    }

    fn container(&self, comp: &str) -> Operation {
        use Operation as Op;
        match (self.method.as_str(), comp) {
            ("PUT", "") => Op::CreateContainer,
            ("DELETE", "") => Op::DeleteContainer,
            ("GET" | "HEAD", "") => Op::GetContainerProperties,
            ("GET" | "HEAD", "metadata") => Op::GetContainerMetadata,
            ("PUT", "metadata") => Op::SetContainerMetadata,
            ("GET" | "HEAD", "acl") => Op::GetContainerAcl,
            ("PUT", "acl") => Op::SetContainerAcl,
            ("PUT", "lease") => Op::LeaseContainer,
            ("PUT", "undelete") => Op::RestoreContainer,
            ("GET", "list") => Op::ListBlobs,
            ("GET", "blobs") => Op::FindBlobsByTags,
            ("POST", "batch") => Op::BlobBatch,
            _ => Op::UnknownBlob,
        }
    }

    fn one_blob(&self, comp: &str) -> Operation {
        use Operation as Op;
        let copied = self.headers.contains_key(COPY_SOURCE);
        match (self.method.as_str(), comp) {
            ("GET", "") => Op::GetBlob,
            ("HEAD", "") => Op::GetBlobProperties,
            ("DELETE", "") => Op::DeleteBlob,
            ("PUT", "") => match (copied, self.headers.contains_key(BLOB_TYPE)) {
                (false, _) => Op::PutBlob,
                (true, true) => Op::PutBlobFromUrl,
                (true, false) if self.headers.contains_key(COPY_REQUIRES_SYNC) => {
                    Op::CopyBlobFromUrl
                }
                (true, false) => Op::CopyBlob,
            },
            ("PUT", "appendblock") if copied => Op::AppendBlockFromUrl,
            ("PUT", "appendblock") => Op::AppendBlock,
            ("PUT", "block") if copied => Op::PutBlockFromUrl,
            ("PUT", "block") => Op::PutBlock,
            ("PUT", "blocklist") => Op::PutBlockList,
            ("GET", "blocklist") => Op::GetBlockList,
            ("PUT", "copy") => Op::AbortCopyBlob,
            ("PUT", "expiry") => Op::SetBlobExpiry,
            ("PUT" | "DELETE", "immutabilityPolicies") | ("PUT", "legalhold") => {
                Op::SetImmutability
            }
            ("PUT", "lease") => Op::LeaseBlob,
            ("GET" | "HEAD", "metadata") => Op::GetBlobMetadata,
            ("PUT", "metadata") => Op::SetBlobMetadata,
            ("PUT", "page") => Op::PutPage,
            ("GET", "pagelist") => Op::GetPageRanges,
            ("PUT", "properties") => Op::SetBlobProperties,
            ("POST", "query") => Op::QueryBlobContents,
            ("PUT", "seal") => Op::SealAppendBlob,
            ("PUT", "snapshot") => Op::SnapshotBlob,
            ("GET", "tags") => Op::GetBlobTags,
            ("PUT", "tags") => Op::SetBlobTags,
            ("PUT", "tier") => Op::SetBlobTier,
            ("PUT", "undelete") => Op::UndeleteBlob,
            _ => Op::UnknownBlob,
        }
    }
}

/// The effective method: `X-HTTP-Method` replaces `POST` for clients behind proxies that allow no
/// other method.
fn effective_method(service: Service, request: &Parts) -> Method {
    if service != Service::Table || request.method != Method::POST {
        return request.method.clone();
    }
    let tunnelled = request.headers.get(headers::HTTP_METHOD);
    tunnelled
        .and_then(|name| Method::from_bytes(name.as_bytes()).ok())
        .unwrap_or_else(|| request.method.clone())
}

const fn unknown(service: Service) -> Operation {
    match service {
        Service::Blob => Operation::UnknownBlob,
        Service::Queue => Operation::UnknownQueue,
        Service::Table => Operation::UnknownTable,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn named(service: Service, request: &str, headers: &[&str]) -> (Operation, String) {
        let (method, target) = request.split_once(' ').unwrap();
        let mut builder = Request::builder().method(method).uri(target).header("host", "h");
        for header in headers {
            builder = builder.header(*header, "x");
        }
        let parts = builder.body(()).unwrap().into_parts().0;
        let Subject { operation, account, resource } = Subject::of(service, &parts);
        assert_eq!(account, "acc", "{request}");
        (operation, resource.into_owned())
    }

    #[test]
    fn table_operations_are_classified_by_method_path_and_condition() {
        for (request, headers, operation, resource) in [
            ("GET /acc/?restype=service&comp=stats", &[][..], "GetTableServiceStats", ""),
            ("PUT /acc?restype=service&comp=properties", &[], "SetTableServiceProperties", ""),
            ("GET /acc/Tables", &[], "QueryTables", ""),
            ("GET /acc/Tables()", &[], "QueryTables", ""),
            ("POST /acc/Tables", &[], "CreateTable", ""),
            ("DELETE /acc/Tables('t1')", &[], "DeleteTable", "t1"),
            ("GET /acc-secondary/Tables('t1')", &[], "GetTable", "t1"),
            ("GET /acc/t1?comp=acl", &[], "GetTableAcl", "t1"),
            ("GET /acc/t1()?$top=1", &[], "QueryEntities", "t1"),
            ("POST /acc/t1", &[], "InsertEntity", "t1"),
            ("GET /acc/t1(PartitionKey='a',RowKey='b')", &[], "GetEntity", "t1"),
            ("PUT /acc/t1(PartitionKey='a',RowKey='(')", &["if-match"], "UpdateEntity", "t1"),
            ("PUT /acc/t1(PartitionKey='a',RowKey='b')", &[], "InsertOrReplaceEntity", "t1"),
            ("MERGE /acc/t1(PartitionKey='a',RowKey='b')", &["if-match"], "MergeEntity", "t1"),
            ("PATCH /acc/t1(PartitionKey='a',RowKey='b')", &[], "InsertOrMergeEntity", "t1"),
            ("DELETE /acc/t1(PartitionKey='a',RowKey='b')", &["if-match"], "DeleteEntity", "t1"),
            ("POST /acc/$batch", &[], "Transaction", ""),
            ("OPTIONS /acc/t1", &[], "PreflightTableRequest", ""),
            ("PUT /acc/t1", &[], "UnknownTable", "t1"),
        ] {
            let (found, of) = named(Service::Table, request, headers);
            assert_eq!((format!("{found:?}").as_str(), of.as_str()), (operation, resource));
            assert_eq!(found.service(), Service::Table);
        }
    }

    #[test]
    fn queue_operations_are_classified_by_method_and_path() {
        for (request, operation, resource) in [
            ("GET /acc/?comp=list", "ListQueues", ""),
            ("GET /acc/?restype=service&comp=properties", "GetQueueServiceProperties", ""),
            ("PUT /acc/q-1", "CreateQueue", "q-1"),
            ("DELETE /acc/q-1?timeout=3", "DeleteQueue", "q-1"),
            ("HEAD /acc/q-1?comp=metadata", "GetQueueMetadata", "q-1"),
            ("PUT /acc/q-1?comp=acl", "SetQueueAcl", "q-1"),
            ("POST /acc/q-1/messages?messagettl=-1", "PutMessage", "q-1"),
            ("GET /acc/q-1/messages?numofmessages=2", "GetMessages", "q-1"),
            ("GET /acc/q-1/messages?peekonly=true", "PeekMessages", "q-1"),
            ("DELETE /acc/q-1/messages", "ClearMessages", "q-1"),
            ("DELETE /acc/q-1/messages/7?popreceipt=x", "DeleteMessage", "q-1"),
            ("PUT /acc/q-1/messages/7?popreceipt=x", "UpdateMessage", "q-1"),
            ("POST /acc/q-1", "UnknownQueue", "q-1"),
        ] {
            let (found, of) = named(Service::Queue, request, &[]);
            assert_eq!((format!("{found:?}").as_str(), of.as_str()), (operation, resource));
            assert_eq!(found.service(), Service::Queue);
        }
    }

    #[test]
    fn blob_operations_are_classified_by_method_path_and_headers() {
        for (request, headers, operation, resource) in [
            ("GET /acc/?comp=list", &[][..], "ListContainers", ""),
            ("PUT /acc/c?restype=container", &[], "CreateContainer", "c"),
            ("PUT /acc/c?restype=container&comp=lease", &[], "LeaseContainer", "c"),
            ("GET /acc/c?restype=container&comp=list", &[], "ListBlobs", "c"),
            ("PUT /acc/c/a/b%20c", &["x-ms-blob-type"], "PutBlob", "c/a/b c"),
            ("PUT /acc/c/a", &["x-ms-blob-type", "x-ms-copy-source"], "PutBlobFromUrl", "c/a"),
            ("PUT /acc/c/a", &["x-ms-copy-source"], "CopyBlob", "c/a"),
            ("PUT /acc/c/a?comp=block&blockid=AA", &[], "PutBlock", "c/a"),
            ("PUT /acc/c/a?comp=blocklist", &[], "PutBlockList", "c/a"),
            ("PUT /acc/c/a?comp=appendblock", &[], "AppendBlock", "c/a"),
            ("GET /acc/c/a?snapshot=2026", &[], "GetBlob", "c/a"),
            ("HEAD /acc/c/a", &[], "GetBlobProperties", "c/a"),
            ("DELETE /acc/c/a", &[], "DeleteBlob", "c/a"),
            ("PUT /acc/c/a?comp=lease", &[], "LeaseBlob", "c/a"),
            ("PUT /acc/c/a?comp=nonsense", &[], "UnknownBlob", "c/a"),
        ] {
            let (found, of) = named(Service::Blob, request, headers);
            assert_eq!((format!("{found:?}").as_str(), of.as_str()), (operation, resource));
            assert_eq!(found.service(), Service::Blob);
        }
    }
}
