//! What a program may do that uses reqwest and rustls for things of its own, and rowkey besides: the
//! same as without rowkey. Features of a crate are united over a program, so what rowkey asks of
//! reqwest, everybody gets.

#[cfg(test)]
mod tests {
    use rowkey::{Credential, StorageAccount};
    use rustls::crypto::CryptoProvider;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// One test, because the provider is installed for the whole process.
    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a program may spawn")]
    async fn a_program_with_its_own_reqwest_and_rustls_is_unaffected() {
        // `Client::new()` panics where reqwest has rustls without a provider.
        let theirs = reqwest::Client::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await.unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let answer = theirs.get(format!("http://{address}/")).send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), "hi");
        assert!(server.await.unwrap().starts_with("GET / HTTP/1.1"));

        // An account with TLS installs nothing for others.
        let credential = Credential::shared_key("contoso", "YmFy").unwrap();
        StorageAccount::builder().credential(credential).build().unwrap();
        assert!(CryptoProvider::get_default().is_none());

        // rustls chooses its provider by its features, and panics where it has two.
        let config = rustls::ClientConfig::builder();
        let config = config.with_root_certificates(rustls::RootCertStore::empty());
        assert!(!config.with_no_client_auth().alpn_protocols.contains(&b"h2".to_vec()));
    }
}
