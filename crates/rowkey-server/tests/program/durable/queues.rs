//! Random queue operations of a client: put, get, update and delete.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use rowkey_emulator::{DEVELOPMENT_ACCOUNT, Server, Service, Snapshot};

use super::worker::{Random, State};
use crate::support::{Answer, Client};

/// For how long a message that was gotten is hidden: longer than the test takes.
const HIDDEN: Duration = Duration::from_secs(36_000);

/// The messages of a queue by their texts, each of which is used once.
#[derive(Clone, Debug)]
pub(super) struct Line {
    name: String,
    messages: BTreeMap<String, Message>,
    /// Texts that were used.
    used: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Message {
    dequeued: u32,
    is_hidden: bool,
    /// Its id and receipt, if they are known.
    handle: Option<(String, String)>,
}

impl Line {
    pub(super) fn new(name: String) -> Self {
        Self { name, messages: BTreeMap::new(), used: 0 }
    }

    fn new_text(&mut self) -> (String, String) {
        self.used += 1;
        let text = format!("m{:06}", self.used);
        let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
        (text, body)
    }

    fn put(&mut self, client: &mut Client, possible: &mut Vec<Self>) -> io::Result<()> {
        let (text, body) = self.new_text();
        let mut sent = self.clone();
        sent.messages.insert(text.clone(), Message::default());
        possible.push(sent);
        let answer = send(client, "POST", &format!("/{}/messages", self.name), &body)?;
        assert_eq!(answer.status, 201, "{answer:?}");
        let message = Message { handle: handle(&answer), ..Message::default() };
        self.messages.insert(text, message);
        Ok(())
    }

    fn get(&mut self, client: &mut Client, possible: &mut Vec<Self>) -> io::Result<()> {
        for text in self.messages.keys() {
            let mut sent = self.clone();
            sent.take(text, None);
            possible.push(sent);
        }
        let target = format!("/{}/messages?visibilitytimeout={}", self.name, HIDDEN.as_secs());
        let answer = send(client, "GET", &target, "")?;
        assert_eq!(answer.status, 200, "{answer:?}");
        if let Some(text) = element(&answer, "MessageText") {
            assert!(!self.messages[text].is_hidden, "{text} is hidden");
            self.take(text, handle(&answer));
        } else {
            assert!(self.messages.values().all(|message| message.is_hidden), "{self:?}");
        }
        Ok(())
    }

    fn take(&mut self, text: &str, handle: Option<(String, String)>) {
        let message = self.messages.get_mut(text).unwrap();
        *message = Message { dequeued: message.dequeued + 1, is_hidden: true, handle };
    }

    /// Updates a message, which is visible again then, or deletes it.
    fn settle(
        &mut self,
        text: &str,
        is_update: bool,
        client: &mut Client,
        possible: &mut Vec<Self>,
    ) -> io::Result<()> {
        let (new_text, body) = self.new_text();
        let (id, receipt) = self.messages[text].handle.clone().unwrap();
        let receipt = receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        let mut sent = self.clone();
        let mut message = sent.messages.remove(text).unwrap();
        let target = format!("/{}/messages/{id}?popreceipt={receipt}", self.name);
        if !is_update {
            possible.push(sent.clone());
            let answer = send(client, "DELETE", &target, "")?;
            assert_eq!(answer.status, 204, "{answer:?}");
            *self = sent;
            return Ok(());
        }
        (message.is_hidden, message.handle) = (false, None);
        sent.messages.insert(new_text.clone(), message);
        possible.push(sent.clone());
        let answer = send(client, "PUT", &format!("{target}&visibilitytimeout=0"), &body)?;
        assert_eq!(answer.status, 204, "{answer:?}");
        let receipt = answer.header("x-ms-popreceipt").unwrap().to_owned();
        sent.messages.get_mut(&new_text).unwrap().handle = Some((id, receipt));
        *self = sent;
        Ok(())
    }
}

impl State for Line {
    const SERVICE: Service = Service::Queue;

    fn prepare(&self, client: &mut Client) -> io::Result<()> {
        let answer = send(client, "PUT", &format!("/{}", self.name), "")?;
        assert!([201, 204].contains(&answer.status), "{answer:?}");
        Ok(())
    }

    fn step(
        &mut self,
        random: &mut Random,
        client: &mut Client,
        possible: &mut Vec<Self>,
    ) -> io::Result<()> {
        let mine: Vec<_> = self
            .messages
            .iter()
            .filter(|(_, message)| message.handle.is_some())
            .map(|(text, _)| text.clone())
            .collect();
        let picked = random.below(u32::try_from(mine.len().max(1)).unwrap());
        match (random.below(5), mine.get(picked as usize)) {
            (0 | 1, _) | (3 | 4, None) => self.put(client, possible),
            (3, Some(text)) => self.settle(text, true, client, possible),
            (4, Some(text)) => self.settle(text, false, client, possible),
            _ => self.get(client, possible),
        }
    }

    fn observe(&self, server: &Server, snapshot: &Snapshot) -> Self {
        let now = server.clock().now().ticks();
        let mut messages = BTreeMap::new();
        let queue = snapshot.queue(&self.name);
        for message in queue.iter().flat_map(|queue| queue.messages()) {
            let is_hidden = message.visible_at().ticks() > now;
            let mut seen = Message { dequeued: message.dequeue_count(), is_hidden, handle: None };
            if let Some(known) = self.messages.get(message.text())
                && (known.dequeued, known.is_hidden) == (seen.dequeued, seen.is_hidden)
            {
                seen.handle.clone_from(&known.handle);
            }
            messages.insert(message.text().to_owned(), seen);
        }
        Self { messages, ..self.clone() }
    }

    fn allows(&self, observed: &Self) -> bool {
        let seen = |line: &Self| -> Vec<_> {
            let seen = line.messages.iter();
            seen.map(|(text, one)| (text.clone(), one.dequeued, one.is_hidden)).collect()
        };
        seen(self) == seen(observed)
    }
}

fn send(client: &mut Client, method: &str, target: &str, body: &str) -> io::Result<Answer> {
    let headers = [("content-type", "application/xml"), ("accept", "application/xml")];
    client.try_send_at(DEVELOPMENT_ACCOUNT, method, target, &headers, body)
}

fn element<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let (_, rest) = answer.body.split_once(&format!("<{name}>"))?;
    rest.split_once('<').map(|(text, _)| text)
}

/// The id and the receipt in an answer.
fn handle(answer: &Answer) -> Option<(String, String)> {
    let element = |name| element(answer, name).map(str::to_owned);
    Some((element("MessageId")?, element("PopReceipt")?))
}
