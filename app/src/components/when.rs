//! An instant as a person reads it, in UTC and saying so. The server writes it once, so that no page depends on the
//! browser's clock, zone or language.

use leptos::prelude::*;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// `at` is RFC 3339 in UTC, e.g. `2026-01-02T03:04:05Z`.
#[component]
pub fn When(at: String) -> impl IntoView {
    let readable = readable(&at).unwrap_or_else(|| at.clone());
    view! { <time datetime=at>{readable}</time> }
}

/// `2 January 2026, 03:04 UTC`; `None` where the text is no instant.
fn readable(at: &str) -> Option<String> {
    let (date, time) = at.split_once('T')?;
    let mut date = date.splitn(3, '-');
    let (year, month, day) = (date.next()?, date.next()?, date.next()?);
    let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
    let day = day.parse::<u8>().ok()?;
    let minutes = time.get(..5).filter(|_| time.ends_with('Z'))?;
    Some(format!("{day} {month} {year}, {minutes} UTC"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(at: &str, expected: Option<&str>) {
        assert_eq!(readable(at).as_deref(), expected, "{at}");
    }

    #[test]
    fn an_instant_is_read_out_in_utc() {
        check("2026-01-02T03:04:05Z", Some("2 January 2026, 03:04 UTC"));
        check("2026-12-31T23:59:59.999999Z", Some("31 December 2026, 23:59 UTC"));
    }

    #[test]
    fn what_is_no_instant_in_utc_is_left_as_it_is() {
        for text in [
            "",
            "yesterday",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-02T03:04:05+02:00",
            "2026-01-02TZ",
        ] {
            check(text, None);
        }
    }
}
