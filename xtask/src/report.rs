//! What people see: one line per step with what it does, and a last line with what went wrong.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

/// Says what begins.
pub fn step(what: impl Display) {
    println!("\n=> {what}");
}

/// Says something beside a step: a choice, a measure, how far it is.
pub fn note(what: impl Display) {
    println!("   {what}");
}

/// The end of a command that failed: what, and below it why, on one line each.
pub fn failure(error: &anyhow::Error) {
    println!("\nfailed: {error}");
    for cause in error.chain().skip(1) {
        println!("   because: {cause}");
    }
}

/// Does something that may take long, and says how long it took if it did.
pub fn timed<T>(what: impl Display, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    step(&what);
    let started = Instant::now();
    let done = work()?;
    if started.elapsed() > Duration::from_secs(2) {
        note(format_args!("done in {}", seconds(started.elapsed())));
    }
    Ok(done)
}

/// `4.2 s`, or `3 min 20 s`.
pub fn seconds(time: Duration) -> String {
    let whole = time.as_secs();
    if whole < 60 {
        format!("{whole}.{} s", time.subsec_millis() / 100)
    } else {
        format!("{} min {} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::seconds;

    #[test]
    fn times_are_short_to_read() {
        assert_eq!(seconds(Duration::from_millis(4_260)), "4.2 s");
        assert_eq!(seconds(Duration::from_secs(200)), "3 min 20 s");
    }
}
