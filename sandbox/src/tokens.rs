//! Turns a typed card into a payment method. What people type is read generously (spaces, hyphens, digits of other
//! scripts, `12/34` or `12 - 2034`); number and security code are looked at here and are gone when the function returns.

use crate::answer::Refusal;
use crate::cards;
use crate::clock::year_and_month;
use crate::ids;
use crate::records::Method;

const NUMBER_DIGITS: std::ops::RangeInclusive<usize> = 12..=19;
/// A card that is valid for longer than this is mistyped.
const MAX_YEARS_AHEAD: i32 = 50;
/// A month is over when it is over everywhere on Earth.
const LAST_TIME_ZONE_SECONDS: i64 = 12 * 3600;

/// A card as it was typed. It is never stored, logged or shown.
pub struct Typed<'a> {
    pub number: &'a str,
    pub exp_month: &'a str,
    pub exp_year: &'a str,
    /// Absent is allowed, as the provider allows it; empty is not.
    pub cvc: Option<&'a str>,
    pub name: Option<&'a str>,
    pub email: Option<&'a str>,
}

/// The payment method, or the first fault of the card.
pub fn tokenize(card: &Typed<'_>, now: i64) -> Result<Method, Refusal> {
    let number = digits(card.number);
    let number = number.filter(|number| NUMBER_DIGITS.contains(&number.len()) && cards::passes_luhn(number));
    let number = number.ok_or_else(|| fault("incorrect_number", "number", "The card number is not right."))?;
    let (exp_month, exp_year) = expiry(card.exp_month, card.exp_year, now)?;
    let brand = cards::brand(&number);
    if card.cvc.is_some_and(|cvc| !is_security_code(cvc, brand)) {
        return Err(fault("invalid_cvc", "cvc", "The card's security code is not right."));
    }
    let known = cards::find_by_number(&number).ok_or_else(|| {
        let what = "This is not one of the test cards. A real card can do nothing here; nothing of it was kept.";
        fault("card_declined", "number", what).with("decline_code", "test_mode_live_card".into())
    })?;
    Ok(Method {
        id: ids::new("pm"),
        brand: brand.to_owned(),
        last4: known.last4().to_owned(),
        exp_month,
        exp_year,
        name: card.name.and_then(|name| tidy(name, 200)),
        email: card.email.and_then(|email| tidy(email, 320)),
        created: now,
        conduct: known.conduct(),
    })
}

/// Splits what people write into one field: `12/34`, `12 / 2034`, `1234`, `12-34`, `1/34`, `2034-12`. What has no two
/// parts comes back with an empty one, which no check accepts.
pub fn split_expiry(typed: &str) -> (String, String) {
    let parts: Vec<String> = typed
        .split(|letter: char| digit(letter).is_none())
        .filter(|part| !part.is_empty())
        .map(|part| part.chars().filter_map(digit).collect())
        .collect();
    match parts.as_slice() {
        [year, month] if year.len() == 4 => (month.clone(), year.clone()),
        [month, year] => (month.clone(), year.clone()),
        [together] if matches!(together.len(), 4 | 6) => {
            let (month, year) = together.split_at(2);
            (month.to_owned(), year.to_owned())
        }
        [together] if together.len() == 3 => {
            let (month, year) = together.split_at(1);
            (month.to_owned(), year.to_owned())
        }
        [month] => (month.clone(), String::new()),
        _ => (String::new(), String::new()),
    }
}

/// Without control characters and spaces at its ends, at most `max_chars` long; `None` if nothing is left.
pub fn tidy(text: &str, max_chars: usize) -> Option<String> {
    let text: String = text.trim().chars().filter(|letter| !letter.is_control()).take(max_chars).collect();
    (!text.is_empty()).then_some(text)
}

fn expiry(month: &str, year: &str, now: i64) -> Result<(u8, i32), Refusal> {
    let bad_month = || fault("invalid_expiry_month", "exp_month", "The card's expiry month is not right.");
    let bad_year = || fault("invalid_expiry_year", "exp_year", "The card's expiry year is not right.");
    let month: u8 = digits(month).and_then(|month| month.parse().ok()).ok_or_else(bad_month)?;
    if !(1..=12).contains(&month) {
        return Err(bad_month());
    }
    let digits = digits(year).ok_or_else(bad_year)?;
    let year: i32 = digits.parse().map_err(|_not_a_number| bad_year())?;
    let year = match digits.len() {
        2 => 2000 + year,
        4 => year,
        _ => return Err(bad_year()),
    };
    let (this_year, this_month) = year_and_month(now - LAST_TIME_ZONE_SECONDS);
    if year < this_year || year > this_year + MAX_YEARS_AHEAD {
        Err(bad_year())
    } else if year == this_year && month < this_month {
        Err(bad_month())
    } else {
        Ok((month, year))
    }
}

