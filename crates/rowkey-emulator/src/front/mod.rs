//! What precedes the services: where a request goes, who sends it, and how its response begins.
//!
//! | module | contents |
//! |---|---|
//! | [`route`], [`hosts`] | the account that a request is for, and the host names of the server |
//! | [`head`] | checks that need only the head of a request |
//! | [`auth`] | authentication and authorization |
//! | [`cors`] | what scripts of other origins may request and read |
//! | [`operation`], [`subject`] | the REST operations, and which one a request is |
//! | [`request_body`], [`pace`] | bodies, which are read after the head has been accepted |
//! | [`keep_alive`] | how long a connection may be idle |
//! | [`respond`], [`body`] | responses, their headers and their bodies |
//! | [`documents`] | the XML documents shared by all services |

pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod cors;
pub(crate) mod documents;
pub(crate) mod head;
pub(crate) mod hosts;
pub(crate) mod keep_alive;
pub(crate) mod operation;
pub(crate) mod pace;
pub(crate) mod request_body;
pub(crate) mod respond;
pub(crate) mod route;
pub(crate) mod subject;
