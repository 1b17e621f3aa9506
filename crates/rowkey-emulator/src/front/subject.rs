//! How the operation, the account and the resource of a request are identified.
//!
//! They follow from the method, the address and a few headers, before the request is authenticated or
//! validated: faults and the journal also cover invalid requests.

use std::borrow::Cow;

use http::Method;
use http::header::{HeaderMap, HeaderName, IF_MATCH};
use http::request::Parts;
use rowkey_wire::auth::Service;
use rowkey_wire::headers;

use super::operation::Operation;
use super::route;
use crate::wire::options::decode_path;

const COPY_SOURCE: HeaderName = HeaderName::from_static("x-ms-copy-source");
const COPY_REQUIRES_SYNC: HeaderName = HeaderName::from_static("x-ms-requires-sync");
const BLOB_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-type");

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
