//! Advices about accounts, credentials, shared access signatures and texts that come from elsewhere.

use std::time::Duration;

use futures_util::FutureExt as _;
use rowkey::queue::Body;
use rowkey::sas::{
    AccountPermissions, QueuePermissions, ResourceTypes, Sas, Services, TablePermissions,
};
use rowkey::service::{AccessPolicy, Service};
use rowkey::telemetry::TraceParent;
use rowkey::{Continuation, Credential, CredentialSlot, DynamicEntity, Key, StorageAccount};

use super::{Case, case, refused, start};

const KEY: &str = "a2V5";
const SAS: &str = "sv=2019-02-02&sig=x";

pub(super) const CASES: &[Case] = &[
    case("give a credential to `StorageAccount::builder()`", || {
        async {
            let text = "TableEndpoint=https://acct.table.core.windows.net";
            let error = refused(StorageAccount::from_connection_string(text))?;
            let credential = Credential::shared_key("acct", KEY)?;
            StorageAccount::builder().connection_string(text)?.credential(credential).build()?;
            Ok(error)
        }
        .boxed()
    }),
    case("give one, or `Credential::anonymous()`", || {
        async {
            let named = || StorageAccount::builder().name("acct");
            let error = refused(named().build())?;
            named().credential(Credential::anonymous()).build()?;
            named().credential(Credential::shared_key("acct", KEY)?).build()?;
            Ok(error)
        }
        .boxed()
    }),
    case("give its name or an endpoint", || {
        async {
            let bare = || StorageAccount::builder().credential(Credential::anonymous());
            let error = refused(bare().build())?;
            bare().name("acct").build()?;
            bare().endpoint(Service::Table, "https://tables.contoso.com")?.build()?;
            Ok(error)
        }
        .boxed()
    }),
    case(
        "`from_sas_url` of the account, the table, the queue or the blob takes an address with a signature",
        || {
            async {
                let url = format!("https://acct.table.core.windows.net/?{SAS}");
                let error = refused(StorageAccount::from_connection_string(&url))?;
                StorageAccount::from_sas_url(&url)?;
                Ok(error)
            }
            .boxed()
        },
    ),
    case("keep one", || {
        async {
            let base = "AccountName=acct;";
            let (key, sas) = (format!("AccountKey={KEY};"), format!("SharedAccessSignature={SAS}"));
            let error =
                refused(StorageAccount::from_connection_string(&format!("{base}{key}{sas}")))?;
            StorageAccount::from_connection_string(&format!("{base}{key}"))?;
            StorageAccount::from_connection_string(&format!("{base}{sas}"))?;
            Ok(error)
        }
        .boxed()
    }),
    case("give TableEndpoint instead", || {
        async {
            let key = format!("AccountKey={KEY}");
            let text = format!("AccountEndpoint=https://cosmos.contoso.com:443/;{key}");
            let error = refused(StorageAccount::from_connection_string(&text))?;
            let text =
                format!("AccountName=acct;TableEndpoint=https://cosmos.contoso.com:443/;{key}");
            StorageAccount::from_connection_string(&text)?;
            Ok(error)
        }
        .boxed()
    }),
    case("give endpoint and signature to `StorageAccount::builder()`", || {
        async {
            let error =
                refused(StorageAccount::from_sas_url(&format!("https://contoso.com/?{SAS}")))?;
            StorageAccount::builder()
                .endpoint(Service::Table, "https://contoso.com")?
                .credential(Credential::sas(SAS)?)
                .build()?;
            Ok(error)
        }
        .boxed()
    }),
    case("give the address without them", || {
        async {
            let url = format!("https://acct.table.core.windows.net/?{SAS}");
            let error = refused(StorageAccount::from_sas_url(&format!("{url}&timeout=3")))?;
            StorageAccount::from_sas_url(&url)?;
            Ok(error)
        }
        .boxed()
    }),
    case(
        "give the address of the resource that the function is for; an emulator's begins with the name of the account",
        || {
            async {
                let host = "https://acct.table.core.windows.net";
                let error = refused(rowkey::Table::from_sas_url(&format!("{host}/?{SAS}")))?;
                rowkey::Table::from_sas_url(&format!("{host}/staff?{SAS}"))?;
                rowkey::Table::from_sas_url(&format!(
                    "http://127.0.0.1:10002/devstoreaccount1/staff?{SAS}"
                ))?;
                Ok(error)
            }
            .boxed()
        },
    ),
    case("give what follows the `?`, percent-encoded as it was issued", || {
        async {
            let error = refused(Credential::sas(&format!("https://acct.example/?{SAS}")))?;
            Credential::sas(SAS)?;
            Ok(error)
        }
        .boxed()
    }),
    case("give all of it, from `sv=` to the end", || {
        async {
            let error = refused(Credential::sas("sv=2019-02-02&se=2027-01-01"))?;
            Credential::sas(SAS)?;
            Ok(error)
        }
        .boxed()
    }),
    case("copy it again from the account's access keys", || {
        async {
            let error = refused(Credential::shared_key("acct", "not base64!"))?;
            Credential::shared_key("acct", KEY)?;
            Ok(error)
        }
        .boxed()
    }),
    case("build an account of its own for it", || {
        async {
            let other = || Credential::shared_key("other", KEY);
            let slot = CredentialSlot::new(Credential::shared_key("acct", KEY)?);
            let error = refused(slot.replace(other()?))?;
            StorageAccount::builder().name("other").credential(other()?).build()?;
            Ok(error)
        }
        .boxed()
    }),
    case("put it into a blob, and its name here", || {
        async {
            let (_server, account) = start().await?;
            let (jobs, big) = (account.queue("jobs"), account.container("big"));
            jobs.create().await?;
            big.create().await?;
            let content = "x".repeat(100_000);
            let error = refused(jobs.put(Body::text(content.clone())).send().await)?;
            big.blob("one").put(content).send().await?;
            jobs.put(Body::text("one")).send().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("send it as base64", || {
        async {
            let (_server, account) = start().await?;
            let jobs = account.queue("jobs");
            jobs.create().await?;
            let error = refused(jobs.put(Body::text("\u{1}")).send().await)?;
            jobs.put(Body::base64("\u{1}")).send().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("let it live longer than it is hidden", || {
        async {
            let (_server, account) = start().await?;
            let jobs = account.queue("jobs");
            jobs.create().await?;
            let put = |ttl| {
                jobs.put(Body::text("x"))
                    .ttl(Duration::from_secs(ttl))
                    .hidden_for(Duration::from_secs(60))
            };
            let error = refused(put(60).send().await)?;
            put(61).send().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("give both as the service gave them", || {
        async {
            let (_server, account) = start().await?;
            let jobs = account.queue("jobs");
            jobs.create().await?;
            let put = jobs.put(Body::text("x")).send().await?;
            let error = refused(jobs.message_ref(&*put.id, "").delete().await)?;
            jobs.message_ref(put.id, put.pop_receipt).delete().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("begin the query without one", || {
        async {
            let error = refused("not a token".parse::<Continuation>())?;
            let (_server, account) = start().await?;
            let table = account.table("staff");
            table.create().await?;
            let partition = rowkey::Partition::<DynamicEntity>::new("p");
            assert_eq!(table.query(partition).all().await?.len(), 0);
            Ok(error)
        }
        .boxed()
    }),
    case("give both parts as the service gave them in the headers of its answer", || {
        async {
            let error = refused("nextpk".parse::<rowkey::table::ServiceToken>())?;
            "next-pk next-rk".parse::<rowkey::table::ServiceToken>()?;
            Ok(error)
        }
        .boxed()
    }),
    case("start without a trace", || async { refused("00-zz".parse::<TraceParent>()) }.boxed()),
    case("give the header another name", || {
        async {
            let error = refused(StorageAccount::builder().header("x-ms-date", "now"))?;
            let _ = StorageAccount::builder().header("x-contoso-date", "now")?;
            Ok(error)
        }
        .boxed()
    }),
    case("give the {part} endpoint", || {
        async {
            let cosmos = StorageAccount::builder()
                .credential(Credential::shared_key("acct", KEY)?)
                .endpoint(Service::Table, "https://acct.table.cosmos.azure.com:443")?
                .build()?;
            let error = refused(cosmos.queue("jobs").create().await)?;
            let (_server, both) = start().await?;
            both.queue("jobs").create().await?;
            Ok(error)
        }
        .boxed()
    }),
    case("give it another, or old signatures live on", || {
        async {
            let (_server, account) = start().await?;
            let table = account.table("staff");
            table.create().await?;
            let policy = |id: &str| AccessPolicy {
                id: id.into(),
                permission: Some("r".into()),
                ..AccessPolicy::default()
            };
            table.set_access_policy(policy("one")).await?;
            let error = refused(table.rotate_access_policy("one", policy("one")).await)?;
            table.rotate_access_policy("one", policy("two")).await?;
            Ok(error)
        }
        .boxed()
    }),
    case("set it, or name a stored access policy that contains it", || {
        async {
            let (_server, account) = start().await?;
            let read = || Sas::table("staff").permissions(TablePermissions::QUERY);
            let error = refused(read().sign(&account))?;
            read().valid_for(Duration::from_secs(60)).sign(&account)?;
            Sas::table("staff").policy("reader").sign(&account)?;
            Ok(error)
        }
        .boxed()
    }),
    case("sign with `Credential::shared_key`, or a connection string with `AccountKey`", || {
        async {
            let (_server, account) = start().await?;
            let token = Sas::table("staff")
                .permissions(TablePermissions::QUERY)
                .valid_for(Duration::from_secs(60));
            let anonymous = StorageAccount::builder()
                .name("acct")
                .credential(Credential::anonymous())
                .build()?;
            let error = refused(token.sign(&anonymous))?;
            token.sign(&account)?;
            Ok(error)
        }
        .boxed()
    }),
    case("give its endpoint", || {
        async {
            let cosmos = || {
                StorageAccount::builder()
                    .credential(Credential::shared_key("acct", KEY)?)
                    .endpoint(Service::Table, "https://acct.table.cosmos.azure.com:443")
            };
            let token = Sas::queue("jobs")
                .permissions(QueuePermissions::READ)
                .valid_for(Duration::from_secs(60));
            let error = refused(token.sign(&cosmos()?.build()?));
            let queues = "https://acct.queue.core.windows.net";
            token.sign(&cosmos()?.endpoint(Service::Queue, queues)?.build()?)?;
            error
        }
        .boxed()
    }),
    case("name services and resource types", || {
        async {
            let (_server, account) = start().await?;
            let of = |services| {
                Sas::account(services, ResourceTypes::OBJECT)
                    .permissions(AccountPermissions::READ)
                    .valid_for(Duration::from_secs(60))
            };
            let error = refused(of(Services::default()).sign(&account))?;
            of(Services::TABLE).sign(&account)?;
            Ok(error)
        }
        .boxed()
    }),
    case("say its permissions and its expiry", || {
        async {
            let (_server, account) = start().await?;
            let of = || Sas::account(Services::TABLE, ResourceTypes::OBJECT);
            let error = refused(of().policy("reader").sign(&account))?;
            of().permissions(AccountPermissions::READ)
                .valid_for(Duration::from_secs(60))
                .sign(&account)?;
            Ok(error)
        }
        .boxed()
    }),
    case("give keys that entities can have", || {
        async {
            let (_server, account) = start().await?;
            let of = |end: &'static str| {
                Sas::table("staff")
                    .partitions(..end)
                    .permissions(TablePermissions::QUERY)
                    .valid_for(Duration::from_secs(60))
                    .sign(&account)
            };
            let error = refused(of("a/b"))?;
            of("a-b")?;
            Ok(error)
        }
        .boxed()
    }),
    case(
        "its name is free again 30 seconds or more after it was deleted; `create_if_missing_within` waits for that",
        || {
            async {
                let (server, account) = start().await?;
                let table = account.table("staff");
                table.create().await?;
                table.delete_table().await?;
                let error = refused(table.create().await)?;
                server.clock().advance(Duration::from_secs(60));
                table.create_if_missing_within(Duration::from_secs(90)).await?;
                Ok(error)
            }
            .boxed()
        },
    ),
    case("use it, or create it with `create_if_missing`", || {
        async {
            let (_server, account) = start().await?;
            let (table, queue, container) =
                (account.table("staff"), account.queue("staff"), account.container("staff"));
            table.create().await?;
            queue.create().await?;
            container.create().await?;
            let error = refused(table.create().await)?;
            let (queued, contained) = (queue.create().await, container.create().await.map(drop));
            for other in [refused(queued)?, refused(contained)?] {
                assert!(other.to_string().contains("use it, or"), "{other}");
            }
            assert!(!table.create_if_missing().await? && !queue.create_if_missing().await?);
            assert!(!container.create_if_missing().await?);
            table.insert(&DynamicEntity::new("p", "r")).await?;
            assert!(table.get(Key::<DynamicEntity>::new("p", "r")).await?.is_some());
            Ok(error)
        }
        .boxed()
    }),
];
