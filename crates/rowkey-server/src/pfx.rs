//! Reads .pfx files, by the program `openssl`.
//!
//! They are encrypted by old ciphers (.NET writes triple DES, and RC2 before), which crates would bring into every build of
//! the server: some fifty of them. Machines on which such files are made nearly always have `openssl`.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// How to go on without `openssl`.
const ADVICE: &str = "convert the file where openssl is, with `openssl pkcs12 -in cert.pfx -out cert.pem -nodes`, and give \
                      cert.pem as --cert and as --key";

/// The certificates and the key of a file, in PEM.
pub(crate) fn read(file: &Path, password: &str) -> io::Result<String> {
    std::fs::metadata(file).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot read {}: {error}", file.display()))
    })?;
    // OpenSSL 3 has old ciphers in a module of its own, and LibreSSL does not know that flag.
    let mut output = convert(file, password, &[])?;
    if !output.status.success() {
        let legacy = convert(file, password, &["-legacy"])?;
        if legacy.status.success() {
            output = legacy;
        }
    }
    let text = String::from_utf8(output.stdout).unwrap_or_default();
    if output.status.success() && text.contains("PRIVATE KEY") {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let first = errors.lines().next().unwrap_or("it has no key");
    let message = format!(
        "--cert: openssl cannot read {} with the password of --pwd: {first}; check both, or {ADVICE}",
        file.display()
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Runs `openssl`, which gets the password where no other program sees it.
fn convert(file: &Path, password: &str, flags: &[&str]) -> io::Result<Output> {
    let mut command = Command::new("openssl");
    command
        .args(["pkcs12", "-nodes", "-passin", "stdin"])
        .args(flags)
        .arg("-in")
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut run = || {
        let mut child = command.spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // One that ends before it has read the password says why.
            let _ = writeln!(input, "{password}");
        }
        child.wait_with_output()
    };
    run().map_err(|error| {
        let message = format!(
            "--pwd: .pfx files are read by the program openssl, which does not run ({error}); {ADVICE}"
        );
        io::Error::new(error.kind(), message)
    })
}
