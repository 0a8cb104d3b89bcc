//! Amounts: which currencies the provider takes, how small and how large a charge can be, and how an amount is written for
//! people. Integer minor units throughout.

use crate::answer::Refusal;

const MAX_AMOUNT: i64 = 99_999_999_999;

const CURRENCIES: &str = "aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp byn bzd \
    cad cdf chf clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd hnl htg huf \
    idr ils inr isk jmd jod jpy kes kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mur mvr \
    mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sek sgd shp \
    sle sos srd std szl thb tjs tnd top try ttd twd tzs uah ugx usd uyu uzs vnd vuv wst xaf xcd xof xpf yer zar zmw";

const WITHOUT_DECIMALS: &[&str] =
    &["bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "ugx", "vnd", "vuv", "xaf", "xof", "xpf"];

const WITH_THREE_DECIMALS: &[&str] = &["bhd", "jod", "kwd", "omr", "tnd"];

/// The currency in lower case, or the refusal.
pub fn currency(text: &str) -> Result<String, Refusal> {
    let lower = text.to_ascii_lowercase();
    if lower.len() == 3 && CURRENCIES.split_ascii_whitespace().any(|known| known == lower) {
        return Ok(lower);
    }
    let shown: String = text.chars().take(16).collect();
    Err(Refusal::invalid(format!("'{shown}' is not a currency that can be charged.")).param("currency"))
}

/// Checks an amount that is to be charged.
pub fn check_charge(amount: i64, currency: &str) -> Result<(), Refusal> {
    let smallest = smallest_charge(currency);
    let refused = |code, message| Err(Refusal::invalid(message).code(code).param("amount"));
    if amount < 1 {
        refused("parameter_invalid_integer", "The amount must be at least 1.".to_owned())
    } else if amount > MAX_AMOUNT {
        refused("amount_too_large", format!("The amount can be at most {}.", display(MAX_AMOUNT, currency)))
    } else if amount < smallest {
        refused("amount_too_small", format!("The amount must be at least {}.", display(smallest, currency)))
    } else {
        Ok(())
    }
}

fn smallest_charge(currency: &str) -> i64 {
    match currency {
        "eur" | "usd" | "jpy" => 50,
        _ => 1,
    }
}

/// The amount as people read it, e.g. `49.90 EUR`, `4990 JPY`, `4.990 KWD`.
pub fn display(minor: i64, currency: &str) -> String {
    let code = currency.to_ascii_uppercase();
    let (unit, decimals) = if WITHOUT_DECIMALS.contains(&currency) {
        return format!("{minor} {code}");
    } else if WITH_THREE_DECIMALS.contains(&currency) {
        (1000, 3)
    } else {
        (100, 2)
    };
    let sign = if minor < 0 { "-" } else { "" };
    let minor = minor.unsigned_abs();
    format!("{sign}{}.{:0decimals$} {code}", minor / unit, minor % unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_with_the_decimals_of_their_currency() {
        assert_eq!(display(4990, "eur"), "49.90 EUR");
        assert_eq!(display(5, "eur"), "0.05 EUR");
        assert_eq!(display(4990, "jpy"), "4990 JPY");
        assert_eq!(display(4990, "kwd"), "4.990 KWD");
        assert_eq!(display(99_999_999_999, "usd"), "999999999.99 USD");
    }

    #[test]
    fn too_small_and_too_large_amounts_are_refused() {
        let code =
            |amount, currency| check_charge(amount, currency).err().and_then(|it| it.code_text().map(str::to_owned));
        assert_eq!(code(49, "eur").as_deref(), Some("amount_too_small"));
        assert_eq!(code(50, "eur"), None);
        assert_eq!(code(49, "jpy").as_deref(), Some("amount_too_small"));
        assert_eq!(code(1, "kwd"), None);
        assert_eq!(code(0, "kwd").as_deref(), Some("parameter_invalid_integer"));
        assert_eq!(code(-5, "kwd").as_deref(), Some("parameter_invalid_integer"));
        assert_eq!(code(99_999_999_999, "usd"), None);
        assert_eq!(code(100_000_000_000, "usd").as_deref(), Some("amount_too_large"));
    }
}
