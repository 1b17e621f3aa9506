//! Rules for names of containers and blobs.
//!
//! Reference: [Naming containers and blobs](https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata).

use std::fmt;

use crate::edm::size::utf16_len;

/// The container that is left out of addresses.
pub const ROOT: &str = "$root";

/// The most characters in the name of a blob (UTF-16 units).
const MAX_BLOB: usize = 1024;
/// The most parts between slashes in the name of a blob.
const MAX_SEGMENTS: usize = 254;

/// The reason why a name is not valid for a container or a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Something other than lower-case letters, digits and single hyphens between them.
    ContainerCharacters,
    /// Not 3 to 63 characters.
    ContainerLength,
    /// Not 1 to 1,024 characters.
    BlobLength,
    /// More than 254 parts between slashes.
    BlobSegments,
}

/// Rejects a container name that the service would reject.
pub fn check_container(name: &str) -> Result<(), NameError> {
    if matches!(name, ROOT | "$logs" | "$web") {
        return Ok(());
    }
    let characters =
        name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !characters || name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        return Err(NameError::ContainerCharacters);
    }
    if !(3..=63).contains(&name.len()) {
        return Err(NameError::ContainerLength);
    }
    Ok(())
}

/// Rejects a blob name that the service would reject.
pub fn check_blob(name: &str) -> Result<(), NameError> {
    // There are never more UTF-16 units than bytes.
    if name.is_empty() || (name.len() > MAX_BLOB && utf16_len(name) > MAX_BLOB) {
        return Err(NameError::BlobLength);
    }
    if name.bytes().filter(|byte| *byte == b'/').count() >= MAX_SEGMENTS {
        return Err(NameError::BlobSegments);
    }
    Ok(())
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ContainerCharacters => {
                "the name of a container is lower-case letters, digits and single hyphens, and \
                 begins and ends with a letter or a digit"
            }
            Self::ContainerLength => "the name of a container has 3 to 63 characters",
            Self::BlobLength => "the name of a blob has 1 to 1,024 characters",
            Self::BlobSegments => "the name of a blob has at most 254 parts between slashes",
        })
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_named_in_lower_case_with_single_hyphens() {
        for name in ["abc", "a-b-c", "0ab", "$root", "$logs", "$web", &"a".repeat(63)] {
            assert_eq!(check_container(name), Ok(()), "{name}");
        }
        for name in ["aBc", "-abc", "abc-", "a--b", "a_b", "啊齄", "$other", ""] {
            assert!(check_container(name).is_err(), "{name}");
        }
        assert_eq!(check_container("ab"), Err(NameError::ContainerLength));
        assert_eq!(check_container(&"a".repeat(64)), Err(NameError::ContainerLength));
    }

    #[test]
    fn blobs_are_named_by_up_to_1024_characters_and_254_parts() {
        assert_eq!(check_blob(&"啊".repeat(1024)), Ok(()));
        assert_eq!(check_blob(&"a".repeat(1025)), Err(NameError::BlobLength));
        assert_eq!(check_blob(""), Err(NameError::BlobLength));
        assert_eq!(check_blob(&"a/".repeat(253)), Ok(()));
        assert_eq!(check_blob(&"a/".repeat(254)), Err(NameError::BlobSegments));
    }
}
