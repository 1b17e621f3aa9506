//! The outputs of a report: a list that grows with the job, and whose clones cost little.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Texts that are shared at once.
const CHUNK: usize = 256;

/// Texts in the order in which they came.
///
/// Clones share all but the last few: a program keeps a clone of the checkpoint after each page, and with a plain list that
/// would cost the more, the longer the job runs.
#[derive(Clone, Default)]
pub(super) struct Outputs {
    shared: Vec<Arc<[String]>>,
    last: Vec<String>,
}

impl Outputs {
    pub(super) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let shared = self.shared.iter().flat_map(|chunk| chunk.iter());
        shared.chain(&self.last).map(|text| &**text)
    }

    pub(super) fn push(&mut self, text: String) {
        self.last.push(text);
        if self.last.len() >= CHUNK {
            self.share();
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        if !other.shared.is_empty() {
            self.share();
            self.shared.extend(other.shared);
        }
        other.last.into_iter().for_each(|text| self.push(text));
    }

    fn share(&mut self) {
        if !self.last.is_empty() {
            self.shared.push(std::mem::take(&mut self.last).into());
        }
    }
}

impl PartialEq for Outputs {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Outputs {}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Outputs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Outputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut outputs = Self::default();
        Vec::<String>::deserialize(deserializer)?.into_iter().for_each(|text| outputs.push(text));
        Ok(outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(range: std::ops::Range<usize>) -> Outputs {
        let mut outputs = Outputs::default();
        range.for_each(|number| outputs.push(number.to_string()));
        outputs
    }

    #[test]
    fn lists_that_are_put_together_are_as_one() {
        for (one, two) in [(0, 0), (3, 5), (0, 700), (255, 1), (256, 256), (300, 700), (700, 3)] {
            let mut all = numbers(0..one);
            all.append(numbers(one..one + two));
            assert_eq!(all, numbers(0..one + two), "{one} and {two}");
            let text = serde_json::to_string(&all).unwrap();
            assert_eq!(serde_json::from_str::<Outputs>(&text).unwrap(), all);
            assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap().len(), one + two);
            assert_eq!(all.is_empty(), one + two == 0);
        }
        assert_ne!(numbers(0..300), numbers(0..299));
    }

    #[test]
    fn a_clone_shares_all_but_the_last_few() {
        let all = numbers(0..10_000);
        let clone = all.clone();
        assert!(clone.last.len() < CHUNK);
        assert_eq!(clone.shared.len(), 10_000 / CHUNK);
        assert!(all.shared.iter().zip(&clone.shared).all(|(one, other)| Arc::ptr_eq(one, other)));
    }
}
