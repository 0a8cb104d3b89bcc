//! The expiry date of a card.
//!
//! Promises: every usual way to write a month of a year is read; a card is good until its month is over everywhere on Earth.
//! Never guesses: what could be two dates is none.

use super::{Problem, digit};

/// Cards are not issued for longer.
const YEARS_AHEAD_MAX: u16 = 25;

/// A month of a year.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month {
    pub year: u16,
    /// 1 to 12.
    pub month: u8,
}

/// When a card expires: at the end of this month.
pub type Expiry = Month;

impl Month {
    /// The month that it still is somewhere on Earth (UTC−12), by a clock in UTC. `day` starts at 1.
    pub fn still_somewhere(year: u16, month: u8, day: u8, hour: u8) -> Self {
        match (day, hour, month) {
            (1, 0..12, 1) => Self { year: year - 1, month: 12 },
            (1, 0..12, _) => Self { year, month: month - 1 },
            _ => Self { year, month },
        }
    }

    /// As cards print it, e.g. `11/26`.
    fn printed(self) -> String {
        let two = |n: u16| [n / 10 % 10, n % 10].map(|d| char::from_digit(u32::from(d), 10).unwrap_or('0'));
        let mut text = String::from_iter(two(u16::from(self.month)));
        text.push('/');
        text.extend(two(self.year));
        text
    }
}

/// Reads an expiry date: `3/29`, `03/29`, `0329`, `03 / 2029`, `032029`, `03-29`, `2029-03`.
///
/// # Errors
/// The sentence to show.
pub fn expiry(typed: &str, now: Month) -> Result<Expiry, Problem> {
    if typed.trim().is_empty() {
        return Err(Problem::unfinished("Enter the expiry date"));
    }
    let (month, year) = month_and_year(typed).ok_or_else(unclear)?;
    if !(1..=12).contains(&month) {
        return Err(Problem::wrong("Expiry month must be 01 to 12"));
    }
    let month = Month { year, month };
    let last = Month { year: now.year + YEARS_AHEAD_MAX, month: 12 };
    if month < now {
        return Err(Problem::wrong(["Expiry date must be ", &now.printed(), " or later"].concat()));
    }
    if month > last {
        return Err(Problem::wrong(["Expiry date must be ", &last.printed(), " or earlier"].concat()));
    }
    Ok(month)
}

fn unclear() -> Problem {
    Problem::unfinished("Expiry date needs a month and a year, like 06/29")
}

/// Month (unchecked) and full year, or `None` where the text is no such date.
fn month_and_year(typed: &str) -> Option<(u8, u16)> {
    let mut runs: Vec<String> = Vec::new();
    let mut in_run = false;
    for character in typed.trim().chars() {
        match digit(character) {
            Some(found) if in_run => runs.last_mut()?.push(found),
            Some(found) => {
                runs.push(found.to_string());
                in_run = true;
            }
            None if character.is_alphabetic() => return None,
            None => in_run = false,
        }
    }
    match runs.as_slice() {
        [one] => {
            let split = match one.len() {
                3 | 5 => 1,
                6 if one.starts_with("20") => return pair(one.get(4..)?, one.get(..4)?),
                4 | 6 => 2,
                _ => return None,
            };
            pair(one.get(..split)?, one.get(split..)?)
        }
        [year, month] if year.len() == 4 => pair(month, year),
        [month, year] => pair(month, year),
        _ => None,
    }
}

fn pair(month: &str, year: &str) -> Option<(u8, u16)> {
    let full: u16 = year.parse().ok()?;
    match (month.len(), year.len()) {
        (1 | 2, 2) => Some((month.parse().ok()?, 2000 + full)),
        (1 | 2, 4) => Some((month.parse().ok()?, full)),
        _ => None,
    }
}
