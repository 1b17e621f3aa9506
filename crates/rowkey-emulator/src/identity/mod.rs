//! Who may have tokens, and what they permit: applications, users and managed identities with the
//! roles of Azure.
//!
//! - [`scope`]: [`Scope`], what a role assignment is for
//! - [`role`]: [`Role`], and the actions of each role
//! - [`principal`]: [`Identity`] and [`RoleAssignment`]
//! - [`directory`]: the identities of a server
//! - [`jwt`]: [`TokenKey`], which signs tokens and verifies them
//! - [`issuer`]: [`Issuer`], which makes the tokens of identities

pub(crate) mod directory;
pub(crate) mod issuer;
pub(crate) mod jwt;
pub(crate) mod principal;
pub(crate) mod role;
pub(crate) mod scope;

pub(crate) use issuer::{Grant, Issuer};
pub(crate) use jwt::TokenKey;
pub use principal::{
    DEVELOPMENT_CLIENT_ID, DEVELOPMENT_CLIENT_SECRET, DEVELOPMENT_MANAGED_IDENTITY,
    DEVELOPMENT_TENANT_ID, Identity, IdentityKind, RoleAssignment,
};
pub use role::Role;
pub use scope::Scope;
