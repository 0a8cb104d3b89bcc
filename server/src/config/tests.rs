//! What the settings promise to whoever sets them.

use clap::{CommandFactory as _, Parser as _};

use super::{CardFields, Cli, Database, Problems, Provider, SETTINGS, Settings};

fn read(variables: &[(&str, &str)]) -> Result<Settings, Problems> {
    let cli = Cli::parse_from(["payonce", "serve"]);
    Settings::from_variables(&cli, variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn problems(variables: &[(&str, &str)]) -> String {
    read(variables).map(|_settings| ()).expect_err("these settings are wrong").to_string()
}

#[test]
fn nothing_set_is_the_demo_on_loopback() {
    let settings = read(&[]).expect("the defaults work");
    assert_eq!(settings.addr.to_string(), "127.0.0.1:3000");
    assert_eq!(settings.sandbox_addr.to_string(), "127.0.0.1:3001");
    assert!(matches!(settings.database, Database::Embedded));
    assert!(matches!(settings.provider, Provider::Sandbox));
}

#[test]
fn every_problem_is_reported_at_once() {
    let text = problems(&[
        ("PAYONCE_ADDR", "here"),
        ("PAYONCE_PROVIDER_TIMEOUT_MS", "1e3"),
        ("PAYONCE_LOG", "payments=loud"),
        ("PAYONCE_PUBLIC_URL", "shop.example"),
    ]);
    for name in ["PAYONCE_ADDR", "PAYONCE_PROVIDER_TIMEOUT_MS", "PAYONCE_LOG", "PAYONCE_PUBLIC_URL"] {
        assert!(text.contains(name), "{name} is missing from: {text}");
    }
}

#[test]
fn answers_are_kept_for_an_hour_at_least_and_a_year_at_most() {
    assert_eq!(read(&[]).expect("the default works").retention.as_secs(), 24 * 3_600);
    assert!(read(&[("PAYONCE_RETENTION_HOURS", "8760")]).is_ok());
    for wrong in ["0", "8761", "-1", "1.5", "24h"] {
        assert!(problems(&[("PAYONCE_RETENTION_HOURS", wrong)]).contains("from 1 to 8760"), "{wrong}");
    }
}

#[test]
fn the_reconciliation_comes_every_hour_or_never() {
    assert_eq!(read(&[]).expect("the default works").reconcile_every, Some(std::time::Duration::from_hours(1)));
    assert_eq!(read(&[("PAYONCE_RECONCILE_MINUTES", "0")]).expect("never").reconcile_every, None);
    for wrong in ["10081", "-1", "1h"] {
        assert!(problems(&[("PAYONCE_RECONCILE_MINUTES", wrong)]).contains("from 0 to 10080"), "{wrong}");
    }
}

#[test]
fn an_unknown_setting_is_an_error_with_a_suggestion() {
    assert!(problems(&[("PAYONCE_ADR", "127.0.0.1:1")]).contains("did you mean PAYONCE_ADDR?"));
    assert!(problems(&[("payonce_shop_name", "x")]).contains("did you mean PAYONCE_SHOP_NAME?"));
    assert!(problems(&[("PAYONCE_COLOUR", "x")]).contains("payonce --help"));
}

#[test]
fn variables_of_others_are_left_alone_and_empty_means_unset() {
    let settings =
        read(&[("PATH", "/bin"), ("DATABASE_URL", ""), ("PAYONCE_ADDR", "")]).expect("nothing of ours is set");
    assert!(matches!(settings.database, Database::Embedded));
}

#[test]
fn secrets_are_shown_neither_by_debug_nor_by_errors() {
    let settings = read(&[
        ("DATABASE_URL", "postgres://payonce:hunter2@db/payonce"),
        ("PAYONCE_PROVIDER_SECRET_KEY", "sk_test_hunter2"),
    ])
    .expect("both are well formed");
    assert!(!format!("{settings:?}").contains("hunter2"));
    assert!(!problems(&[("DATABASE_URL", "mysql://payonce:hunter2@db/payonce")]).contains("hunter2"));
}

#[test]
fn what_is_wrong_with_the_address_of_a_database_is_told_and_the_password_is_not() {
    for (url, told) in [
        ("mysql://payonce:hunter2@db/payonce", "does not begin with postgres://"),
        ("postgres://payonce:hunter2@db:54x2/payonce", "no number from 1 to 65535"),
        ("postgres://payonce:hunt/er2@db/payonce", "percent-encoded"),
        ("postgres://payonce:hunter2@a:1,b:2,c:3/payonce?host=d,e", "2 hosts and 3 ports"),
        ("postgres://payonce:hunter2@db/payonce?target_session_attrs=standby", "payments need the primary"),
    ] {
        let text = problems(&[("DATABASE_URL", url)]);
        assert!(text.contains(told) && !text.contains("hunt"), "{text}");
    }
    assert!(read(&[("DATABASE_URL", "postgres://u:p@h1:5432,h2:5433/db?target_session_attrs=read-write")]).is_ok());
}

#[test]
fn a_provider_of_ones_own_needs_keys_of_ones_own() {
    let text = problems(&[("PAYONCE_PROVIDER_URL", "https://api.provider.example")]);
    assert!(text.contains("PAYONCE_PROVIDER_SECRET_KEY must be set"), "{text}");
    assert!(read(&[("PAYONCE_PROVIDER_URL", "http://127.0.0.1:3001")]).is_ok());
}

/// Stripe's test keys and API, nothing else set.
const STRIPE: [(&str, &str); 3] = [
    ("PAYONCE_PROVIDER_URL", "https://api.stripe.com"),
    ("PAYONCE_PROVIDER_SECRET_KEY", "sk_test_abcdef"),
    ("PAYONCE_PROVIDER_PUBLISHABLE_KEY", "pk_test_abcdef"),
];

#[test]
fn whose_api_it_is_decides_whose_card_fields_they_are() {
    assert_eq!(read(&STRIPE).expect("it works").card_fields, CardFields::Element);
    assert_eq!(read(&[]).expect("it works").card_fields, CardFields::Own);
    let own = [("PAYONCE_PROVIDER_URL", "http://127.0.0.1:3001")];
    assert_eq!(read(&own).expect("it works").card_fields, CardFields::Own);
    let chosen = [("PAYONCE_CARD_FIELDS", "element")];
    assert_eq!(read(&chosen).expect("it works").card_fields, CardFields::Element);
    assert!(problems(&[("PAYONCE_CARD_FIELDS", "theirs")]).contains("neither own nor element"));
    let text = problems(&[STRIPE[0], STRIPE[1], STRIPE[2], ("PAYONCE_CARD_FIELDS", "own")]);
    assert!(text.contains("PAYONCE_CARD_FIELDS is own"), "{text}");
}

#[test]
fn keys_of_two_modes_and_live_keys_for_the_sandbox_are_refused() {
    let (secret, public) = ("PAYONCE_PROVIDER_SECRET_KEY", "PAYONCE_PROVIDER_PUBLISHABLE_KEY");
    let live = [(secret, "sk_live_abcdef"), (public, "pk_live_abcdef")];
    assert!(read(&[STRIPE[0], live[0], live[1]]).is_ok());
    for mixed in [[live[0], STRIPE[2]], [STRIPE[1], live[1]], [(secret, "rk_live_abcdef"), STRIPE[2]]] {
        let text = problems(&[STRIPE[0], mixed[0], mixed[1]]);
        assert!(text.contains("one is a live key") && !text.contains("abcdef"), "{text}");
    }
    let text = problems(&live);
    assert!(text.contains("PAYONCE_PROVIDER_URL must be set with live keys") && !text.contains("abcdef"), "{text}");
    let text = problems(&[("PAYONCE_PROVIDER_URL", "http://api.stripe.com"), STRIPE[1], STRIPE[2]]);
    assert!(text.contains("https://"), "{text}");
}

#[test]
fn localhost_is_an_address_and_two_services_on_one_are_refused() {
    assert!(read(&[("PAYONCE_ADDR", "localhost:8080")]).is_ok());
    assert!(problems(&[("PAYONCE_ADDR", "127.0.0.1:3001")]).contains("are both 127.0.0.1:3001"));
}

#[test]
fn the_help_names_every_setting() {
    let help = Cli::command().render_help().to_string();
    for setting in SETTINGS {
        assert!(help.contains(setting.name), "{} is missing", setting.name);
    }
}

#[test]
fn an_unknown_command_or_flag_is_refused() {
    for line in [&["payonce", "server"][..], &["payonce", "serve", "--port", "1"], &["payonce"]] {
        assert!(Cli::try_parse_from(line).is_err(), "{line:?}");
    }
}

#[test]
fn a_lease_is_longer_than_a_call_to_the_provider() {
    assert!(read(&[("PAYONCE_LEASE_MS", "10001")]).is_ok());
    let text = problems(&[("PAYONCE_LEASE_MS", "2000"), ("PAYONCE_PROVIDER_TIMEOUT_MS", "2000")]);
    assert!(text.contains("PAYONCE_LEASE_MS (2000)") && text.contains("PAYONCE_PROVIDER_TIMEOUT_MS (2000)"), "{text}");
}

#[test]
fn a_secret_key_is_never_taken_for_the_publishable_one() {
    for secret in ["sk_live_abcdef", "rk_live_abcdef", "whsec_abcdefghijk"] {
        let text = problems(&[("PAYONCE_PROVIDER_PUBLISHABLE_KEY", secret)]);
        assert!(text.contains("PAYONCE_PROVIDER_PUBLISHABLE_KEY is a secret key") && !text.contains(secret), "{text}");
    }
    assert!(read(&[("PAYONCE_PROVIDER_PUBLISHABLE_KEY", "pk_test_abcdef")]).is_ok());
}

/// A secret in a slightly wrong form would make every delivery fail.
#[test]
fn b73_the_secrets_of_webhooks_are_checked_at_the_start() {
    let two = read(&[("PAYONCE_WEBHOOK_SECRETS", "whsec_0123456789, whsec_9876543210\n")]).expect("two secrets");
    assert_eq!(two.webhook_secrets.len(), 2);
    assert!(read(&[("PAYONCE_WEBHOOK_SECRETS", "")]).expect("unset").webhook_secrets.is_empty());
    for wrong in
        ["0123456789abcdef", "whsec_", "Bearer whsec_0123456789", "whsec_0123456789,", "whsec_0123456789 whsec_1"]
    {
        let text = problems(&[("PAYONCE_WEBHOOK_SECRETS", wrong)]);
        assert!(
            text.contains("PAYONCE_WEBHOOK_SECRETS must be")
                && text.contains("at least ten")
                && !text.contains("0123456789"),
            "{wrong}: {text}"
        );
    }
}
