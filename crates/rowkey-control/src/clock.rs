//! The server's clock: read, advanced, stopped, started.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use rowkey_emulator::ServerClock;
use rowkey_wire::edm::DateTime;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::body::Sent;
use crate::problem::Problem;
use crate::shared::Shared;

/// The most seconds that one request advances the clock by: a century.
const MAX_SECONDS: f64 = 100.0 * 366.0 * 86_400.0;

/// What the clock shows.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Clock {
    /// The time, in UTC.
    #[schema(value_type = String, format = DateTime)]
    now: DateTime,
    /// Whether it stands still.
    frozen: bool,
}

impl Clock {
    fn of(clock: &ServerClock) -> Json<Self> {
        Json(Self { now: clock.now(), frozen: clock.is_frozen() })
    }
}

/// How far to advance.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Advance {
    /// Seconds, with or without a fraction. A clock never goes back.
    #[schema(minimum = 0)]
    seconds: f64,
}

/// The time on the server's clock.
#[utoipa::path(get, path = "/v1/clock", tag = "clock", responses((status = 200, body = Clock)))]
pub(crate) async fn get(State(plane): State<Shared>) -> Json<Clock> {
    Clock::of(plane.server.clock())
}

/// Moves the clock forward. What depends on time follows: visibility and expiry of messages, leases, signatures,
/// delays, throttling.
#[utoipa::path(
    post, path = "/v1/clock/advance", tag = "clock", request_body = Advance,
    responses((status = 200, body = Clock))
)]
pub(crate) async fn advance(
    State(plane): State<Shared>,
    Sent(Advance { seconds }): Sent<Advance>,
) -> Result<Json<Clock>, Problem> {
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        let detail = format!("seconds is from 0 to {MAX_SECONDS}; a clock never goes back");
        return Err(Problem::invalid(detail));
    }
    let clock = plane.server.clock();
    clock.advance(Duration::from_secs_f64(seconds));
    Ok(Clock::of(clock))
}

/// Stops the clock at the time that it shows.
#[utoipa::path(post, path = "/v1/clock/freeze", tag = "clock", responses((status = 200, body = Clock)))]
pub(crate) async fn freeze(State(plane): State<Shared>) -> Json<Clock> {
    plane.server.clock().freeze();
    Clock::of(plane.server.clock())
}

/// Lets the clock go on with the machine's clock, from the time that it shows.
#[utoipa::path(post, path = "/v1/clock/follow", tag = "clock", responses((status = 200, body = Clock)))]
pub(crate) async fn follow(State(plane): State<Shared>) -> Json<Clock> {
    plane.server.clock().follow();
    Clock::of(plane.server.clock())
}
