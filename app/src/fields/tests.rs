//! What people type, paste and autofill, by the numbers of the catalogue of faults seen in real checkouts.

use proptest::prelude::*;

use super::*;

const JUNE_2026: Month = Month { year: 2026, month: 6 };

fn check_expiry(typed: &str, expected: Result<(u8, u16), &str>) {
    let read = expiry(typed, JUNE_2026).map(|month| (month.month, month.year)).map_err(|problem| problem.sentence);
    assert_eq!(read, expected.map_err(ToOwned::to_owned), "{typed:?}");
}

fn check_email(typed: &str, expected: Result<&str, &str>) {
    let read = email(typed).map_err(|problem| problem.sentence);
    assert_eq!(read.as_deref().map_err(String::as_str), expected, "{typed:?}");
}

fn check_number(typed: &str, expected: Result<&str, &str>) {
    let read = card_number(typed).map(|number| number.digits).map_err(|problem| problem.sentence);
    assert_eq!(read.as_deref().map_err(String::as_str), expected, "{typed:?}");
}

#[test]
fn b141_a_card_is_good_until_its_month_is_over_everywhere() {
    let good = |typed, year, month, day, hour| expiry(typed, Month::still_somewhere(year, month, day, hour)).is_ok();
    assert!(good("06/26", 2026, 6, 15, 12), "in its month");
    assert!(good("06/26", 2026, 7, 1, 9), "still 30 June in Pago Pago");
    assert!(!good("06/26", 2026, 7, 1, 12), "July everywhere");
    assert!(!good("06/26", 2026, 7, 2, 13), "July for long");
    assert!(!good("05/26", 2026, 6, 15, 12), "last month");
    assert!(good("12/26", 2027, 1, 1, 3), "over New Year");
}

#[test]
fn b142_every_usual_way_to_write_a_month_is_read() {
    for typed in [
        "06/27",
        "6/27",
        "06/2027",
        "06 / 2027",
        "0627",
        "062027",
        "06-27",
        "06.27",
        "06 27",
        "627",
        "62027",
        "2027-06",
        "202706",
        " 06/27 ",
        "06\u{a0}/\u{a0}27",
        "０６／２７",
        "٠٦/٢٧",
    ] {
        check_expiry(typed, Ok((6, 2027)));
    }
    check_expiry("3/29", Ok((3, 2029)));
    check_expiry("2029-03", Ok((3, 2029)));
}

#[test]
fn b142_nonsense_is_refused_with_its_cause() {
    for typed in ["00/27", "0/27", "13/27", "1327"] {
        check_expiry(typed, Err("Expiry month must be 01 to 12"));
    }
    check_expiry("06/2119", Err("Expiry date must be 12/51 or earlier"));
    for typed in ["06/0027", "05/26", "01/20"] {
        check_expiry(typed, Err("Expiry date must be 06/26 or later"));
    }
    for typed in
        ["ab/cd", "06/", "06", "6", "06/127", "06/27/28", "06/27x", "//", "99999999999999999999/27", "06/99999"]
    {
        check_expiry(typed, Err("Expiry date needs a month and a year, like 06/29"));
    }
    check_expiry("", Err("Enter the expiry date"));
    check_expiry(" \u{a0}", Err("Enter the expiry date"));
}

#[test]
fn b145_b146_b148_names_of_any_script_stay_as_they_are() {
    for name in ["Zoë 🤞🏼 Nguyễn", "박지민", "Иван Петров", "שרה לוי", "Seán O'Brien-D’Arcy & Söhne <b>x</b>", "X"]
    {
        assert_eq!(cardholder(name).unwrap(), name);
    }
    assert_eq!(cardholder("  Ana  ").unwrap(), "Ana");
}

#[test]
fn b153_names_have_1_to_200_characters() {
    assert!(cardholder(&"é".repeat(200)).is_ok());
    for long in [201, 255, 256, 10_000] {
        let problem = cardholder(&"é".repeat(long)).unwrap_err();
        assert_eq!(problem.sentence, "Name on the card is too long: 200 characters at most");
    }
    assert_eq!(cardholder(" ").unwrap_err().sentence, "Enter the name on the card");
    assert_eq!(cardholder("a\r\nb").unwrap_err().sentence, "Name on the card must be on one line");
}

#[test]
fn b149_addresses_that_mail_can_be_sent_to_are_accepted() {
    for address in ["ana+shop@example.org", "o'connor@example.ie", "ana@example.museum", "ana@bücher.example", "å@x.y"]
    {
        check_email(address, Ok(address));
    }
    check_email(" ana@example.org ", Ok("ana@example.org"));
}

