//! Prices, which the program gives, and exact amounts.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Mul};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::class::Class;
use super::usage::Usage;
use crate::error::{Error, Result};

/// The digits after the decimal point that an amount has.
const DIGITS: usize = 15;

/// One unit of the currency.
const UNIT: u128 = 10_u128.pow(15);

/// The transactions that a price is for.
const TRANSACTIONS: u128 = 10_000;

/// A gigabyte, as Azure bills it: 2^30 bytes.
const GB: u128 = 1 << 30;

/// An amount of money: an exact decimal number with 15 digits after the point, without a currency.
///
/// There is no conversion from `f64`, in which 0.1 is not 0.1. Sums stop at the end of `u128`.
///
/// ```
/// use rowkey::cost::Amount;
///
/// let price: Amount = "0.00036".parse()?;
/// assert_eq!((price * 10).to_string(), "0.0036");
/// assert!(price < "0.0004".parse()?);
/// # Ok::<(), rowkey::Error>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Amount(u128);

/// The prices of an account, which the program knows from its region, its redundancy and its contract.
///
/// This library contains no prices. Read one from a file with serde, or build it:
///
/// ```
/// use rowkey::cost::{Class, PriceTable, Usage};
///
/// let prices: PriceTable = serde_json::from_str(
///     r#"{
///         "currency": "USD",
///         "per_10_000": {"table_write": "0.00036", "queue_class1": "0.004"},
///         "per_gb_received": "0.087"
///     }"#,
/// )?;
/// assert_eq!(prices.price(Class::TableWrite), Some("0.00036".parse()?));
///
/// let order = Usage::of(Class::TableWrite, 1) + Usage::of(Class::QueueClass1, 2);
/// assert_eq!(prices.of(&(order * 1_000_000))?.to_string(), "0.836");
/// assert!(prices.of(&Usage::of(Class::TableScan, 1)).is_err(), "it has no price");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    currency: String,
    #[serde(default)]
    per_10_000: BTreeMap<Class, Amount>,
    #[serde(default)]
    per_gb_received: Amount,
    #[serde(default)]
    per_gb_month: Amount,
}

impl PriceTable {
    /// Returns a table without prices. The currency is a text, such as `USD`.
    pub fn new(currency: impl Into<String>) -> Self {
        Self {
            currency: currency.into(),
            per_10_000: BTreeMap::new(),
            per_gb_received: Amount(0),
            per_gb_month: Amount(0),
        }
    }

    /// Sets the price of 10,000 transactions of a class.
    #[must_use = "the table is returned"]
    pub fn per_10_000(mut self, class: Class, price: Amount) -> Self {
        self.per_10_000.insert(class, price);
        self
    }

    /// Sets the price of a gigabyte of responses, for a program outside of the region. Default: free.
    ///
    /// ```
    /// use rowkey::cost::{PriceTable, Usage};
    ///
    /// let prices = PriceTable::new("USD").per_gb_received("0.087".parse()?);
    /// let page = Usage::default().with_bytes(0, 1 << 29);
    /// assert_eq!(prices.of(&page)?.to_string(), "0.0435");
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    #[must_use = "the table is returned"]
    pub fn per_gb_received(mut self, price: Amount) -> Self {
        self.per_gb_received = price;
        self
    }

    /// Sets the price of a gigabyte that is stored for a month. Default: free.
    #[must_use = "the table is returned"]
    pub fn per_gb_month(mut self, price: Amount) -> Self {
        self.per_gb_month = price;
        self
    }

    /// The currency.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// The price of 10,000 transactions of a class.
    pub fn price(&self, class: Class) -> Option<Amount> {
        self.per_10_000.get(&class).copied()
    }

    /// Prices a usage: the transactions, and the bytes received.
    ///
    /// Exact for prices of up to 11 digits after the point; what is left after 15 digits is rounded once for all
    /// transactions and once for the bytes. Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a class that
    /// was used has no price, except for deletions of blobs, which are free by default.
    pub fn of(&self, usage: &Usage) -> Result<Amount> {
        let mut transactions = 0_u128;
        for (class, count) in usage.iter() {
            let price = match self.price(class) {
                Some(price) => price.0,
                None if class == Class::BlobDelete => 0,
                None => {
                    return Err(Error::invalid(format!(
                        "the price table has no price for `{class}`"
                    ))
                    .advise("set it with `PriceTable::per_10_000`"));
                }
            };
            transactions = transactions.saturating_add(price.saturating_mul(count.into()));
        }
        let received = self.per_gb_received.0.saturating_mul(usage.received().into());
        Ok(Amount(rounded(transactions, TRANSACTIONS)) + Amount(rounded(received, GB)))
    }

