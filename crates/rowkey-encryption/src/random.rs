//! The source of random bytes for keys and nonces.

use std::sync::Arc;

use rowkey_client::{Error, ErrorKind, Result};

/// The operating system's random generator, or bytes chosen by a test.
#[derive(Clone, Default)]
pub(crate) struct Random(Option<Arc<Fill>>);

type Fill = dyn Fn(&mut [u8]) + Send + Sync;

impl Random {
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn chosen(fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(fill)))
    }

    /// Fills `bytes`.
    pub(crate) fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        match &self.0 {
            Some(fill) => {
                fill(bytes);
                Ok(())
            }
            None => getrandom::fill(bytes).map_err(|error| {
                let what = "the operating system provided no random bytes for keys";
                Error::refused(ErrorKind::Unavailable, what).with_source(error)
            }),
        }
    }

    /// `N` random bytes.
    pub(crate) fn bytes<const N: usize>(&self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }
}
