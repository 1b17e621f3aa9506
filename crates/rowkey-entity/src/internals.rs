//! What the client needs and programs do not. Not part of the stable API.

pub use crate::entity::unknown::names;
pub use crate::filter::columns;
pub use crate::key::address::Span;
pub use crate::key::between::Between;
pub use crate::key::bucket::fnv1a;
pub use crate::key::stretch::{RowKeys, Stretch};
pub use crate::key::successor::successor;
pub use crate::key::template::is_in_order;
pub use crate::odata::decode;
pub use crate::row::{Row, not_of_a_store};
