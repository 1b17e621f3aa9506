//! Credentials of `azure_identity` 1.x get tokens from the server, and rowkey's client uses them; the server honours the roles
//! of their identities, and its clock decides when a token has expired.

use std::sync::Arc;
use std::time::Duration;

use azure_core_1::cloud::{CloudConfiguration, CustomConfiguration};
use azure_core_1::credentials::{Secret, TokenCredential};
use azure_core_1::http::{ClientOptions, Transport};
use azure_identity::{
    ClientSecretCredential, ClientSecretCredentialOptions, WorkloadIdentityCredential,
    WorkloadIdentityCredentialOptions,
};
use reqwest_0_13::Certificate;
use rowkey::service::Service;
use rowkey::{ConnectionOptions, Credential, Entity, Error, ErrorCode, StorageAccount, Table};
use rowkey_emulator::{Identity, Role, Server};
use rowkey_interop::Result;

const TENANT: &str = "5f0c5b0e-52c3-4cd1-9c9b-3f1a1c1f2d10";

#[derive(Clone, Debug, Entity, PartialEq)]
#[entity(partition = "{shelf}", row = "{title}")]
struct Book {
    shelf: String,
    title: String,
}

fn book(title: &str) -> Book {
    Book { shelf: "poems".to_owned(), title: title.to_owned() }
}

async fn server() -> Result<Server> {
    let roles = [Role::StorageTableDataContributor, Role::StorageQueueDataMessageSender];
    let writer = roles.into_iter().fold(Identity::application("writer", "w"), Identity::role);
    let reader = Identity::application("reader", "r").role(Role::StorageTableDataReader);
    let pod = Identity::workload("pod").role(Role::StorageTableDataReader);
    let builder = Server::builder().https().identity(writer).identity(reader).identity(pod);
    Ok(builder.start().await?)
}

/// Options that name the server as the authority, and trust its certificate.
fn options(server: &Server) -> Result<ClientOptions> {
    let mut cloud = CustomConfiguration::default();
    let authority = server.authority().ok_or("the server issues tokens")?;
    authority.clone_into(&mut cloud.authority_host);
    let pem = server.certificate().ok_or("the server speaks HTTPS")?;
    let certificate = Certificate::from_pem(pem.as_bytes())?;
    let client = reqwest_0_13::Client::builder().tls_certs_only([certificate]).build()?;
    Ok(ClientOptions {
        cloud: Some(Arc::new(CloudConfiguration::Custom(cloud))),
        transport: Some(Transport::new(Arc::new(client))),
        ..ClientOptions::default()
    })
}

fn secret(server: &Server, id: &str, secret: &str) -> Result<Arc<dyn TokenCredential>> {
    let options = ClientSecretCredentialOptions { client_options: options(server)? };
    let secret = Secret::new(secret.to_owned());
    Ok(ClientSecretCredential::new(TENANT, id.to_owned(), secret, Some(options))?)
}

fn account(server: &Server, credential: Arc<dyn TokenCredential>) -> Result<StorageAccount> {
    let pem = server.certificate().ok_or("the server speaks HTTPS")?;
    Ok(StorageAccount::builder()
        .name("devstoreaccount1")
        .endpoint(Service::Table, server.table_endpoint())?
        .endpoint(Service::Queue, server.queue_endpoint())?
        .credential(Credential::azure_identity(credential))
        .connections(ConnectionOptions::new().trust_only(pem))
        .build()?)
}

/// The code of the service's error.
fn code(error: &Error) -> Option<&str> {
    error.code().map(ErrorCode::as_str)
}

#[tokio::test]
async fn a_client_secret_has_the_roles_of_its_application() -> Result {
    let server = server().await?;
    let books = |id: &str, key: &str| -> Result<Table> {
        Ok(account(&server, secret(&server, id, key)?)?.table("books"))
    };
    let (writer, reader) = (books("writer", "w")?, books("reader", "r")?);
    writer.create().await?;
    writer.insert(&book("Howl")).await?;
    let key = Book::key("poems", "Howl");
    assert_eq!(reader.get(key).await?.map(|row| row.entity), Some(book("Howl")));
    let error = reader.insert(&book("Kaddish")).await.unwrap_err();
    assert_eq!(code(&error), Some("AuthorizationPermissionMismatch"), "{error}");
    let error = books("writer", "wrong")?.insert(&book("Kaddish")).await.unwrap_err();
    assert!(format!("{error:?}").contains("AADSTS7000215"), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_token_expires_by_the_clock_of_the_server() -> Result {
    let server = server().await?;
    let of = |id: &str, key: &str| -> Result<StorageAccount> {
        account(&server, secret(&server, id, key)?)
    };
    let writer = of("writer", "w")?.table("books");
    writer.create().await?;
    server.clock().advance(Duration::from_secs(3601));
    // The credential keeps its token, which has not expired by the clock of this machine.
    let error = writer.insert(&book("Howl")).await.unwrap_err();
    assert_eq!(code(&error), Some("InvalidAuthenticationInfo"), "{error}");
    of("writer", "w")?.table("books").insert(&book("Howl")).await?;
    Ok(())
}

#[tokio::test]
async fn a_workload_identity_sends_the_token_of_its_file() -> Result {
    let server = server().await?;
    let file = std::env::temp_dir().join(format!("rowkey-workload-{}", std::process::id()));
    std::fs::write(&file, "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW06c2EifQ.c2ln")?;
    let mut workload = WorkloadIdentityCredentialOptions::default();
    workload.credential_options.client_options = options(&server)?;
    workload.client_id = Some("pod".to_owned());
    workload.tenant_id = Some(TENANT.to_owned());
    workload.token_file_path = Some(file.clone());
    let pod = account(&server, WorkloadIdentityCredential::new(Some(workload))?)?;
    let error = pod.table("books").create().await.unwrap_err();
    std::fs::remove_file(file)?;
    assert_eq!(code(&error), Some("AuthorizationPermissionMismatch"), "{error}");
    Ok(())
}