fn is_security_code(typed: &str, brand: &str) -> bool {
    let Some(code) = digits(typed) else { return false };
    code.len() == 3 || (brand == "amex" && code.len() == 4)
}

/// The digits of a text that holds nothing but digits, spaces and hyphens; of any script that writes ten digits.
fn digits(typed: &str) -> Option<String> {
    let mut found = String::new();
    for letter in typed.chars() {
        match digit(letter) {
            Some(digit) => found.push(digit),
            None if letter.is_whitespace() || matches!(letter, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '.') => {}
            None => return None,
        }
    }
    (!found.is_empty()).then_some(found)
}

/// The digit as ASCII: of Latin, full-width, Arabic, Persian and Devanagari writing.
fn digit(letter: char) -> Option<char> {
    let zero = match letter {
        '0'..='9' => return Some(letter),
        '\u{FF10}'..='\u{FF19}' => 0xFF10,
        '\u{0660}'..='\u{0669}' => 0x0660,
        '\u{06F0}'..='\u{06F9}' => 0x06F0,
        '\u{0966}'..='\u{096F}' => 0x0966,
        _ => return None,
    };
    char::from_digit(u32::from(letter) - zero, 10)
}

fn fault(code: &str, param: &str, message: &str) -> Refusal {
    Refusal::card(message).code(code).param(param)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-06-15 12:00 UTC.
    const NOW: i64 = 1_781_524_800;

    fn code(number: &str, month: &str, year: &str, cvc: &str) -> Option<String> {
        let card = Typed { number, exp_month: month, exp_year: year, cvc: Some(cvc), name: None, email: None };
        tokenize(&card, NOW).err().map(|refusal| refusal.code_text().unwrap().to_owned())
    }

    #[test]
    fn numbers_are_read_as_people_type_them() {
        for number in
            ["4242 4242 4242 4242", "4242-4242-4242-4242", "４２４２４２４２４２４２４２４２", "4242\u{a0}424242424242"]
        {
            assert_eq!(code(number, "12", "34", "123"), None, "{number}");
        }
        for number in ["", "4242", "4242424242424241", "4242 4242 4242 424x", "42424242424242424242424242"] {
            assert_eq!(code(number, "12", "34", "123").as_deref(), Some("incorrect_number"), "{number}");
        }
        assert_eq!(code("4111111111111111", "12", "34", "123").as_deref(), Some("card_declined"));
    }

    #[test]
    fn expiry_and_security_code_are_checked() {
        let good = "4242424242424242";
        for (month, year) in [("06", "26"), ("6", "2026"), ("12", "2076")] {
            assert_eq!(code(good, month, year, "123"), None, "{month}/{year}");
        }
        for (month, year) in [("0", "30"), ("13", "30"), ("", "30"), ("05", "2026"), ("x", "30")] {
            assert_eq!(code(good, month, year, "123").as_deref(), Some("invalid_expiry_month"), "{month}/{year}");
        }
        for year in ["25", "2025", "2077", "", "202", "99"] {
            assert_eq!(code(good, "12", year, "123").as_deref(), Some("invalid_expiry_year"), "{year}");
        }
        for cvc in ["", "12", "1234", "12a"] {
            assert_eq!(code(good, "12", "34", cvc).as_deref(), Some("invalid_cvc"), "{cvc}");
        }
        assert_eq!(code("378282246310005", "12", "34", "1234"), None);
    }

    #[test]
    fn a_month_ends_when_it_has_ended_everywhere() {
        // 2026-07-01 11:00 UTC: still June on Baker Island. An hour and a half later it is not.
        let card =
            Typed { number: "4242424242424242", exp_month: "06", exp_year: "26", cvc: None, name: None, email: None };
        assert!(tokenize(&card, 1_782_903_600).is_ok());
        assert!(tokenize(&card, 1_782_909_000).is_err());
    }

    #[test]
    fn one_field_expiries_are_split() {
        let split = |typed| {
            let (month, year) = split_expiry(typed);
            format!("{month}|{year}")
        };
        assert_eq!(split("12/34"), "12|34");
        assert_eq!(split(" 12 / 2034 "), "12|2034");
        assert_eq!(split("1234"), "12|34");
        assert_eq!(split("122034"), "12|2034");
        assert_eq!(split("1/34"), "1|34");
        assert_eq!(split("134"), "1|34");
        assert_eq!(split("12-34"), "12|34");
        assert_eq!(split("2034-12"), "12|2034");
        assert_eq!(split("１２／３４"), "12|34");
        assert_eq!(split("12"), "12|");
        assert_eq!(split("soon"), "|");
    }
}
