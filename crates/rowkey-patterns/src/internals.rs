//! What the store takes from jobs besides their public interface. Not part of the stable API.

pub use crate::job::pack::{Merge, pack};
pub use crate::job::rows::is_same;
pub use crate::keys::{Keys, MAX_OPERATIONS, finish, keys_of, not_of_a_store};
pub use crate::together::{all_until, try_all};
