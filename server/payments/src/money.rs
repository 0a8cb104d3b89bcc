//! Money: whole minor units and an ISO 4217 currency, from the first line to the last.
//!
//! One function formats, one parses. No floating point, and no arithmetic that wraps: overflow is an error.

use std::fmt;

use crate::limits::MAX_AMOUNT_MINOR;

/// An ISO 4217 currency that the shop knows the exponent of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency([u8; 3]);

/// Currencies that people write without decimals. How a provider counts them is its adapter's matter.
const ZERO_DECIMALS: &[&[u8; 3]] = &[
    b"BIF", b"CLP", b"DJF", b"GNF", b"ISK", b"JPY", b"KMF", b"KRW", b"MGA", b"PYG", b"RWF", b"UGX", b"VND", b"VUV",
    b"XAF", b"XOF", b"XPF",
];

/// Currencies whose minor unit is a thousandth.
const THREE_DECIMALS: &[&[u8; 3]] = &[b"BHD", b"JOD", b"KWD", b"OMR", b"TND"];

/// Currencies whose minor unit is a hundredth. A code that is in none of the three lists is refused, since a guessed exponent
/// charges a hundred times too much or too little.
const TWO_DECIMALS: &[&[u8; 3]] = &[
    b"AED", b"AUD", b"BGN", b"BRL", b"CAD", b"CHF", b"CNY", b"CZK", b"DKK", b"EUR", b"GBP", b"HKD", b"HUF", b"IDR",
    b"ILS", b"INR", b"MAD", b"MXN", b"MYR", b"NOK", b"NZD", b"PHP", b"PLN", b"RON", b"SAR", b"SEK", b"SGD", b"THB",
    b"TRY", b"TWD", b"UAH", b"USD", b"ZAR",
];

/// Signs that customers read more easily than the code. A sign that several currencies share stays with the one that is
/// known by it.
const SIGNS: &[(&[u8; 3], &str)] = &[(b"EUR", "€"), (b"GBP", "£"), (b"INR", "₹"), (b"JPY", "¥"), (b"USD", "$")];

/// Why a text is no currency or no amount, or a sum is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// Not three upper-case letters, or a code whose exponent is not known.
    #[error("unknown currency")]
    UnknownCurrency,
    /// Not digits with at most one point.
    #[error("not an amount")]
    Malformed,
    /// More decimals than the currency has.
    #[error("too many decimals")]
    TooManyDecimals,
    /// Below zero, or beyond [`MAX_AMOUNT_MINOR`].
    #[error("amount out of range")]
    OutOfRange,
    /// Two currencies in one sum.
    #[error("two currencies in one sum")]
    MixedCurrency,
}

impl Currency {
    /// Parses three upper-case letters, e.g. `EUR`.
    ///
    /// # Errors
    /// `UnknownCurrency` for everything else, lower case included.
    pub fn parse(code: &str) -> Result<Self, MoneyError> {
        let bytes: [u8; 3] = code.as_bytes().try_into().or(Err(MoneyError::UnknownCurrency))?;
        let known = [ZERO_DECIMALS, TWO_DECIMALS, THREE_DECIMALS].iter().any(|list| list.contains(&&bytes));
        if known { Ok(Self(bytes)) } else { Err(MoneyError::UnknownCurrency) }
    }

    /// The code, e.g. `EUR`.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("???")
    }

    /// Decimals of the minor unit: 0, 2 or 3.
    pub fn exponent(self) -> u32 {
        if ZERO_DECIMALS.contains(&&self.0) {
            0
        } else if THREE_DECIMALS.contains(&&self.0) {
            3
        } else {
            2
        }
    }

    fn sign(self) -> Option<&'static str> {
        SIGNS.iter().find(|(code, _)| **code == self.0).map(|(_, sign)| *sign)
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.code())
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.code())
    }
}

/// An amount in minor units, e.g. 4990 and `EUR` for €49.90.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Money {
    /// Minor units.
    pub minor: i64,
    /// The currency.
    pub currency: Currency,
}

impl Money {
    /// An amount of `minor` units of `currency`, as it is.
    pub fn new(minor: i64, currency: Currency) -> Self {
        Self { minor, currency }
    }

    /// Parses what a person or a program writes, e.g. `49.90`: digits, at most one point, no sign, no separators.
    ///
    /// # Errors
    /// `Malformed`, `TooManyDecimals` or `OutOfRange`.
    pub fn parse(text: &str, currency: Currency) -> Result<Self, MoneyError> {
        let (whole, fraction) = match text.split_once('.') {
            Some((_, "")) => return Err(MoneyError::Malformed),
            Some(parts) => parts,
            None => (text, ""),
        };
        if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
            return Err(MoneyError::Malformed);
        }

