//! The types of the server as the OpenAPI document describes them. The server has no types of that document, so that
//! tests which embed it do not build its library; a test compares the JSON of both.

use std::collections::BTreeMap;

use rowkey_wire::edm::DateTime;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{RefOr, RefOr::T};
use utoipa::{PartialSchema, ToSchema};

/// A storage service.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Service {
    Blob,
    Queue,
    Table,
}

/// An operation of one of the services, named as in their REST reference.
pub(crate) struct Operation;

impl PartialSchema for Operation {
    fn schema() -> RefOr<Schema> {
        let names =
            rowkey_emulator::Operation::ALL.iter().map(|operation| format!("{operation:?}"));
        let object = ObjectBuilder::new()
            .schema_type(SchemaType::new(Type::String))
            .description(Some(
                "An operation of one of the services, named as in their REST reference.",
            ))
            .enum_values(Some(names));
        T(Schema::Object(object.build()))
    }
}

impl ToSchema for Operation {
    fn name() -> std::borrow::Cow<'static, str> {
        "Operation".into()
    }
}

/// A failure of certain requests. Without `operation`, `service` and `resource` it matches all.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fault {
    #[schema(value_type = Option<Operation>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Service>,
    /// A table, queue or container, with everything in it, or a blob, written `container/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    /// Only the request with this number among those that match, from 1; with `times`, from that one on.
    #[schema(minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    nth: Option<u64>,
    /// At most this number of requests. Without it and without `nth`, all.
    #[schema(minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
    action: Action,
}

/// What happens to a request.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Action {
    /// It is executed, and the connection is closed without a response.
    CloseAfterCommit,
    /// The connection is closed, and it is not executed.
    CloseBeforeCommit,
    /// It is held before it is executed, until the fault is released or removed.
    Hold,
    /// Its response is delayed by this number of milliseconds of the server's clock.
    DelayMs(u64),
    /// It is rejected with this error code of the service, such as `ServerBusy`.
    Reject(String),
    /// It is executed, and the connection is closed after this number of bytes of the response's body.
    Truncate(u64),
}

/// Rates per second. What is left out has the service's documented target.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Targets {
    /// Requests to an account.
    #[serde(default)]
    #[schema(default = 20_000)]
    requests_per_account: u32,
    /// Entities that are read or written in a partition.
    #[serde(default)]
    #[schema(default = 2000)]
    entities_per_partition: u32,
    /// Requests about the messages of a queue.
    #[serde(default)]
    #[schema(default = 2000)]
    messages_per_queue: u32,
}

/// How pages of results are cut, as the service may cut any page.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Pages {
    /// The seed of the random choices.
    seed: u64,
    /// Pages end after a few rows, whether or not the rows match.
    #[serde(default)]
    #[schema(default = true)]
    cut: bool,
    /// First pages have no entities, but a continuation token.
    #[serde(default)]
    #[schema(default = true)]
    empty: bool,
    /// Pages end at the end of their partition, with a token that has no RowKey.
    #[serde(default)]
    #[schema(default = true)]
    partition_only: bool,
}

/// A request that the server received.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct JournalEntry {
    /// Its position among all requests that the server received, from 1.
    number: u64,
    /// When it arrived, by the server's clock.
    #[schema(value_type = String, format = DateTime)]
    at: DateTime,
    service: Service,
    #[schema(value_type = Operation)]
    operation: String,
    account: String,
    /// The table, the queue, the container, or `container/blob`. Empty for a service.
    resource: String,
    /// The status of its response; `null` before the response, and when the connection was closed instead.
    #[schema(required)]
    status: Option<u16>,
    /// Whether it changed something, even if no response reported it.
    committed: bool,
    /// The id of the fault that it met.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<u64>,
    /// The code with which it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// The rule that rejected it, if the code alone does not say why.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// The string to sign as the server computed it, if the request was rejected for its signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    string_to_sign: Option<String>,
}

/// A role of Azure for data, and what it is for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoleAssignment {
    /// The name of the role, such as `Storage Table Data Reader`.
    role: String,
    /// `/` for everything, `account`, or a resource such as `account/tables/orders`.
    #[serde(default)]
    #[schema(default = "/")]
    scope: String,
}

