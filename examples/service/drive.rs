//! Calls each route of the service and asserts its response.

use reqwest::header::{ETAG, IF_MATCH, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use rowkey::StorageAccount;
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use serde_json::{Value, json};

use crate::mailer::Provider;

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

pub(crate) async fn all_routes(service: &str, server: &Server, provider: &Provider) -> Result {
    let client = Client::builder().no_proxy().build()?;
    // Concurrent runs against one account use different tenants.
    let tenant = format!("contoso{}", std::process::id());
    let at = |path: &str| format!("{service}/{tenant}/{path}");

    // A user, and a second one with the same address in another case.
    let ada = json!({ "id": 7, "email": "ada@contoso.com" });
    let added = client.post(at("users")).json(&ada).send().await?;
    assert_eq!(added.status(), StatusCode::CREATED);
    let twin = json!({ "id": 8, "email": "ADA@contoso.com" });
    let taken = client.post(at("users")).json(&twin).send().await?;
    assert_eq!(taken.status(), StatusCode::CONFLICT);
    assert_eq!(body(taken).await?["index"], "by_email");
    let found = body(client.get(at("users/Ada@contoso.com")).send().await?).await?;
    assert_eq!((&found["id"], &found["tenant"]), (&json!(7), &json!(tenant)));
    let none = client.get(at("users/bob@contoso.com")).send().await?;
    assert_eq!(none.status(), StatusCode::NOT_FOUND);

    // One order, and a hundred at once.
    let placed = client.post(at("orders")).json(&order(1)).send().await?;
    assert_eq!(placed.status(), StatusCode::CREATED);
    let lines: Vec<_> = (2..=101).map(|id| order(id).to_string()).collect();
    let imported = client.post(at("orders/import")).body(lines.join("\n")).send().await?;
    assert_eq!(body(imported).await?, json!({ "stored": 100, "failed": 0 }));
    let wrong = client.post(at("orders/import")).body("no order").send().await?;
    assert_eq!(wrong.status(), StatusCode::BAD_REQUEST);

    // The three lists, page by page; each order is in one page.
    for (list, expected) in [("customer=7", 101), ("courier=kim", 51), ("state=open", 101)] {
        let (mut ids, mut next) = (Vec::new(), Value::Null);
        loop {
            let token = next.as_str().map(|token| format!("&token={token}")).unwrap_or_default();
            let page = client.get(at(&format!("orders?{list}{token}"))).send().await?;
            let page = body(page).await?;
            let orders = page["orders"].as_array().ok_or("no orders")?;
            ids.extend(orders.iter().map(|order| order["id"].to_string()));
            next = page["next"].clone();
            if next.is_null() {
                break;
            }
            assert_eq!(orders.len(), 20, "a page that is not the last one is full");
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), expected, "{list}");
    }

    // A change under a version: the version is required, then accepted once.
    let read = client.get(at("orders/1")).send().await?;
    let etag = read.headers()[ETAG].clone();
    let changed = json!({ "cents": 500, "courier": null });
    let mut order = body(read).await?;
    order
        .as_object_mut()
        .ok_or("no order")?
        .extend(changed.as_object().cloned().unwrap_or_default());
    let put = || client.put(at("orders/1")).json(&order);
    assert_eq!(put().send().await?.status(), StatusCode::PRECONDITION_REQUIRED);
    assert_eq!(put().header(IF_MATCH, &etag).send().await?.status(), StatusCode::OK);
    assert_eq!(
        put().header(IF_MATCH, &etag).send().await?.status(),
        StatusCode::PRECONDITION_FAILED
    );

    // A list matches if one of its tags does, `*` if the order exists.
    let stale = etag.to_str()?;
    let current = async || -> Result<String> {
        Ok(client.get(at("orders/1")).send().await?.headers()[ETAG].to_str()?.to_owned())
    };
    for list in ["STALE, CURRENT", "\"other,\", W/STALE ,CURRENT", "*"] {
        // Each change makes another version.
        let list = list.replace("STALE", stale).replace("CURRENT", &current().await?);
        assert_eq!(put().header(IF_MATCH, &list).send().await?.status(), StatusCode::OK, "{list}");
    }
    // A weak tag never matches.
    for list in ["STALE", "STALE, \"other\"", "\"op-other\"", "W/CURRENT"] {
        let list = list.replace("STALE", stale).replace("CURRENT", &current().await?);
        let refused = put().header(IF_MATCH, &list).send().await?;
        assert_eq!(refused.status(), StatusCode::PRECONDITION_FAILED, "{list}");
    }
    for invalid in ["", ",", "other", "\"a\" \"b\"", "*, \"a\""] {
        let refused = put().header(IF_MATCH, invalid).send().await?;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{invalid}");
    }
    let missing = client.put(at("orders/999")).json(&order).header(IF_MATCH, "*").send().await?;
    assert_eq!(missing.status(), StatusCode::PRECONDITION_FAILED);

    // One property under a version.
    let patch = || client.patch(at("orders/2")).json(&json!({ "cents": 100 }));
    assert_eq!(patch().send().await?.status(), StatusCode::PRECONDITION_REQUIRED);
    let stale_patch = patch().header(IF_MATCH, &etag).send().await?;
    assert_eq!(stale_patch.status(), StatusCode::PRECONDITION_FAILED);
    let read = client.get(at("orders/2")).send().await?;
    let patched = patch().header(IF_MATCH, &read.headers()[ETAG]).send().await?;
    assert_eq!(patched.status(), StatusCode::NO_CONTENT);
    assert_ne!(patched.headers()[ETAG], read.headers()[ETAG]);

    // A deletion under a version.
    let read = client.get(at("orders/100")).send().await?;
    let delete = || client.delete(at("orders/100"));
    assert_eq!(delete().send().await?.status(), StatusCode::PRECONDITION_REQUIRED);
    let stale_delete = delete().header(IF_MATCH, &etag).send().await?;
    assert_eq!(stale_delete.status(), StatusCode::PRECONDITION_FAILED);
    let deleted = delete().header(IF_MATCH, &read.headers()[ETAG]).send().await?;
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);

    // A change that can be refused.
    assert_eq!(client.post(at("orders/1/close")).send().await?.status(), StatusCode::OK);
    assert_eq!(client.post(at("orders/1/close")).send().await?.status(), StatusCode::CONFLICT);
    assert_eq!(client.post(at("orders/999/close")).send().await?.status(), StatusCode::NOT_FOUND);

    // The audit rows and the revenue that were written with these changes.
    let audit = body(client.get(at("orders/1/audit")).send().await?).await?;
    let audit: Vec<_> =
        audit.as_array().into_iter().flatten().map(|row| row["state"].clone()).collect();
    assert_eq!(audit, ["open", "open", "open", "open", "open", "closed"]);

    // The provider was busy at the first call, so the mail was sent again, with the same id.
    let [first, second] = provider.two_calls().await;
    assert_eq!(first, second);

    let revenue = body(client.get(at("revenue/2026-11-22")).send().await?).await?;
    assert_eq!((&revenue["orders"], &revenue["cents"]), (&json!(100), &json!(99 * 100 + 500)));

    // An attachment.
    let invoice = vec![7_u8; 300_000];
    let attached =
        client.put(at("orders/1/files/invoice.pdf")).body(invoice.clone()).send().await?;
    assert_eq!(attached.status(), StatusCode::NO_CONTENT);
    let read = client.get(at("orders/1/files/invoice.pdf")).send().await?;
    assert_eq!(read.bytes().await?, invoice);

    // The account is busy: after several attempts of the client, the service responds with a retry time.
    if std::env::var("AZURE_STORAGE_CONNECTION_STRING").is_err() {
        let busy = Fault::on(Operation::GetEntity).reject(ErrorCode::SERVER_BUSY);
        let injected = server.inject(busy);
        let busy = client.get(at("orders/1")).send().await?;
        assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(busy.headers().contains_key(RETRY_AFTER));
        drop(injected);

        // The table is gone: that is a fault of the service, not of the ids that its clients send.
        let account = StorageAccount::from_connection_string(server.connection_string())?;
        account.table("service").delete_table().await?;
        let requests = [
            client.get(at("orders/1")),
            client.get(at("orders?customer=7")),
            client.get(at("users/ada@contoso.com")),
            client.get(at("orders/1/audit")),
            client.post(at("orders/1/close")),
            client.post(at("orders")).json(&self::order(102)),
            put().header(IF_MATCH, "*"),
            put().header(IF_MATCH, &etag),
        ];
        for request in requests {
            let answer = request.send().await?;
            let (url, status) = (answer.url().clone(), answer.status());
            assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{url}");
        }
    }
    Ok(())
}

fn order(id: u32) -> Value {
    let courier = (id % 2 == 1).then_some("kim");
    let placed = format!("2026-11-22T10:00:{:02}Z", id % 60);
    json!({ "id": id, "customer": 7, "placed": placed, "cents": 100, "courier": courier,
        "state": "open" })
}

async fn body(answer: Response) -> Result<Value> {
    Ok(answer.json().await?)
}
