//! Notations of key parts: which types support them, how their texts sort, and what may follow
//! them.
//!
//! All of this is known at compile time: a derive queries a [`PartKind`] for each part of a
//! template.

/// The kind of value that a key part is, which decides the notations that a template may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartKind {
    /// Written by a single [`KeyWriter::text`](super::KeyWriter::text), which escapes the separator
    /// itself.
    Text,
    /// Written and read like `u64`.
    Unsigned,
    /// Written and read like `i64`.
    Signed,
    /// Written and read like `bool`.
    Bool,
    /// An instant, written and read like `chrono::DateTime<Utc>`.
    Instant,
    /// A day, written and read like `chrono::NaiveDate`.
    Date,
    /// Written and read like `Guid`.
    Guid,
    /// Text in the type's own format, which is escaped as a whole if it contains the separator. A
    /// template cannot choose a notation.
    Other {
        /// Whether no value's text is the beginning of another's, and texts sort like the values.
        /// Then a range of keys is a range of values, even if parts follow, and the service reads
        /// no other rows. Otherwise it reads a few more, which are skipped.
        prefix_free: bool,
    },
    /// The type does not compile, so errors about its template are suppressed.
    #[doc(hidden)]
    Failed,
}

/// How a template writes a part.
///
/// Text order is value order in all notations except [`Unpadded`](Self::Unpadded) and unpadded
/// `Unix`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notation {
    /// `{id}`: the default of the type, with which text order is value order.
    #[default]
    Standard,
    /// `{id:6}`: a number with this many digits. For an instant, `{at:18}`: .NET's ticks of the
    /// years 1 to 3169, which have 18 digits from the year 317 on.
    Digits(u8),
    /// `{id:unpadded}`: a number without leading zeros. `10` sorts before `9`.
    Unpadded,
    /// `{id:x8}`, `{id:X8}`: an unsigned number with this many hexadecimal digits.
    Hex {
        /// 1 to 16.
        digits: u8,
        /// Whether `A` to `F` are in upper case.
        upper: bool,
    },
    /// `{email:lower}`: text in lower case, to look it up in any case. The original text cannot be
    /// read back.
    Lower,
    /// `{at:iso3}`: `2026-11-23T04:45:06.123Z`. Finer digits are truncated.
    Iso {
        /// Digits of the fraction of a second, 0 to 9.
        fraction: u8,
        /// `{at:iso3,naive}`: without the `Z`.
        naive: bool,
    },
    /// `{at:unix}`, `{at:unix_ms}`: time since 1970. Finer digits are truncated.
    Unix {
        /// Milliseconds of 13 digits instead of seconds of 10, which both end in November 2286.
        millis: bool,
        /// `{at:unix,unpadded}`: as many digits as necessary, and `-` before 1970. Texts of
        /// different lengths do not sort as dates.
        unpadded: bool,
    },
    /// `{day:date}`: `2026-11-23`. For an instant, its day in UTC.
    Date,
    /// `{day:yyyyMMdd}`: `20261123`. For an instant, its day in UTC.
    CompactDate,
    /// `{id:D}`: a GUID of 36 characters.
    Hyphenated {
        /// `{id:D,upper}`
        upper: bool,
    },
    /// `{id:N}`: a GUID of 32 digits.
    Simple {
        /// `{id:N,upper}`
        upper: bool,
    },
    /// `{id:B}`: a GUID of 36 characters in braces.
    Braced {
        /// `{id:B,upper}`
        upper: bool,
    },
    /// `{open:true}`: `true` or `false`.
    Words {
        /// `{open:True}`: `True` or `False`.
        capitalized: bool,
    },
}

/// How the texts of a part sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sorting {
    /// Like the values, even if something follows: no text is the beginning of another.
    Fixed,
    /// Like the values if nothing follows.
    Text,
    /// Not like the values, which are integers without leading zeros.
    Integer,
}

