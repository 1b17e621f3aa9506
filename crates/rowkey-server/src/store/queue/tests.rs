//! Queues by a clock that the test moves.
