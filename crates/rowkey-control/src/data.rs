//! Requests to the services as the owner of the server: without a signature, and unseen by faults, throttling, page cuts
//! and the journal.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{self, HeaderMap, HeaderName};
use http::{HeaderValue, StatusCode, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rowkey_emulator::Service;

use crate::problem::Problem;
use crate::shared::{Shared, spawn};

/// The path of these requests, before the service.
pub(crate) const PREFIX: &str = "/v1/data/";

/// Headers that concern the connection, or tell who sends the request.
const NOT_PASSED: [HeaderName; 9] = [
    header::AUTHORIZATION,
    header::CONNECTION,
    header::COOKIE,
    header::HOST,
    header::ORIGIN,
    header::REFERER,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Passes a request on to its service, and the response back.
pub(crate) async fn pass(State(plane): State<Shared>, request: Request) -> Response {
    match pass_on(&plane, request).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn pass_on(plane: &Shared, request: Request) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let (service, path) = split(path).ok_or_else(|| {
        Problem::missing(
            "such service: the path is /v1/data/, blob, queue or table, the account, and the rest as the REST API has it",
            "GET /v1/server",
        )
    })?;
    let endpoint = match service {
        Service::Blob => plane.server.blob_endpoint(),
        Service::Queue => plane.server.queue_endpoint(),
        Service::Table => plane.server.table_endpoint(),
    };
    let unusable = |_| Problem::invalid("the path is no path of the REST API");
    let host = endpoint.split('/').nth(2).unwrap_or_default();
    let host = HeaderValue::from_str(host).map_err(|error| Problem::invalid(error.to_string()))?;
    parts.uri = path.parse::<Uri>().map_err(unusable)?;
    pass_headers(&mut parts.headers);
    parts.headers.insert(header::HOST, host);
    parts.extensions = http::Extensions::new();

    let broken = |error: hyper::Error| {
        Problem::new(StatusCode::BAD_GATEWAY, format!("the service closed the connection: {error}"))
    };
    let (client, serving) = plane.server.connect_as_owner(service);
    spawn(serving);
    let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.map_err(broken)?;
    spawn(async move {
        // Its error is the one of the request.
        let _ = connection.await;
    });
    let response = sender.send_request(Request::from_parts(parts, body)).await.map_err(broken)?;
    let (mut parts, body) = response.into_parts();
    pass_headers(&mut parts.headers);
    // What a blob contains must not run as a page of the control plane.
    let sandbox = HeaderValue::from_static("sandbox; default-src 'none'");
    parts.headers.insert(header::CONTENT_SECURITY_POLICY, sandbox);
    Ok(Response::from_parts(parts, Body::new(body)))
}

/// The service that a path names, and the path for it.
fn split(path: &str) -> Option<(Service, &str)> {
    let rest = path.strip_prefix(PREFIX)?;
    let slash = rest.find('/')?;
    let service = match &rest[..slash] {
        "blob" => Service::Blob,
        "queue" => Service::Queue,
        "table" => Service::Table,
        _ => return None,
    };
    Some((service, &rest[slash..]))
}

fn pass_headers(headers: &mut HeaderMap) {
    for name in NOT_PASSED {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_the_service_and_the_rest_stays_as_it_is() {
        let split = |path| split(path).map(|(service, path)| (format!("{service:?}"), path));
        assert_eq!(
            split("/v1/data/table/a/t(PartitionKey='%2F',RowKey='b')?$top=1"),
            Some(("Table".to_owned(), "/a/t(PartitionKey='%2F',RowKey='b')?$top=1"))
        );
        assert_eq!(split("/v1/data/blob/a//c/"), Some(("Blob".to_owned(), "/a//c/")));
        for wrong in ["/v1/data/files/a", "/v1/data/table", "/v1/data/", "/v2/data/table/a"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}
