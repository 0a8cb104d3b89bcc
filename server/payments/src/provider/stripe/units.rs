//! Amounts in the provider's units, there and back, in two functions.
//!
//! Promise: an amount that cannot be told exactly in the other's units is no amount; nothing is ever rounded. Nearly always
//! the provider's unit is our minor unit and the number stays as it is. Stripe's documentation of currencies names what
//! differs: ISK and UGX have no decimals for people but two in its API, and the last digit of three-decimal amounts must
//! be 0. (HUF and TWD are special in payouts only; MGA, which has fifths on paper, has no decimals there as here.) An amount of
//! a card payment has twelve digits at most. What it must be at least hangs on the currency that the account is paid out in,
//! which only Stripe knows: it refuses less with `amount_too_small`. Never: floating point.

use crate::money::{Currency, Money};

/// How the provider counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    /// Whether ISK and UGX have two decimals in the API, as they do at Stripe.
    pub(super) exceptions: bool,
}

/// What one of our minor units is at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ratio {
    Same,
    /// The same, but only multiples of ten are taken.
    SameInTens,
    /// The provider's number is a hundred times ours.
    Hundredfold,
}

const HUNDRED: i64 = 100;
const TEN: i64 = 10;
/// Twelve digits, in the provider's unit.
const AMOUNT_MAX: i64 = 999_999_999_999;

impl Units {
    /// The number and the lower-case code to send; `None` where the provider cannot take this amount.
    pub(super) fn outgoing(self, money: &Money) -> Option<(i64, String)> {
        let code = money.currency.code();
        let amount = self.ratio(code, money.currency.exponent()).outgoing(money.minor)?;
        (amount <= AMOUNT_MAX).then(|| (amount, code.to_ascii_lowercase()))
    }

    /// The money that the provider's number and code mean; `None` where it is not positive, not whole in our units, or in a
    /// currency that nobody knows.
    pub(super) fn incoming(self, amount: i64, code: &str) -> Option<Money> {
        let currency = Currency::parse(&code.to_ascii_uppercase()).ok()?;
        let minor = self.ratio(currency.code(), currency.exponent()).incoming(amount)?;
        Some(Money::new(minor, currency))
    }

    fn ratio(self, code: &str, exponent: u32) -> Ratio {
        match code {
            "ISK" | "UGX" if self.exceptions => Ratio::Hundredfold,
            _ if exponent == 3 => Ratio::SameInTens,
            _ => Ratio::Same,
        }
    }
}

impl Ratio {
    fn outgoing(self, minor: i64) -> Option<i64> {
        if minor <= 0 {
            return None;
        }
        match self {
            Self::Same => Some(minor),
            Self::SameInTens => Some(minor).filter(|minor| minor % TEN == 0),
            Self::Hundredfold => minor.checked_mul(HUNDRED),
        }
    }

