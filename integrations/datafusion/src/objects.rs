//! Files in blob containers: `az://container/path` in the default account, `az://container@account/path` in another one.
//!
//! A store is made when a statement first names its container, from the connection string of the account. The library that reads and
//! writes files shows its credentials in `Debug`, so none of its types is shown.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, TryFutureExt as _, TryStreamExt as _};
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
};
use url::Url;

use crate::Accounts;
use crate::error;

const SCHEME: &str = "az";
/// The account of every emulator. Its key is published and not a secret.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The stores of a session: those of this machine, and those of blob containers.
pub(crate) struct Objects {
    accounts: Accounts,
    others: DefaultObjectStoreRegistry,
    /// By account and container.
    made: Mutex<HashMap<(String, String), Arc<Store>>>,
}

impl Objects {
    pub(crate) fn new(accounts: &Accounts) -> Self {
        Self {
            accounts: accounts.clone(),
            others: DefaultObjectStoreRegistry::new(),
            made: Mutex::default(),
        }
    }

    fn of_container(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let host = url.host_str().unwrap_or_default();
        let (container, account) = match url.username() {
            "" => (host, self.accounts.default_account()?.name()),
            container => (container, host),
        };
        if container.is_empty() || url.password().is_some() || url.port().is_some() {
            return Err(error::plan(
                "the address of a file in a blob container is az://container/path or az://container@account/path",
            ));
        }
        let key = (account.to_owned(), container.to_owned());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = made.get(&key) {
            return Ok(Arc::clone(store) as _);
        }
        let text = self.accounts.connection_string(account)?;
        // The library's error could quote what it was given.
        let inner = builder(&text, account).with_container_name(container).build().map_err(|_| {
            error::plan(format!("the connection string of the account {account} has no usable BlobEndpoint, AccountKey or SharedAccessSignature"))
        })?;
        let store = Arc::new(Store { place: format!("az://{container}@{account}"), inner });
        made.insert(key, Arc::clone(&store));
        Ok(store)
    }
}

/// What a connection string says about blobs.
fn builder(text: &str, account: &str) -> MicrosoftAzureBuilder {
    let parts: Vec<_> = text.split(';').filter_map(|part| part.split_once('=')).collect();
    let get = |wanted: &str| {
        let mut named = parts.iter().filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
        named.next().map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    };
    let builder = MicrosoftAzureBuilder::new().with_account(account);
    if get("UseDevelopmentStorage").is_some() {
        let host =
            get("DevelopmentStorageProxyUri").unwrap_or("http://127.0.0.1").trim_end_matches('/');
        return builder
            .with_access_key(EMULATOR_KEY)
            .with_endpoint(format!("{host}:10000/{EMULATOR_ACCOUNT}"))
            .with_allow_http(true);
    }
    let endpoint = match get("BlobEndpoint") {
        Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
        None => {
            let protocol = get("DefaultEndpointsProtocol").unwrap_or("https");
            let suffix = get("EndpointSuffix").unwrap_or("core.windows.net");
            format!("{}://{account}.blob.{suffix}", protocol.to_ascii_lowercase())
        }
    };
    let builder = builder.with_allow_http(endpoint.starts_with("http:")).with_endpoint(endpoint);
    match (get("AccountKey"), get("SharedAccessSignature")) {
        (Some(key), _) => builder.with_access_key(key),
        (None, Some(sas)) => {
            let pairs =
                url::form_urlencoded::parse(sas.trim_start_matches('?').as_bytes()).into_owned();
            builder.with_sas_authorization(pairs.collect::<Vec<_>>())
        }
        // Without a secret the library would look for a managed identity, which the account's client does not use either.
        (None, None) => builder.with_access_key("-"),
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").field("accounts", &self.accounts).finish_non_exhaustive()
    }
}

impl ObjectStoreRegistry for Objects {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.others.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.others.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if url.scheme() != SCHEME {
            return self.others.get_store(url);
        }
        // One that a program has registered goes before.
        self.others.get_store(url).or_else(|_| self.of_container(url))
    }
}

