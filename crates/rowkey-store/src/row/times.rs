//! How long a request may take effect, which decides when traces of a write may go.

use std::time::Duration;

/// How long after the start of its operation a writer sends requests, by its own clock. This
/// includes the upload of blobs.
pub(crate) const SENT: Duration = Duration::from_secs(300);

/// The longest time until a request that was sent takes effect.
pub(crate) const LATEST: Duration = Duration::from_secs(600);

/// The largest difference between the clocks of two programs: the service refuses a request whose date
/// differs from its own clock by more than 15 minutes.
const SKEW: Duration = Duration::from_secs(2 * 15 * 60);

/// How long an op row or a void is kept if a late request may still meet it: the time in which the
/// writer sends requests, the time until they take effect, and the largest clock difference.
pub(crate) const KEPT: Duration = SENT.saturating_add(LATEST).saturating_add(SKEW);
