//! A step that calls a search service: products are entities, and a search index has a document for each.
//!
//! The service that changes a product puts a task, and a worker sends the document. The call may be repeated and
//! may be late, so it carries the revision of the product: the search service refuses a document that is older
//! than its own. Here the search service is a stub with the interface of Elasticsearch.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rowkey::store::Deciding;
use rowkey::worker::steps::{self, Steps};
use rowkey::worker::{Attempt, Done, Step, Task, Tasks, Worker};
use rowkey::{Entity, Error, ErrorKind, ManualClock, StorageAccount};
use rowkey_emulator::Server;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wiremock::matchers::{any, path_regex};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{category}", row = "product_{id:6}")]
struct Product {
    category: String,
    id: u32,
    name: String,
    /// Counts the changes.
    revision: i64,
    /// Whether the product is not sold any more. Its entity stays, and its document goes.
    retired: bool,
}

#[derive(Serialize, Deserialize)]
struct IndexProduct {
    category: String,
    id: u32,
}

impl Task for IndexProduct {
    const KIND: &'static str = "index-product";
}

// ANCHOR: indexer
#[derive(Clone)]
struct Indexer {
    products: Deciding,
    search: reqwest::Client,
    /// The address of the search service.
    address: String,
}

impl Indexer {
    async fn index(&self, task: &IndexProduct) -> rowkey::Result<Done> {
        let account = self.products.table().account();
        steps::run(account, || self.plan(task)).await
    }

    /// Reads the product as it is now, so that the order of tasks does not matter.
    async fn plan(&self, task: &IndexProduct) -> rowkey::Result<Option<Steps>> {
        let product = self.products.get(Product::key(&task.category, task.id)).await?;
        let Some(product) = product.map(|product| product.entity) else { return Ok(None) };
        let indexer = self.clone();
        Ok(Some(Steps::new().call("send the document", async move || indexer.send(product).await)))
    }

    /// Sends a document or its deletion. Repeating this changes nothing: the service compares revisions.
    async fn send(&self, product: Product) -> rowkey::Result<()> {
        let address = format!(
            "{}/products/_doc/{}?version={}&version_type=external",
            self.address, product.id, product.revision
        );
        let request = if product.retired {
            self.search.delete(address)
        } else {
            self.search.put(address).json(&json!({ "name": product.name }))
        };
        let unavailable = |what: String| Error::refused(ErrorKind::Unavailable, what);
        let sent = request.send().await.map_err(|error| {
            // It may have been applied. The next attempt sends the same revision.
            unavailable(format!("the search service did not answer: {}", error.without_url()))
        })?;
        match sent.status().as_u16() {
            // 409: this revision or a newer one is there. 404: the document is gone already.
            200 | 201 | 404 | 409 => Ok(()),
            status @ (429 | 500..) => {
                Err(unavailable(format!("the search service answered {status}")))
            }
            status => {
                let what = format!("the search service refused the document: {status}");
                Err(Error::refused(ErrorKind::Invalid, what))
            }
        }
    }
}
// ANCHOR_END: indexer

/// A stub of a search service: documents by path, each with the revision of its last change.
#[derive(Clone, Default)]
struct Search {
    documents: Arc<Mutex<Documents>>,
}

/// The revision and the content of each document, by path.
type Documents = BTreeMap<String, (i64, Option<Value>)>;

impl Search {
    fn document(&self, id: u32) -> Option<Value> {
        let documents = self.documents.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        documents.get(&format!("/products/_doc/{id}"))?.1.clone()
    }
}

impl Respond for Search {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let revision = request.url.query_pairs().find(|(name, _)| name == "version");
        let revision = revision.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
        let mut documents =
            self.documents.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let path = request.url.path();
        if documents.get(path).is_some_and(|(stored, _)| *stored >= revision) {
            return ResponseTemplate::new(409);
        }
        documents.insert(path.to_owned(), (revision, request.body_json().ok()));
        ResponseTemplate::new(200)
    }
}

type TestResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> TestResult {
    let server = Server::builder().manual_clock().start().await?;
    let clock = ManualClock::new(server.clock().now().to_chrono());
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(clock.clone())
        .build()?;
    let (table, stub, search) =
        (account.table("products"), MockServer::start().await, Search::default());
    table.create().await?;
    let documents = || Mock::given(path_regex("^/products/_doc/"));
    documents().respond_with(search.clone()).mount(&stub).await;

    let indexer = Indexer {
        products: Deciding::new(&table),
        search: reqwest::Client::new(),
        address: stub.uri(),
    };
    let tasks = Tasks::<IndexProduct>::new(account.queue("products"));
    tasks.create_if_missing().await?;
    let handler = indexer.clone();
    let worker = Worker::new(tasks.clone(), move |task: IndexProduct, _: Attempt| {
        let indexer = handler.clone();
        async move { indexer.index(&task).await }
    });
    let task = || IndexProduct { category: "tools".into(), id: 7 };
    let hammer = Product {
        category: "tools".into(),
        id: 7,
        name: "Hammer".into(),
        revision: 1,
        retired: false,
    };

    // A change, and its task. A service that must not forget the task writes both in one transaction: see the
    // outbox.
    table.insert(&hammer).await?;
    tasks.put(&task()).await?;
    assert_eq!(Box::pin(worker.step()).await?, Step::Handled);
    assert_eq!(search.document(7), Some(json!({ "name": "Hammer" })));

    // The queue delivers the task again: nothing changes.
    tasks.put(&task()).await?;
    assert_eq!(Box::pin(worker.step()).await?, Step::Handled);
    assert_eq!(search.document(7), Some(json!({ "name": "Hammer" })));

    // The search service is not available: the message appears again.
    let change = |product: &mut Product| {
        product.name = "Claw hammer".into();
        product.revision += 1;
    };
    table.update(Product::key("tools", 7), change).await?;
    tasks.put(&task()).await?;
    let down = Mock::given(any()).respond_with(ResponseTemplate::new(503)).with_priority(1);
    down.up_to_n_times(1).mount(&stub).await;
    let step = Box::pin(worker.step()).await?;
    assert!(matches!(step, Step::Deferred | Step::Retried), "{step:?}");
    server.clock().advance(Duration::from_secs(3600));
    clock.advance(Duration::from_secs(3600));
    assert_eq!(Box::pin(worker.step()).await?, Step::Handled);
    assert_eq!(search.document(7), Some(json!({ "name": "Claw hammer" })));

    // A worker that read the product long ago is late: the newer document stays.
    indexer.send(hammer).await?;
    assert_eq!(search.document(7), Some(json!({ "name": "Claw hammer" })));

    // The product is retired.
    let retire = |product: &mut Product| {
        product.retired = true;
        product.revision += 1;
    };
    table.update(Product::key("tools", 7), retire).await?;
    tasks.put(&task()).await?;
    assert_eq!(Box::pin(worker.step()).await?, Step::Handled);
    assert_eq!(search.document(7), None);
    println!(
        "the search index follows the products, through repetition, an outage and a late worker"
    );
    Ok(())
}
