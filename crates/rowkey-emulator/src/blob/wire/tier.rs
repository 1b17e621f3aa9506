//! Access tiers of block blobs, and how an archived one comes back.
//!
//! Reference: [Set Blob Tier](https://learn.microsoft.com/rest/api/storageservices/set-blob-tier).

/// An access tier of a block blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessTier {
    /// Offline: the content must be rehydrated before it can be read.
    Archive,
    /// For content that is rarely used, and kept for 90 days or longer.
    Cold,
    /// For content that is seldom used, and kept for 30 days or longer.
    Cool,
    /// For content that is used often; the default of accounts.
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

    /// `x-ms-archive-status` of an archived blob that is on its way to this tier.
    pub(crate) const fn archive_status(self) -> &'static str {
        match self {
            Self::Archive => "",
            Self::Cold => "rehydrate-pending-to-cold",
            Self::Cool => "rehydrate-pending-to-cool",
            Self::Hot => "rehydrate-pending-to-hot",
        }
    }
}

/// How urgently an archived blob is wanted back.
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

/// What responses say of a blob's tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TierView<T> {
    /// The tier.
    pub(crate) tier: AccessTier,
    /// When the tier was set; none: it is the account's default.
    pub(crate) changed: Option<T>,
    /// Of an archived blob that is being rehydrated: to which tier, and how urgently.
    pub(crate) rehydrating: Option<(AccessTier, RehydratePriority)>,
}
