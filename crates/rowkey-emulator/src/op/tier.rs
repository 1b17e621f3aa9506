//! Access tiers of block blobs, and rehydration of archived blobs.
//!
//! Reference: [Set Blob Tier](https://learn.microsoft.com/rest/api/storageservices/set-blob-tier).

/// An access tier of a block blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessTier {
    /// Offline: the content must be rehydrated before it can be read.
    Archive,
    /// For rarely used content that is kept for 90 days or longer.
    Cold,
    /// For seldom used content that is kept for 30 days or longer.
    Cool,
    /// For frequently used content; the default of accounts.
    Hot,
}

impl AccessTier {
    /// All tiers.
    pub(crate) const ALL: [Self; 4] = [Self::Archive, Self::Cold, Self::Cool, Self::Hot];

    /// The text in headers and listings.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Archive => "Archive",
            Self::Cold => "Cold",
            Self::Cool => "Cool",
            Self::Hot => "Hot",
        }
    }

    /// The tier with this name, in any case.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.as_str().eq_ignore_ascii_case(text))
    }

    /// `x-ms-archive-status` of an archived blob that is being rehydrated to this tier.
    pub(crate) const fn archive_status(self) -> &'static str {
        match self {
            Self::Archive => "",
            Self::Cold => "rehydrate-pending-to-cold",
            Self::Cool => "rehydrate-pending-to-cool",
            Self::Hot => "rehydrate-pending-to-hot",
        }
    }
}

/// The priority of rehydrating an archived blob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RehydratePriority {
    /// Within an hour.
    High,
    /// Within 15 hours.
    #[default]
    Standard,
}

impl RehydratePriority {
    /// The text in headers.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::High => "High",
            Self::Standard => "Standard",
        }
    }

    /// The priority with this name, in any case.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let all = [Self::High, Self::Standard];
        all.into_iter().find(|priority| priority.as_str().eq_ignore_ascii_case(text))
    }
}

/// A blob's tier in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TierView<T> {
    /// The tier.
    pub(crate) tier: AccessTier,
    /// When the tier was set; `None` for the account's default.
    pub(crate) changed: Option<T>,
    /// If an archived blob is being rehydrated: to which tier, and with which priority.
    pub(crate) rehydrating: Option<(AccessTier, RehydratePriority)>,
}
