//! Tests of settings beside each other: each one has an effect or is refused by its name, and no error shows a
//! value.

use rowkey_wire::auth::Service;

use super::*;
use crate::credential::Credential;
use crate::endpoint::SERVICES;
use crate::error::ErrorKind;

/// Base64 that stands for a secret.
const SECRET: &str = "c2VjcmV0";
const SAS: &str = "SharedAccessSignature=sv=1&sig=c2VjcmV0";

fn bases(account: &StorageAccount) -> [String; 3] {
    SERVICES.map(|service| account.pipeline().endpoints().base(service).to_owned())
}

/// The error for settings that were refused, which must not show a secret.
fn refused<T>(result: Result<T>, what: &str) -> String {
    let Err(error) = result else { panic!("{what}: accepted") };
    assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
    let shown = format!("{error} {error:?}").to_lowercase();
    assert!(!shown.contains(&SECRET.to_lowercase()), "{what}: {shown}");
    error.to_string()
}

#[test]
fn parts_of_a_connection_string_that_would_have_no_effect_are_refused_by_name() {
    let key = format!("AccountKey={SECRET}");
    for (text, named) in [
        // What stands beside the emulator.
        (
            "UseDevelopmentStorage=true;TableEndpoint=http://127.0.0.1:24102/devstoreaccount1"
                .into(),
            "TableEndpoint has no effect beside UseDevelopmentStorage",
        ),
        (
            format!("usedevelopmentstorage=TRUE;AccountName=a;{key}"),
            "AccountName has no effect beside UseDevelopmentStorage",
        ),
        (format!("UseDevelopmentStorage=true;{key}"), "AccountKey has no effect beside"),
        (format!("UseDevelopmentStorage=true;{SAS}"), "SharedAccessSignature has no effect beside"),
        (
            "UseDevelopmentStorage=true;DefaultEndpointsProtocol=https".into(),
            "DefaultEndpointsProtocol has no effect beside UseDevelopmentStorage",
        ),
        (
            "UseDevelopmentStorage=true;EndpointSuffix=core.windows.net".into(),
            "EndpointSuffix has no effect beside UseDevelopmentStorage",
        ),
        (
            "UseDevelopmentStorage=true;AccountEndpoint=https://a.documents.azure.com".into(),
            "AccountEndpoint has no effect beside UseDevelopmentStorage",
        ),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://host:24102".into(),
            "DevelopmentStorageProxyUri has a port",
        ),
        (
            "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://host/devstoreaccount1"
                .into(),
            "DevelopmentStorageProxyUri has a path",
        ),
        (
            format!("DevelopmentStorageProxyUri=http://host;AccountName=a;{key}"),
            "DevelopmentStorageProxyUri has no effect without UseDevelopmentStorage",
        ),
        (
            format!("UseDevelopmentStorage=;AccountName=a;{key}"),
            "UseDevelopmentStorage can only be",
        ),
        // Unknown names, which may be misspelled or parts of a value.
        (
            format!("AccountName=a;{key};TabelEndpoint=http://127.0.0.1:1/a"),
            "part 3 of the connection string has an unknown name",
        ),
        (
            format!("AccountName=a;{key};{SECRET}={SECRET}"),
            "part 3 of the connection string has an",
        ),
        (format!("AccountName=a;{key};=x"), "part 3 of the connection string has an unknown name"),
        ("\"UseDevelopmentStorage=true\"".into(), "part 1 of the connection string has an unknown"),
        // Empty values, as a variable that is not set leaves them behind.
        (format!("AccountName=a;{key};TableEndpoint="), "TableEndpoint is empty"),
        (format!("AccountName= ;{key};TableEndpoint=http://127.0.0.1:1/a"), "AccountName is empty"),
        (format!("AccountName=a;{key};EndpointSuffix= "), "EndpointSuffix is empty"),
        (format!("AccountName=a;{key};EndpointSuffix=b.example/c"), "EndpointSuffix has a path"),
        (format!("AccountName=a;{key};EndpointSuffix=b.example\\c"), "EndpointSuffix is not an"),
        (format!("AccountName=a;{key};EndpointSuffix=@b.example"), "EndpointSuffix has a user"),
        (
            format!("AccountName=a;{key};DefaultEndpointsProtocol="),
            "DefaultEndpointsProtocol is empty",
        ),
        (format!("AccountName=a;{key};QueueSecondaryEndpoint="), "QueueSecondaryEndpoint is empty"),
        // Defaults for endpoints, and endpoints.
        (
            format!(
                "AccountName=a;{key};EndpointSuffix=core.windows.net;TableEndpoint=http://127.0.0.1:1/a"
            ),
            "EndpointSuffix has no effect beside TableEndpoint",
        ),
        (
            format!(
                "AccountName=a;{key};EndpointSuffix=core.chinacloudapi.cn;\
                 BlobEndpoint=https://a.blob.core.windows.net"
            ),
            "EndpointSuffix contradicts BlobEndpoint",
        ),
        (
            format!("{SAS};EndpointSuffix=core.windows.net;BlobEndpoint=https://files.contoso.com"),
            "EndpointSuffix has no effect without AccountName",
        ),
        (
            format!(
                "AccountName=a;{key};DefaultEndpointsProtocol={SECRET};TableEndpoint=http://127.0.0.1:1/a"
            ),
            "DefaultEndpointsProtocol is neither http nor https",
        ),
        // Endpoints of another account, another cloud, another kind.
        (
            format!("AccountName=a;{key};QueueEndpoint=https://b.queue.core.windows.net"),
            "AccountName contradicts QueueEndpoint",
        ),
        (
            format!(
                "TableEndpoint=https://a.table.core.windows.net;BlobEndpoint=https://b.blob.core.windows.net;{SAS}"
            ),
            "TableEndpoint contradicts BlobEndpoint",
        ),
        (
            format!("AccountName=a;{key};TableEndpoint=https://a.blob.core.windows.net"),
            "TableEndpoint is the address of another service",
        ),
        (
            format!(
                "AccountEndpoint=https://a.documents.azure.com;TableEndpoint=https://t.contoso.com;{key}"
            ),
            "the connection string has both AccountEndpoint and TableEndpoint",
        ),
        (
            format!("AccountName=b;AccountEndpoint=https://a.documents.azure.com;{key}"),
            "AccountName contradicts AccountEndpoint",
        ),
        (
            format!("AccountName=a;AccountEndpoint=https://localhost:8081;{key}"),
            "AccountEndpoint is not an address of Azure Cosmos DB",
        ),
        (
            format!("AccountEndpoint=http://a.documents.azure.com;{key}"),
            "AccountEndpoint is not an address of Azure Cosmos DB",
        ),
        (
            format!(
                "AccountName=a;{key};TableEndpoint=http://127.0.0.1:1/a;BlobSecondaryEndpoint=http://127.0.0.1:2/a"
            ),
            "BlobSecondaryEndpoint has no effect without BlobEndpoint",
        ),
        (
            format!("TableEndpoint=https://a.table.core.windows.net/?sv=1&sig={SECRET};{SAS}"),
            "TableEndpoint has a query",
        ),
    ] {
        let message = refused(StorageAccount::from_connection_string(&text), &text);
        assert!(message.starts_with(named), "{text}: {message}");
    }
}

