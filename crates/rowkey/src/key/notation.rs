//! Notations of key parts: which types have them, how their texts sort, and what may follow them.
//!
//! All of it is known at compile time: a derive asks a [`PartKind`] about each part of a template.

/// What kind of value a key part is. It decides which notations a template may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartKind {
    /// Written by a single [`KeyWriter::text`](super::KeyWriter::text), which escapes the separator itself.
    Text,
    /// As `u64` writes and reads.
    Unsigned,
    /// As `i64` writes and reads.
    Signed,
    /// As `bool` writes and reads.
    Bool,
    /// An instant, as `chrono::DateTime<Utc>` writes and reads.
    Instant,
    /// A day, as `chrono::NaiveDate` writes and reads.
    Date,
    /// As `Guid` writes and reads.
    Guid,
    /// Text of the type's own, which is escaped as a whole if it contains the separator. A template may
    /// not ask for a notation.
    Other {
        /// Whether no value's text is the beginning of another's, and sorts as the value. Then a range
        /// of keys is a range of values, also if parts follow, and the service reads no other rows.
        /// Otherwise it reads a few more, which are passed over.
        prefix_free: bool,
    },
    /// The type does not compile; what a template asks of it is not the mistake.
    #[doc(hidden)]
    Failed,
}

/// How a template asks for a part to be written.
///
/// Text order is value order in all of them but [`Unpadded`](Self::Unpadded) and `Unix` that is unpadded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notation {
    /// `{id}`: what the type writes so that text order is value order.
    #[default]
    Standard,
    /// `{id:6}`: a number of this many digits. Of an instant, `{at:18}`, .NET's ticks of the years 1 to
    /// 3169, which have 18 digits from 317 on.
    Digits(u8),
    /// `{id:unpadded}`: a number with no zeros in front. `10` sorts before `9`.
    Unpadded,
    /// `{id:x8}`, `{id:X8}`: an unsigned number of this many hexadecimal digits.
    Hex {
        /// 1 to 16.
        digits: u8,
        /// Whether `A` to `F` are in upper case.
        upper: bool,
    },
    /// `{email:lower}`: text in lower case, so that it is found in any case. It cannot be read
    /// back as it was.
    Lower,
    /// `{at:iso3}`: `2026-11-23T04:45:06.123Z`. What is finer is cut off.
    Iso {
        /// Digits of the fraction of a second, 0 to 9.
        fraction: u8,
        /// `{at:iso3,naive}`: without the `Z`.
        naive: bool,
    },
    /// `{at:unix}`, `{at:unix_ms}`: time since 1970. What is finer is cut off.
    Unix {
        /// Milliseconds of 13 digits instead of seconds of 10, which both end in November 2286.
        millis: bool,
        /// `{at:unix,unpadded}`: as many digits as there are, and `-` before 1970. Texts of different
        /// lengths do not sort as dates.
        unpadded: bool,
    },
    /// `{day:date}`: `2026-11-23`. Of an instant, its day in UTC.
    Date,
    /// `{day:yyyyMMdd}`: `20261123`. Of an instant, its day in UTC.
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
    /// As the values, with anything after them: none is the beginning of another.
    Fixed,
    /// As the values if nothing follows.
    Text,
    /// Not as the values, which are integers without zeros in front.
    Integer,
}

impl PartKind {
    /// Whether a template may ask for this notation.
    #[doc(hidden)]
    pub const fn takes(self, notation: Notation) -> bool {
        if matches!(self, Self::Failed) {
            return true;
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

    /// Whether a template may ask for this notation, largest first.
    #[doc(hidden)]
    pub const fn descends(self, notation: Notation) -> bool {
        matches!(
            (self, notation),
            (Self::Failed, _)
                | (Self::Unsigned | Self::Signed, Notation::Standard | Notation::Digits(_))
                | (Self::Bool | Self::Instant, Notation::Standard)
        )
    }

    /// Whether `symbol` behind such a part ends it: the text never has it, or escapes it.
    #[doc(hidden)]
    pub const fn ends_at(self, notation: Notation, symbol: char) -> bool {
        match self {
            Self::Failed => true,
            // Not those that are escapes, begin one, or follow a character that keys must not contain.
            Self::Text | Self::Other { .. } => {
                matches!(symbol, '_' | ':' | '|' | ',' | ';' | '-' | '=' | '+' | '!')
            }
            _ => self.never_has(notation, symbol),
        }
    }

    /// Whether no text of such a part has `symbol`.
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
