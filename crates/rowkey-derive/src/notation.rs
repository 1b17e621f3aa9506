//! The format after the colon of a part: `{id:6,desc}`, `{at:iso3}`, `{id:N,upper}`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Path;

use crate::names::did_you_mean;

/// The maximum width, as in `{id:20}`: the digits of the largest `u64`.
const MAX_WIDTH: u8 = 20;
/// The maximum number of hexadecimal digits of a number.
const MAX_HEX: u8 = 16;
/// The maximum number of digits of a fraction of a second.
const MAX_FRACTION: u8 = 9;

/// Words that are suggested for an unknown one.
const WORDS: [&str; 18] = [
    "desc",
    "lower",
    "unpadded",
    "unordered",
    "x8",
    "X8",
    "iso",
    "iso3",
    "naive",
    "unix",
    "unix_ms",
    "date",
    "yyyyMMdd",
    "N",
    "D",
    "B",
    "upper",
    "True",
];

/// The format of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Notation {
    #[default]
    Standard,
    Digits(u8),
    Unpadded,
    Hex {
        digits: u8,
        upper: bool,
    },
    Lower,
    Iso {
        fraction: u8,
        naive: bool,
    },
    Unix {
        millis: bool,
        unpadded: bool,
    },
    Date,
    CompactDate,
    Hyphenated {
        upper: bool,
    },
    Simple {
        upper: bool,
    },
    Braced {
        upper: bool,
    },
    Words {
        capitalized: bool,
    },
}

/// All words after the colon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) notation: Notation,
    pub(crate) descending: bool,
    /// Whether the text may precede other parts although its order is not that of the values.
    pub(crate) unordered: bool,
}

impl Format {
    /// Parses the words after the colon of `{field:words}`.
    pub(crate) fn parse(field: &str, words: &str) -> Result<Self, String> {
        let fail = |what: &str| Err(format!("`{{{field}:{words}}}`: {what}"));
        let mut found = None;
        let (mut descending, mut unpadded, mut unordered) = (false, false, false);
        let (mut naive, mut upper) = (false, false);
        for word in words.split(',') {
            let flag = match word {
                "desc" => &mut descending,
                "unpadded" => &mut unpadded,
                "unordered" => &mut unordered,
                "naive" => &mut naive,
                "upper" => &mut upper,
                _ => {
                    let Some(notation) = notation(word) else {
                        return fail(&unknown(word));
                    };
                    if found.replace(notation).is_some() {
                        return fail("a part can have only one format");
                    }
                    continue;
                }
            };
            if std::mem::replace(flag, true) {
                return fail(&format!("`{word}` stands twice"));
            }
        }
        let notation = match found.unwrap_or_default() {
            Notation::Standard if unpadded => Notation::Unpadded,
            Notation::Unix { millis, .. } => Notation::Unix { millis, unpadded },
            _ if unpadded => {
                return fail("`unpadded` is only valid for numbers, `unix` and `unix_ms`");
            }
            Notation::Iso { fraction, .. } => Notation::Iso { fraction, naive },
            _ if naive => return fail("`naive` is only valid for `iso`, and omits the `Z`"),
            Notation::Standard if upper => Notation::Hyphenated { upper },
            Notation::Hyphenated { .. } => Notation::Hyphenated { upper },
            Notation::Simple { .. } => Notation::Simple { upper },
            Notation::Braced { .. } => Notation::Braced { upper },
            other => other,
        };
        let is_guid = matches!(
            notation,
            Notation::Hyphenated { .. } | Notation::Simple { .. } | Notation::Braced { .. }
        );
        if upper && !is_guid {
            return fail("`upper` is only valid for the GUID formats `D`, `N` and `B`");
        }
        if naive && !matches!(notation, Notation::Iso { .. }) {
            return fail("`naive` is only valid for `iso`, and omits the `Z`");
        }
        if descending && !matches!(notation, Notation::Standard | Notation::Digits(_)) {
            return fail("`desc` can only be combined with the digits of a number, `{id:6,desc}`");
        }
        if unordered && !unpadded {
            return fail(
                "`unordered` has no effect: this format sorts by value; use it with `unpadded`",
            );
        }
        Ok(Self { notation, descending, unordered })
    }
}

