//! Shared Key as it is written by hand: no more than the requests of these programs need.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The account that every emulator has.
pub const ACCOUNT: &str = "devstoreaccount1";
/// Its key, which is no secret.
pub const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Signs requests for the account.
#[derive(Clone, Debug)]
pub struct Signer(Hmac<Sha256>);

impl Signer {
    pub fn new() -> Self {
        let key = BASE64_STANDARD.decode(KEY).expect("the key is base64");
        Self(Hmac::new_from_slice(&key).expect("a key of any length will do"))
    }

    /// The `Authorization` of a request for `path`, encoded and with the account's segment.
    pub fn authorization(
        &self,
        method: &str,
        content_type: &str,
        date: &str,
        path: &str,
    ) -> String {
        let text = format!("{method}\n\n{content_type}\n{date}\n/{ACCOUNT}{path}");
        format!("SharedKey {ACCOUNT}:{}", self.signature(&text))
    }

    /// The query of a shared access signature that is good for everything in tables, queues and blobs.
    pub fn account_sas(&self) -> String {
        let (version, services, kinds, permissions, expiry) =
            ("2019-02-02", "bqt", "sco", "rwdlacup", "2099-12-31T00:00:00Z");
        let text =
            format!("{ACCOUNT}\n{permissions}\n{services}\n{kinds}\n\n{expiry}\n\n\n{version}\n");
        let signature = self.signature(&text);
        let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        format!(
            "sv={version}&ss={services}&srt={kinds}&sp={permissions}&se={expiry}&sig={signature}"
        )
    }

    fn signature(&self, text: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(text.as_bytes());
        BASE64_STANDARD.encode(mac.finalize().into_bytes())
    }
}

impl Default for Signer {
    fn default() -> Self {
        Self::new()
    }
}

/// `x-ms-date`, now.
pub fn date() -> String {
    httpdate::fmt_http_date(std::time::SystemTime::now())
}
