//! Reads form-encoded requests with nested keys (`card[number]`, `metadata[order]`, `created[gte]`, `expand[]`) and hands
//! out typed parameters. What is missing, unknown or of the wrong kind is refused in the provider's shape, before anything
//! happens. It never keeps a parameter longer than its call.

use std::collections::BTreeMap;

use serde::Serialize;
use url::{Url, form_urlencoded};

use crate::answer::Refusal;

const MAX_PAIRS: usize = 200;
const MAX_DEPTH: usize = 4;
const MAX_METADATA_ENTRIES: usize = 50;
const MAX_METADATA_NAME_CHARS: usize = 40;
const MAX_METADATA_VALUE_CHARS: usize = 500;
const MAX_ADDRESS_BYTES: usize = 2048;

/// One value of a form: a text, or a group of named values (lists are groups named 0, 1, …).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Node {
    Text(String),
    Group(BTreeMap<String, Node>),
}

/// The parameters of one call. They serialise in one canonical order, whatever order they came in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<String, Node>);

impl Params {
    /// Reads a form body or a query.
    pub fn parse(encoded: &[u8]) -> Result<Self, Refusal> {
        let mut root = BTreeMap::new();
        for (count, (name, value)) in form_urlencoded::parse(encoded).enumerate() {
            if count >= MAX_PAIRS {
                return Err(Refusal::invalid(format!("A request can have at most {MAX_PAIRS} parameters.")));
            }
            let path = split(&name);
            if path.len() > MAX_DEPTH || !insert(&mut root, &path, value.into_owned()) {
                return Err(Refusal::invalid(format!("The parameter {name} cannot be read."))
                    .code("parameter_invalid")
                    .param(&name));
            }
        }
        Ok(Self(root))
    }

