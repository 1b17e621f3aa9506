//! Tests of a service that stores its data in tables: with stubs that return prepared responses, and with the
//! embedded server, which really stores data.

#![expect(clippy::print_stdout, reason = "the example says what it did")]

use rowkey::{Credential, Entity, ErrorCode, Result, StorageAccount, Table, answers};
use rowkey_emulator::Server;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{customer}", row = "order_{number:8}")]
struct Order {
    customer: String,
    number: u32,
    total: f64,
    paid: bool,
}

/// The service under test: it marks orders as paid, once.
struct Orders {
    table: Table,
}

#[derive(Debug, PartialEq)]
enum Payment {
    AlreadyPaid,
    Accepted,
    NoSuchOrder,
}

impl Orders {
    async fn pay(&self, customer: &str, number: u32) -> Result<Payment> {
        loop {
            let Some(order) = self.table.get(Order::key(customer, number)).await? else {
                return Ok(Payment::NoSuchOrder);
            };
            if order.entity.paid {
                return Ok(Payment::AlreadyPaid);
            }
            match self.table.replace(&order.map(|order| order.paid = true)).await {
                Ok(_) => return Ok(Payment::Accepted),
                // Another client changed the order: look again.
                Err(error) if error.kind() == rowkey::ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
    }
}

type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> TestResult {
    a_conflict_is_looked_at_again().await?;
    an_outage_is_reported().await?;
    an_order_is_paid_once().await?;
    println!("stubs: a conflict, an outage; embedded server: paid once");
    Ok(())
}

fn order(paid: bool) -> Order {
    Order { customer: "ada".into(), number: 7, total: 12.5, paid }
}

fn orders(endpoint: &str) -> Result<Orders> {
    let account = StorageAccount::builder()
        .endpoint(rowkey::service::Service::Table, endpoint)?
        .credential(Credential::anonymous())
        .build()?;
    Ok(Orders { table: account.table("orders") })
}

/// With stubs, for responses that are hard to provoke. Each response is one call.
async fn a_conflict_is_looked_at_again() -> TestResult {
    let stub = MockServer::start().await;
    let address = "/orders(PartitionKey='ada',RowKey='order_00000007')";
    let read = || Mock::given(method("GET")).and(path(address));
    // The first read shows an open order, the second one that another client has paid it.
    read().respond_with(answers::entity(&order(false))?).up_to_n_times(1).mount(&stub).await;
    read().respond_with(answers::entity(&order(true))?).mount(&stub).await;
    Mock::given(method("PUT"))
        .and(header("If-Match", "W/\"datetime'2026-01-02T03%3A04%3A05.6789Z'\""))
        .respond_with(answers::error(ErrorCode::UPDATE_CONDITION_NOT_SATISFIED))
        .expect(1)
        .mount(&stub)
        .await;

    assert_eq!(orders(&stub.uri())?.pay("ada", 7).await?, Payment::AlreadyPaid);
    Ok(())
}

async fn an_outage_is_reported() -> TestResult {
    let stub = MockServer::start().await;
    let error = answers::error(ErrorCode::AUTHORIZATION_FAILURE);
    Mock::given(method("GET")).respond_with(error).mount(&stub).await;
    let paid = orders(&stub.uri())?.pay("ada", 7).await;
    let code = paid.as_ref().err().and_then(rowkey::Error::code);
    assert_eq!(code, Some(&ErrorCode::AUTHORIZATION_FAILURE));
    Ok(())
}

/// With the embedded server: everything else. It stores, it checks conditions, it speaks the protocol.
async fn an_order_is_paid_once() -> TestResult {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let orders = Orders { table: account.table("orders") };
    orders.table.create().await?;
    orders.table.insert(&order(false)).await?;

    assert_eq!(orders.pay("ada", 7).await?, Payment::Accepted);
    assert_eq!(orders.pay("ada", 7).await?, Payment::AlreadyPaid);
    assert_eq!(orders.pay("ada", 8).await?, Payment::NoSuchOrder);
    let stored = orders.table.get(Order::key("ada", 7)).await?;
    assert!(stored.is_some_and(|stored| stored.entity.paid));
    Ok(())
}