#[test]
fn parts_of_a_connection_string_that_go_together_all_have_an_effect() {
    let key = format!("AccountName=a;AccountKey={SECRET}");
    let azure = ["table", "queue", "blob"];
    let azure = |suffix: &str| azure.map(|service| format!("https://a.{service}.{suffix}"));
    for (text, expected) in [
        // As the command line shows it: the suffix and all endpoints.
        (
            format!(
                "DefaultEndpointsProtocol=https;EndpointSuffix=core.windows.net;{key};\
                 BlobEndpoint=https://a.blob.core.windows.net/;FileEndpoint=https://a.file.core.windows.net/;\
                 QueueEndpoint=https://a.queue.core.windows.net/;TableEndpoint=https://a.table.core.windows.net/"
            ),
            azure("core.windows.net"),
        ),
        // As the portal shows a signature.
        (
            format!(
                "BlobEndpoint=https://a.blob.core.windows.net/;QueueEndpoint=https://a.queue.core.windows.net/;\
                 FileEndpoint=https://a.file.core.windows.net/;TableEndpoint=https://a.table.core.windows.net/;{SAS}"
            ),
            azure("core.windows.net"),
        ),
        // The protocol is for endpoints that are not given.
        (
            format!("DefaultEndpointsProtocol=http;{key};TableEndpoint=https://tables.contoso.com"),
            [
                "https://tables.contoso.com".into(),
                "http://a.queue.core.windows.net".into(),
                "http://a.blob.core.windows.net".into(),
            ],
        ),
        (
            format!(
                "{key};DefaultEndpointsProtocol=http;TableEndpoint=https://a.table.core.windows.net"
            ),
            [
                "https://a.table.core.windows.net".into(),
                "http://a.queue.core.windows.net".into(),
                "http://a.blob.core.windows.net".into(),
            ],
        ),
        (
            format!(
                "{key};EndpointSuffix=core.chinacloudapi.cn;BlobEndpoint=https://files.contoso.com"
            ),
            [
                "https://a.table.core.chinacloudapi.cn".into(),
                "https://a.queue.core.chinacloudapi.cn".into(),
                "https://files.contoso.com".into(),
            ],
        ),
        // The secondary of an account has its own name.
        (
            format!(
                "{key};TableSecondaryEndpoint=https://a-secondary.table.core.windows.net ; ;\n \
                 endpointsuffix = core.windows.net ;;"
            ),
            azure("core.windows.net"),
        ),
        // A name in a cluster is not that of an account.
        (
            format!("{key};TableEndpoint=http://emulator.table.svc:10002/a"),
            ["http://emulator.table.svc:10002/a".into(), String::new(), String::new()],
        ),
        (
            format!(
                "AccountEndpoint=https://a.documents.azure.us:443/;AccountKey={SECRET};ApiKind=Table"
            ),
            ["https://a.table.cosmos.azure.us".into(), String::new(), String::new()],
        ),
    ] {
        let account = StorageAccount::from_connection_string(&text).unwrap();
        assert_eq!(account.name(), "a", "{text}");
        assert_eq!(bases(&account), expected, "{text}");
    }
    let text = "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://host/;";
    let account = StorageAccount::from_connection_string(text).unwrap();
    assert_eq!(bases(&account)[0], "http://host:10002/devstoreaccount1");
}

