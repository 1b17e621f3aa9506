//! Whether the names of deleted tables, queues and containers are blocked for some time.

use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

/// Added to the error for a blocked name: explains the blocking and how to disable it.
const SWITCH: &str = " (This server blocks names as Azure does: 40 s for tables, 30 s for queues and \
containers. They are free at once without the program's --strict, or with \
ServerBuilder::reuse_names(true).)";

/// When the names of deleted tables, queues and containers can be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// After some time, as in the service.
    Blocked,
    /// At once.
    Reused,
}

/// The error for creating a resource with a blocked name. It mentions the option, because other
/// emulators do not block names.
pub(crate) fn being_deleted(code: ErrorCode) -> Rejection {
    let mut rejection = Rejection::new(code);
    rejection.message.to_mut().push_str(SWITCH);
    rejection
}