/// The notation for one word.
fn notation(word: &str) -> Option<Notation> {
    let digits = |text: &str, most: u8| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u8>().ok().filter(|digits| is_number && (1..=most).contains(digits))
    };
    if let Some(width) = digits(word, MAX_WIDTH) {
        return Some(Notation::Digits(width));
    }
    if let Some(text) = word.strip_prefix(['x', 'X']) {
        let upper = word.starts_with('X');
        return digits(text, MAX_HEX).map(|digits| Notation::Hex { digits, upper });
    }
    if let Some(text) = word.strip_prefix("iso") {
        let fraction = if text.is_empty() { Some(0) } else { digits(text, MAX_FRACTION) };
        return fraction.map(|fraction| Notation::Iso { fraction, naive: false });
    }
    Some(match word {
        "lower" => Notation::Lower,
        "unix" => Notation::Unix { millis: false, unpadded: false },
        "unix_ms" => Notation::Unix { millis: true, unpadded: false },
        "date" => Notation::Date,
        "yyyyMMdd" => Notation::CompactDate,
        "D" => Notation::Hyphenated { upper: false },
        "N" => Notation::Simple { upper: false },
        "B" => Notation::Braced { upper: false },
        "true" => Notation::Words { capitalized: false },
        "True" => Notation::Words { capitalized: true },
        _ => return None,
    })
}

fn unknown(word: &str) -> String {
    if word.bytes().all(|byte| byte.is_ascii_digit()) && !word.is_empty() {
        return format!("the number of digits must be between 1 and {MAX_WIDTH}");
    }
    let hint = did_you_mean(word, WORDS);
    if !hint.is_empty() {
        return format!("unknown format `{word}`{hint}");
    }
    format!(
        "unknown format `{word}`; numbers take a count of digits such as `6`, `x8`, `X8`, `unpadded` or `desc`, \
         dates `desc`, `iso`, `iso3`, `unix`, `unix_ms`, `date` or `yyyyMMdd`, GUIDs `D`, `N`, `B` or \
         `upper`, bools `True`, `true` or `desc`"
    )
}

impl Notation {
    /// Whether text order is value order.
    pub(crate) fn is_in_order(self) -> bool {
        !matches!(self, Self::Unpadded | Self::Unix { unpadded: true, .. })
    }

    /// The resolution of an instant, as the number of digits of the fraction of a second.
    pub(crate) fn resolution(self) -> i8 {
        match self {
            Self::Date | Self::CompactDate => -1,
            Self::Iso { fraction, .. } => i8::try_from(fraction).unwrap_or(i8::MAX),
            Self::Unix { millis, .. } => {
                if millis {
                    3
                } else {
                    0
                }
            }
            // .NET's ticks.
            _ => 7,
        }
    }

    /// The words in a template for this notation; empty for the default.
    pub(crate) fn words(self) -> String {
        let guid = |letter: &str, upper| format!("{letter}{}", if upper { ",upper" } else { "" });
        match self {
            Self::Standard => String::new(),
            Self::Digits(digits) => digits.to_string(),
            Self::Unpadded => "unpadded".to_owned(),
            Self::Hex { digits, upper } => format!("{}{digits}", if upper { 'X' } else { 'x' }),
            Self::Lower => "lower".to_owned(),
            Self::Iso { fraction, naive } => {
                let fraction = if fraction == 0 { String::new() } else { fraction.to_string() };
                format!("iso{fraction}{}", if naive { ",naive" } else { "" })
            }
            Self::Unix { millis, unpadded } => {
                let unit = if millis { "unix_ms" } else { "unix" };
                format!("{unit}{}", if unpadded { ",unpadded" } else { "" })
            }
            Self::Date => "date".to_owned(),
            Self::CompactDate => "yyyyMMdd".to_owned(),
            Self::Hyphenated { upper } => guid("D", upper),
            Self::Simple { upper } => guid("N", upper),
            Self::Braced { upper } => guid("B", upper),
            Self::Words { capitalized } => if capitalized { "True" } else { "true" }.to_owned(),
        }
    }

    /// The types that support it, for error messages.
    pub(crate) fn whose(self) -> &'static str {
        match self {
            Self::Digits(18) => "a width requires a number, or a date with 18 digits of ticks",
            Self::Digits(_) => "a width requires a number",
            Self::Unpadded => "`unpadded` requires a number",
            Self::Hex { .. } => {
                "this format requires an unsigned number, `u8` to `u64`, or a newtype of these"
            }
            Self::Lower => "`lower` requires text",
            Self::Iso { .. } | Self::Unix { .. } => {
                "this format requires a `DateTime` of chrono or edm, or a newtype of these"
            }
            Self::Date | Self::CompactDate => {
                "this format requires a `NaiveDate`, a `DateTime`, or a newtype of these"
            }
            Self::Hyphenated { .. } | Self::Simple { .. } | Self::Braced { .. } => {
                "this format requires a GUID"
            }
            Self::Words { .. } => "this format requires a bool",
            Self::Standard => "every part has it",
        }
    }

    /// The same notation of the client, whose variants and fields have the same names.
    pub(crate) fn tokens(self, krate: &Path) -> TokenStream {
        let variant: TokenStream = format!("{self:?}").parse().unwrap_or_default();
        quote! { #krate::key::Notation::#variant }
    }
}
