//! Tokens that the server issues: how clients get them, and what they permit.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rowkey_emulator::{
    DEVELOPMENT_CLIENT_ID, DEVELOPMENT_CLIENT_SECRET, DEVELOPMENT_MANAGED_IDENTITY, Identity, Role,
    Scope, Server, ServerBuilder, Service,
};
use serde_json::Value;

use crate::support::{Answer, Client};

const ACCOUNT: &str = "devstoreaccount1";
const TENANT: &str = "5f0c5b0e-52c3-4cd1-9c9b-3f1a1c1f2d10";
const STORAGE: &str = "https%3A%2F%2Fstorage.azure.com%2F.default";

fn builder() -> ServerBuilder {
    Server::builder().manual_clock()
}

/// Sends a request to the authority; returns the status and the document.
fn ask(server: &Server, method: &str, target: &str, headers: &str, form: &str) -> (u16, Value) {
    let address = server.authority().unwrap().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let host =
        if headers.contains("host: ") { String::new() } else { format!("host: {address}\r\n") };
    let request = format!(
        "{method} {target} HTTP/1.1\r\n{host}connection: close\r\n{headers}\
         content-length: {}\r\n\r\n{form}",
        form.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn grant(server: &Server, form: &str) -> (u16, Value) {
    ask(server, "POST", &format!("/{TENANT}/oauth2/v2.0/token"), "", form)
}

fn by_secret(id: &str, secret: &str) -> String {
    let grant = "grant_type=client_credentials";
    format!("{grant}&client_id={id}&client_secret={secret}&scope={STORAGE}")
}

fn text<'a>(document: &'a Value, name: &str) -> &'a str {
    document[name].as_str().unwrap_or_else(|| panic!("{name}: {document}"))
}

