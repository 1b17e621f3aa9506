//! What the requests of a successful call used, and how to find them in the logs of the service.

use std::fmt;
use std::time::Duration;

/// What a successful call used: its requests' ids, attempts, time and bytes.
///
/// [`Stored::receipt`](crate::Stored::receipt), pages and the results of stores have one. It is not a part of
/// the entity: it changes neither equality nor JSON. `rowkey::telemetry::with_receipt` returns that of any
/// other call, and of several calls together. Failed calls have the same in `ErrorDetails`.
///
/// If a call sent several requests, their numbers are added up, and the ids are those of the last one.
///
/// A value that was not read from the service, or that an older program stored, has the default, which is
/// empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Receipt {
    request_id: RequestId,
    /// All zeros for none.
    client_request_id: [u8; 16],
    attempts: u32,
    nanos: u64,
    sent: u64,
    received: u64,
}

/// The service's id of a request. Azure's are GUIDs, which need no allocation.
#[derive(Clone, Default, PartialEq, Eq)]
enum RequestId {
    #[default]
    None,
    Guid([u8; 16]),
    /// Of another server; at most [`MAX_ID`] bytes.
    Text(Box<str>),
}

/// The longest id that is kept.
const MAX_ID: usize = 128;

impl Receipt {
    /// The service's id of the last request, which Microsoft support asks for.
    ///
    /// ```
    /// # use rowkey::{DynamicEntity, Receipt, StorageAccount};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = rowkey_emulator::Server::start().await?;
    /// # let account = StorageAccount::from_connection_string(server.connection_string())?;
    /// let orders = account.table("orders");
    /// orders.create().await?;
    /// let order = DynamicEntity::new("contoso", "1");
    /// orders.insert(&order).await?;
    ///
    /// let stored = orders.get(order.key()).await?.ok_or("not there")?;
    /// assert!(stored.receipt.request_id().is_some());
    /// assert!(stored.receipt.client_request_id().is_some());
    /// assert_eq!(stored.receipt.attempts(), 1);
    /// assert_eq!(stored.receipt.bytes_sent(), 0);
    /// assert!(stored.receipt.bytes_received() > 0);
    /// # Ok(()) }
    /// ```
    pub fn request_id(&self) -> Option<String> {
        match &self.request_id {
            RequestId::None => None,
            RequestId::Guid(guid) => Some(hyphenated(guid)),
            RequestId::Text(text) => Some(text.to_string()),
        }
    }

    /// The client's id of the last attempt, `x-ms-client-request-id`, which is in the service's logs.
    pub fn client_request_id(&self) -> Option<String> {
        (self.client_request_id != [0; 16]).then(|| hyphenated(&self.client_request_id))
    }

    /// How many HTTP requests were sent, repetitions included. An attempt that could not connect is none.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The time from the beginning of the call to its end, waits between attempts included.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// The bytes in the bodies of the requests, without heads. Repetitions count again.
    pub fn bytes_sent(&self) -> u64 {
        self.sent
    }

    /// The bytes in the bodies of the responses, without heads.
    pub fn bytes_received(&self) -> u64 {
        self.received
    }
}

/// What those who send requests call.
#[doc(hidden)]
impl Receipt {
    /// Counts attempts that were sent with bodies of `sent` bytes in total.
    pub fn sent(&mut self, attempts: u32, sent: u64) {
        self.attempts = self.attempts.saturating_add(attempts);
        self.sent = self.sent.saturating_add(sent);
    }

    /// Counts a response: the ids of its request, and the bytes of its body.
    pub fn answered(&mut self, id: Option<&str>, client_id: Option<&str>, received: u64) {
        self.received = self.received.saturating_add(received);
        if let Some(id) = id.and_then(RequestId::of) {
            self.request_id = id;
        }
        if let Some(guid) = client_id.and_then(guid) {
            self.client_request_id = guid;
        }
    }