    /// Prices bytes that are stored for a month.
    ///
    /// ```
    /// use rowkey::cost::PriceTable;
    /// use rowkey::table::EncodedRow;
    ///
    /// let row = EncodedRow::of(&rowkey::DynamicEntity::new("contoso", "1"))?;
    /// let prices = PriceTable::new("USD").per_gb_month("0.045".parse()?);
    /// let million = prices.of_stored(row.size() as u64 * 1_000_000);
    /// assert!(million < "0.001".parse()?);
    /// # Ok::<(), rowkey::Error>(())
    /// ```
    pub fn of_stored(&self, bytes: u64) -> Amount {
        Amount(rounded(self.per_gb_month.0.saturating_mul(bytes.into()), GB))
    }
}

/// The quotient, rounded half up.
fn rounded(amount: u128, by: u128) -> u128 {
    (amount / by).saturating_add(u128::from(amount % by * 2 >= by))
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Mul<u64> for Amount {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times.into()))
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self(0), Add::add)
    }
}

impl FromStr for Amount {
    type Err = Error;

    /// Reads a decimal number, such as `0.00036`. Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            Error::invalid("an amount is a decimal number with at most 15 digits after the point")
        };
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.len() > DIGITS {
            return Err(refused());
        }
        let whole = whole.parse::<u128>().ok().and_then(|whole| whole.checked_mul(UNIT));
        let part = format!("{part:0<DIGITS$}").parse::<u128>().ok();
        let sum = whole.zip(part).and_then(|(whole, part)| whole.checked_add(part));
        sum.map(Self).ok_or_else(refused)
    }
}

impl fmt::Display for Amount {
    /// Without zeros at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / UNIT, self.0 % UNIT);
        if part == 0 {
            return write!(f, "{whole}");
        }
        let part = format!("{part:0DIGITS$}");
        write!(f, "{whole}.{}", part.trim_end_matches('0'))
    }
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Amount({self})")
    }
}

impl TryFrom<String> for Amount {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_decimals() {
        for text in ["0", "0.00036", "12.5", "340282366920938463463", "0.000000000000001"] {
            assert_eq!(text.parse::<Amount>().unwrap().to_string(), text);
        }
        assert_eq!("1.50".parse::<Amount>().unwrap(), "1.5".parse().unwrap());
        for text in ["", ".", ".5", "1.", "-1", "+1", "1,5", "1e3", "0.0000000000000001", "1 ", "٣"]
        {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
        assert!("1".repeat(39).parse::<Amount>().is_err());
    }

    #[test]
    fn a_transaction_is_a_ten_thousandth_of_its_price() {
        let prices =
            PriceTable::new("USD").per_10_000(Class::TableWrite, "0.00036".parse().unwrap());
        let one = prices.of(&Usage::of(Class::TableWrite, 1)).unwrap();
        assert_eq!(one.to_string(), "0.000000036");
        // One price after the other gives the same sum.
        let many = prices.of(&Usage::of(Class::TableWrite, 12_345_678)).unwrap();
        assert_eq!(many, one * 12_345_678);
        assert_eq!(many.to_string(), "0.444444408");
        assert!(prices.of(&Usage::of(Class::BlobDelete, 7)).unwrap() == Amount(0));
    }

    #[test]
    fn bytes_are_billed_by_the_gigabyte() {
        let prices = PriceTable::new("EUR").per_gb_received("0.08".parse().unwrap());
        let three = Usage::default().with_bytes(u64::MAX, 3 << 30);
        assert_eq!(prices.of(&three).unwrap().to_string(), "0.24");
        let byte = prices.of(&Usage::default().with_bytes(0, 1)).unwrap();
        // 0.08 / 2^30 = 7.450580596923828e-11
        assert_eq!(byte.to_string(), "0.000000000074506");
        let prices = prices.per_gb_month("0.045".parse().unwrap());
        assert_eq!(prices.of_stored(1 << 29).to_string(), "0.0225");
        // The largest usage does not overflow.
        let most = Usage::default().with_bytes(0, u64::MAX);
        assert!(prices.of(&(most * u64::MAX)).is_ok());
    }
}
