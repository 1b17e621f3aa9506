//! Questions before changes that cannot be undone: asked on a terminal, answered by `--yes` elsewhere.

use std::io::{self, IsTerminal as _, Write as _};

use clap::Args;

use crate::error::{Error, Exit, Result};

/// The flag that answers the question.
#[derive(Args)]
pub(crate) struct Confirm {
    /// Do not ask. Required where there is no terminal.
    #[arg(long, short)]
    yes: bool,
}

impl Confirm {
    /// Whether the answer is not given by a flag.
    pub(crate) const fn asks(&self) -> bool {
        !self.yes
    }

    /// Whether there is a question, and a terminal to ask on.
    pub(crate) fn is_asked(&self) -> bool {
        self.asks() && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks whether to do `what`, such as `drop table orders`. `instead` is a flag that makes the question unnecessary.
    pub(crate) fn ask(&self, what: &str, instead: Option<&str>) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if !self.is_asked() {
            let or = instead.map(|flag| format!(", or {flag}")).unwrap_or_default();
            return Err(Error::usage(format!(
                "refused to {what}: there is no terminal to ask on; add --yes{or}"
            )));
        }
        // In one piece, so that nothing else appears inside.
        let question = format!("{what}? This cannot be undone. Type `yes` to go on: ");
        io::stderr().write_all(question.as_bytes())?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if answer.trim().eq_ignore_ascii_case("yes") {
            return Ok(());
        }
        Err(Error::new(Exit::Failed, format!("did not {what}: the answer was not `yes`")))
    }
}
