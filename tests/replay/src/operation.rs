//! Which operation a request is, and which resource it is about.

use crate::exchange::{Exchange, Service};
use crate::text::{self, BATCH_LINE, pattern};

pattern! {
    ANSWERED_TABLE = r"core\.windows\.net/(\w+)\(";
    NAMED_TABLE = r"^Tables\(\s*'(.*)'\s*\)";
    MADE_TABLE = r#"TableName(?:"\s*:\s*"|[^>]*>)([^"<]*)|Tables\('([^']*)'\)"#;
    TABLE_NAME = r"^[A-Za-z][A-Za-z0-9]{2,62}$";
    CONTAINER_NAME = r"^[a-z0-9](?:-?[a-z0-9])*$";
}

/// Operations that create what other operations need.
pub(crate) const CREATES: [&str; 3] = ["CreateTable", "CreateQueue", "CreateContainer"];
/// Operations that delete it.
pub(crate) const DELETES: [&str; 3] = ["DeleteTable", "DeleteQueue", "DeleteContainer"];
/// Operations that list it.
pub(crate) const LISTINGS: [&str; 3] = ["QueryTables", "ListQueues", "ListContainers"];

/// Texts of the protocol, which a table may be called, too; such a name is kept.
const PROTOCOL_WORDS: [&str; 17] = [
    "value",
    "Timestamp",
    "PartitionKey",
    "RowKey",
    "TableName",
    "Tables",
    "Edm",
    "odata",
    "true",
    "false",
    "null",
    "datetime",
    "guid",
    "error",
    "code",
    "message",
    "lang",
];

/// The operation, and the resource from the outside in: nothing for the account, an empty name for the
/// service, else the table, queue or container and its part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the package is not published")]
pub struct Operation {
    /// The operation's name.
    pub name: String,
    /// The resource.
    pub resource: Vec<String>,
}

fn named(name: impl Into<String>, resource: &[&str]) -> Operation {
    Operation { name: name.into(), resource: resource.iter().map(|&it| it.to_owned()).collect() }
}

/// The operation of a request.
pub(crate) fn of(exchange: &Exchange) -> Operation {
    let path = text::unquote(text::path(&exchange.target));
    let path = path.trim_start_matches('/');
    match exchange.service {
        Service::Table => table(exchange, path),
        Service::Queue => queue(exchange, path),
        Service::Blob => blob(exchange, path),
    }
}

fn parameter<'a>(exchange: &'a Exchange, name: &str) -> &'a str {
    exchange.query.get(name).map_or("", String::as_str)
}

fn service(exchange: &Exchange) -> Operation {
    let name = match (exchange.method.as_str(), parameter(exchange, "comp")) {
        ("GET", "properties") => "GetServiceProperties".to_owned(),
        ("PUT", "properties") => "SetServiceProperties".to_owned(),
        ("GET", "stats") => "GetServiceStats".to_owned(),
        (method, comp) => format!("{method} service {comp}").trim_end().to_owned(),
    };
    named(name, &[""])
}

fn table(exchange: &Exchange, path: &str) -> Operation {
    let method = exchange.method.as_str();
    if path.is_empty() {
        return service(exchange);
    }
    if path.starts_with("$batch") {
        let (body, answer) = (exchange.text(), exchange.answer_text());
        let first = BATCH_LINE.captures(&body).map(|line| text::table_of(text::path(&line[2])));
        let table = first.or_else(|| ANSWERED_TABLE.captures(&answer).map(|it| it[1].to_owned()));
        return named("Batch", &[table.as_deref().unwrap_or("?"), "rows"]);
    }
    if path == "Tables" || path.starts_with("Tables(") {
        if let Some(found) = NAMED_TABLE.captures(path) {
            let name = match method {
                "GET" => "GetTable".to_owned(),
                "DELETE" => "DeleteTable".to_owned(),
                _ => format!("{method} Tables"),
            };
            return named(name, &[&found[1]]);
        }
        if method != "POST" {
            return named("QueryTables", &[]);
        }
        let location = exchange.answer_headers.get("location").map_or("", String::as_str);
        let texts = format!("{}{location}", exchange.text());
        let found = MADE_TABLE.captures(&texts);
        let name = found.and_then(|it| it.get(1).filter(|it| !it.is_empty()).or_else(|| it.get(2)));
        return named("CreateTable", &[name.map_or("?", |it| it.as_str())]);
    }
    let name = text::table_of(path);
    if parameter(exchange, "comp") == "acl" {
        let operation = if method == "PUT" { "SetTableAcl" } else { "GetTableAcl" };
        return named(operation, &[&name, "acl"]);
    }
    let matched = exchange.headers.contains_key("if-match");
    let operation = match method {
        "POST" => "InsertEntity",
        "DELETE" => "DeleteEntity",
        "GET" if path.contains("PartitionKey") => "GetEntity",
        "GET" => "QueryEntities",
        "PUT" if matched => "UpdateEntity",
        "PUT" => "InsertOrReplaceEntity",
        _ if matched => "MergeEntity",
        _ => "InsertOrMergeEntity",
    };
    named(operation, &[&name, "rows"])
}

