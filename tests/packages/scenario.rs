//! Runs `scenario.json` with this project's client, and compares the journal with `scenario.journal.json`, which the
//! packages for Python and JavaScript give with the official libraries.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rowkey::queue::Body;
use rowkey::{ClientOptions, DynamicEntity, Result, RetryOptions, StorageAccount};
use rowkey_emulator::{Fault, Injected, Server, Snapshot};
use rowkey_tests::TestResult;
use serde_json::{Value, json};

/// A server, and what the steps name.
struct Scenario {
    server: Server,
    account: StorageAccount,
    faults: HashMap<String, Injected>,
    snapshots: HashMap<String, Snapshot>,
    journal: Vec<Value>,
}

impl Scenario {
    async fn start() -> TestResult<Self> {
        let server = Server::start().await?;
        // Each step is one request.
        let retry = RetryOptions { max_attempts: 1, ..RetryOptions::default() };
        let account = StorageAccount::from_connection_string(server.connection_string())?
            .with_options(ClientOptions { retry, ..ClientOptions::default() });
        let (faults, snapshots) = (HashMap::new(), HashMap::new());
        Ok(Self { server, account, faults, snapshots, journal: Vec::new() })
    }

    /// Carries out a step that sends a request, and returns what it expects.
    async fn request(&self, step: &Value) -> Option<Result<Value>> {
        let text = |name: &str| step[name].as_str().unwrap_or_default();
        let key = || DynamicEntity::new(text("partition"), text("row"));
        let table = self.account.table(text("table"));
        let queue = self.account.queue(text("queue"));
        let ok = |()| json!("ok");
        Some(match text("do") {
            "createTable" => table.create().await.map(|()| Value::Null),
            "createQueue" => queue.create().await.map(|()| Value::Null),
            "insert" => {
                let mut entity = key();
                entity.set("item", text("item"));
                table.insert(&entity).await.map(drop).map(ok)
            }
            "get" => match table.get(key().key()).await {
                Ok(Some(stored)) => Ok(json!(stored.entity.get_as::<String>("item").ok())),
                Ok(None) => Ok(json!(404)),
                Err(error) => Err(error),
            },
            "put" => queue.put(Body::text(text("text"))).send().await.map(drop).map(ok),
            "receive" => {
                let hidden = Duration::from_secs(step["visibility"].as_u64().unwrap_or_default());
                let messages = queue.receive(1, hidden).await;
                messages.map(|messages| {
                    messages.first().map_or(Value::Null, |message| json!(message.text()))
                })
            }
            _ => return None,
        })
    }

    /// Carries out a step that controls the server, and returns what it expects.
    fn control(&mut self, step: &Value) -> TestResult<Value> {
        let name = step["name"].as_str().unwrap_or_default().to_owned();
        let clock = self.server.clock();
        match step["do"].as_str().unwrap_or_default() {
            "inject" => {
                let fault: Fault = serde_json::from_value(step["fault"].clone())?;
                self.faults.insert(name, self.server.inject(fault));
            }
            "hits" => {
                return Ok(json!(self.faults.get(&name).ok_or("no such fault")?.hits()));
            }
            "remove" => drop(self.faults.remove(&name)),
            "throttle" => {
                let targets = serde_json::from_value(step["targets"].clone())?;
                self.server.set_targets(Some(targets));
            }
            "unthrottle" => self.server.set_targets(None),
            "freeze" => clock.freeze(),
            "follow" => clock.follow(),
            "advance" => {
                clock.advance(Duration::from_secs_f64(step["seconds"].as_f64().ok_or("seconds")?));
            }
            "snapshot" => drop(self.snapshots.insert(name, self.server.snapshot())),
            "restore" => self.server.restore(self.snapshots.get(&name).ok_or("no such snapshot")?),
            "reset" => self.server.reset(),
            "journal" => self.journal.extend(self.server.journal().iter().map(|entry| {
                json!({
                    "operation": format!("{:?}", entry.operation()),
                    "resource": entry.resource(),
                    "status": entry.status(),
                    "committed": entry.is_committed(),
                })
            })),
            other => return Err(format!("no such step: {other}").into()),
        }
        Ok(Value::Null)
    }
}

#[tokio::test]
async fn the_scenario_of_the_packages_gives_the_same_journal() -> TestResult {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages");
    let read = |name: &str| -> TestResult<Value> {
        Ok(serde_json::from_str(&fs::read_to_string(folder.join(name))?)?)
    };
    let read_steps = read("scenario.json")?;
    let steps = read_steps["steps"].as_array().ok_or("no steps")?;
    let mut scenario = Scenario::start().await?;
    for step in steps {
        let is = match scenario.request(step).await {
            None => scenario.control(step)?,
            Some(Ok(value)) => value,
            // Without a status there was no answer.
            Some(Err(error)) => {
                error.details().status.map_or_else(|| json!("no answer"), |status| json!(status))
            }
        };
        assert_eq!(is, step["expect"], "{step}");
    }
    assert_eq!(Value::from(scenario.journal), read("scenario.journal.json")?);
    Ok(())
}
