//! Connections that are busy all the time: everything that is done with tables, queues and blobs,
//! each answer checked, and what was made is deleted again.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use super::figures::Tally;
use super::requests::Requests;
use crate::load::{Connection, count};
use crate::process::{SERVICES, Service};
use crate::small::{BLOB_LINE, BLOB_LINES};

/// Connections to each service. There are most to tables.
pub(crate) const CONNECTIONS: [usize; SERVICES.len()] = [192, 32, 32];

/// A client with a connection.
pub(crate) struct Worker {
    connection: Connection,
    service: Service,
    requests: Requests,
    /// What its own entities and blobs are named after.
    name: String,
    tally: Tally,
    /// The page that never changes.
    page: Rc<Vec<u8>>,
    answer: Vec<u8>,
}

impl Worker {
    pub(crate) async fn new(
        service: Service,
        number: usize,
        requests: &Requests,
        tally: &Tally,
        page: &Rc<Vec<u8>>,
    ) -> io::Result<Self> {
        Ok(Self {
            connection: Connection::open(requests.host(service)).await?,
            service,
            requests: requests.clone(),
            name: format!("w{number:04}"),
            tally: tally.clone(),
            page: Rc::clone(page),
            answer: Vec::new(),
        })
    }

    /// Sends requests until the end of the test. After an error it opens another connection.
    pub(crate) async fn run(mut self, is_over: Rc<Cell<bool>>) {
        let mut round = 0;
        while !is_over.get() {
            round += 1;
            let done = match self.service {
                Service::Table => self.tables(round).await,
                Service::Queue => self.queue(round).await,
                Service::Blob => self.blobs(round).await,
            };
            if let Err(error) = done {
                self.tally.error(&format!("{:?}", self.service), &error);
                match Connection::open(self.requests.host(self.service)).await {
                    Ok(connection) => self.connection = connection,
                    Err(error) => return self.tally.error("a connection is refused", &error),
                }
            }
        }
    }

    async fn tables(&mut self, round: usize) -> io::Result<()> {
        let (requests, name) = (self.requests.clone(), self.name.clone());
        let name = name.as_str();
        for row in 0..10 {
            let row = format!("r{row}");
            let level = 1_000 + round % 1_000;
            self.ask(&requests.insert(name, &row), |_| true).await?;
            self.ask(&requests.get("busy", name, &row), |answer| count(answer, &row) == 1).await?;
            self.ask(&requests.merge(name, &row, level), |_| true).await?;
            let merged = format!("\"Level\":{level},");
            self.ask(&requests.get("busy", name, &row), |answer| count(answer, &merged) == 1)
                .await?;
            self.ask(&requests.delete(name, &row), |_| true).await?;
        }
        let all = |answer: &[u8]| count(answer, "HTTP/1.1 204") == 100;
        self.ask(&requests.inserts("busy", name, 0..100), all).await?;
        self.ask(&requests.deletes(name, 0..100), all).await?;
        let page = Rc::clone(&self.page);
        self.ask(&requests.page(), |answer| answer == page.as_slice()).await
    }

    async fn queue(&mut self, round: usize) -> io::Result<()> {
        let requests = self.requests.clone();
        let text = format!("{} {round}", self.name);
        self.ask(&requests.put_message(&text), |_| true).await?;
        // There are as many as there are workers, and some are looking at one.
        self.ask(&requests.next_message(), |answer| count(answer, "<MessageText>") == 1).await?;
        let delete = requests.delete_message(&String::from_utf8_lossy(&self.answer));
        self.ask(&delete, |_| true).await
    }

    async fn blobs(&mut self, round: usize) -> io::Result<()> {
        let requests = self.requests.clone();
        let name = format!("{}-{}", self.name, round % 10);
        self.ask(&requests.put_blob(&name), |_| true).await?;
        let content = BLOB_LINE.repeat(BLOB_LINES);
        self.ask(&requests.get_blob(&name), |answer| answer == content.as_bytes()).await?;
        self.ask(&requests.delete_blob(&name), |_| true).await
    }

    /// Sends a request, whose answer must be a success and right.
    async fn ask(&mut self, request: &[u8], is_right: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        self.answer.clear();
        let begin = Instant::now();
        self.connection.exchange(request, Some(&mut self.answer)).await?;
        self.tally.took(begin.elapsed());
        if is_right(&self.answer) {
            return Ok(());
        }
        let line = request.split(|&byte| byte == b'?').next().unwrap_or_default();
        let answer = &self.answer[..self.answer.len().min(400)];
        let (line, answer) = (line.escape_ascii(), answer.escape_ascii());
        Err(io::Error::other(format!("not the answer to {line}: {answer}")))
    }
}