    /// Refuses every parameter that is not in `known`, as a guard against misspelt names.
    pub fn only(&self, known: &[&str]) -> Result<(), Refusal> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Refusal::invalid(format!("This call has no parameter named {name}."))
                .code("parameter_unknown")
                .param(name)),
        }
    }

    /// The text under a path such as `currency` or `card.number`; absent and empty are both `None`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.given(path).filter(|text| !text.is_empty())
    }

    /// As `text`, but an empty text is told apart from an absent one.
    pub fn given(&self, path: &str) -> Option<&str> {
        match self.find(path)? {
            Node::Text(text) => Some(text),
            Node::Group(_) => None,
        }
    }

    /// The text under a path, or the refusal that says it is missing.
    pub fn required(&self, path: &str) -> Result<&str, Refusal> {
        self.text(path).ok_or_else(|| {
            let (code, what) = match self.find(path) {
                None => ("parameter_missing", "is required"),
                Some(Node::Text(_)) => ("parameter_invalid_empty", "must not be empty"),
                Some(Node::Group(_)) => ("parameter_invalid_string", "must be a text"),
            };
            let name = bracketed(path);
            Refusal::invalid(format!("The parameter {name} {what}.")).code(code).param(&name)
        })
    }

    /// The whole number under a path, if there is one.
    pub fn integer(&self, path: &str) -> Result<Option<i64>, Refusal> {
        let Some(text) = self.text(path) else { return Ok(None) };
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(not_an_integer(path));
        }
        text.parse().map(Some).map_err(|_too_large| not_an_integer(path))
    }

    /// The names and texts of `metadata`, within the provider's limits.
    pub fn metadata(&self) -> Result<BTreeMap<String, String>, Refusal> {
        let bad = |what: String| Refusal::invalid(what).code("parameter_invalid").param("metadata");
        let group = match self.0.get("metadata") {
            None => return Ok(BTreeMap::new()),
            Some(Node::Text(text)) if text.is_empty() => return Ok(BTreeMap::new()),
            Some(Node::Text(_)) => return Err(bad("metadata must be named values, as in metadata[order].".into())),
            Some(Node::Group(group)) => group,
        };
        if group.len() > MAX_METADATA_ENTRIES {
            return Err(bad(format!("metadata can have at most {MAX_METADATA_ENTRIES} values.")));
        }
        let mut metadata = BTreeMap::new();
        for (name, value) in group {
            let Node::Text(value) = value else { return Err(bad(format!("metadata[{name}] must be a text."))) };
            if name.chars().count() > MAX_METADATA_NAME_CHARS || value.chars().count() > MAX_METADATA_VALUE_CHARS {
                return Err(bad(format!("metadata[{name}] is too long.")));
            }
            if !value.is_empty() {
                metadata.insert(name.clone(), value.clone());
            }
        }
        Ok(metadata)
    }

    /// Whether there is anything under a name.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Older metadata with the changes of this call: what is given empty is taken away, what is not given stays.
    pub fn merge_metadata(&self, mut old: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Refusal> {
        let new = self.metadata()?;
        match self.0.get("metadata") {
            Some(Node::Group(group)) => old.retain(|name, _| !group.contains_key(name)),
            Some(Node::Text(_)) => old.clear(),
            None => {}
        }
        old.extend(new);
        Ok(old)
    }

    /// The texts of a list such as `expand[]`.
    pub fn list(&self, name: &str) -> Vec<&str> {
        match self.0.get(name) {
            Some(Node::Group(group)) => group
                .values()
                .filter_map(|node| match node {
                    Node::Text(text) => Some(text.as_str()),
                    Node::Group(_) => None,
                })
                .collect(),
            Some(Node::Text(_)) | None => Vec::new(),
        }
    }

    /// An absolute http or https address, if the parameter is there.
    pub fn address(&self, path: &str) -> Result<Option<Url>, Refusal> {
        let Some(text) = self.text(path) else { return Ok(None) };
        web_address(text).map(Some).ok_or_else(|| {
            let name = bracketed(path);
            Refusal::invalid(format!("{name} must be an absolute http or https address."))
                .code("url_invalid")
                .param(&name)
        })
    }

    /// Takes a card's secrets out, so that what is left can be hashed or compared; of the number stay the last four digits.
    pub fn without_card_secrets(mut self) -> Self {
        if let Some(Node::Group(card)) = self.0.get_mut("card") {
            card.remove("cvc");
            if let Some(Node::Text(number)) = card.get_mut("number") {
                *number = last_four(number);
            }
        }
        self.0.remove("cvc");
        if let Some(Node::Text(number)) = self.0.get_mut("cardnumber") {
            *number = last_four(number);
        }
        self
    }

    fn find(&self, path: &str) -> Option<&Node> {
        let mut group = &self.0;
        let mut steps = path.split('.').peekable();
        while let Some(step) = steps.next() {
            let node = group.get(step)?;
            match node {
                found if steps.peek().is_none() => return Some(found),
                Node::Group(inner) => group = inner,
                Node::Text(_) => return None,
            }
        }
        None
    }
}

/// An absolute http or https address without credentials.
pub fn web_address(text: &str) -> Option<Url> {
    if text.len() > MAX_ADDRESS_BYTES {
        return None;
    }
    let url = Url::parse(text).ok()?;
    let plain = url.username().is_empty() && url.password().is_none() && url.has_host();
    (matches!(url.scheme(), "http" | "https") && plain).then_some(url)
}

fn last_four(number: &str) -> String {
    let digits: Vec<char> = number.chars().filter(char::is_ascii_digit).collect();
    digits.iter().skip(digits.len().saturating_sub(4)).collect()
}

fn not_an_integer(path: &str) -> Refusal {
    let name = bracketed(path);
    Refusal::invalid(format!("{name} must be a whole number.")).code("parameter_invalid_integer").param(&name)
}

/// `card.number` as it is written in a request: `card[number]`.
fn bracketed(path: &str) -> String {
    let mut steps = path.split('.');
    let first = steps.next().unwrap_or_default().to_owned();
    steps.fold(first, |name, step| format!("{name}[{step}]"))
}

/// `card[number]` → `card`, `number`; a name with brackets that do not match stays whole.
fn split(name: &str) -> Vec<&str> {
    let Some((first, rest)) = name.split_once('[') else { return vec![name] };
    let Some(rest) = rest.strip_suffix(']') else { return vec![name] };
    if first.is_empty() {
        return vec![name];
    }
    let mut path = vec![first];
    path.extend(rest.split("]["));
    path
}

