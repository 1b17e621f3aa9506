//! How accounts connect: through proxies that see or do not see the requests, with certificates that are trusted or not,
//! and what is said if a connection fails.

use std::net::SocketAddr;

use rowkey::{ConnectionOptions, DynamicEntity, ErrorKind, Key, Outcome, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::{TestResult, trusting};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A proxy that serves one connection to `server`, and returns the head of the first request.
#[expect(clippy::disallowed_methods, reason = "a proxy runs beside its client")]
async fn proxy(server: SocketAddr) -> TestResult<(SocketAddr, JoinHandle<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let served = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = TcpStream::connect(server).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        if head.starts_with("CONNECT ") {
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        } else {
            server.write_all(head.as_bytes()).await.unwrap();
        }
        let _ = copy_bidirectional(&mut client, &mut server).await;
        head
    });
    Ok((address, served))
}

fn place(endpoint: &str) -> TestResult<SocketAddr> {
    let (_, rest) = endpoint.split_once("://").unwrap_or_default();
    Ok(rest.split('/').next().unwrap_or_default().parse()?)
}

fn account(server: &Server, options: ConnectionOptions) -> Result<StorageAccount, rowkey::Error> {
    let builder = StorageAccount::builder().connection_string(server.connection_string())?;
    builder.connections(options).build()
}

#[tokio::test]
async fn a_proxy_of_plain_http_gets_whole_addresses_and_its_password() -> TestResult {
    let server = Server::start().await?;
    let (address, served) = proxy(place(server.table_endpoint())?).await?;
    let options = ConnectionOptions::new().proxy(&format!("http://anna:s%40cret@{address}"))?;
    assert!(!format!("{options:?}").contains("cret"));
    let account = account(&server, options)?;
    account.table("things").create().await?;
    drop(account);
    let head = served.await?;
    let line = format!("POST {}/Tables HTTP/1.1\r\n", server.table_endpoint());
    assert!(head.starts_with(&line), "{head}");
    assert!(head.contains("\r\nproxy-authorization: Basic YW5uYTpzQGNyZXQ=\r\n"), "{head}");
    Ok(())
}

#[tokio::test]
async fn a_proxy_of_https_sees_the_host_alone() -> TestResult {
    let server = Server::builder().https().start().await?;
    let place = place(server.table_endpoint())?;
    let (address, served) = proxy(place).await?;
    let options = trusting(&server).proxy(&format!("http://anna:secret@{address}"))?;
    let account = account(&server, options)?;
    account.table("things").create().await?;
    drop(account);
    let head = served.await?;
    assert!(head.starts_with(&format!("CONNECT {place} HTTP/1.1\r\n")), "{head}");
    assert!(head.to_ascii_lowercase().contains("\r\nproxy-authorization: basic "), "{head}");
    assert!(!head.contains("SharedKey"), "{head}");
    Ok(())
}

#[tokio::test]
async fn what_was_not_sent_is_known() -> TestResult {
    let server = Server::builder().https().start().await?;
    let other = Server::builder().https().start().await?;
    // Its port is closed again.
    let closed = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let refused = trusting(&server).proxy(&format!("http://{closed}"))?;
    for options in [ConnectionOptions::new(), trusting(&other), refused] {
        let account = account(&server, options)?;
        let error = account.table("things").create().await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unavailable, Outcome::NotSent));
        assert!(error.to_string().contains("could not be reached"), "{error}");
    }
    assert!(server.journal().is_empty());
    Ok(())
}

#[tokio::test]
async fn separate_connections_are_made_alike() -> TestResult {
    let server = Server::builder().https().start().await?;
    let own = account(&server, trusting(&server))?.with_own_connections()?;
    own.table("things").create().await?;
    assert!(own.table("things").get(Key::<DynamicEntity>::new("a", "b")).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn connections_that_cannot_be_are_refused_before_they_are_made() -> TestResult {
    let server = Server::builder().https().start().await?;
    for proxy in ["", "proxy:3128", "ftp://proxy", "socks5://proxy:1080", "http://proxy/path"] {
        let error = ConnectionOptions::new().proxy(proxy).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{proxy}");
        assert!(error.to_string().contains("http://host:port"), "{error}");
    }
    for pem in
        ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
    {
        let error = account(&server, ConnectionOptions::new().trust_only(pem)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{pem}");
        assert!(error.to_string().contains("PEM"), "{error}");
    }
    Ok(())
}
