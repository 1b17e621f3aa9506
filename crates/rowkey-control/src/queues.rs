//! The messages of a queue, hidden ones too. The Queue service itself shows only those that are visible.

use axum::Json;
use axum::extract::State;
use rowkey_wire::edm::DateTime;
use serde::Serialize;
use utoipa::ToSchema;

use crate::body::Named;
use crate::problem::Problem;
use crate::shared::Shared;

/// The messages of a queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Messages {
    /// In the order in which they become visible.
    messages: Vec<Message>,
}

/// A message of a queue.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    id: String,
    /// The text as it was sent.
    text: String,
    #[schema(value_type = String, format = DateTime)]
    inserted_at: DateTime,
    /// When it was or will be visible.
    #[schema(value_type = String, format = DateTime)]
    visible_at: DateTime,
    #[schema(value_type = String, format = DateTime)]
    expires_at: DateTime,
    /// How often it was gotten.
    dequeue_count: u32,
    state: Visibility,
}

/// Whether a message can be gotten now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum Visibility {
    Visible,
    Hidden,
}

/// The messages of a queue that have not expired.
#[utoipa::path(
    get, path = "/v1/queues/{account}/{queue}", tag = "data",
    params(("account" = String, Path), ("queue" = String, Path)),
    responses((status = 200, body = Messages))
)]
pub(crate) async fn messages(
    State(plane): State<Shared>,
    Named((account, queue)): Named<(String, String)>,
) -> Result<Json<Messages>, Problem> {
    let snapshot = plane.server.snapshot();
    let Some(snapshot) = snapshot.account(&account) else {
        return Err(Problem::missing(&format!("account {account}"), "GET /v1/server"));
    };
    let Some(stored) = snapshot.queue(&queue) else {
        let list = format!("GET /v1/data/queue/{account}/?comp=list");
        return Err(Problem::missing(&format!("queue {queue}"), &list));
    };
    let now = plane.server.clock().now();
    let messages = stored.messages().filter(|message| message.expires_at() > now);
    let messages = messages.map(|message| Message {
        id: message.id().to_string(),
        text: message.text().to_owned(),
        inserted_at: message.inserted_at(),
        visible_at: message.visible_at(),
        expires_at: message.expires_at(),
        dequeue_count: message.dequeue_count(),
        state: if message.visible_at() > now { Visibility::Hidden } else { Visibility::Visible },
    });
    Ok(Json(Messages { messages: messages.collect() }))
}
