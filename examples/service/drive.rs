//! Calls each route of the service and asserts its response.

use futures_util::TryStreamExt as _;
use reqwest::header::{ALLOW, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, RETRY_AFTER};
use reqwest::{Body, Client, Response, StatusCode};
use rowkey::worker::dead_letters::Selection;
use rowkey_emulator::{ErrorCode, Fault, Operation, Server};
use serde_json::{Value, json};
use tokio::sync::oneshot::Sender;

use crate::Service;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

pub(crate) async fn all_routes(
    address: &str,
    server: &Server,
    service: &Service,
    stop: Sender<()>,
) -> Result {
    let client = Client::builder().no_proxy().build()?;
    // Concurrent runs against one account use different tenants.
    let tenant = format!("contoso{}", std::process::id());
    let at = |path: &str| format!("{address}/{tenant}/{path}");

    // A parcel, and a second one with the same number.
    let added = client.post(at("parcels")).json(&parcel(1)).send().await?;
    assert_eq!(added.status(), StatusCode::CREATED);
    let etag = added.headers()[ETAG].clone();
    let mut twin = parcel(2);
    twin["number"] = "CP-1".into();
    let taken = client.post(at("parcels")).json(&twin).send().await?;
    assert_eq!(taken.status(), StatusCode::CONFLICT);
    assert_eq!(taken.headers()[CONTENT_TYPE], "application/problem+json");
    assert_eq!(body(taken).await?["index"], "by_number");
    let found = body(client.get(at("numbers/CP-1")).send().await?).await?;
    assert_eq!((&found["id"], &found["tenant"]), (&json!(1), &json!(tenant)));
    for missing in ["numbers/CP-999", "parcels/999", "parcels/1/photo", "deliveries/kim"] {
        let missing = client.get(at(missing)).send().await?;
        assert_eq!(missing.status(), StatusCode::NOT_FOUND, "{}", missing.url());
    }

    // A hundred more.
    let lines: Vec<_> = (2..=101).map(|id| parcel(id).to_string()).collect();
    let imported = client.post(at("parcels/import")).body(lines.join("\n")).send().await?;
    let imported = body(imported).await?;
    assert_eq!((&imported["right"], &imported["failed"]), (&json!(100), &json!(0)));
    let wrong = client.post(at("parcels/import")).body("no parcel").send().await?;
    assert_eq!(wrong.status(), StatusCode::BAD_REQUEST);

    // A tenant with the name of a list of another one adds nothing to it.
    let other = format!("{address}/email_{tenant}_ada@contoso.com/parcels");
    assert_eq!(client.post(other).json(&parcel(1)).send().await?.status(), StatusCode::CREATED);

    // The three lists, page by page; each parcel is in one page.
    let lists = [("courier=kim", 51), ("state=Accepted", 101), ("email=ADA@contoso.com", 101)];
    for (list, expected) in lists {
        let (mut ids, mut next) = (Vec::new(), Value::Null);
        loop {
            let token = next.as_str().map(|token| format!("&token={token}")).unwrap_or_default();
            let page =
                body(client.get(at(&format!("parcels?{list}{token}"))).send().await?).await?;
            let parcels = page["items"].as_array().ok_or("no parcels")?;
            ids.extend(parcels.iter().map(|parcel| parcel["id"].to_string()));
            next = page["next"].clone();
            if next.is_null() {
                break;
            }
            assert_eq!(parcels.len(), 20, "a page that is not the last one is full");
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), expected, "{list}");
    }
    for invalid in ["parcels", "parcels?state=Lost", "parcels?courier=kim&token=other"] {
        let invalid = client.get(at(invalid)).send().await?;
        assert_eq!(invalid.status(), StatusCode::BAD_REQUEST);
        assert_eq!(invalid.headers()[CONTENT_TYPE], "application/problem+json");
    }

    // A method that a route does not have is a problem as well, with those that it has.
    let unknown = client.delete(at("parcels")).send().await?;
    assert_eq!(unknown.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(unknown.headers()[ALLOW].to_str()?.contains("POST"));

    // The client has this version already.
    let get = || client.get(at("parcels/1"));
    let current =
        async || -> Result<String> { Ok(get().send().await?.headers()[ETAG].to_str()?.to_owned()) };
    let stale = etag.to_str()?;
    assert_eq!(current().await?, stale);
    for (tags, status) in [
        ("TAG", StatusCode::NOT_MODIFIED),
        ("\"other\", W/TAG", StatusCode::NOT_MODIFIED),
        ("*", StatusCode::NOT_MODIFIED),
        ("\"other\"", StatusCode::OK),
    ] {
        let read = get().header(IF_NONE_MATCH, tags.replace("TAG", stale)).send().await?;
        assert_eq!((read.status(), &read.headers()[ETAG]), (status, &etag), "{tags}");
    }

    // A scan is a change that may be refused. With the insert, each is in the history, the newest first.
    for place in ["Leeds", "York"] {
        let scanned = client.post(at("parcels/1/scans")).json(place).send().await?;
        assert_eq!(body(scanned).await?["place"], place);
    }
    let missing = client.post(at("parcels/999/scans")).json("York").send().await?;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);

    // A change under a version: the version is required, then accepted once.
    let put = |state: &str| client.put(at("parcels/1/state")).json(state);
    assert_eq!(put("Moving").send().await?.status(), StatusCode::PRECONDITION_REQUIRED);
    // A weak tag never matches.
    for list in ["STALE", "STALE, \"other\"", "\"op-other\"", "W/CURRENT"] {
        let list = list.replace("STALE", stale).replace("CURRENT", &current().await?);
        let refused = put("Delivered").header(IF_MATCH, &list).send().await?;
        assert_eq!(refused.status(), StatusCode::PRECONDITION_FAILED, "{list}");
    }
    for invalid in ["", ",", "other", "\"a\" \"b\"", "*, \"a\""] {
        let refused = put("Delivered").header(IF_MATCH, invalid).send().await?;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{invalid}");
    }
    // A list matches if one of its tags does, `*` if the parcel exists.
    for (list, state) in [
        ("STALE, CURRENT", "Accepted"),
        ("\"other,\", W/STALE ,CURRENT", "Moving"),
        ("*", "Delivered"),
    ] {
        let list = list.replace("STALE", stale).replace("CURRENT", &current().await?);
        let changed = put(state).header(IF_MATCH, &list).send().await?;
        assert_eq!(changed.status(), StatusCode::NO_CONTENT, "{list}");
        assert_eq!(changed.headers()[ETAG], current().await?);
    }
    let missing = client.put(at("parcels/999/state")).json("Moving").header(IF_MATCH, "*");
    assert_eq!(missing.send().await?.status(), StatusCode::PRECONDITION_FAILED);
    let late = client.post(at("parcels/1/scans")).json("Hull").send().await?;
    assert_eq!(late.status(), StatusCode::CONFLICT);
    let scans = body(client.get(at("parcels/1/scans")).send().await?).await?;
    let scans = scans["items"].as_array().ok_or("no scans")?;
    let states: Vec<_> = scans.iter().map(|scan| scan["state"].clone()).collect();
    assert_eq!(states, ["Delivered", "Moving", "Accepted", "Moving", "Moving", "Accepted"]);
    assert_eq!((&scans[0]["place"], &scans[5]["place"]), (&json!("York"), &Value::Null));

    // The delivery is in the view. The provider was busy at the first call, so the mail was sent again,
    // with the same id.
    let delivered = body(client.get(at("deliveries/kim")).send().await?).await?;
    assert_eq!((&delivered["parcels"], &delivered["grams"]), (&json!(1), &json!(500)));
    let ids = service.provider.calls("ada@contoso.com", 2).await;
    assert_eq!(ids, [ids[0].clone(), ids[0].clone()]);

    // A mail that the provider rejects five times is a dead letter. An operator puts it back.
    let mut rejected = parcel(102);
    rejected["email"] = "rejected@contoso.com".into();
    rejected["state"] = "Delivered".into();
    client.post(at("parcels")).json(&rejected).send().await?.error_for_status()?;
    let dead = service.mails.dead_letters();
    let letter = loop {
        if let Some(letter) = dead.list(&Selection::all()).try_next().await? {
            break letter;
        }
    };
    assert_eq!(
        (letter.attempts, service.provider.calls("rejected@contoso.com", 5).await.len()),
        (5, 5)
    );
    service.provider.accept_all();
    assert_eq!(dead.redrive(&Selection::all()).await?.done, 1);
    assert_eq!(service.provider.calls("rejected@contoso.com", 6).await.len(), 6);

    // A photo, streamed in both directions and by a link, and another one that takes its place.
    let put = || client.put(at("parcels/1/photo")).header(CONTENT_TYPE, "image/png");
    for size in [300_000, 200_000] {
        let photo = vec![7_u8; size];
        let pieces: Vec<_> = photo.chunks(10_000).map(|one| Ok::<_, Never>(one.to_vec())).collect();
        let body = Body::wrap_stream(futures_util::stream::iter(pieces));
        let uploaded = put().body(body).send().await?;
        assert_eq!(uploaded.status(), StatusCode::NO_CONTENT);
        // reqwest follows the link.
        for path in ["parcels/1/photo", "parcels/1/photo/link"] {
            let read = client.get(at(path)).send().await?.error_for_status()?;
            assert_eq!(read.headers()[CONTENT_TYPE], "image/png");
            assert_eq!(read.bytes().await?, photo);
        }
    }

    // Nothing is uploaded for a parcel that does not exist.
    let before = server.journal();
    let missing = client.put(at("parcels/999/photo")).body("no photo").send().await?;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    let sent = |operation| server.journal().since(&before).of(operation);
    assert!(sent(Operation::PutBlob).is_empty() && sent(Operation::PutBlock).is_empty());

    // A deletion under a version.
    let read = client.get(at("parcels/100")).send().await?;
    let delete = || client.delete(at("parcels/100"));
    assert_eq!(delete().send().await?.status(), StatusCode::PRECONDITION_REQUIRED);
    let refused = delete().header(IF_MATCH, &etag).send().await?;
    assert_eq!(refused.status(), StatusCode::PRECONDITION_FAILED);
    let deleted = delete().header(IF_MATCH, &read.headers()[ETAG]).send().await?;
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);

    if std::env::var("AZURE_STORAGE_CONNECTION_STRING").is_err() {
        // The account is busy: after several attempts of the client, the service responds with a retry time.
        let busy = Fault::on(Operation::GetEntity).reject(ErrorCode::SERVER_BUSY);
        let injected = server.inject(busy);
        let busy = get().send().await?;
        assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(busy.headers().contains_key(RETRY_AFTER));
        drop(injected);

        // The table is gone: that is a fault of the service, not of the ids that its clients send.
        service.parcels.table().delete_table().await?;
        let requests = [
            get(),
            client.get(at("parcels?courier=kim")),
            client.get(at("numbers/CP-1")),
            client.get(at("parcels/1/scans")),
            client.post(at("parcels/1/scans")).json("Hull"),
            client.post(at("parcels")).json(&parcel(103)),
            client.put(at("parcels/1/state")).json("Moving").header(IF_MATCH, &etag),
        ];
        for request in requests {
            let answer = request.send().await?;
            let (url, status) = (answer.url().clone(), answer.status());
            assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{url}");
        }
    }
    drop(stop);
    Ok(())
}

type Never = std::convert::Infallible;

fn parcel(id: u32) -> Value {
    let courier = (id % 2 == 1).then_some("kim");
    let accepted = format!("2026-11-22T10:00:{:02}Z", id % 60);
    json!({ "id": id, "number": format!("CP-{id}"), "email": "ada@contoso.com",
        "accepted": accepted, "grams": 500, "courier": courier, "state": "Accepted" })
}

async fn body(answer: Response) -> Result<Value> {
    Ok(answer.json().await?)
}