impl PartKind {
    /// Whether a template may use this notation, in descending order if `descending`.
    #[doc(hidden)]
    pub const fn takes(self, notation: Notation, descending: bool) -> bool {
        if matches!(self, Self::Failed) {
            return true;
        }
        if descending {
            return matches!(
                (self, notation),
                (Self::Unsigned | Self::Signed, Notation::Standard | Notation::Digits(_))
                    | (Self::Bool | Self::Instant, Notation::Standard)
            );
        }
        match notation {
            Notation::Standard => true,
            Notation::Digits(18) => {
                matches!(self, Self::Unsigned | Self::Signed | Self::Instant)
            }
            Notation::Digits(_) | Notation::Unpadded => {
                matches!(self, Self::Unsigned | Self::Signed)
            }
            Notation::Hex { .. } => matches!(self, Self::Unsigned),
            Notation::Lower => matches!(self, Self::Text),
            Notation::Iso { .. } | Notation::Unix { .. } => matches!(self, Self::Instant),
            Notation::Date | Notation::CompactDate => matches!(self, Self::Instant | Self::Date),
            Notation::Hyphenated { .. } | Notation::Simple { .. } | Notation::Braced { .. } => {
                matches!(self, Self::Guid)
            }
            Notation::Words { .. } => matches!(self, Self::Bool),
        }
    }

    /// Whether `symbol` after such a part marks its end: the text never contains it, or escapes it.
    #[doc(hidden)]
    pub const fn ends_at(self, notation: Notation, symbol: char) -> bool {
        match self {
            Self::Failed => true,
            // Not symbols that are escapes, begin one, or follow a character that is forbidden in
            // keys.
            Self::Text | Self::Other { .. } => {
                matches!(symbol, '_' | ':' | '|' | ',' | ';' | '-' | '=' | '+' | '!')
            }
            _ => self.never_has(notation, symbol),
        }
    }

    /// Whether no text of such a part contains `symbol`.
    pub(super) const fn never_has(self, notation: Notation, symbol: char) -> bool {
        let digit = symbol.is_ascii_digit();
        let may_have = match self {
            Self::Text | Self::Other { .. } | Self::Failed => true,
            Self::Unsigned => match notation {
                Notation::Hex { upper, .. } => is_hex(symbol, upper),
                _ => digit,
            },
            Self::Signed => digit || symbol == '-',
            Self::Bool => match notation {
                Notation::Words { .. } => symbol.is_ascii_alphabetic(),
                _ => digit,
            },
            Self::Instant | Self::Date => match notation {
                Notation::Iso { fraction, naive } => {
                    digit
                        || matches!(symbol, '-' | ':' | 'T')
                        || (symbol == '.' && fraction > 0)
                        || (symbol == 'Z' && !naive)
                }
                Notation::Date | Notation::Unix { unpadded: true, .. } => digit || symbol == '-',
                Notation::Standard => digit || (symbol == '-' && matches!(self, Self::Date)),
                _ => digit,
            },
            Self::Guid => match notation {
                Notation::Simple { upper } => is_hex(symbol, upper),
                Notation::Braced { upper } => {
                    is_hex(symbol, upper) || matches!(symbol, '-' | '{' | '}')
                }
                Notation::Hyphenated { upper } => is_hex(symbol, upper) || symbol == '-',
                _ => is_hex(symbol, false) || symbol == '-',
            },
        };
        !may_have
    }

    /// How the texts sort.
    pub(super) const fn sorting(self, notation: Notation) -> Sorting {
        match (self, notation) {
            (Self::Text | Self::Failed | Self::Other { prefix_free: false }, _) => Sorting::Text,
            (_, Notation::Unpadded | Notation::Unix { unpadded: true, .. }) => Sorting::Integer,
            _ => Sorting::Fixed,
        }
    }
}

const fn is_hex(symbol: char, upper: bool) -> bool {
    symbol.is_ascii_digit()
        || (upper && matches!(symbol, 'A'..='F'))
        || (!upper && matches!(symbol, 'a'..='f'))
}