        let exponent = usize::try_from(currency.exponent()).or(Err(MoneyError::OutOfRange))?;
        if fraction.len() > exponent {
            return Err(MoneyError::TooManyDecimals);
        }
        let minor = format!("{whole}{fraction:0<exponent$}").parse().or(Err(MoneyError::OutOfRange))?;
        Self::new(minor, currency).in_range()
    }

    /// The sum.
    ///
    /// # Errors
    /// `MixedCurrency` or `OutOfRange`.
    pub fn checked_add(self, other: Self) -> Result<Self, MoneyError> {
        if self.currency != other.currency {
            return Err(MoneyError::MixedCurrency);
        }
        let minor = self.minor.checked_add(other.minor).ok_or(MoneyError::OutOfRange)?;
        Self::new(minor, self.currency).in_range()
    }

    /// `quantity` times the amount.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn checked_mul(self, quantity: i32) -> Result<Self, MoneyError> {
        let minor = self.minor.checked_mul(i64::from(quantity)).ok_or(MoneyError::OutOfRange)?;
        Self::new(minor, self.currency).in_range()
    }

    /// The amount as a person reads it, e.g. `€1,234.50`, `¥500` or `BHD 35.200`.
    pub fn format(self) -> String {
        let unit = 10_u64.pow(self.currency.exponent());
        let magnitude = self.minor.unsigned_abs();
        let minus = if self.minor < 0 { "-" } else { "" };
        let whole = grouped(magnitude / unit);
        let decimals = match self.currency.exponent() {
            0 => String::new(),
            3 => format!(".{:03}", magnitude % unit),
            _ => format!(".{:02}", magnitude % unit),
        };
        match self.currency.sign() {
            Some(sign) => format!("{minus}{sign}{whole}{decimals}"),
            // The space does not break, so that code and number stay on one line.
            None => format!("{minus}{}\u{a0}{whole}{decimals}", self.currency),
        }
    }

    fn in_range(self) -> Result<Self, MoneyError> {
        if (0..=MAX_AMOUNT_MINOR).contains(&self.minor) { Ok(self) } else { Err(MoneyError::OutOfRange) }
    }
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl fmt::Debug for Money {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.minor, self.currency)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.format())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Currency, Money, MoneyError};
    use crate::limits::MAX_AMOUNT_MINOR;

    fn currency(code: &str) -> Currency {
        Currency::parse(code).expect("a currency")
    }

    #[test]
    fn b96_decimal_text_loses_no_cent() {
        for (text, minor) in [
            ("8.20", 820),
            ("19.99", 1999),
            ("1.15", 115),
            ("0.29", 29),
            ("4.35", 435),
            ("64.10", 6410),
            ("2.30", 230),
            ("17.90", 1790),
            ("16.08", 1608),
            ("0.57", 57),
            ("0.58", 58),
            ("5.06", 506),
            ("5", 500),
            ("5.1", 510),
        ] {
            assert_eq!(Money::parse(text, currency("EUR")), Ok(Money::new(minor, currency("EUR"))), "{text}");
        }
    }

    #[test]
    fn b97_each_currency_has_its_own_minor_unit() {
        assert_eq!(Money::parse("500", currency("JPY")), Ok(Money::new(500, currency("JPY"))));
        assert_eq!(Money::parse("35.200", currency("BHD")), Ok(Money::new(35_200, currency("BHD"))));
        assert_eq!(Money::parse("500.0", currency("JPY")), Err(MoneyError::TooManyDecimals));
        assert_eq!(Money::parse("49.901", currency("EUR")), Err(MoneyError::TooManyDecimals));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", ".", "1.", ".5", "-1", "+1", "1,5", "1 000", "1e3", "0x1", "1.2.3", "٣", "NaN"] {
            assert_eq!(Money::parse(text, currency("EUR")), Err(MoneyError::Malformed), "{text:?}");
        }
        for text in ["999999999999.99", "99999999999999999999999"] {
            assert_eq!(Money::parse(text, currency("EUR")), Err(MoneyError::OutOfRange), "{text:?}");
        }
        for code in ["eur", "EU", "EURO", "XXX", "", "€€€", "E R"] {
            assert_eq!(Currency::parse(code), Err(MoneyError::UnknownCurrency), "{code:?}");
        }
    }

    #[test]
    fn amounts_read_as_people_write_them() {
        for (minor, code, text) in [
            (4990, "EUR", "€49.90"),
            (123_450, "EUR", "€1,234.50"),
            (5, "EUR", "€0.05"),
            (0, "USD", "$0.00"),
            (-4990, "GBP", "-£49.90"),
            (500, "JPY", "¥500"),
            (10_000, "JPY", "¥10,000"),
            (35_200, "BHD", "BHD\u{a0}35.200"),
            (99_999_999_999, "CHF", "CHF\u{a0}999,999,999.99"),
            (i64::MIN, "JPY", "-¥9,223,372,036,854,775,808"),
        ] {
            assert_eq!(Money::new(minor, currency(code)).format(), text);
        }
    }

    #[test]
    fn sums_never_wrap_and_never_mix() {
        let most = Money::new(MAX_AMOUNT_MINOR, currency("EUR"));
        assert_eq!(most.checked_add(Money::new(1, currency("EUR"))), Err(MoneyError::OutOfRange));
        assert_eq!(most.checked_mul(2), Err(MoneyError::OutOfRange));
        assert_eq!(Money::new(i64::MAX, currency("EUR")).checked_mul(i32::MAX), Err(MoneyError::OutOfRange));
        assert_eq!(most.checked_mul(-1), Err(MoneyError::OutOfRange));
        assert_eq!(most.checked_add(Money::new(1, currency("USD"))), Err(MoneyError::MixedCurrency));
    }

    #[test]
    fn b101_what_people_write_without_decimals_has_none() {
        for code in ["UGX", "ISK"] {
            let money = Money::new(5000, currency(code));
            assert_eq!(Money::parse("5000", currency(code)), Ok(money));
            assert_eq!(money.format(), format!("{code}\u{a0}5,000"));
            assert_eq!(Money::parse("12.34", currency(code)), Err(MoneyError::TooManyDecimals));
        }
    }

    #[test]
    fn b102_amounts_beyond_32_bits_are_exact_or_refused_by_the_one_maximum() {
        for (text, code, minor) in [
            ("21474836.48", "EUR", 2_147_483_648),
            ("49990000.00", "IDR", 4_999_000_000),
            ("4999000000", "VND", 4_999_000_000),
        ] {
            let money = Money::parse(text, currency(code)).expect(text);
            assert_eq!(money.minor, minor, "{text}");
            let sum = (1..500).try_fold(money, |sum, _| sum.checked_add(money));
            let exact = Money::new(minor * 500, money.currency);
            let expected = if exact.minor > MAX_AMOUNT_MINOR { Err(MoneyError::OutOfRange) } else { Ok(exact) };
            assert_eq!(sum, expected, "500 times {text}");
        }
        assert_eq!(Money::parse("9007199254740993", currency("JPY")), Err(MoneyError::OutOfRange));
    }

    #[test]
    fn b105_what_is_due_and_what_is_paid_in_full_are_equal() {
        let due = Money::parse("5.06", currency("EUR")).expect("an amount");
        let half = Money::parse("2.53", currency("EUR")).expect("an amount");
        assert_eq!(half.checked_add(half), Ok(due));
        assert_eq!(half.checked_mul(2), Ok(due));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(minor in 0..=MAX_AMOUNT_MINOR, code in prop::sample::select(vec!["JPY", "ISK", "EUR", "BHD"])) {
            let money = Money::new(minor, currency(code));
            let plain: String = money.format().chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
            prop_assert_eq!(Money::parse(&plain, money.currency), Ok(money));
        }

        /// A text that is taken means what its digits say: at most the currency's decimals, in range, and nothing else in it.
        #[test]
        fn what_is_taken_is_a_plain_number(
            text in prop_oneof![any::<String>(), "[0-9]{0,13}[.,]?[0-9]{0,4}", "[ +-]?[0-9.e_,'\u{a0}٣]{0,8}"],
            code in prop::sample::select(vec!["JPY", "UGX", "EUR", "BHD"]),
        ) {
            if let Ok(money) = Money::parse(&text, currency(code)) {
                let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
                let digits: String = [whole, fraction].concat();
                prop_assert!(digits.bytes().all(|byte| byte.is_ascii_digit()) && !whole.is_empty(), "{text:?}");
                let unit = 10_i64.pow(money.currency.exponent());
                let decimals = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
                prop_assert!(decimals <= money.currency.exponent(), "{text:?}");
                let parts = (whole.parse::<i64>(), fraction.parse::<i64>().unwrap_or(0));
                let shift = 10_i64.pow(money.currency.exponent() - decimals);
                prop_assert_eq!(parts.0.map(|whole| whole * unit + parts.1 * shift), Ok(money.minor));
                prop_assert!((0..=MAX_AMOUNT_MINOR).contains(&money.minor));
            }
        }

        /// A code that is taken is what was written, three upper-case letters, and has one of the exponents that there are.
        #[test]
        fn a_currency_is_what_was_written(text in prop_oneof![any::<String>(), "[A-Za-z]{2,4}", "\\PC{3}"]) {
            if let Ok(currency) = Currency::parse(&text) {
                prop_assert_eq!(currency.code(), &text);
                prop_assert!(text.bytes().all(|byte| byte.is_ascii_uppercase()) && text.len() == 3);
                prop_assert!(matches!(currency.exponent(), 0 | 2 | 3));
            }
        }
    }
}