#[test]
fn calls_of_the_builder_that_would_have_no_effect_are_refused_by_name() {
    let key = |name: &str| Credential::shared_key(name, SECRET).unwrap();
    let builder = StorageAccount::builder;
    let text = format!("AccountName=a;AccountKey={SECRET}");
    let table = |url: &str| builder().endpoint(Service::Table, url).unwrap();
    let none = builder().credential(Credential::anonymous());
    for (result, named) in [
        (
            table("https://t.contoso.com").connection_string(&text),
            "the connection string would replace the account name or the endpoints that were set before it",
        ),
        (builder().name("a").connection_string(&text), "the connection string would replace"),
        (builder().endpoint_suffix("x.y").connection_string(&text), "the connection string would"),
        (
            builder().connection_string(&text).unwrap().connection_string(&text),
            "the connection string would replace",
        ),
    ] {
        let message = refused(result, named);
        assert!(message.starts_with(named), "{message}");
    }
    for (builder, named) in [
        (builder().name("b").credential(key("a")), "the account name contradicts the account key"),
        (
            builder().connection_string(&text).unwrap().name("b"),
            "the account name contradicts the account key",
        ),
        (
            none.clone()
                .name("a")
                .endpoint(Service::Blob, "https://b.blob.core.windows.net")
                .unwrap(),
            "the account name contradicts the blob endpoint",
        ),
        (
            table("https://b.table.core.windows.net").credential(key("a")),
            "the account name contradicts the table endpoint",
        ),
        (
            none.clone().connection_string("AccountName=a").unwrap().endpoint_suffix("core.x"),
            "the endpoint suffix contradicts the table endpoint",
        ),
        (
            table("http://127.0.0.1:1/a").credential(key("a")).endpoint_suffix("core.x"),
            "the endpoint suffix has no effect",
        ),
        (
            table("https://a.table.core.windows.net")
                .credential(key("a"))
                .endpoint_suffix("core.x"),
            "the endpoint suffix contradicts the table endpoint",
        ),
        (
            table("http://127.0.0.1:1/a")
                .credential(key("a"))
                .secondary_endpoint(Service::Blob, "http://127.0.0.1:2/a")
                .unwrap(),
            "the secondary blob endpoint has no effect without the blob endpoint",
        ),
        (
            table("https://a.queue.core.windows.net").credential(key("a")),
            "the table endpoint is the address of another service",
        ),
    ] {
        let message = refused(builder.build(), named);
        assert!(message.starts_with(named), "{message}");
    }
    // The later of two calls of one setter counts.
    let twice =
        table("https://one.contoso.com").endpoint(Service::Table, "https://two.contoso.com");
    let account = twice.unwrap().name("b").name("a").credential(key("a")).build().unwrap();
    assert_eq!(bases(&account)[0], "https://two.contoso.com");
}