/// A container, whose credential is not shown.
struct Store {
    place: String,
    inner: MicrosoftAzure,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

type Done<T> = std::result::Result<T, object_store::Error>;

impl Store {
    fn told(&self, error: object_store::Error) -> object_store::Error {
        told(&self.place, error)
    }
}

/// An error of the same kind, with the code of the service's answer instead of all of it.
fn told(place: &str, error: object_store::Error) -> object_store::Error {
    use object_store::Error;
    let text = error.to_string();
    if let (Error::Generic { store, .. }, true) = (&error, text.contains("HTTP error")) {
        let source = format!("the service of {place} could not be reached; try again later");
        return Error::Generic { store, source: source.into() };
    }
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let code = code.filter(|(code, _)| code.chars().all(char::is_alphanumeric));
    // An answer to HEAD has a status alone.
    let status = || {
        let (_, rest) = text.split_once("status code: ")?;
        rest.split_once(':').filter(|(status, _)| status.len() < LONGEST_STATUS)
    };
    let Some((code, _)) = code.or_else(status) else { return error };
    let source = match code {
        "ContainerNotFound" => "the container does not exist; create it first".into(),
        code => format!("the service answered {code}").into(),
    };
    // The name of a blob alone says nothing if its container is not there.
    let at = |path: String| if code == "ContainerNotFound" { place.to_owned() } else { path };
    match error {
        Error::NotFound { path, .. } => Error::NotFound { path: at(path), source },
        Error::AlreadyExists { path, .. } => Error::AlreadyExists { path, source },
        Error::Precondition { path, .. } => Error::Precondition { path, source },
        Error::PermissionDenied { path, .. } => Error::PermissionDenied { path, source },
        Error::Unauthenticated { path, .. } => Error::Unauthenticated { path, source },
        // The errors of lists and of parts are of no kind.
        Error::Generic { store, .. } => match code {
            "ContainerNotFound" => Error::NotFound { path: place.to_owned(), source },
            code if DENIED.iter().any(|denied| code.starts_with(denied)) => {
                Error::PermissionDenied { path: place.to_owned(), source }
            }
            _ => Error::Generic { store, source },
        },
        error => error,
    }
}

/// More than a number and its words have.
const LONGEST_STATUS: usize = 40;

/// How codes begin by which the service rejects a credential, or does not permit what it asks for.
const DENIED: [&str; 5] = [
    "Authentication",
    "Authorization",
    "InsufficientAccountPermissions",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
];

#[async_trait]
impl ObjectStore for Store {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Done<PutResult> {
        self.inner.put_opts(location, payload, options).await.map_err(|error| self.told(error))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Done<Box<dyn MultipartUpload>> {
        // It would hold the client, with its credential.
        let inner = self.inner.put_multipart_opts(location, options).await;
        let inner = inner.map_err(|error| self.told(error))?;
        Ok(Box::new(Upload { place: self.place.clone(), inner }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Done<GetResult> {
        self.inner.get_opts(location, options).await.map_err(|error| self.told(error))
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Done<Path>>,
    ) -> BoxStream<'static, Done<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Done<ObjectMeta>> {
        let place = self.place.clone();
        self.inner.list(prefix).map_err(move |error| told(&place, error)).boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Done<ObjectMeta>> {
        let place = self.place.clone();
        let files = self.inner.list_with_offset(prefix, offset);
        files.map_err(move |error| told(&place, error)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Done<ListResult> {
        self.inner.list_with_delimiter(prefix).await.map_err(|error| self.told(error))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Done<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Done<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

/// A file that is being written in parts.
struct Upload {
    place: String,
    inner: Box<dyn MultipartUpload>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> object_store::UploadPart {
        let place = self.place.clone();
        self.inner.put_part(data).map_err(move |error| told(&place, error)).boxed()
    }

    async fn complete(&mut self) -> Done<PutResult> {
        self.inner.complete().await.map_err(|error| told(&self.place, error))
    }

    async fn abort(&mut self) -> Done<()> {
        self.inner.abort().await.map_err(|error| told(&self.place, error))
    }
}

#[cfg(test)]
mod tests {
    use object_store::azure::AzureConfigKey;
    use rowkey::StorageAccount;

    use super::*;

    /// Base64 of `account-key`.
    const KEY: &str = "YWNjb3VudC1rZXk=";

    fn endpoint(text: &str) -> String {
        builder(text, "contoso").get_config_value(&AzureConfigKey::Endpoint).unwrap()
    }

    #[test]
    fn the_endpoint_is_that_of_the_connection_string() {
        for (text, expected) in [
            ("AccountName=contoso;AccountKey=a", "https://contoso.blob.core.windows.net"),
            (
                "accountname=contoso;EndpointSuffix=core.chinacloudapi.cn",
                "https://contoso.blob.core.chinacloudapi.cn",
            ),
            (
                "BlobEndpoint=http://127.0.0.1:10000/contoso/;AccountKey=a",
                "http://127.0.0.1:10000/contoso",
            ),
            ("UseDevelopmentStorage=true", "http://127.0.0.1:10000/devstoreaccount1"),
            (
                "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://box",
                "http://box:10000/devstoreaccount1",
            ),
        ] {
            assert_eq!(endpoint(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_that_is_shown_has_a_secret() {
        let text = format!("AccountName=contoso;AccountKey={KEY}");
        let accounts = Accounts::with_default(&text).unwrap();
        let objects = Objects::new(&accounts);
        let store = objects.get_store(&Url::parse("az://exports").unwrap()).unwrap();
        let bytes = format!("{:?}", b"account-key");
        let shown = format!("{accounts:?} {objects:?} {store:?} {store}");
        assert!(!shown.contains(KEY) && !shown.contains(&bytes), "{shown}");
        assert!(shown.contains("az://exports@contoso"), "{shown}");
        let same = objects.get_store(&Url::parse("az://exports@contoso/path").unwrap()).unwrap();
        assert!(Arc::ptr_eq(&store, &same));
    }

    #[test]
    fn errors_say_what_is_missing_and_show_no_secret() {
        let shop = format!("AccountName=shop;AccountKey={KEY}");
        let account = StorageAccount::from_connection_string(&shop).unwrap();
        let objects = Objects::new(&Accounts::of([account]).unwrap());
        for (url, expected) in [
            ("az://exports", "blobs of the account shop need its connection string"),
            ("az://exports@archive", "the account archive is not known on this machine"),
            ("az://user:word@shop", "az://container@account/path"),
        ] {
            let error = objects.get_store(&Url::parse(url).unwrap()).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("word@"), "{error}");
        }
        let accounts =
            Accounts::with_default("AccountName=shop;SharedAccessSignature=sv=1&sig=c2lnbmF0dXJl")
                .unwrap();
        let store =
            Objects::new(&accounts).get_store(&Url::parse("az://exports").unwrap()).unwrap();
        assert!(!format!("{store:?}").contains("c2lnbmF0dXJl"));
    }
}
