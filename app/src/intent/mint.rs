//! Makes the UUID of a checkout intent.
//!
//! Promises: version 4, from the browser's cryptographic source, also on plain http, where `crypto.randomUUID` is missing.
//! Never falls back to anything guessable. Called when an intent has definitely ended; never by a click, a render or a timer.

/// A version 4 UUID, made of 16 random bytes.
pub fn v4(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0f | 0x40;
    random[8] = random[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in random.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for half in [byte >> 4, byte & 0x0f] {
            text.extend(char::from_digit(u32::from(half), 16));
        }
    }
    text
}

/// Whether the text is a version 4 UUID as [`v4`] writes it. What a browser stored may have been tampered with.
pub fn is_v4(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            14 => byte == b'4',
            19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// A fresh UUID, or `None` where the browser has no cryptographic source.
#[cfg(feature = "hydrate")]
pub fn fresh() -> Option<String> {
    random().map(v4)
}

/// Sixteen bytes of the browser's cryptographic source.
#[cfg(feature = "hydrate")]
pub fn random() -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    web_sys::window()?.crypto().ok()?.get_random_values_with_u8_array(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b22_is_version_4_whatever_the_bytes() {
        for bytes in [[0; 16], [0xff; 16], [0x5a; 16]] {
            assert!(is_v4(&v4(bytes)), "{}", v4(bytes));
        }
        assert_eq!(v4([0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(v4([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn b27_odd_forms_are_not_taken_from_storage() {
        let good = "7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11";
        assert!(is_v4(good));
        for odd in [
            "",
            " ",
            "undefined",
            "7F3C1E0A-5B1D-4C8E-9A52-0D6F2B7E4A11",
            "{7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11}",
            "7f3c1e0a5b1d4c8e9a520d6f2b7e4a11",
            " 7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11",
            "7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11\n",
            "7f3c1e0a-5b1d-1c8e-9a52-0d6f2b7e4a11",
            "00000000-0000-0000-0000-000000000000",
        ] {
            assert!(!is_v4(odd), "{odd:?}");
        }
    }
}
