//! How long to wait before asking or sending again: exponential, with jitter, and never shorter than the server asked for.
//!
//! Pure: randomness is a parameter. Bounded: the longest wait is [`LONGEST_MS`] beyond what the server asked for.

/// The first wait is between half of this and this.
pub const FIRST_MS: u32 = 400;
/// Backing off ends here: a customer is looking at the page.
pub const LONGEST_MS: u32 = 8_000;
/// More than this a `Retry-After` cannot ask for; beyond it the page would look dead.
const RETRY_AFTER_MAX_SECONDS: u32 = 120;

/// Milliseconds until the `attempt`-th repetition (0 is the first). Half of the wait is fixed and half is random, so that a
/// thousand pages that lost the same server do not come back in the same moment.
pub fn delay_ms(attempt: u32, random: u32, retry_after_seconds: Option<u32>) -> u32 {
    let full = FIRST_MS.saturating_mul(1 << attempt.min(10)).min(LONGEST_MS);
    let half = full / 2;
    let asked = retry_after_seconds.unwrap_or(0).min(RETRY_AFTER_MAX_SECONDS).saturating_mul(1000);
    let backed_off = half + random % (half + 1);
    if asked == 0 { backed_off } else { backed_off.max(asked + random % (FIRST_MS + 1)) }
}

/// The next number of a small deterministic stream (splitmix64). Good enough to spread waits; never used for UUIDs.
pub fn next_random(state: &mut u64) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let bytes = (mixed ^ (mixed >> 31)).to_le_bytes();
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_jitter_stays_in_the_upper_half() {
        for attempt in 0..40 {
            let full = FIRST_MS.saturating_mul(1 << attempt.min(10)).min(LONGEST_MS);
            for random in [0, 1, 7, u32::MAX / 2, u32::MAX] {
                let delay = delay_ms(attempt, random, None);
                assert!((full / 2..=full).contains(&delay), "attempt {attempt}: {delay}");
            }
        }
    }

    #[test]
    fn never_comes_back_before_the_server_asked_for() {
        for random in [0, 3, u32::MAX] {
            assert!(delay_ms(0, random, Some(5)) >= 5_000);
            assert!(delay_ms(0, random, Some(u32::MAX)) <= 121_000);
        }
    }

    #[test]
    fn the_stream_differs_between_pages() {
        let stream = |mut state: u64| [next_random(&mut state), next_random(&mut state)];
        assert_ne!(stream(1), stream(2));
        assert_eq!(stream(3), stream(3));
    }
}