/// What an identity is, which decides how it gets tokens.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum IdentityKind {
    Application,
    ManagedIdentity,
    User,
}

/// An application, a user or a managed identity, without its secret.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Identity {
    kind: IdentityKind,
    /// The client id or the user name.
    id: String,
    object_id: String,
    roles: Vec<RoleAssignment>,
}

/// An identity to be added.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewIdentity {
    /// Default: `application`.
    kind: Option<IdentityKind>,
    /// The client id or the user name.
    id: String,
    /// Default: derived from the id.
    object_id: Option<String>,
    /// The secret of an application, or the password of a user.
    secret: Option<String>,
    #[serde(default)]
    roles: Vec<RoleAssignment>,
}

/// Tables, queues and containers with their contents, by their names.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is only described")]
pub(crate) struct Seed {
    /// Lists of entities, as OData JSON with types.
    #[schema(required = false)]
    tables: BTreeMap<String, Vec<serde_json::Value>>,
    /// Lists of messages.
    #[schema(required = false)]
    queues: BTreeMap<String, Vec<serde_json::Value>>,
    /// Blobs by their names: `{"text": "…"}` or `{"base64": "…"}`.
    #[schema(required = false)]
    containers: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
}

/// How much a seed put into the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Seeded {
    tables: usize,
    entities: usize,
    queues: usize,
    messages: usize,
    containers: usize,
    blobs: usize,
}

impl From<rowkey_emulator::Seeded> for Seeded {
    fn from(seeded: rowkey_emulator::Seeded) -> Self {
        let rowkey_emulator::Seeded {
            tables, entities, queues, messages, containers, blobs, ..
        } = seeded;
        Self { tables, entities, queues, messages, containers, blobs }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    /// Both types read the JSON, and write it again.
    fn same<Real, Described>(written: &Value)
    where
        Real: Serialize + DeserializeOwned,
        Described: Serialize + DeserializeOwned,
    {
        let real: Real = serde_json::from_value(written.clone()).unwrap();
        let described: Described = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(&serde_json::to_value(real).unwrap(), written);
        assert_eq!(&serde_json::to_value(described).unwrap(), written);
    }

    #[test]
    fn the_described_types_are_those_of_the_server() {
        for action in [
            json!("closeAfterCommit"),
            json!("closeBeforeCommit"),
            json!("hold"),
            json!({"delayMs": 5}),
            json!({"reject": "ServerBusy"}),
            json!({"truncate": 3}),
        ] {
            same::<rowkey_emulator::Fault, Fault>(&json!({"action": action}));
        }
        same::<rowkey_emulator::Fault, Fault>(&json!({
            "operation": "InsertEntity", "service": "table", "resource": "t", "nth": 1, "times": 2,
            "action": "hold",
        }));
        same::<rowkey_emulator::Targets, Targets>(&json!({
            "requestsPerAccount": 1, "entitiesPerPartition": 2, "messagesPerQueue": 3,
        }));
        same::<rowkey_emulator::Pages, Pages>(&json!({
            "seed": 7, "cut": true, "empty": false, "partitionOnly": true,
        }));
        same::<rowkey_emulator::Identity, Identity>(&json!({
            "kind": "managedIdentity", "id": "i", "objectId": "o",
            "roles": [{"role": "Storage Table Data Reader", "scope": "a/tables/t"}],
        }));
        same::<rowkey_emulator::JournalEntry, JournalEntry>(&json!({
            "number": 1, "at": "2026-01-01T00:00:00Z", "service": "blob", "operation": "GetBlob",
            "account": "a", "resource": "c/b", "status": null, "committed": false,
        }));
        same::<rowkey_emulator::JournalEntry, JournalEntry>(&json!({
            "number": 1, "at": "2026-01-01T00:00:00Z", "service": "queue", "operation": "PutMessage",
            "account": "a", "resource": "q", "status": 403, "committed": false, "fault": 2,
            "code": "AuthenticationFailed", "rule": "r", "stringToSign": "s",
        }));
    }
}