#[test]
fn b149_bad_addresses_are_refused_with_their_cause_and_break_no_header() {
    check_email("", Err("Enter your e-mail address"));
    check_email("ana.example.org", Err("E-mail address needs an @"));
    check_email("ana@", Err("E-mail address needs a domain after the @, like example.org"));
    check_email("ana@example", Err("E-mail address needs a dot after the @, like example.org"));
    check_email("@example.org", Err("E-mail address needs a name before the @"));
    check_email("ana@example..org", Err("E-mail address has a dot in the wrong place"));
    check_email("a b@example.org", Err("E-mail address must not contain spaces"));
    check_email("ana@example.org\r\nBcc:", Err("E-mail address must not contain spaces"));
    check_email("ana@example.org\r\nBcc: eve@example.org", Err("Enter one e-mail address only"));
    check_email("ana\u{0}@example.org", Err("E-mail address must not contain spaces"));
    check_email("ana@example.org,bob@example.org", Err("Enter one e-mail address only"));
    check_email("Ana<ana@example.org>", Err("E-mail address must not contain <"));
    let long = format!("{}@example.org", "a".repeat(243));
    check_email(&long, Err("E-mail address is too long: 254 characters at most"));
    check_email(&long[1..], Ok(&long[1..]));
}

#[test]
fn a_number_is_read_however_it_is_grouped_or_pasted() {
    for typed in [
        "4242424242424242",
        "4242 4242 4242 4242",
        "4242-4242-4242-4242",
        "4242.4242.4242.4242",
        "4242\u{a0}4242\u{2009}4242\u{202f}4242",
        " \u{200e}4242424242424242\u{200b}",
        "４２４２４２４２４２４２４２４２",
        "Card no: 4242 4242 4242 4242, thank you",
        "Visa (4242–4242–4242–4242)",
    ] {
        check_number(typed, Ok("4242424242424242"));
    }
}

#[test]
fn a_number_with_a_fault_is_refused_with_its_cause() {
    check_number("", Err("Enter the card number"));
    check_number("abc", Err("Enter the card number"));
    check_number("4242 4242 4242 42", Err("Card number is 2 digits short"));
    check_number("4242 4242 4242 424", Err("Card number is 1 digit short"));
    check_number("3782 822463 1000", Err("Card number is 1 digit short"));
    check_number("4242 4242 4242 4242 4242", Err("Card number is too long"));
    check_number("5555 5555 5555 4444 0", Err("Card number is too long"));
    check_number("4242 4242 4242 4241", Err("Check the card number: one digit looks wrong"));
}

#[test]
fn an_unknown_brand_never_blocks() {
    for (number, brand) in [
        ("4000003220000000000", Brand::Visa),
        ("5555555555554444", Brand::Mastercard),
        ("2223003122003222", Brand::Mastercard),
        ("378282246310005", Brand::Amex),
        ("36227206271667", Brand::Diners),
        ("3056930009020004", Brand::Diners),
        ("6011111111111117", Brand::Discover),
        ("3566002020360505", Brand::Jcb),
        ("6200000000000005", Brand::UnionPay),
        ("9792030394440796", Brand::Unknown),
        ("676770000006", Brand::Unknown),
    ] {
        let digits = if number == "4000003220000000000" { luhn_mended(number) } else { number.to_owned() };
        if let Ok(read) = card_number(&digits) {
            assert_eq!(read.brand, brand, "{digits}");
        }
        assert_eq!(Brand::of(&digits), brand, "{digits}");
    }
}

/// The number with its last digit made right.
fn luhn_mended(number: &str) -> String {
    ('0'..='9')
        .map(|last| format!("{}{last}", &number[..number.len() - 1]))
        .find(|candidate| card_number(candidate).is_ok())
        .unwrap()
}

#[test]
fn the_code_has_as_many_digits_as_the_brand_prints() {
    let sentence = |typed, brand| security_code(typed, brand).unwrap_err().sentence;
    assert_eq!(security_code(" 123 ", Brand::Visa).unwrap(), "123");
    assert_eq!(security_code("１２３４", Brand::Amex).unwrap(), "1234");
    assert_eq!(security_code("1234", Brand::Unknown).unwrap(), "1234");
    assert_eq!(sentence("", Brand::Visa), "Enter the security code");
    assert_eq!(sentence("12", Brand::Visa), "Security code must be 3 digits");
    assert_eq!(sentence("123", Brand::Amex), "Security code must be 4 digits for American Express");
    assert_eq!(sentence("12a", Brand::Visa), "Security code must be 3 digits");
}

#[test]
fn grouping_follows_the_brand() {
    assert_eq!(group("4242424242424242"), "4242 4242 4242 4242");
    assert_eq!(group("378282246310005"), "3782 822463 10005");
}

