//! Tests of connection strings in all their forms, and of errors in them.

use rowkey_wire::auth::Service;

use super::connection_string::Parts;
use super::*;
use crate::credential::token::{AccessToken, TokenError, TokenProvider};
use crate::credential::{Authority, Credential};
use crate::endpoint::Endpoint;
use crate::error::ErrorKind;

mod combinations;

/// Base64 of `account-key`.
const KEY: &str = "YWNjb3VudC1rZXk=";

fn endpoint(text: &str) -> String {
    let parts = Parts::parse(text).unwrap();
    format!("{:?}", parts.given.primary.get(Service::Table).unwrap())
}

fn refusal(text: &str) -> String {
    let error = Parts::parse(text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
    error.to_string()
}

#[test]
fn a_connection_string_of_the_portal_parses() {
    let text = format!(
        "DefaultEndpointsProtocol=https;AccountName=contoso;AccountKey={KEY};\
         EndpointSuffix=core.windows.net"
    );
    let account = StorageAccount::from_connection_string(&text).unwrap();
    let endpoints = account.pipeline().endpoints();
    assert_eq!(account.name(), "contoso");
    assert_eq!(account.flavor(), Flavor::Storage);
    assert_eq!(endpoints.base(Service::Table), "https://contoso.table.core.windows.net");
    let secondary = endpoints.of(Service::Table).unwrap().secondary.as_ref().unwrap();
    assert_eq!(secondary.base(), "https://contoso-secondary.table.core.windows.net");
    assert_eq!(secondary.host(), "contoso-secondary.table.core.windows.net");
    assert_eq!(secondary.port(), 443);
}

#[test]
fn names_ignore_case_and_surrounding_space() {
    let text =
        format!(" accountname = contoso ;\n ACCOUNTKEY={KEY} ;; defaultendpointsprotocol=HTTP;");
    assert_eq!(endpoint(&text), "http://contoso.table.core.windows.net");
}

#[test]
fn an_endpoint_suffix_selects_the_cloud() {
    let text = format!("AccountName=contoso;AccountKey={KEY};EndpointSuffix=core.chinacloudapi.cn");
    assert_eq!(endpoint(&text), "https://contoso.table.core.chinacloudapi.cn");
}

#[test]
fn a_connection_string_of_an_emulator_has_path_style_endpoints() {
    let text = format!(
        "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};\
         BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;\
         QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1;\
         TableEndpoint=http://127.0.0.1:10002/devstoreaccount1/;"
    );
    let account = StorageAccount::from_connection_string(&text).unwrap();
    let endpoints = account.pipeline().endpoints();
    assert_eq!(endpoints.base(Service::Table), "http://127.0.0.1:10002/devstoreaccount1");
    assert_eq!(endpoints.of(Service::Table).unwrap().primary.port(), 10002);
    let secondary = endpoints.of(Service::Table).unwrap().secondary.as_ref().unwrap();
    assert_eq!(secondary.base(), "http://127.0.0.1:10002/devstoreaccount1-secondary");
}

#[test]
fn development_storage_is_the_emulator_on_this_or_a_named_host() {
    for (text, base) in [
        ("UseDevelopmentStorage=true", "http://127.0.0.1:10002/devstoreaccount1"),
        (
            "UseDevelopmentStorage=True;DevelopmentStorageProxyUri=http://azurite",
            "http://azurite:10002/devstoreaccount1",
        ),
    ] {
        let parts = Parts::parse(text).unwrap();
        assert_eq!(parts.name.as_deref(), Some("devstoreaccount1"));
        assert_eq!(endpoint(text), base);
    }
    assert_eq!(refusal("UseDevelopmentStorage=yes"), "UseDevelopmentStorage can only be `true`");
}

#[test]
fn a_sas_needs_no_key_and_the_endpoint_contains_the_account_name() {
    for sas in ["?sv=2019-02-02&sig=a%3D", "sv=2019-02-02&sig=a%3D"] {
        let text = format!(
            "TableEndpoint=https://contoso.table.core.windows.net/;SharedAccessSignature={sas}"
        );
        let parts = Parts::parse(&text).unwrap();
        assert_eq!((parts.name.as_deref(), parts.given.account()), (None, Some("contoso")));
        let Authority::Sas(sas) = parts.credential.unwrap().settled() else {
            panic!("not a signature")
        };
        assert_eq!(&*sas, "sv=2019-02-02&sig=a%3D");
    }
    let text = "AccountName=contoso;SharedAccessSignature=sv=1&sig=a%3D";
    assert_eq!(endpoint(text), "https://contoso.table.core.windows.net");
}

#[test]
fn cosmos_is_detected_by_its_host() {
    for (text, base) in [
        (
            format!(
                "DefaultEndpointsProtocol=https;AccountName=contoso;AccountKey={KEY};\
                 TableEndpoint=https://contoso.table.cosmos.azure.com:443/;"
            ),
            "https://contoso.table.cosmos.azure.com",
        ),
        (
            format!("AccountEndpoint=https://contoso.documents.azure.com:443/;AccountKey={KEY};"),
            "https://contoso.table.cosmos.azure.com",
        ),
        (
            format!(
                "AccountName=contoso;AccountKey={KEY};\
                 TableEndpoint=https://contoso.table.cosmosdb.azure.com"
            ),
            "https://contoso.table.cosmosdb.azure.com",
        ),
        (
            format!("AccountName=localhost;AccountKey={KEY};TableEndpoint=http://localhost:8902/"),
            "http://localhost:8902",
        ),
    ] {
        let account = StorageAccount::from_connection_string(&text).unwrap();
        assert_eq!(account.flavor(), Flavor::Cosmos, "{base}");
        assert_eq!(account.pipeline().endpoints().base(Service::Table), base);
    }
}

#[test]
fn errors_name_the_setting_and_not_its_value() {
    let secret = "c2VjcmV0";
    for (text, named) in [
        (String::new(), "the connection string is empty"),
        (" ; ".to_owned(), "the connection string is empty"),
        (format!("AccountName=a;{secret}"), "part 2 of the connection string is not `Name=value`"),
        (format!("AccountKey={secret}"), "the connection string has no AccountName or endpoint"),
        (
            format!("AccountKey={secret};TableEndpoint=http://127.0.0.1"),
            "the connection string has no AccountName",
        ),
        (
            format!("https://a.table.core.windows.net/?sig={secret}"),
            "the text is an address and no connection string",
        ),
        (
            format!("AccountName=a;AccountKey={secret};accountkey={secret}"),
            "the connection string has AccountKey twice",
        ),
        (format!("{secret}=1;{secret}=2"), "part 1 of the connection string has an unknown name"),
        (
            format!("AccountName=a;AccountKey={secret};SharedAccessSignature=sig={secret}"),
            "the connection string has both AccountKey and SharedAccessSignature",
        ),
        (format!("AccountName=a;AccountKey={secret}!"), "the account key is not base64"),
        (
            format!("AccountName=a;SharedAccessSignature=sv={secret}"),
            "the shared access signature has no `sig`",
        ),
        (
            format!("AccountName={secret}/;AccountKey={secret}"),
            "the account name is invalid in a host name",
        ),
        (
            format!("AccountName=a;AccountKey={secret};DefaultEndpointsProtocol={secret}"),
            "DefaultEndpointsProtocol is neither http nor https",
        ),
        (
            format!("AccountName=a;AccountKey={secret};TableEndpoint={secret}"),
            "TableEndpoint is not an absolute URL",
        ),
        (
            format!("AccountName=a;AccountKey={secret};TableEndpoint=ftp://{secret}"),
            "TableEndpoint is neither http nor https",
        ),
        (
            format!("AccountName=a;AccountKey={secret};TableEndpoint=https://a.b/?sig={secret}"),
            "TableEndpoint has a query",
        ),
        (
            format!("AccountName=a;AccountKey={secret};TableEndpoint=https://u:{secret}@a.b"),
            "TableEndpoint has a user name or password",
        ),
        (
            format!("AccountName=a;AccountKey={secret};QueueSecondaryEndpoint={secret}"),
            "QueueSecondaryEndpoint is not an absolute URL",
        ),
        (
            format!("AccountName=a;AccountKey={secret};TableSecondaryEndpoint={secret}"),
            "TableSecondaryEndpoint is not an absolute URL",
        ),
        (
            format!("AccountKey={secret};AccountEndpoint=https://{secret}.example.org"),
            "AccountEndpoint is not an address of Azure Cosmos DB",
        ),
    ] {
        let message = refusal(&text);
        assert!(message.starts_with(named), "{text}: {message}");
        let error = Parts::parse(&text).unwrap_err();
        let shown = format!("{error} {error:?}").to_lowercase();
        assert!(!shown.contains(&secret.to_lowercase()), "{text}: {shown}");
    }
}

#[test]
fn a_connection_string_without_a_key_takes_a_separate_credential() {
    for text in ["AccountName=a", "AccountName=a;AccountKey="] {
        let error = StorageAccount::from_connection_string(text).unwrap_err().to_string();
        assert!(error.starts_with("the connection string has no AccountKey or"), "{error}");
        let builder = || StorageAccount::builder().credential(Credential::anonymous());
        let account = builder().connection_string(text).unwrap().build().unwrap();
        let base = account.pipeline().endpoints().base(Service::Table);
        assert_eq!(base, "https://a.table.core.windows.net");
        let with_key = format!("AccountName=a;AccountKey={KEY}");
        let account = builder().connection_string(&with_key).unwrap().build().unwrap();
        assert!(matches!(account.pipeline().credential().settled(), Authority::SharedKey(_)));
    }
}

#[test]
fn other_clouds_have_other_hosts_and_audiences() {
    let builder = || StorageAccount::builder().credential(Credential::anonymous());
    for suffix in ["core.usgovcloudapi.net", ".core.usgovcloudapi.net"] {
        let account = builder().name("contoso").endpoint_suffix(suffix).build().unwrap();
        let [table, queue, blob] = bases(&account);
        assert_eq!(table, "https://contoso.table.core.usgovcloudapi.net");
        assert_eq!(queue, "https://contoso.queue.core.usgovcloudapi.net");
        assert_eq!(blob, "https://contoso.blob.core.usgovcloudapi.net");
        assert_eq!(account.pipeline().endpoints().audience(), "https://storage.azure.com");
    }
    for cloud in ["com", "us", "cn"] {
        let endpoint = format!("https://contoso.table.cosmos.azure.{cloud}");
        let account = builder().endpoint(Service::Table, &endpoint).unwrap().build().unwrap();
        let audience = format!("https://cosmos.azure.{cloud}");
        assert_eq!(account.pipeline().endpoints().audience(), audience);
    }
}

#[test]
fn the_builder_names_the_missing_setting() {
    let credential = || Credential::shared_key("contoso", KEY).unwrap();
    let error = StorageAccount::builder().build().unwrap_err();
    assert!(error.to_string().contains("no credential"), "{error}");

    let account = StorageAccount::builder().credential(credential()).build().unwrap();
    let primary = account.pipeline().endpoints().base(Service::Table);
    assert_eq!(primary, "https://contoso.table.core.windows.net");

    let anonymous = StorageAccount::builder().credential(Credential::anonymous());
    assert!(anonymous.build().unwrap_err().to_string().contains("account name"));

    let options = ClientOptions { read_from_secondary: true, ..ClientOptions::default() };
    let custom = |builder: StorageAccountBuilder| {
        builder
            .credential(credential())
            .endpoint(Service::Table, "https://tables.contoso.com")
            .unwrap()
    };
    let builder = StorageAccount::builder().options(options);
    let error = custom(builder.clone()).build().unwrap_err();
    assert!(error.to_string().contains("secondary"), "{error}");
    let builder =
        custom(builder).secondary_endpoint(Service::Table, "https://other.contoso.com").unwrap();
    assert!(builder.build().is_ok());
}

#[test]
fn debug_output_contains_no_key_and_no_signature() {
    let text = format!("AccountName=contoso;AccountKey={KEY}");
    let builder = StorageAccount::builder().connection_string(&text).unwrap();
    let account = builder.clone().build().unwrap();
    let sas = StorageAccount::builder()
        .connection_string("AccountName=contoso;SharedAccessSignature=sv=1&sig=secret")
        .unwrap();
    let shown = format!(
        "{builder:?} {account:?} {:?} {sas:?} {:?}",
        account.pipeline(),
        sas.clone().build().unwrap().pipeline()
    );
    for secret in [KEY, "account-key", "secret", "sig="] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(shown.contains("contoso"));
}

#[test]
fn a_handle_keeps_its_own_options() {
    let account = StorageAccount::from_connection_string("UseDevelopmentStorage=true").unwrap();
    let other =
        account.with_options(ClientOptions { record_keys: true, ..ClientOptions::default() });
    assert!(other.options().record_keys);
    assert!(!account.options().record_keys);
}

/// The bases of tables, queues and blobs.
fn bases(account: &StorageAccount) -> [String; 3] {
    let endpoints = account.pipeline().endpoints();
    [Service::Table, Service::Queue, Service::Blob].map(|s| endpoints.base(s).to_owned())
}

#[test]
fn every_service_has_its_own_endpoint() {
    let parse = |text: &str| bases(&StorageAccount::from_connection_string(text).unwrap());
    let azure = ["table", "queue", "blob"].map(|s| format!("https://contoso.{s}.core.windows.net"));
    assert_eq!(parse(&format!("AccountName=contoso;AccountKey={KEY}")), azure);
    // Another service of the same account is at a host of the same pattern.
    let sas = "SharedAccessSignature=sv=1&sig=a%3D";
    assert_eq!(parse(&format!("BlobEndpoint=https://contoso.blob.core.windows.net;{sas}")), azure);
    assert_eq!(
        parse("UseDevelopmentStorage=true"),
        [10002, 10001, 10000].map(|port| format!("http://127.0.0.1:{port}/devstoreaccount1"))
    );
    // The blob endpoint is a custom domain; the others follow from the account's name.
    let custom =
        format!("AccountName=contoso;AccountKey={KEY};BlobEndpoint=https://files.a.example");
    let [table, queue, _] = azure.clone();
    assert_eq!(parse(&custom), [table, queue, "https://files.a.example".to_owned()]);
}

#[test]
fn a_table_endpoint_of_an_emulator_or_cosmos_implies_no_other_endpoints() {
    for text in [
        format!("AccountName=a;AccountKey={KEY};TableEndpoint=http://127.0.0.1:10002/a"),
        format!("AccountName=a;AccountKey={KEY};TableEndpoint=https://a.table.cosmos.azure.com"),
    ] {
        let account = StorageAccount::from_connection_string(&text).unwrap();
        let [table, queue, blob] = bases(&account);
        assert!(!table.is_empty() && queue.is_empty() && blob.is_empty(), "{text}");
    }
}

#[test]
fn the_builder_takes_an_endpoint_for_each_service() {
    let account = StorageAccount::builder()
        .credential(Credential::shared_key("contoso", KEY).unwrap())
        .endpoint(Service::Queue, "http://127.0.0.1:1/contoso")
        .unwrap()
        .endpoint(Service::Blob, "http://127.0.0.1:2/contoso")
        .unwrap()
        .secondary_endpoint(Service::Blob, "http://127.0.0.1:3/contoso")
        .unwrap()
        .build()
        .unwrap();
    assert_eq!(
        bases(&account),
        [String::new(), "http://127.0.0.1:1/contoso".into(), "http://127.0.0.1:2/contoso".into()]
    );
    let place = |service| account.pipeline().endpoints().of(service).unwrap().secondary.clone();
    assert_eq!(place(Service::Blob).unwrap().base(), "http://127.0.0.1:3/contoso");
    assert_eq!(place(Service::Queue).unwrap().base(), "http://127.0.0.1:1/contoso-secondary");
}

#[test]
fn endpoints_are_normalized_by_parsing() {
    let bases = [
        "http://127.0.0.1:10002/devstoreaccount1",
        "https://contoso.table.core.windows.net/",
        "http://[::1]:1/a-secondary",
        "https://xn--bcher-kva.example",
    ];
    let targets = [
        "/Tables",
        "/t(PartitionKey='a%20b',RowKey='%C3%A9')?$select=a,b",
        "/?restype=service&comp=properties",
        "/files/a/../b%2Fc//d?comp=block&blockid=YQ%3D%3D",
        "/t()?$filter=Name%20eq%20%27O%27%27Neil%20%26%20100%25%27",
    ];
    for base in bases {
        let endpoint = Endpoint::parse("an endpoint", base).unwrap();
        for target in targets {
            let text = format!("{}{target}", base.trim_end_matches('/'));
            assert_eq!(endpoint.address(target, "").unwrap().to_string(), text);
            let more = if target.contains('?') { '&' } else { '?' };
            let text = format!("{text}{more}sv=2019-02-02&sig=a%2Bb%3D");
            let address = endpoint.address(target, "sv=2019-02-02&sig=a%2Bb%3D").unwrap();
            assert_eq!(address.to_string(), text);
        }
    }
}

/// Anyone on the network path can read plain http.
#[test]
fn secrets_are_sent_over_http_only_to_loopback_and_allowed_hosts() {
    const SAS: &str = "SharedAccessSignature=sv=2019-02-02&sig=x";
    let of = |endpoint: &str| {
        StorageAccount::builder()
            .connection_string(&format!("TableEndpoint={endpoint};{SAS}"))
            .unwrap()
    };
    for local in [
        "http://127.0.0.1:10002/acct",
        "http://127.9.9.9:10002/acct",
        "http://[::1]:10002/acct",
        "http://[::ffff:127.0.0.1]:10002/acct",
        "http://localhost:10002/acct",
        "http://acct.table.localhost:10002",
        "https://contoso.table.core.windows.net",
    ] {
        assert!(of(local).build().is_ok(), "{local}");
    }
    for remote in [
        "http://contoso.table.core.windows.net",
        "http://rowkey:10002/acct",
        "http://localhost.example.com/acct",
        "http://10.0.0.7:10002/acct",
        "http://127.0.0.1.example.com/acct",
    ] {
        for builder in [of(remote), of(remote).allow_http_to("other"), of(remote).allow_http_to("")]
        {
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let shown = error.to_string();
            assert!(shown.contains("a shared access signature is not sent over plain"), "{shown}");
            assert!(shown.contains("allow_http_to"), "{shown}");
        }
    }
    assert!(of("http://rowkey:10002/acct").allow_http_to("RowKey").build().is_ok());
    let two =
        of("http://rowkey:10002/acct").endpoint(Service::Queue, "http://other:10001/acct").unwrap();
    assert!(two.clone().allow_http_to("rowkey").build().is_err(), "each endpoint counts");
    assert!(two.allow_http_to("rowkey").allow_http_to("other").build().is_ok());

    // A Shared Key signature is valid for one request and does not reveal the key.
    let key = Credential::shared_key("acct", "YmFy").unwrap();
    for credential in [key, Credential::anonymous()] {
        let builder = StorageAccount::builder().name("acct").credential(credential);
        assert!(
            builder.endpoint(Service::Table, "http://rowkey:10002/acct").unwrap().build().is_ok()
        );
    }
}

#[test]
fn an_account_with_a_token_has_only_endpoints_of_https_or_of_this_machine() {
    #[derive(Debug)]
    struct NoToken;

    #[async_trait::async_trait]
    impl TokenProvider for NoToken {
        async fn token(&self, _: &str) -> std::result::Result<AccessToken, TokenError> {
            Err("no token is asked for".into())
        }
    }

    let credential = Credential::token(Arc::new(NoToken));
    for (url, allowed) in [
        ("https://contoso.table.core.windows.net", true),
        ("http://127.0.0.1:10002/contoso", true),
        ("http://contoso.table.core.windows.net", false),
    ] {
        let builder = StorageAccount::builder().name("contoso").credential(credential.clone());
        let account = builder.endpoint(Service::Table, url).unwrap().build();
        assert_eq!(account.is_ok(), allowed, "{url}");
    }
}