    /// Adds the time that passed.
    pub fn took(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanos = self.nanos.saturating_add(nanos);
    }

    /// Adds those of a later call.
    pub fn add(&mut self, later: &Self) {
        self.sent(later.attempts, later.sent);
        self.received = self.received.saturating_add(later.received);
        self.nanos = self.nanos.saturating_add(later.nanos);
        if later.request_id != RequestId::None {
            self.request_id = later.request_id.clone();
        }
        if later.client_request_id != [0; 16] {
            self.client_request_id = later.client_request_id;
        }
    }
}

impl RequestId {
    fn of(text: &str) -> Option<Self> {
        match guid(text) {
            Some(guid) => Some(Self::Guid(guid)),
            None => (1..=MAX_ID).contains(&text.len()).then(|| Self::Text(text.into())),
        }
    }
}

/// The length of a GUID with hyphens.
const HYPHENATED: usize = 36;

/// Where the hyphens of a GUID are.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Reads a GUID with hyphens and lower-case digits, which [`hyphenated`] writes in the same way.
fn guid(text: &str) -> Option<[u8; 16]> {
    let text: &[u8; HYPHENATED] = text.as_bytes().try_into().ok()?;
    let mut guid = [0; 16];
    let mut at = 0;
    for byte in &mut guid {
        if HYPHENS.contains(&at) {
            if text[at] != b'-' {
                return None;
            }
            at += 1;
        }
        *byte = digit(text[at])? << 4 | digit(text[at + 1])?;
        at += 2;
    }
    Some(guid)
}

fn digit(text: u8) -> Option<u8> {
    match text {
        b'0'..=b'9' => Some(text - b'0'),
        b'a'..=b'f' => Some(text - b'a' + 10),
        _ => None,
    }
}

fn hyphenated(guid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(HYPHENATED);
    for byte in guid {
        if HYPHENS.contains(&text.len()) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 0xF] {
            text.extend(char::from_digit(digit.into(), 16));
        }
    }
    text
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt")
            .field("request_id", &self.request_id())
            .field("client_request_id", &self.client_request_id())
            .field("attempts", &self.attempts)
            .field("duration", &Duration::from_nanos(self.nanos))
            .field("bytes_sent", &self.sent)
            .field("bytes_received", &self.received)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "8a1b6e3f-0002-0011-5f5c-b1d2c3000000";

    #[test]
    fn ids_round_trip() {
        let long = "x".repeat(MAX_ID);
        for id in [ID, &ID.to_uppercase(), "1", &ID[1..], &ID.replace('-', "0"), &long] {
            let mut receipt = Receipt::default();
            receipt.answered(Some(id), Some(ID), 7);
            assert_eq!(receipt.request_id().as_deref(), Some(id));
            assert_eq!(receipt.client_request_id().as_deref(), Some(ID));
        }
        assert!(RequestId::of(&"x".repeat(MAX_ID + 1)).is_none() && RequestId::of("").is_none());
        assert_eq!((guid(ID).is_some(), guid(&ID.to_uppercase())), (true, None));
    }

    #[test]
    fn later_calls_add_up_and_the_last_id_remains() {
        let mut first = Receipt::default();
        first.sent(1, 10);
        first.answered(Some(ID), None, 5);
        first.took(Duration::from_millis(3));
        let mut second = Receipt::default();
        second.sent(2, 20);
        second.answered(Some("second"), Some(ID), 6);
        second.took(Duration::from_millis(4));
        first.add(&second);
        first.add(&Receipt::default());
        assert_eq!((first.attempts(), first.bytes_sent(), first.bytes_received()), (3, 30, 11));
        assert_eq!(first.duration(), Duration::from_millis(7));
        assert_eq!(first.request_id().as_deref(), Some("second"));
        assert_eq!(first.client_request_id().as_deref(), Some(ID));
    }

    #[test]
    fn a_receipt_is_small() {
        assert!(size_of::<Receipt>() <= 72, "every row that is read has one");
    }
}
