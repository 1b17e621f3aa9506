//! Flags of the control plane, with the feature `control`.

use clap::Args;
use rowkey_control::Options;

/// How the program is controlled while it runs.
// Without `Debug`, because of the token.
#[derive(Args)]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
pub(crate) struct Control {
    /// The port of the control plane; 0 for a free port. Without this there is none. With it, the last 10,000 requests
    /// are kept in a journal.
    #[arg(long, value_name = "PORT")]
    control_port: Option<u16>,
    /// The host that the control plane listens on. On one that other machines reach it needs --control-token.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1", requires = "control_port")]
    control_host: String,
    /// The token that requests to the control plane must have: `Authorization: Bearer TOKEN`.
    #[arg(long, env = "ROWKEY_CONTROL_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    control_token: Option<String>,
}

impl Control {
    /// Whether there is a control plane.
    pub(crate) fn is_on(&self) -> bool {
        self.control_port.is_some()
    }

    /// How the control plane listens, if there is one.
    pub(crate) fn options(&self, allowed_hosts: Vec<String>, show_keys: bool) -> Option<Options> {
        let port = self.control_port?;
        let (host, token) = (self.control_host.clone(), self.control_token.clone());
        Some(Options { host, port, token, allowed_hosts, show_keys })
    }
}
