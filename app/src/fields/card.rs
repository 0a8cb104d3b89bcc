//! Card numbers and security codes.
//!
//! Promises: reads a number however it is grouped or pasted; says how many digits are missing. An unknown brand never blocks.
//! Never decides whether a card is good: the provider has the last word.

use super::{Problem, digit};

/// Who issued the network's number range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    Visa,
    Mastercard,
    Amex,
    Diners,
    Discover,
    Jcb,
    UnionPay,
    Unknown,
}

/// A card number as understood.
#[derive(Clone, PartialEq, Eq)]
pub struct CardNumber {
    pub digits: String,
    pub brand: Brand,
}

impl Brand {
    /// The brand of a number as typed, also of an unfinished one.
    pub fn of(typed: &str) -> Self {
        Self::of_digits(&number_in(typed))
    }

    fn of_digits(digits: &str) -> Self {
        let first = |count: usize| digits.get(..count).and_then(|d| d.parse::<u16>().ok()).unwrap_or(0);
        match (first(1), first(2), first(3), first(4)) {
            (4, ..) => Self::Visa,
            (_, 34 | 37, ..) => Self::Amex,
            (_, 51..=55, ..) | (.., 2221..=2720) => Self::Mastercard,
            (_, 36 | 38 | 39, ..) | (_, _, 300..=305, _) => Self::Diners,
            (.., 3528..=3589) => Self::Jcb,
            (_, 65, ..) | (_, _, 644..=649, _) | (.., 6011) => Self::Discover,
            (_, 62, ..) => Self::UnionPay,
            _ => Self::Unknown,
        }
    }

    /// The name as people know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Visa => "Visa",
            Self::Mastercard => "Mastercard",
            Self::Amex => "American Express",
            Self::Diners => "Diners Club",
            Self::Discover => "Discover",
            Self::Jcb => "JCB",
            Self::UnionPay => "UnionPay",
            Self::Unknown => "this card",
        }
    }

    /// Fewest and most digits.
    const fn lengths(self) -> (usize, usize) {
        match self {
            Self::Visa | Self::Jcb | Self::Discover | Self::UnionPay => (16, 19),
            Self::Mastercard => (16, 16),
            Self::Amex => (15, 15),
            Self::Diners => (14, 19),
            Self::Unknown => (12, 19),
        }
    }

    /// Whether the network's numbers all end in a Luhn check digit.
    const fn has_check_digit(self) -> bool {
        !matches!(self, Self::UnionPay)
    }
}

/// Reads a card number.
///
/// # Errors
/// The sentence to show.
pub fn card_number(typed: &str) -> Result<CardNumber, Problem> {
    let digits = number_in(typed);
    if digits.is_empty() {
        return Err(Problem::unfinished("Enter the card number"));
    }
    let brand = Brand::of_digits(&digits);
    let (fewest, most) = brand.lengths();
    if digits.len() < fewest {
        let short = fewest - digits.len();
        let unit = if short == 1 { " digit short" } else { " digits short" };
        return Err(Problem::unfinished(["Card number is ", &short.to_string(), unit].concat()));
    }
    if digits.len() > most {
        return Err(Problem::wrong("Card number is too long"));
    }
    if brand.has_check_digit() && !luhn(&digits) {
        return Err(Problem::wrong("Check the card number: one digit looks wrong"));
    }
    Ok(CardNumber { digits, brand })
}

/// Reads a security code. For an unknown brand, three or four digits will do.
///
/// # Errors
/// The sentence to show.
pub fn security_code(typed: &str, brand: Brand) -> Result<String, Problem> {
    let digits: String = typed.chars().filter_map(digit).collect();
    if typed.trim().is_empty() {
        return Err(Problem::unfinished("Enter the security code"));
    }
    let odd = typed.chars().any(|c| digit(c).is_none() && !c.is_whitespace());
    let (fits, sentence) = match brand {
        Brand::Amex => (digits.len() == 4, "Security code must be 4 digits for American Express"),
        Brand::Unknown => (matches!(digits.len(), 3 | 4), "Security code must be 3 or 4 digits"),
        Brand::Visa | Brand::Mastercard | Brand::Diners | Brand::Discover | Brand::Jcb | Brand::UnionPay => {
            (digits.len() == 3, "Security code must be 3 digits")
        }
    };
    match (odd, fits, digits.len()) {
        (false, true, _) => Ok(digits),
        (false, false, ..3) => Err(Problem::unfinished(sentence)),
        _ => Err(Problem::wrong(sentence)),
    }
}

/// The number grouped as the card prints it, e.g. `4242 4242 4242 4242`.
pub fn group(digits: &str) -> String {
    let amex = Brand::of_digits(digits) == Brand::Amex;
    let mut grouped = String::with_capacity(digits.len() + 4);
    for (index, character) in digits.chars().enumerate() {
        let starts_group = if amex { matches!(index, 4 | 10) } else { index > 0 && index % 4 == 0 };
        if starts_group {
            grouped.push(' ');
        }
        grouped.push(character);
    }
    grouped
}

/// The longest run of digits, where blanks, hyphens, dots and invisible marks do not end a run, but other text does.
fn number_in(typed: &str) -> String {
    let mut longest = String::new();
    let mut run = String::new();
    for character in typed.chars().chain(['\n']) {
        if let Some(found) = digit(character) {
            run.push(found);
        } else if !joins(character) {
            if run.len() > longest.len() {
                longest = std::mem::take(&mut run);
            }
            run.clear();
        }
    }
    longest
}

/// Whether the character is punctuation inside a number: blanks of every width, hyphens, dots, and marks that pasting brings.
fn joins(character: char) -> bool {
    match character {
        '\n' | '\r' => false,
        '-'
        | '.'
        | '_'
        | '\u{2010}'..='\u{2015}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'
        | '\u{2212}'
        | '\u{feff}'
        | '\u{ff0d}'
        | '\u{b7}' => true,
        other => other.is_whitespace(),
    }
}

fn luhn(digits: &str) -> bool {
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, byte)| {
            let value = u32::from(byte - b'0');
            match (index % 2, value) {
                (0, _) => value,
                (_, 0..=4) => value * 2,
                _ => value * 2 - 9,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}
