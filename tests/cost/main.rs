//! What requests cost: the sizes of entities, and what meters and explanations say beside what the server counts.

mod explained;
mod meters;
mod server;
mod sizes;
