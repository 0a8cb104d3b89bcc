//! Reads variables, and collects everything that is wrong with them before anything is said.

use std::{collections::BTreeMap, num::NonZeroU32};

use super::{Provider, SETTINGS, Settings, values::number};
use crate::guard::{GuardOptions, proxies::Proxies, rate::Rate};

/// Takes the variables one by one and collects what is wrong with them.
pub(super) struct Reader {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) problems: Vec<String>,
}

impl Reader {
    pub(super) fn new(all: impl Iterator<Item = (String, String)>) -> Self {
        let mut reader = Self { variables: BTreeMap::new(), problems: Vec::new() };
        for (name, value) in all {
            if SETTINGS.iter().any(|setting| setting.name == name) {
                // An empty variable is what `VAR= payonce serve` and most compose files write for "not set".
                if !value.is_empty() {
                    reader.variables.insert(name, value);
                }
            } else if name.to_ascii_uppercase().starts_with("PAYONCE_") {
                reader.problems.push(unknown(&name));
            }
        }
        reader
    }

    pub(super) fn text(&self, name: &str) -> String {
        let default = SETTINGS.iter().find(|setting| setting.name == name).map_or("", |setting| setting.default);
        self.variables.get(name).cloned().unwrap_or_else(|| default.to_owned())
    }

    /// A setting with a default. Where the value is wrong, the default takes its place so that the rest is checked too.
    pub(super) fn parsed<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        let default = SETTINGS.iter().find(|setting| setting.name == name).map_or("", |setting| setting.default);
        self.optional(name, &parse)
            .unwrap_or_else(|| parse(default).expect("every default passes its own check, which the tests prove"))
    }

    pub(super) fn optional<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let value = self.variables.get(name)?;
        match parse(value) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.problems.push(format!("{name} {problem}"));
                None
            }
        }
    }

    pub(super) fn guard(&mut self) -> GuardOptions {
        let mut some = |name| NonZeroU32::new(self.parsed(name, |text| number(text, 0..=1_000_000)));
        let api_key = Rate { per_second: some("PAYONCE_API_RATE_PER_SECOND"), burst: some("PAYONCE_API_BURST") };
        let address =
            Rate { per_second: some("PAYONCE_ADDRESS_RATE_PER_SECOND"), burst: some("PAYONCE_ADDRESS_BURST") };
        GuardOptions { api_key, address, proxies: self.parsed("PAYONCE_TRUSTED_PROXIES", str::parse::<Proxies>) }
    }

    pub(super) fn check_distinct_addresses(&mut self, settings: &Settings) {
        let same = settings.addr == settings.sandbox_addr && settings.addr.port() != 0;
        if same && matches!(settings.provider, Provider::Sandbox) {
            self.problems.push(format!("PAYONCE_ADDR and PAYONCE_SANDBOX_ADDR are both {}", settings.addr));
        }
    }

    /// Nobody takes a payment over from a server that is merely waiting for the provider.
    pub(super) fn check_lease(&mut self, settings: &Settings) {
        if settings.lease <= settings.provider_timeout {
            self.problems.push(format!(
                "PAYONCE_LEASE_MS ({}) has to be longer than PAYONCE_PROVIDER_TIMEOUT_MS ({})",
                settings.lease.as_millis(),
                settings.provider_timeout.as_millis()
            ));
        }
    }
}

/// Names that are this much alike (1 is equal) are taken for a slip of the finger.
const LIKENESS_MIN: f64 = 0.8;

fn unknown(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    let nearest = SETTINGS
        .iter()
        .map(|setting| (strsim::normalized_damerau_levenshtein(&upper, setting.name), setting.name))
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    match nearest {
        Some((likeness, meant)) if likeness >= LIKENESS_MIN => {
            format!("{name} is not a setting; did you mean {meant}?")
        }
        Some(_) | None => format!("{name} is not a setting; `payonce --help` lists them all"),
    }
}