/// Puts a value at its place. False if the place is taken by a value of the other kind. A repeated name keeps its last value.
fn insert(group: &mut BTreeMap<String, Node>, path: &[&str], value: String) -> bool {
    let Some((step, rest)) = path.split_first() else { return false };
    let step = if step.is_empty() { group.len().to_string() } else { (*step).to_owned() };
    if rest.is_empty() {
        return match group.insert(step, Node::Text(value)) {
            None | Some(Node::Text(_)) => true,
            Some(Node::Group(_)) => false,
        };
    }
    match group.entry(step).or_insert_with(|| Node::Group(BTreeMap::new())) {
        Node::Group(inner) => insert(inner, rest, value),
        Node::Text(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nested_keys_lists_and_escapes_are_read() {
        let params = Params::parse(
            b"amount=4990&card%5Bnumber%5D=4242&metadata[order]=a%20b%26c&expand[]=latest_charge&expand[]=payment_method&created[gte]=12",
        )
        .unwrap();
        assert_eq!(params.text("card.number"), Some("4242"));
        assert_eq!(params.integer("amount").unwrap(), Some(4990));
        assert_eq!(params.integer("created.gte").unwrap(), Some(12));
        assert_eq!(params.metadata().unwrap().get("order").unwrap(), "a b&c");
        assert_eq!(params.list("expand"), ["latest_charge", "payment_method"]);
    }

    #[test]
    fn the_canonical_form_does_not_depend_on_the_order_of_parameters() {
        let one = Params::parse(b"a=1&metadata[x]=2&metadata[y]=3").unwrap();
        let other = Params::parse(b"metadata[y]=3&metadata[x]=2&a=1").unwrap();
        assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&other).unwrap());
    }

    #[test]
    fn odd_names_and_numbers_are_refused_not_guessed() {
        assert!(Params::parse(b"a=1&a[b]=2").is_err());
        assert!(Params::parse(b"a[b][c][d][e]=2").is_err());
        for amount in ["12.5", "1e3", "0x10", "--1", "99999999999999999999", "١٢"] {
            let params = Params::parse(format!("amount={amount}").as_bytes()).unwrap();
            assert_eq!(
                params.integer("amount").unwrap_err().code_text(),
                Some("parameter_invalid_integer"),
                "{amount}"
            );
        }
        assert_eq!(Params::parse(b"b=1").unwrap().only(&["a"]).unwrap_err().code_text(), Some("parameter_unknown"));
        assert_eq!(
            Params::parse(b"a=").unwrap().required("a").unwrap_err().code_text(),
            Some("parameter_invalid_empty")
        );
    }

    #[test]
    fn only_absolute_web_addresses_pass() {
        for good in ["http://127.0.0.1:3000/a?b=c", "https://shop.example/"] {
            assert!(web_address(good).is_some(), "{good}");
        }
        for bad in
            ["javascript:alert(1)", "/review", "//shop.example", "ftp://a/b", "http://me:pw@shop.example/", "http://"]
        {
            assert!(web_address(bad).is_none(), "{bad}");
        }
    }

    proptest! {
        /// Any bytes are read or refused; what is read can be asked for anything, and is within the bounds.
        #[test]
        fn arbitrary_forms_are_read_or_refused(
            encoded in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                "([a-c](\\[[a-c]?\\]){0,5}=[0-9a-c]{0,3}&?){0,9}".prop_map(String::into_bytes),
            ],
        ) {
            if let Ok(params) = Params::parse(&encoded) {
                let pairs = form_urlencoded::parse(&encoded).count();
                prop_assert!(params.0.len() <= pairs.min(MAX_PAIRS));
                for path in ["a", "a.b", "a.b.c", "a.b.c.d", "", "."] {
                    let _read = (params.text(path), params.integer(path).is_ok(), params.address(path).is_ok(), params.list(path));
                }
                let _metadata = params.metadata().is_ok();
                prop_assert!(params.without_card_secrets().given("cvc").is_none());
            }
        }

        /// Texts without structure come back as they were sent.
        #[test]
        fn what_was_encoded_is_what_is_read(values in prop::collection::btree_map("[a-z_]{1,8}", any::<String>(), 0..9)) {
            let encoded = form_urlencoded::Serializer::new(String::new()).extend_pairs(&values).finish();
            let params = Params::parse(encoded.as_bytes()).unwrap();
            for (name, value) in &values {
                prop_assert_eq!(params.given(name), Some(value.as_str()));
            }
        }
    }
}