#[test]
fn only_what_is_complete_is_blamed_when_a_field_is_left() {
    let unfinished = |typed| card_number(typed).err().unwrap().unfinished;
    assert!(unfinished("") && unfinished("4242 42"));
    assert!(!unfinished("4242 4242 4242 4241"));
    assert!(expiry("06", JUNE_2026).unwrap_err().unfinished);
    assert!(!expiry("13/27", JUNE_2026).unwrap_err().unfinished);
    assert!(email("ana").unwrap_err().unfinished);
}

#[test]
fn the_whole_form_names_every_fault_in_the_order_of_the_page() {
    let faults = check(&Typed::default(), JUNE_2026).err().unwrap();
    assert_eq!(faults.iter().map(|fault| fault.field).collect::<Vec<_>>(), Field::ALL);
    let good = Typed {
        email: "ana@example.org".into(),
        number: "4242 4242 4242 4242".into(),
        expiry: "12 / 34".into(),
        code: "123".into(),
        name: "Ana Example".into(),
    };
    let checked = check(&good, JUNE_2026).ok().unwrap();
    assert_eq!((checked.expiry.month, checked.expiry.year), (12, 2034));
}

#[test]
fn no_input_makes_a_rule_panic() {
    for odd in ["\u{0}", "\u{202e}", "٣", "🤞🏼", "9".repeat(10_000).as_str(), "-", "é/é", "2é/27", "ééé"] {
        let typed =
            Typed { email: odd.into(), number: odd.into(), expiry: odd.into(), code: odd.into(), name: odd.into() };
        let _ = check(&typed, JUNE_2026);
    }
}

/// What people type is anything, and often nearly right.
fn typed() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9 ./-]{0,24}",
        "[ 0-9٠-٩０-９.\\-\u{200b}a]{0,30}",
        "[a-zé.+@,; <\u{a0}\n]{0,12}@?[a-z.ä@\r]{0,12}",
    ]
}

proptest! {
    /// Whatever is typed is read or refused, with a sentence, and never a panic. What is read is of the form that goes on.
    #[test]
    fn a_number_that_is_read_is_a_number_of_its_network(typed in typed()) {
        match card_number(&typed) {
            Ok(CardNumber { digits, brand }) => {
                prop_assert!((12..=19).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()));
                prop_assert_eq!(Brand::of(&digits), brand);
                let grouped = group(&digits);
                prop_assert_eq!(grouped.replace(' ', ""), digits.clone());
                prop_assert_eq!(card_number(&grouped).map(|again| again.digits).ok(), Some(digits));
            }
            Err(problem) => {
                prop_assert!(!problem.sentence.is_empty());
                let longest = typed.split(|c: char| !c.is_ascii_digit()).max_by_key(|run| run.len()).unwrap_or_default();
                prop_assert!(longest.len() < 5 || !problem.sentence.contains(longest), "never echoes a number");
            }
        }
    }

    /// A date that is read is a month that has not passed and is not too far away, and reads back from how cards print it.
    #[test]
    fn a_date_that_is_read_is_a_month_to_come(typed in typed(), month in 1_u8..=12, year in 2020_u16..2070) {
        let now = Month { year, month };
        if let Ok(read) = expiry(&typed, now) {
            prop_assert!((1..=12).contains(&read.month) && read >= now && read.year <= year + 25, "{read:?}");
            prop_assert_eq!(expiry(&format!("{:02}/{}", read.month, read.year), now).ok(), Some(read));
        }
    }

    #[test]
    fn a_code_that_is_read_is_three_or_four_digits(typed in typed()) {
        for brand in [Brand::Visa, Brand::Amex, Brand::Unknown] {
            if let Ok(code) = security_code(&typed, brand) {
                prop_assert!(matches!(code.len(), 3 | 4) && code.bytes().all(|byte| byte.is_ascii_digit()), "{typed:?}");
            }
        }
    }

    /// An address or a name that is read is what was typed, on one line, and is read again as itself.
    #[test]
    fn a_line_that_is_read_is_what_was_typed(typed in typed()) {
        if let Ok(address) = email(&typed) {
            prop_assert_eq!(&address, typed.trim());
            prop_assert_eq!(address.matches('@').count(), 1);
            prop_assert!(!address.chars().any(|c| c.is_control() || c.is_whitespace()));
            prop_assert_eq!(email(&address).ok(), Some(address));
        }
        if let Ok(name) = cardholder(&typed) {
            prop_assert_eq!(&name, typed.trim());
            prop_assert!(!name.chars().any(char::is_control));
        }
    }
}
