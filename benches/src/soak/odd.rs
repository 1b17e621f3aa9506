//! Clients that behave as no client should: they take their time, close one half of a connection,
//! leave in the middle of an answer, or come all at once.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::figures::Tally;
use super::requests::{Requests, STILL};
use crate::load::{Connection, find};
use crate::process::Service;

/// Clients that read a page of a mebibyte a few bytes at a time.
const SLOW_READERS: usize = 24;
/// Clients that write an entity a byte at a time.
const SLOW_WRITERS: usize = 16;
/// Clients that never send the rest of a request.
const STOPPED: usize = 16;
/// Clients that come at once, each second.
const STORM: usize = 200;

/// The misbehaving clients.
#[derive(Clone)]
pub(crate) struct Odd {
    pub(crate) requests: Requests,
    pub(crate) tally: Tally,
    pub(crate) page: Rc<Vec<u8>>,
    pub(crate) is_over: Rc<Cell<bool>>,
}

impl Odd {
    /// Sends them all.
    pub(crate) fn start(&self) {
        for number in 0..SLOW_READERS {
            self.repeat("a slow reader", async move |odd, _| odd.read_slowly(number).await);
        }
        for number in 0..SLOW_WRITERS {
            let partition = format!("slow{number}");
            self.repeat("a slow writer", async move |odd, round| {
                odd.write_slowly(&partition, &round.to_string()).await
            });
        }
        for number in 0..STOPPED {
            self.repeat("a writer that stops", async move |odd, _| odd.stop(number).await);
        }
        self.repeat("a half-closed connection", async |odd, round| odd.half_close(round).await);
        self.repeat("a reader that leaves", async |odd, _| odd.leave().await);
        self.repeat("a storm", async |odd, _| odd.storm().await);
    }

    fn repeat<F>(&self, what: &'static str, act: F)
    where
        F: AsyncFn(&Self, usize) -> io::Result<()> + 'static,
    {
        let odd = self.clone();
        spawn_local(async move {
            for round in 0.. {
                if odd.is_over.get() {
                    break;
                }
                match act(&odd, round).await {
                    Ok(()) => odd.tally.odd(),
                    // The last, incomplete response is ignored.
                    Err(_) if odd.is_over.get() => {}
                    Err(error) => odd.tally.error(what, &error),
                }
            }
        });
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        TcpStream::connect(self.requests.host(Service::Table)).await
    }

    /// With a receive buffer that holds as little as the system allows.
    async fn read_slowly(&self, number: usize) -> io::Result<()> {
        let address: SocketAddr =
            self.requests.host(Service::Table).parse().map_err(io::Error::other)?;
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4 << 10)?;
        let mut stream = socket.connect(address).await?;
        stream.write_all(&self.requests.page()).await?;
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        while answer.len() < self.page.len() {
            if self.is_over.get() {
                return Ok(());
            }
            match stream.read(&mut piece[..512 + 128 * number]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => answer.extend_from_slice(&piece[..read]),
            }
            sleep(Duration::from_millis(10)).await;
        }
        // A head is shorter than a piece, so the last one may be missing.
        let body = find(&answer, b"\r\n\r\n").map_or(0, |at| at + 4);
        check(self.page.starts_with(&answer[body..]), "a slow reader reads something else")
    }

    async fn write_slowly(&self, partition: &str, row: &str) -> io::Result<()> {
        let mut stream = self.connect().await?;
        stream.set_nodelay(true)?;
        for byte in self.requests.insert(partition, row) {
            if self.is_over.get() {
                return Ok(());
            }
            stream.write_all(&[byte]).await?;
            sleep(Duration::from_millis(5)).await;
        }
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await?;
        check(&answer == b"HTTP/1.1 204", "a slow insert is refused")?;
        self.ask(&self.requests.delete(partition, row)).await
    }

    /// Sends a part of a request and waits for a minute, or until the end of the test.
    async fn stop(&self, number: usize) -> io::Result<()> {
        let mut stream = self.connect().await?;
        let request = self.requests.insert("never", &number.to_string());
        stream.write_all(&request[..request.len() * number / STOPPED]).await?;
        for _ in 0..600 {
            if self.is_over.get() {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Sends a request, closes its half, and reads everything that comes.
    async fn half_close(&self, round: usize) -> io::Result<()> {
        sleep(Duration::from_millis(20)).await;
        let requests = &self.requests;
        let get = requests.get(STILL, "p", "0000007");
        let (request, end): (_, &[u8]) = match round % 3 {
            0 => (get, b"}"),
            1 => (requests.scan(), b"}]}"),
            _ => (requests.page(), &self.page),
        };
        let mut stream = self.connect().await?;
        stream.write_all(&request).await?;
        stream.shutdown().await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let is_right = answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(end);
        check(is_right, "a client that has closed its half is not answered")
    }

    /// Reads the beginning of an answer.
    async fn leave(&self) -> io::Result<()> {
        sleep(Duration::from_millis(20)).await;
        let mut stream = self.connect().await?;
        stream.write_all(&self.requests.page()).await?;
        stream.read_exact(&mut [0; 100]).await?;
        Ok(())
    }

    async fn storm(&self) -> io::Result<()> {
        sleep(Duration::from_secs(1)).await;
        let get = self.requests.get(STILL, "p", "0000007");
        try_join_all((0..STORM).map(|_| self.ask(&get))).await?;
        Ok(())
    }

    /// Over a connection of its own.
    async fn ask(&self, request: &[u8]) -> io::Result<()> {
        let mut connection = Connection::open(self.requests.host(Service::Table)).await?;
        connection.exchange(request, None).await?;
        Ok(())
    }
}

fn check(is_right: bool, what: &str) -> io::Result<()> {
    if is_right { Ok(()) } else { Err(io::Error::other(what)) }
}
