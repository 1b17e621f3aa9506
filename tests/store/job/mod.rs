//! Jobs: pacing, resuming, and what is counted and stored when requests fail.

mod throttled;