    fn incoming(self, amount: i64) -> Option<i64> {
        if amount <= 0 {
            return None;
        }
        match self {
            // An amount that the provider took is a fact, whatever its last digit.
            Self::Same | Self::SameInTens => Some(amount),
            Self::Hundredfold => Some(amount).filter(|amount| amount % HUNDRED == 0).map(|amount| amount / HUNDRED),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Ratio, Units};
    use crate::money::{Currency, Money};

    const STRIPE: Units = Units { exceptions: true };
    const PLAIN: Units = Units { exceptions: false };

    /// The number that goes out for what people write as `text`, after checking that it comes back as the same money.
    fn sent(units: Units, text: &str, code: &str) -> Option<i64> {
        let money = Money::parse(text, Currency::parse(code).expect("a known code")).expect("an amount");
        let (amount, lower) = units.outgoing(&money)?;
        assert_eq!(lower, code.to_ascii_lowercase());
        assert_eq!(units.incoming(amount, &lower), Some(money), "the way back gives the same money");
        Some(amount)
    }

    #[test]
    fn b96_two_decimals_go_out_to_the_cent() {
        for (text, amount) in [
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
        ] {
            assert_eq!(sent(STRIPE, text, "EUR"), Some(amount), "{text}");
        }
    }

    #[test]
    fn b97_currencies_without_decimals_are_not_multiplied() {
        assert_eq!(sent(STRIPE, "500", "JPY"), Some(500));
        assert_eq!(sent(STRIPE, "10000", "JPY"), Some(10_000));
        assert_eq!(sent(PLAIN, "500", "JPY"), Some(500));
    }

    #[test]
    fn b99_three_decimals_keep_all_three() {
        assert_eq!(sent(STRIPE, "35.200", "BHD"), Some(35_200));
        assert_eq!(sent(STRIPE, "18.600", "KWD"), Some(18_600));
        assert_eq!(sent(STRIPE, "0.050", "TND"), Some(50));
    }

    #[test]
    fn b99_a_last_digit_that_the_provider_would_refuse_is_not_sent() {
        assert_eq!(sent(STRIPE, "35.205", "BHD"), None);
    }

    #[test]
    fn b101_stripe_counts_isk_and_ugx_in_hundredths() {
        for (text, code, minor, in_hundredths) in [("5000", "UGX", 5000, 500_000), ("2000", "ISK", 2000, 200_000)] {
            assert_eq!(sent(STRIPE, text, code), Some(in_hundredths));
            assert_eq!(sent(PLAIN, text, code), Some(minor));
        }
    }

    /// Stripe's list of currencies without decimals, less the two that have hundredths in its API all the same.
    #[test]
    fn b97_every_currency_without_decimals_goes_out_as_it_is() {
        for code in
            ["BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF"]
        {
            assert_eq!(sent(STRIPE, "500", code), Some(500), "{code}");
        }
    }

    #[test]
    fn b99_every_currency_with_three_decimals_goes_out_in_tens() {
        for code in ["BHD", "JOD", "KWD", "OMR", "TND"] {
            assert_eq!(sent(STRIPE, "5.120", code), Some(5_120), "{code}");
            assert_eq!(sent(STRIPE, "5.124", code), None, "{code}");
        }
    }

    /// Whole amounts are asked of them in payouts alone.
    #[test]
    fn b101_huf_and_twd_are_charged_to_the_hundredth() {
        assert_eq!(sent(STRIPE, "10.45", "HUF"), Some(1_045));
        assert_eq!(sent(STRIPE, "800.45", "TWD"), Some(80_045));
    }

    /// A euro's cent and a yen are amounts here; whether they are enough, Stripe says.
    #[test]
    fn the_least_amount_goes_out_and_more_than_twelve_digits_do_not() {
        assert_eq!(sent(STRIPE, "0.01", "EUR"), Some(1));
        assert_eq!(sent(STRIPE, "1", "JPY"), Some(1));
        for (minor, code, expected) in [
            (999_999_999_999, "EUR", Some(999_999_999_999)),
            (1_000_000_000_000, "EUR", None),
            (9_999_999_999, "ISK", Some(999_999_999_900)),
            (10_000_000_000, "ISK", None),
        ] {
            let money = Money::new(minor, Currency::parse(code).expect("a known code"));
            assert_eq!(STRIPE.outgoing(&money).map(|(amount, _)| amount), expected, "{code} {minor}");
        }
    }

    #[test]
    fn b101_hundredths_that_our_unit_cannot_hold_are_no_money() {
        assert_eq!(Ratio::Hundredfold.incoming(500_050), None);
        assert_eq!(Ratio::Hundredfold.outgoing(i64::MAX), None);
    }

    #[test]
    fn nothing_and_less_than_nothing_are_no_money() {
        for amount in [0, -1, i64::MIN] {
            assert_eq!(STRIPE.incoming(amount, "eur"), None);
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_in_goes_out_as_it_came(amount: i64, code in "[a-zA-Z]{0,4}", exceptions: bool) {
            let units = Units { exceptions };
            if let Some(money) = units.incoming(amount, &code) {
                if let Some((back, lower)) = units.outgoing(&money) {
                    prop_assert_eq!(back, amount);
                    prop_assert_eq!(lower, code.to_ascii_lowercase());
                } else {
                    let in_the_way = amount % 10 != 0 || amount > super::AMOUNT_MAX;
                    prop_assert!(in_the_way, "only a last digit or the size may stand in the way");
                }
            }
        }
    }
}
