//! What a program does to have TLS without a C compiler, as on the page "Building".

/// Installs the cryptography for the process, once. A second call changes nothing.
pub fn install() {
    // It fails if there is one already.
    let _ = rustls_graviola::default_provider().install_default();
}
