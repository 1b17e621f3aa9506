//! Advices without a case: those that no test can follow, with the reason.

/// Advices that no test can follow.
pub(crate) const EXCUSED: &[(&str, &str)] = &[
    ("", "none: what the error says is enough, or its text has the advice of its cause"),
    ("ahead of", "a word of another advice"),
    ("another program wrote it", "names the cause"),
    ("`{field}` is encrypted, and its keys stop encrypting it", "names the cause"),
    ("`{field}` is encrypted, which needs keys", "names the cause"),
    ("it has keys, but no field of the type is encrypted", "names the cause"),
    (
        "set both, or unset it",
        "the environment of a test is that of all; the unit tests of `environment` pass their own",
    ),
    (
        "name an HTTP proxy in it or in `ConnectionOptions::proxy`, add the hosts of the account to NO_PROXY, or \
         connect by `ConnectionOptions::without_proxy`",
        "the environment of a test is that of all; the unit tests of `proxies` pass their own",
    ),
    (
        "correct it, percent-encode what is neither a letter nor a digit in user and password, or unset it",
        "the environment of a test is that of all; the unit tests of `proxies` pass their own",
    ),
    ("fix the cause of the panic; the write is settled again later", "changes the program"),
    ("fix the declaration; its targets are settled again later", "changes the program"),
    (
        "install one when the program begins, or use the feature `rustls` of this crate",
        "another feature of the crate, which `cargo xtask features` builds",
    ),
    (
        "redirects are not followed, because requests are signed for one address; check the endpoint",
        "the endpoint is the program's",
    ),
    ("report it with the request id", "asks a person"),
    ("report it, with the endpoint and the software of the server", "asks a person"),
    ("resume it with the program that wrote it", "another program"),
    (
        "set {CONNECTION_STRING}; or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or {SAS_TOKEN}",
        "the environment of a test is that of all; the unit tests of `environment` pass their own",
    ),
    ("unset one of them", "the environment of a test is that of all"),
    ("use a newer program", "another program"),
];
