//! Advices about settings of an account that contradict each other, and about addresses and signatures.

use std::time::Duration;

use futures_util::FutureExt as _;
use rowkey::blob::ContentHeaders;
use rowkey::sas::{BlobPermissions, Sas, TablePermissions};
use rowkey::service::Service;
use rowkey::{
    Blob, ClientOptions, ConnectionOptions, Credential, Entity, StorageAccount,
    StorageAccountBuilder,
};
use rowkey_emulator::Server;

use super::{Case, case, refused, start};

const SAS: &str = "sv=2019-02-02&sig=x";

/// Its keys have two parts each.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{region}", row = "{city}_{id:4}")]
struct Shop {
    region: String,
    city: String,
    id: u32,
}

pub(super) const CASES: &[Case] = &[
    case("give the secondary endpoint, or do not read from it", || {
        async {
            let options =
                || ClientOptions { read_from_secondary: true, ..ClientOptions::default() };
            let builder = || {
                StorageAccount::builder()
                    .name("acct")
                    .credential(Credential::anonymous())
                    .endpoint(Service::Table, "https://tables.contoso.com")
            };
            let error = refused(builder()?.options(options()).build())?;
            let both =
                builder()?.secondary_endpoint(Service::Table, "https://other.contoso.com")?;
            both.options(options()).build()?;
            builder()?.build()?;
            Ok(error)
        }
        .boxed()
    }),
    case(
        "give an https endpoint, or name the host with `StorageAccountBuilder::allow_http_to`",
        || {
            async {
                let builder = |url: &str| {
                    StorageAccount::builder()
                        .credential(Credential::sas(SAS)?)
                        .endpoint(Service::Table, url)
                };
                let error = refused(builder("http://tables.contoso.com")?.build())?;
                builder("https://tables.contoso.com")?.build()?;
                let named = || {
                    let builder = builder("http://tables.contoso.com")?;
                    Ok::<_, rowkey::Error>(builder.allow_http_to("tables.contoso.com"))
                };
                // The secondary endpoint, which is derived, has a host of its own.
                let secondary = refused(named()?.build())?.to_string();
                assert!(secondary.contains(", tables-secondary.contoso.com;"), "{secondary}");
                named()?.allow_http_to("tables-secondary.contoso.com").build()?;
                Ok(error)
            }
            .boxed()
        },
    ),
    case(
        "give scheme, host and port, with user and password before an @ if it asks for them, and \
         percent-encode in them what is neither a letter nor a digit",
        || {
            async {
                let proxy = |address: &str| ConnectionOptions::new().proxy(address);
                let error = refused(proxy("proxy.contoso.com"))?;
                let _ = proxy("http://ada:secret@proxy.contoso.com:3128")?;
                // The text is not shown: it may have a password.
                for password in ["secret@2", "secret#2", "secret^2", "secret 2"] {
                    let error = refused(proxy(&format!("http://ada:{password}@proxy:3128")))?;
                    assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
                }
                let _ = proxy("http://ada:secret%402@proxy.contoso.com:3128")?;
                Ok(error)
            }
            .boxed()
        },
    ),
    case("give at least one certificate as PEM, from BEGIN CERTIFICATE to END CERTIFICATE", || {
        async {
            let server = Server::builder().https().start().await?;
            let builder = |pem: String| {
                let builder =
                    StorageAccount::builder().connection_string(server.connection_string())?;
                builder.connections(ConnectionOptions::new().trust_only(pem)).build()
            };
            let error = refused(builder("no certificate".to_owned()))?;
            let account = builder(server.certificate().unwrap_or_default().to_owned())?;
            account.table("orders").create().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("correct one of them, or remove it", || {
        async {
            let builder = |name: Option<&str>| {
                let builder = StorageAccount::builder()
                    .credential(Credential::anonymous())
                    .endpoint(Service::Table, "https://acct.table.core.windows.net")?;
                name.into_iter().fold(builder, StorageAccountBuilder::name).build()
            };
            let error = refused(builder(Some("other")))?;
            builder(Some("acct"))?;
            builder(None)?;
            Ok(error)
        }
        .boxed()
    }),
    case("give {other}, too, or remove {setting}", || {
        async {
            let text = |more: &str| {
                let text = format!("AccountName=acct;AccountKey=a2V5;{more}");
                StorageAccount::from_connection_string(&text)
            };
            let proxy = "DevelopmentStorageProxyUri=http://127.0.0.1";
            let error = refused(text(proxy))?;
            let both = format!("UseDevelopmentStorage=true;{proxy}");
            StorageAccount::from_connection_string(&both)?;
            text("")?;
            Ok(error)
        }
        .boxed()
    }),
    case("remove one of them", || {
        async {
            let text = |more: &str| {
                let text = format!("AccountName=acct;AccountKey=a2V5;{more}");
                StorageAccount::from_connection_string(&text)
            };
            let suffix = "EndpointSuffix=core.usgovcloudapi.net;";
            let endpoints = "TableEndpoint=https://tables.contoso.com;\
                             QueueEndpoint=https://queues.contoso.com;\
                             BlobEndpoint=https://blobs.contoso.com;";
            let error = refused(text(&format!("{suffix}{endpoints}")))?;
            text(suffix)?;
            text(endpoints)?;
            Ok(error)
        }
        .boxed()
    }),
    case("give it first, and once", || {
        async {
            let text = "AccountName=acct;AccountKey=a2V5";
            let builder = StorageAccount::builder;
            let error = refused(builder().name("acct").connection_string(text))?;
            refused(builder().connection_string(text)?.connection_string(text))?;
            builder().connection_string(text)?.build()?;
            Ok(error)
        }
        .boxed()
    }),
    case("give its value, or leave the part out", || {
        async {
            let text = |text: &str| StorageAccount::from_connection_string(text);
            let error = refused(text("AccountName=acct;AccountKey=a2V5;EndpointSuffix="))?;
            text("AccountName=acct;AccountKey=a2V5;EndpointSuffix=core.usgovcloudapi.net")?;
            text("AccountName=acct;AccountKey=a2V5")?;
            Ok(error)
        }
        .boxed()
    }),
    case("remove it, or correct it to one of {}", || {
        async {
            let text = |text: &str| StorageAccount::from_connection_string(text);
            let wrong = "AccountName=acct;AccountKey=a2V5;EndpointSufix=core.windows.net";
            let error = refused(text(wrong))?;
            assert!(error.to_string().contains("EndpointSuffix"), "{error}");
            text(&wrong.replace("Sufix", "Suffix"))?;
            text("AccountName=acct;AccountKey=a2V5")?;
            Ok(error)
        }
        .boxed()
    }),
    case("encode `#` in a name as %23", || {
        async {
            let host = "https://acct.blob.core.windows.net/photos";
            let error = refused(Blob::from_sas_url(&format!("{host}/a?{SAS}#b")))?;
            Blob::from_sas_url(&format!("{host}/a%23b?{SAS}"))?;
            Ok(error)
        }
        .boxed()
    }),
    case("leave it out: parts are signed as lines, and this one would sign others, too", || {
        async {
            let (_server, account) = start().await?;
            let token = || {
                Sas::blob("photos", "one")
                    .permissions(BlobPermissions::READ)
                    .valid_for(Duration::from_secs(60))
            };
            let content_type = Some("text/plain\nx".to_owned());
            let headers = ContentHeaders { content_type, ..ContentHeaders::default() };
            let error = refused(token().answer_headers(headers).sign(&account))?;
            token().sign(&account)?;
            Ok(error)
        }
        .boxed()
    }),
    case("open whole partitions, or ends that differ in the last part of the key alone", || {
        async {
            let (_server, account) = start().await?;
            let table = || {
                Sas::table("shops")
                    .permissions(TablePermissions::QUERY)
                    .valid_for(Duration::from_secs(60))
            };
            let key = Shop::key;
            let error =
                refused(table().keys(key("eu", "leeds", 1)..=key("us", "ames", 9)).sign(&account))?;
            table().keys(key("eu", "leeds", 1)..=key("eu", "leeds", 9)).sign(&account)?;
            table().partitions("eu"..="us").sign(&account)?;
            Ok(error)
        }
        .boxed()
    }),
];