/// The claims of a token.
fn claims(token: &str) -> Value {
    use base64::Engine as _;
    let part = token.split('.').nth(1).unwrap();
    let bytes = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(part).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// A request with a token.
fn send(
    server: &Server,
    service: Service,
    token: &str,
    (method, target): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let authorization = format!("Bearer {token}");
    let mut all = vec![("authorization", authorization.as_str()), ("x-ms-version", "2026-02-06")];
    all.extend(headers);
    Client::to(server, service).send(method, target, &all, body)
}

fn tables(server: &Server, token: &str) -> Answer {
    send(server, Service::Table, token, ("GET", "/Tables"), &[], "")
}

#[tokio::test]
async fn an_application_gets_a_token_by_its_published_secret() {
    let server = builder().issue_tokens().start().await.unwrap();
    let (status, document) =
        grant(&server, &by_secret(DEVELOPMENT_CLIENT_ID, DEVELOPMENT_CLIENT_SECRET));
    assert_eq!((status, text(&document, "token_type")), (200, "Bearer"), "{document}");
    assert_eq!(document["expires_in"], 3600);
    let token = text(&document, "access_token");
    let claims = claims(token);
    assert_eq!(claims["aud"], "https://storage.azure.com");
    assert_eq!(claims["tid"], TENANT);
    assert_eq!(claims["appid"], DEVELOPMENT_CLIENT_ID);
    assert_eq!(claims["iat"], 1_767_225_600, "the server's clock");
    assert_eq!(claims["exp"], 1_767_225_600 + 3600);
    assert_eq!(claims["iss"], format!("{}/{TENANT}/v2.0", server.authority().unwrap()));
    assert_eq!(tables(&server, token).status, 200);
    // Properties of services and stored access policies belong to the default identity's roles.
    for (service, target) in [
        (Service::Table, "/?restype=service&comp=properties"),
        (Service::Queue, "/?restype=service&comp=properties"),
        (Service::Blob, "/?restype=service&comp=properties"),
        (Service::Blob, "/?restype=account&comp=properties"),
        (Service::Blob, "/?comp=list"),
    ] {
        let answer = send(&server, service, token, ("GET", target), &[], "");
        assert_eq!(answer.status, 200, "{service:?} {target}: {answer:?}");
    }
}

#[tokio::test]
async fn a_token_expires_by_the_servers_clock() {
    let server = builder().issue_tokens().start().await.unwrap();
    let form = by_secret(DEVELOPMENT_CLIENT_ID, DEVELOPMENT_CLIENT_SECRET);
    let token = text(&grant(&server, &form).1, "access_token").to_owned();
    server.clock().advance(Duration::from_secs(3599));
    assert_eq!(tables(&server, &token).status, 200);
    server.clock().advance(Duration::from_secs(1));
    let answer = tables(&server, &token);
    assert_eq!((answer.status, answer.code()), (401, "InvalidAuthenticationInfo"));
    assert!(answer.body.contains("Lifetime validation failed. The token is expired."));
    let authority = server.authority().unwrap();
    assert_eq!(
        answer.header("www-authenticate").unwrap(),
        format!(
            "Bearer authorization_uri={authority}/{TENANT}/oauth2/authorize \
             resource_id=https://storage.azure.com"
        )
    );
    let token = text(&grant(&server, &form).1, "access_token").to_owned();
    assert_eq!(tables(&server, &token).status, 200);
}

#[tokio::test]
async fn only_tokens_of_this_server_for_storage_are_accepted() {
    let server = builder().issue_tokens().start().await.unwrap();
    let other = builder().issue_tokens().start().await.unwrap();
    let foreign = other.token(DEVELOPMENT_CLIENT_ID).unwrap();
    let genuine = server.token(DEVELOPMENT_CLIENT_ID).unwrap();
    let (text_of, _) = genuine.rsplit_once('.').unwrap();
    for token in [foreign, format!("{text_of}.c2lnbmF0dXJl")] {
        let answer = tables(&server, &token);
        assert_eq!((answer.status, answer.code()), (401, "InvalidAuthenticationInfo"));
        assert!(answer.body.contains("Signature validation failed"), "{answer:?}");
    }
    for (resource, status) in [
        ("https://graph.microsoft.com", 401),
        ("https://devstoreaccount1.table.core.windows.net", 200),
        ("https://devstoreaccount1.queue.core.windows.net", 401),
        ("https://storage.azure.com/", 200),
    ] {
        let form = by_secret(DEVELOPMENT_CLIENT_ID, DEVELOPMENT_CLIENT_SECRET);
        let form = form.replace(STORAGE, &format!("{resource}/.default"));
        let (_, document) = grant(&server, &form);
        let answer = tables(&server, text(&document, "access_token"));
        assert_eq!(answer.status, status, "{resource}: {answer:?}");
    }
    // A fork accepts the tokens of its original.
    let fork = server.fork().await.unwrap();
    assert_eq!(tables(&fork, &genuine).status, 200);
    assert_ne!(fork.authority(), server.authority());
}

#[tokio::test]
async fn the_token_endpoint_refuses_with_the_errors_of_entra() {
    let anna = Identity::user("anna@contoso.com", "pass word");
    let server =
        builder().identity(anna).identity(Identity::application("app", "x")).start().await.unwrap();
    let password = |user: &str, password: &str| {
        format!("grant_type=password&client_id=any&username={user}&password={password}&scope=x")
    };
    for (form, status, error, number) in [
        (by_secret("app", "wrong"), 401, "invalid_client", "AADSTS7000215"),
        (by_secret("unknown", "x"), 400, "unauthorized_client", "AADSTS700016"),
        (by_secret("app", "x").replace("&scope=", "&scopes="), 400, "invalid_request", "900144"),
        (by_secret("app", "x").replace(".default", "read"), 400, "invalid_scope", "AADSTS70011"),
        (by_secret("app", "").replace("client_secret", "s"), 401, "invalid_client", "7000218"),
        ("client_id=app".to_owned(), 400, "invalid_request", "'grant_type'"),
        ("grant_type=x&client_id=app".to_owned(), 400, "unsupported_grant_type", "AADSTS70003"),
        (password("anna@contoso.com", "x"), 400, "invalid_grant", "AADSTS50126"),
        (password("app", "x"), 400, "invalid_grant", "AADSTS50034"),
        (by_secret("anna@contoso.com", "pass+word"), 400, "unauthorized_client", "AADSTS700016"),
    ] {
        let (found, document) = grant(&server, &form);
        assert_eq!((found, text(&document, "error")), (status, error), "{form}: {document}");
        assert!(text(&document, "error_description").contains(number), "{form}: {document}");
        assert!(!document.to_string().contains("pass word"), "{document}");
    }
    let (status, document) = ask(&server, "GET", "/common/oauth2/v2.0/authorize", "", "");
    assert_eq!((status, text(&document, "error")), (404, "not_found"));
    let page = "origin: https://evil.example\r\nhost: evil.example\r\n";
    let target = "/common/discovery/keys";
    let (status, _) = ask(&server, "GET", target, page, "");
    assert_eq!(status, 403, "a page of another origin");
    let twice = "host: localhost\r\nhost: evil.example\r\n";
    assert_eq!(ask(&server, "GET", target, twice, "").0, 400, "two hosts");
    let long = "x".repeat(64 * 1024 + 1);
    assert_eq!(grant(&server, &long).0, 413);
}

#[tokio::test]
async fn a_user_signs_in_with_a_password_and_a_refresh_token() {
    let anna = Identity::user("anna@contoso.com", "pass word").role(Role::StorageTableDataReader);
    let server = builder().identity(anna.clone()).start().await.unwrap();
    let (_, realm) =
        ask(&server, "GET", "/common/userrealm/anna@contoso.com?api-version=1.0", "", "");
    assert_eq!(text(&realm, "account_type"), "Managed");
    let scope = "scope=https%3A%2F%2Fstorage.azure.com%2Fuser_impersonation+openid+offline_access";
    let form = format!(
        "grant_type=password&client_id=cli&username=Anna%40contoso.com&password=pass+word&{scope}"
    );
    let (status, document) = grant(&server, &form);
    assert_eq!(status, 200, "{document}");
    let id = claims(text(&document, "id_token"));
    assert_eq!((&id["aud"], &id["oid"]), (&"cli".into(), &anna.object_id().into()));
    assert_eq!(tables(&server, text(&document, "access_token")).status, 200);
    let refresh = text(&document, "refresh_token");
    assert_eq!(tables(&server, refresh).status, 401, "a refresh token is not an access token");
    let form = |id: &str, token: &str| {
        format!("grant_type=refresh_token&client_id={id}&refresh_token={token}&{scope}")
    };
    server.clock().advance(Duration::from_secs(2 * 3600));
    let (status, next) = grant(&server, &form("cli", refresh));
    assert_eq!(status, 200, "{next}");
    assert_eq!(tables(&server, text(&next, "access_token")).status, 200);
    for (id, token) in [("cli", text(&document, "access_token")), ("other", refresh), ("cli", "x")]
    {
        assert_eq!(grant(&server, &form(id, token)).0, 400, "{id}");
    }
    server.clock().advance(Duration::from_secs(91 * 24 * 3600));
    assert_eq!(grant(&server, &form("cli", refresh)).0, 400, "expired");
}

#[tokio::test]
async fn a_workload_identity_sends_an_assertion() {
    let server = builder().identity(Identity::workload("pod")).start().await.unwrap();
    let form = |kind: &str, assertion: &str| {
        format!(
            "grant_type=client_credentials&client_id=pod&scope={STORAGE}\
             &client_assertion_type={kind}&client_assertion={assertion}"
        )
    };
    let kind = "urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer";
    assert_eq!(grant(&server, &form(kind, "e30.e30.eA")).0, 200);
    for (kind, assertion) in [(kind, "e30.e30"), (kind, "x.y.z"), ("saml", "e30.e30.eA")] {
        let (status, document) = grant(&server, &form(kind, assertion));
        assert_eq!((status, text(&document, "error")), (401, "invalid_client"), "{assertion}");
    }
}

#[tokio::test]
async fn managed_identities_are_those_of_machines_and_of_app_service() {
    let two = Identity::managed_identity("two").role(Role::StorageTableDataReader);
    let server = builder().issue_tokens().start().await.unwrap();
    assert!(server.add_identity(two.clone()));
    let imds = "/metadata/identity/oauth2/token?api-version=2018-02-01\
                &resource=https%3A%2F%2Fstorage.azure.com%2F";
    let metadata = "metadata: true\r\n";
    let (status, document) = ask(&server, "GET", imds, metadata, "");
    assert_eq!((status, text(&document, "expires_in")), (200, "3600"), "{document}");
    assert_eq!(text(&document, "client_id"), DEVELOPMENT_MANAGED_IDENTITY);
    assert_eq!(tables(&server, text(&document, "access_token")).status, 200);
    for named in [
        "&client_id=two".to_owned(),
        format!("&object_id={}", two.object_id()),
        "&msi_res_id=/subscriptions/x/userAssignedIdentities/two".to_owned(),
    ] {
        let (_, document) = ask(&server, "GET", &format!("{imds}{named}"), metadata, "");
        assert_eq!(text(&document, "client_id"), "two", "{named}");
    }
    let (status, document) = ask(&server, "GET", imds, "", "");
    assert_eq!((status, text(&document, "error")), (400, "invalid_request"), "no header");
    for wrong in ["&client_id=three".to_owned(), format!("&client_id={DEVELOPMENT_CLIENT_ID}")] {
        let (status, document) = ask(&server, "GET", &format!("{imds}{wrong}"), metadata, "");
        assert_eq!((status, text(&document, "error_description")), (400, "Identity not found"));
    }
    let target = "/msi/token?api-version=2019-08-01&resource=https%3A%2F%2Fstorage.azure.com";
    let (status, document) = ask(&server, "GET", target, "x-identity-header: any\r\n", "");
    assert_eq!((status, text(&document, "expires_on")), (200, "1767229200"), "{document}");
    assert_eq!(ask(&server, "GET", target, "", "").0, 401);
}

#[tokio::test]
async fn discovery_names_the_addresses_that_a_client_used() {
    let server = builder().issue_tokens().start().await.unwrap();
    let authority = server.authority().unwrap();
    for tenant in ["common", "organizations", TENANT] {
        let target = format!("/{tenant}/v2.0/.well-known/openid-configuration");
        let (_, document) = ask(&server, "GET", &target, "", "");
        let endpoint = format!("{authority}/{tenant}/oauth2/v2.0/token");
        assert_eq!(text(&document, "token_endpoint"), endpoint);
        let keys = text(&document, "jwks_uri").strip_prefix(authority).unwrap();
        let (_, keys) = ask(&server, "GET", keys, "", "");
        assert_eq!(
            (&keys["keys"][0]["alg"], &keys["keys"][0]["e"]),
            (&"RS256".into(), &"AQAB".into())
        );
    }
    let target = format!(
        "/common/discovery/instance?api-version=1.1\
         &authorization_endpoint={authority}/{TENANT}/oauth2/v2.0/authorize"
    );
    let (_, document) = ask(&server, "GET", &target, "", "");
    let endpoint = text(&document, "tenant_discovery_endpoint");
    assert_eq!(endpoint, format!("{authority}/{TENANT}/v2.0/.well-known/openid-configuration"));
    let plain = builder().start().await.unwrap();
    assert_eq!((plain.authority(), plain.token("x")), (None, None));
    assert!(!plain.add_identity(Identity::workload("x")) && plain.identities().is_empty());
}

#[tokio::test]
async fn roles_permit_their_operations_and_take_effect_at_once() {
    let reader = Identity::application("reader", "x").role(Role::StorageTableDataReader);
    let server = builder().identity(reader.clone()).start().await.unwrap();
    let mut owner = Client::of(&server);
    owner.create("things");
    assert_eq!(owner.insert("things", ("p", "r"), "").status, 201);
    let token = server.token("reader").unwrap();
    let table = |request, headers: &[_], body: &str| {
        send(&server, Service::Table, &token, request, headers, body)
    };
    let entity = r#"{"PartitionKey":"p","RowKey":"s"}"#;
    assert_eq!(table(("GET", "/things()"), &[], "").status, 200);
    for (request, body) in [
        (("POST", "/things"), entity),
        (("POST", "/Tables"), r#"{"TableName":"others"}"#),
        (("DELETE", "/Tables('things')"), ""),
        (("DELETE", "/things(PartitionKey='p',RowKey='r')"), ""),
        (("PUT", "/things(PartitionKey='p',RowKey='s')"), entity),
        (("MERGE", "/things(PartitionKey='p',RowKey='s')"), entity),
        (("GET", "/?restype=service&comp=properties"), ""),
    ] {
        let answer = table(request, &[("if-match", "*")], body);
        assert_eq!(
            (answer.status, answer.code()),
            (403, "AuthorizationPermissionMismatch"),
            "{request:?}: {answer:?}"
        );
    }
    assert!(server.add_identity(reader.role(Role::StorageTableDataContributor)));
    assert_eq!(table(("POST", "/things"), &[], entity).status, 201, "the same token");
    assert!(server.remove_identity("reader"));
    let answer = table(("GET", "/things()"), &[], "");
    assert_eq!((answer.status, answer.code()), (403, "AuthorizationPermissionMismatch"));
}

#[tokio::test]
async fn each_part_of_a_transaction_needs_its_action() {
    let reader = Identity::application("reader", "x").role(Role::StorageTableDataReader);
    let server = builder().identity(reader).start().await.unwrap();
    Client::of(&server).create("things");
    let token = server.token("reader").unwrap();
    let part = "POST /devstoreaccount1/things HTTP/1.1\r\nContent-Type: application/json\r\n\r\n\
                {\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";
    let body = format!(
        "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\
         Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n{part}\r\n\
         --c--\r\n--b--\r\n"
    );
    let kind = ("content-type", "multipart/mixed; boundary=b");
    let answer = send(&server, Service::Table, &token, ("POST", "/$batch"), &[kind], &body);
    assert_eq!(answer.status, 202, "{answer:?}");
    assert!(
        answer.body.contains("403 ") && answer.body.contains("AuthorizationPermissionMismatch")
    );
    assert!(server.snapshot().table("things").unwrap().is_empty());
}

#[tokio::test]
async fn a_role_on_a_resource_permits_nothing_elsewhere() {
    let identity = Identity::application("app", "x")
        .role_on(Role::StorageTableDataContributor, Scope::table(ACCOUNT, "mine"))
        .role_on(Role::StorageQueueDataMessageSender, Scope::queue(ACCOUNT, "work"))
        .role_on(Role::StorageBlobDataContributor, Scope::container(ACCOUNT, "files"));
    let server = builder().identity(identity).start().await.unwrap();
    for name in ["mine", "yours"] {
        Client::of(&server).create(name);
    }
    for name in ["work", "other"] {
        let queue = format!("/{name}");
        assert_eq!(Client::to(&server, Service::Queue).send("PUT", &queue, &[], "").status, 201);
    }
    for name in ["files", "other"] {
        let target = format!("/{name}?restype=container");
        assert_eq!(Client::to(&server, Service::Blob).send("PUT", &target, &[], "").status, 201);
    }
    let token = server.token("app").unwrap();
    let message = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";
    let block = ("x-ms-blob-type", "BlockBlob");
    for (service, request, status) in [
        (Service::Table, ("GET", "/mine()"), 200),
        (Service::Table, ("GET", "/yours()"), 403),
        (Service::Table, ("GET", "/Tables"), 403),
        (Service::Queue, ("POST", "/work/messages"), 201),
        (Service::Queue, ("POST", "/other/messages"), 403),
        (Service::Queue, ("GET", "/work/messages"), 403),
        (Service::Queue, ("GET", "/?comp=list"), 403),
        (Service::Blob, ("PUT", "/files/a"), 201),
        (Service::Blob, ("PUT", "/other/a"), 403),
        (Service::Blob, ("GET", "/files?restype=container&comp=list"), 200),
        (Service::Blob, ("GET", "/files?restype=container&comp=list&include=tags"), 403),
        (Service::Blob, ("GET", "/?comp=list"), 403),
        // The action is one of the account.
        (Service::Blob, ("POST", "/?restype=service&comp=userdelegationkey"), 403),
    ] {
        let body = if service == Service::Queue { message } else { "" };
        let answer = send(&server, service, &token, request, &[block], body);
        assert_eq!(answer.status, status, "{service:?} {request:?}: {answer:?}");
        if status == 403 {
            assert_eq!(answer.code(), "AuthorizationPermissionMismatch", "{request:?}");
        }
    }
}

#[tokio::test]
async fn tags_and_sources_of_copies_need_actions_of_their_own() {
    let writer = Identity::application("writer", "x")
        .role_on(Role::StorageBlobDataContributor, Scope::container(ACCOUNT, "mine"));
    let owner = Identity::application("owner", "x").role(Role::StorageBlobDataOwner);
    let server = builder().identity(writer).identity(owner).start().await.unwrap();
    let [writer, owner] = ["writer", "owner"].map(|id| server.token(id).unwrap());
    let blob = |token: &str, request: (&str, &str), headers: &[_]| {
        let mut all = vec![("x-ms-blob-type", "BlockBlob")];
        all.extend(headers);
        send(&server, Service::Blob, token, request, &all, "").status
    };
    for name in ["mine", "yours"] {
        let target = format!("/{name}?restype=container");
        assert_eq!(blob(&owner, ("PUT", &target), &[]), 201);
        assert_eq!(blob(&owner, ("PUT", &format!("/{name}/a")), &[]), 201);
    }
    let tags = ("x-ms-tags", "a=b");
    assert_eq!(blob(&writer, ("PUT", "/mine/b"), &[tags]), 403);
    assert_eq!(blob(&owner, ("PUT", "/mine/b"), &[tags]), 201);
    assert_eq!(blob(&writer, ("GET", "/mine/b?comp=tags"), &[]), 403);
    assert_eq!(blob(&owner, ("GET", "/mine/b?comp=tags"), &[]), 200);
    let copy = |token: &str, source: &str| {
        let source = format!("{}/{source}", server.blob_endpoint());
        let headers = [("x-ms-blob-type", ""), ("x-ms-copy-source", source.as_str())];
        let all: Vec<_> = headers.into_iter().collect();
        send(&server, Service::Blob, token, ("PUT", "/mine/copy"), &all, "").status
    };
    assert_eq!(copy(&writer, "mine/a"), 202);
    assert_eq!(copy(&writer, "yours/a"), 403);
    assert_eq!(copy(&owner, "yours/a"), 202);
    let source = format!("{}/mine/b", server.blob_endpoint());
    let all = [
        ("x-ms-blob-type", ""),
        ("x-ms-copy-source", source.as_str()),
        ("x-ms-requires-sync", "true"),
        ("x-ms-copy-source-tag-option", "COPY"),
    ];
    for (token, status) in [(&writer, 403), (&owner, 202)] {
        let copied = send(&server, Service::Blob, token, ("PUT", "/mine/tagged"), &all, "");
        assert_eq!(copied.status, status, "the tags of the source: {copied:?}");
    }
}

#[tokio::test]
async fn an_access_token_of_any_audience_is_no_refresh_token() {
    let app = Identity::application("app", "x").role(Role::StorageTableDataReader);
    let server = builder().identity(app).start().await.unwrap();
    let form = "grant_type=client_credentials&client_id=app&client_secret=x\
                &scope=urn%3Arowkey%3Arefresh%2F.default";
    let (status, document) = grant(&server, form);
    assert_eq!(status, 200, "{document}");
    let token = text(&document, "access_token");
    let form = format!(
        "grant_type=refresh_token&client_id=app&refresh_token={token}&scope={STORAGE}+offline_access"
    );
    assert_eq!(grant(&server, &form).0, 400);
}

#[tokio::test]
async fn tokens_of_other_clouds_and_id_tokens_are_refused() {
    let anna = Identity::user("anna", "x").role(Role::StorageTableDataReader);
    let server = builder().identity(anna).start().await.unwrap();
    let sign_in = |client: &str, scope: &str| {
        let form = format!(
            "grant_type=password&client_id={client}&username=anna&password=x&scope={scope}"
        );
        grant(&server, &form).1
    };
    for (host, status) in [
        ("table.core.windows.net", 200),
        ("table.core.chinacloudapi.cn", 200),
        ("table.core.evil.com", 401),
        ("blob.core.windows.net", 401),
    ] {
        let scope = format!("https%3A%2F%2F{ACCOUNT}.{host}%2Fuser_impersonation");
        let token = sign_in("cli", &scope);
        assert_eq!(tables(&server, text(&token, "access_token")).status, status, "{host}");
    }
    let scope = format!("{STORAGE}+openid");
    let document = sign_in("https%3A%2F%2Fstorage.azure.com", &scope);
    assert_eq!(tables(&server, text(&document, "id_token")).status, 401);
}

#[tokio::test]
async fn identities_that_tokens_cannot_tell_apart_are_refused() {
    let one = Identity::application("one", "x").with_object_id("same");
    for other in [
        Identity::application("two", "x").with_object_id("SAME"),
        Identity::application("One", "x").with_object_id("other"),
    ] {
        let error = builder().identity(one.clone()).identity(other).start().await.unwrap_err();
        assert!(error.to_string().contains("the same id or objectId"), "{error}");
    }
    let misspelt = r#"{"clientId":"a","clientSecret":"s",
        "roles":[{"role":"Storage Table Data Contributor","scpe":"a/tables/x"}]}"#;
    let error = serde_json::from_str::<Identity>(misspelt).unwrap_err().to_string();
    assert!(error.contains("unknown field `scpe`"), "{error}");
}

/// The query of a signature for a container, with a user delegation key that this token gets.
fn delegated(server: &Server, token: &str, permissions: &str) -> String {
    use rowkey_wire::auth::{Resource, Sas, SigningKey};

    let target = "/?restype=service&comp=userdelegationkey";
    let info = "<KeyInfo><Start>2026-01-01T00:00:00Z</Start><Expiry>2026-01-02T00:00:00Z</Expiry></KeyInfo>";
    let answer = send(server, Service::Blob, token, ("POST", target), &[], info);
    assert_eq!(answer.status, 200, "{answer:?}");
    let element = |name: &str| {
        let rest = answer.body.split_once(&format!("<{name}>")).unwrap().1;
        rest.split_once('<').unwrap().0.to_owned()
    };
    let query = format!(
        "sv=2020-12-06&sr=c&sp={permissions}&se=2026-01-01T12%3A00%3A00Z&skoid={}&sktid={}&skt={}\
         &ske={}&sks=b&skv={}&sig=x",
        element("SignedOid"),
        element("SignedTid"),
        element("SignedStart"),
        element("SignedExpiry"),
        element("SignedVersion"),
    );
    let sas = Sas::from_query(&query).unwrap();
    let text = sas.string_to_sign(ACCOUNT, Resource::Container("files"));
    let signature = SigningKey::from_base64(&element("Value")).unwrap().sign(&text);
    query.replace("sig=x", &format!("sig={}", signature.replace('+', "%2B").replace('=', "%3D")))
}

#[tokio::test]
async fn a_signature_with_a_delegation_key_permits_what_its_user_may_do() {
    let reader = Identity::application("reader", "x").role(Role::StorageBlobDataReader);
    let owner = Identity::application("owner", "x").role(Role::StorageBlobDataOwner);
    let sender = Identity::application("sender", "x").role(Role::StorageQueueDataMessageSender);
    let builder = builder().identity(reader).identity(owner).identity(sender);
    let server = builder.start().await.unwrap();
    let [reader, owner, sender] = ["reader", "owner", "sender"].map(|id| server.token(id).unwrap());
    let container = ("PUT", "/files?restype=container");
    assert_eq!(send(&server, Service::Blob, &owner, container, &[], "").status, 201);
    let target = "/?restype=service&comp=userdelegationkey";
    let answer = send(&server, Service::Blob, &sender, ("POST", target), &[], "");
    assert_eq!((answer.status, answer.code()), (403, "AuthorizationPermissionMismatch"));

    let [by_reader, by_owner] = [&reader, &owner].map(|token| delegated(&server, token, "racwd"));
    let blob = |method: &str, sas: &str| {
        let headers = [("authorization", ""), ("x-ms-blob-type", "BlockBlob")];
        let target = format!("/files/a?{sas}");
        let answer = Client::to(&server, Service::Blob).send(method, &target, &headers, "");
        (answer.status, answer.code().to_owned())
    };
    let mismatch = (403, "AuthorizationPermissionMismatch".to_owned());
    assert_eq!(blob("PUT", &by_reader), mismatch, "the signature has w, its user has not");
    assert_eq!(blob("PUT", &by_owner).0, 201);
    assert_eq!(blob("GET", &by_reader).0, 200);
    assert_eq!(blob("DELETE", &by_reader), mismatch);
    assert_eq!(blob("DELETE", &delegated(&server, &owner, "r")), mismatch);
    assert!(server.remove_identity("owner"));
    assert_eq!(blob("GET", &by_owner), mismatch, "its user has no role any more");
}
