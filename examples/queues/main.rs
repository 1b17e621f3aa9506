//! One program processes three queues by priority: urgent mails first, without losing the reports.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use std::sync::Arc;
use std::time::Duration;

use rowkey::worker::{Attempt, Done, Handler, Task, Tasks, Worker, Workers};
use rowkey::{ManualClock, StorageAccount};
use rowkey_emulator::Server;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

impl Task for Mail {
    const KIND: &'static str = "mail";

    /// One mail to a recipient at a time, from all queues together.
    fn key(&self) -> Option<String> {
        Some(self.to.clone())
    }
}

#[derive(Serialize, Deserialize)]
struct Report {
    year: u16,
}

impl Task for Report {
    const KIND: &'static str = "report";
}

/// Sends mails, and notes from which queue they were.
struct Mailer {
    queue: &'static str,
    sent: Arc<Mutex<Vec<&'static str>>>,
    done: UnboundedSender<()>,
}

impl Handler<Mail> for Mailer {
    async fn handle(&self, task: Mail, _: Attempt) -> rowkey::Result<Done> {
        println!("{:8} mail to {}", self.queue, task.to);
        self.sent.lock().await.push(self.queue);
        self.done.send(()).ok();
        Ok(Done::Applied)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Time stands still: the idle queues do not poll again.
    let server = Server::builder().manual_clock().start().await?;
    let account = StorageAccount::builder()
        .connection_string(server.connection_string())?
        .clock(ManualClock::new(server.clock().now().to_chrono()))
        .build()?;
    let mails = |queue| Tasks::<Mail>::new(account.queue(queue));
    let (urgent, normal) = (mails("urgent"), mails("normal"));
    let reports = Tasks::<Report>::new(account.queue("reports"));
    urgent.create_if_missing().await?;
    normal.create_if_missing().await?;
    reports.create_if_missing().await?;
    for number in 0..12 {
        urgent.put(&Mail { to: format!("urgent-{number}@contoso.com") }).await?;
        normal.put(&Mail { to: format!("normal-{number}@contoso.com") }).await?;
    }
    reports.put(&Report { year: 2026 }).await?;

    // ANCHOR: run
    let (done, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let mailer = |queue| Mailer { queue, sent: Arc::clone(&sent), done: done.clone() };
    let of_reports = done.clone();
    let reporter = move |task: Report, _: Attempt| {
        let done = of_reports.clone();
        async move {
            println!("{:8} report of {}", "reports", task.year);
            done.send(()).ok();
            Ok(Done::Applied)
        }
    };

    // Up to four tasks at a time. While there are mails of both kinds, three of four are urgent. Reports take long:
    // they never have more than one of the four places.
    let workers = Workers::new(4)
        .worker(3, Worker::new(urgent, mailer("urgent")))
        .worker(1, Worker::new(normal, mailer("normal")))
        .worker(1, Worker::new(reports, reporter).concurrency(1))
        .shutdown_deadline(Duration::from_secs(20));

    // A signal, as a rule; here the last of 25 tasks.
    let shutdown = async {
        for _ in 0..25 {
            ended.recv().await;
        }
    };
    for queue in workers.run_until(shutdown).await? {
        println!("{:8} {} done, {} failures", queue.queue, queue.counts.handled, queue.failures);
    }
    // ANCHOR_END: run

    assert_eq!(sent.lock().await.len(), 24);
    Ok(())
}
