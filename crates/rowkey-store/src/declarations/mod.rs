//! What a type or a program declares beside the entities, one file or folder for each kind. Each is a contributor: it says
//! which rows a change needs, and sends nothing before it settles.
//!
//! | when it is written | declarations |
//! |---|---|
//! | before the commit | `blob_field` (uploads), `unique` |
//! | with the entity, in its transaction | `index`, `list`, `copies`, `history`, `wide` |
//! | after the commit | `remote`, `remote_list`, `remote_copies`, `blob_list`, `blob_ref`, `view` |
//! | what older versions of the type left | `older` |
//!
//! `kinds` is the list of those that a type declares.

pub(crate) mod blob_field;
pub(crate) mod blob_list;
pub(crate) mod blob_ref;
pub(crate) mod copies;
pub(crate) mod history;
pub(crate) mod index;
pub(crate) mod kinds;
pub(crate) mod list;
pub(crate) mod older;
pub(crate) mod remote;
pub(crate) mod remote_copies;
pub(crate) mod remote_list;
pub(crate) mod unique;
pub(crate) mod view;
pub(crate) mod wide;
