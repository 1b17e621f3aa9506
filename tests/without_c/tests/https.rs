//! The client speaks HTTPS with cryptography that no C compiler has seen.

use rowkey::{ConnectionOptions, Entity, ErrorKind, StorageAccount};
use rowkey_emulator::Server;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "{id:6}")]
struct Employee {
    department: String,
    id: u32,
}

/// One test, because the provider is installed for the whole process.
#[tokio::test]
async fn a_provider_without_c_speaks_https() {
    let server = Server::builder().https().start().await.unwrap();
    let account = || {
        let certificate = server.certificate().unwrap_or_default();
        StorageAccount::builder()
            .connection_string(server.connection_string())
            .unwrap()
            .connections(ConnectionOptions::new().trust_only(certificate))
            .build()
    };
    // Built with the whole workspace, the client has a provider: that of other packages.
    if cfg!(feature = "alone") {
        let error = account().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("no cryptography provider of rustls"), "{error}");
    }

    rowkey_without_c::install();
    let table = account().unwrap().table("staff");
    table.create().await.unwrap();
    let employee = Employee { department: "sales".into(), id: 1 };
    table.insert(&employee).await.unwrap();
    let read = table.get(Employee::key("sales", 1)).await.unwrap().unwrap();
    assert_eq!(read.entity, employee);
}