fn capitalized(text: &str) -> String {
    let (first, rest) = text.split_at_checked(1).unwrap_or((text, ""));
    format!("{}{}", first.to_uppercase(), rest.to_lowercase())
}

fn queue(exchange: &Exchange, path: &str) -> Operation {
    let (method, comp) = (exchange.method.as_str(), parameter(exchange, "comp"));
    if path.is_empty() {
        return if comp == "list" { named("ListQueues", &[]) } else { service(exchange) };
    }
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let peek = parameter(exchange, "peekonly").eq_ignore_ascii_case("true");
    if rest.trim_matches('/') == "messages" {
        let operation = match method {
            "GET" if peek => "PeekMessages".to_owned(),
            "GET" => "GetMessages".to_owned(),
            "POST" => "PutMessage".to_owned(),
            "DELETE" => "ClearMessages".to_owned(),
            _ => format!("{method} messages"),
        };
        return named(operation, &[name, "messages"]);
    }
    if !rest.is_empty() {
        let operation = match method {
            "PUT" => "UpdateMessage".to_owned(),
            "DELETE" => "DeleteMessage".to_owned(),
            _ => format!("{method} message"),
        };
        return named(operation, &[name, "messages"]);
    }
    if !comp.is_empty() {
        let verb = if method == "PUT" { "Set" } else { "Get" };
        return named(format!("{verb}Queue{}", capitalized(comp)), &[name, comp]);
    }
    let operation = match method {
        "PUT" => "CreateQueue".to_owned(),
        "DELETE" => "DeleteQueue".to_owned(),
        _ => format!("{method} queue"),
    };
    named(operation, &[name])
}

fn blob(exchange: &Exchange, path: &str) -> Operation {
    let (method, comp) = (exchange.method.as_str(), parameter(exchange, "comp"));
    let kind = parameter(exchange, "restype");
    if kind == "account" {
        return named("GetAccountInfo", &[""]);
    }
    if path.is_empty() {
        return if comp == "list" { named("ListContainers", &[]) } else { service(exchange) };
    }
    let header = |name: &str| exchange.headers.get(name).map(String::as_str);
    let lease = header("x-ms-lease-action").unwrap_or("?");
    let verb = match method {
        "GET" | "HEAD" => "Get",
        "PUT" => "Set",
        other => other,
    };
    let (name, blob) = path.split_once('/').unwrap_or((path, ""));
    if kind == "container" && blob.is_empty() {
        let operation = match (comp, method) {
            ("list" | "blobs", _) => "ListBlobs".to_owned(),
            ("lease", _) => format!("LeaseContainer:{lease}"),
            ("", "PUT") => "CreateContainer".to_owned(),
            ("", "DELETE") => "DeleteContainer".to_owned(),
            ("", _) => "GetContainerProperties".to_owned(),
            _ => format!("{verb}Container{}", capitalized(comp)),
        };
        return named(operation, &[name]);
    }
    let resource = if blob.is_empty() { ["$root", name] } else { [name, blob] };
    let operation = match (comp, method) {
        ("lease", _) => format!("LeaseBlob:{lease}"),
        ("blocklist" | "metadata" | "properties" | "tags" | "tier" | "acl", _) => {
            format!("{verb}Blob{}", capitalized(comp))
        }
        ("block", _) => "PutBlock".to_owned(),
        ("appendblock", _) => "AppendBlock".to_owned(),
        ("snapshot", _) => "SnapshotBlob".to_owned(),
        ("", "PUT") if header("x-ms-copy-source").is_some() => "CopyBlob".to_owned(),
        ("", "PUT") => format!("Put{}", header("x-ms-blob-type").unwrap_or("Blob")),
        ("", "GET") => "GetBlob".to_owned(),
        ("", "HEAD") => "GetBlobProperties".to_owned(),
        ("", "DELETE") => "DeleteBlob".to_owned(),
        ("", _) => format!("{method} blob"),
        _ => format!("{method} {comp}"),
    };
    named(operation, &resource)
}

/// The valid names of tables, queues or containers that a run uses. Others stay as they are.
pub(crate) fn names(run: &[Exchange]) -> Vec<String> {
    let mut found = Vec::new();
    for exchange in run {
        found.extend(exchange.resource().first().cloned());
        if exchange.op() == "Batch" {
            let body = exchange.text();
            found.extend(
                BATCH_LINE.captures_iter(&body).map(|it| text::table_of(text::path(&it[2]))),
            );
        }
    }
    let table = run.first().is_some_and(|exchange| exchange.service == Service::Table);
    found.retain(|name| {
        let valid = if table {
            TABLE_NAME.is_match(name)
        } else {
            (3..=63).contains(&name.len()) && CONTAINER_NAME.is_match(name)
        };
        valid && !PROTOCOL_WORDS.contains(&name.as_str())
    });
    // The longest first, so that a pattern of all finds the whole name.
    found.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    found.dedup();
    found
}
