//! Webhook endpoints: where events are sent, and with which secrets they are signed. A secret is told once, in the answer
//! that makes the endpoint.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::answer::{Answer, Refusal};
use crate::events;
use crate::ids;
use crate::records::Endpoint;
use crate::request::Call;
use crate::routes::Done;
use crate::state::{Change, Put, State};

const CREATE_PARAMS: &[&str] =
    &["api_version", "connect", "description", "enabled_events", "expand", "metadata", "url"];
const UPDATE_PARAMS: &[&str] = &["description", "disabled", "enabled_events", "expand", "metadata", "url"];
/// As many as the provider allows.
const MAX_ENDPOINTS: usize = 16;
const MAX_ENABLED_EVENTS: usize = 100;

/// An address that gets events, as the sandbox's own settings name it.
#[derive(Clone, Debug)]
pub struct SetEndpoint {
    /// Where events are posted, e.g. `http://127.0.0.1:3000/webhooks/stripe`.
    pub url: String,
    /// What they are signed with, e.g. `whsec_…`.
    pub secret: String,
}

/// Whether an endpoint gets events of a type.
pub fn wants(endpoint: &Endpoint, kind: &str) -> bool {
    !endpoint.disabled && events::is_one_of(kind, &endpoint.enabled_events)
}

/// What an endpoint's events are signed with now, newest first.
pub fn secrets<'a>(endpoint: &'a Endpoint, set: &'a [SetEndpoint], now_ms: i64) -> impl Iterator<Item = &'a str> {
    let old = endpoint.old_secrets.iter().filter(move |(_, until_ms)| *until_ms > now_ms);
    secret(endpoint, set).into_iter().chain(old.map(|(secret, _)| secret.as_str()))
}

/// An endpoint's own secret, or that of the settings.
pub fn secret<'a>(endpoint: &'a Endpoint, set: &'a [SetEndpoint]) -> Option<&'a str> {
    let of_settings = || set.iter().find(|set| set.url == endpoint.url).map(|set| set.secret.as_str());
    endpoint.secret.as_deref().or_else(of_settings)
}

/// A new endpoint; an event list that is empty means every event.
pub fn endpoint(
    state: &State,
    url: &str,
    enabled_events: Vec<String>,
    secret: Option<String>,
    now: i64,
) -> Result<Endpoint, Refusal> {
    let url = check_url(url)?;
    if state.endpoints.oldest_rows_first().count() >= MAX_ENDPOINTS {
        return Err(Refusal::invalid(format!("There can be at most {MAX_ENDPOINTS} webhook endpoints.")));
    }
    let enabled_events = check_events(enabled_events)?;
    Ok(Endpoint {
        id: ids::new("we"),
        url,
        enabled_events: if enabled_events.is_empty() { vec!["*".to_owned()] } else { enabled_events },
        secret: Some(secret.unwrap_or_else(|| ids::new("whsec"))),
        old_secrets: Vec::new(),
        api_version: None,
        description: None,
        metadata: BTreeMap::new(),
        disabled: false,
        is_set: false,
        created: now,
    })
}

pub fn create(change: &mut Change<'_>, call: &Call) -> Result<Done, Refusal> {
    let params = &call.params;
    params.only(CREATE_PARAMS)?;
    let url = params.required("url")?;
    let enabled_events = owned(&params.list("enabled_events"));
    if enabled_events.is_empty() {
        let what = "The parameter enabled_events is required.";
        return Err(Refusal::invalid(what).code("parameter_missing").param("enabled_events"));
    }
    let mut endpoint = endpoint(change.state, url, enabled_events, None, call.now())?;
    endpoint.api_version = params.text("api_version").map(str::to_owned);
    endpoint.description = params.text("description").map(str::to_owned);
    endpoint.metadata = params.metadata()?;
    change.put(Put::Endpoint(endpoint.clone()));
    let mut body = render(&endpoint);
    if let Some(fields) = body.as_object_mut() {
        fields.insert("secret".into(), json!(endpoint.secret));
    }
    Ok(Done::executed(Answer::json(200, &body)))
}

pub fn update(change: &mut Change<'_>, call: &Call, id: &str) -> Result<Done, Refusal> {
    let params = &call.params;
    params.only(UPDATE_PARAMS)?;
    let mut endpoint = find(change.state, id)?;
    if let Some(url) = params.text("url") {
        endpoint.url = check_url(url)?;
    }
    let enabled_events = check_events(owned(&params.list("enabled_events")))?;
    if !enabled_events.is_empty() {
        endpoint.enabled_events = enabled_events;
    }
    if let Some(disabled) = params.text("disabled") {
        endpoint.disabled = disabled == "true";
    }
    if let Some(description) = params.text("description") {
        endpoint.description = Some(description.to_owned());
    }
    endpoint.metadata = params.merge_metadata(endpoint.metadata)?;
    change.put(Put::Endpoint(endpoint.clone()));
    Ok(Done::executed(Answer::json(200, &render(&endpoint))))
}

pub fn retrieve(state: &State, call: &Call, id: &str) -> Result<Done, Refusal> {
    call.params.only(&["expand"])?;
    Ok(Done::read(Answer::json(200, &render(&find(state, id)?))))
}

/// What it has not got yet, it never gets.
pub fn delete(change: &mut Change<'_>, id: &str) -> Result<Done, Refusal> {
    find(change.state, id)?;
    change.put(Put::EndpointGone { id: id.to_owned() });
    let body = json!({"id": id, "object": "webhook_endpoint", "deleted": true});
    Ok(Done::executed(Answer::json(200, &body)))
}

/// Brings the endpoints of the settings into the state: new ones are made, and those of earlier settings that are gone are
/// removed. The secrets stay in the settings, which win over a rotation in an earlier process.
pub fn bring_in(change: &mut Change<'_>, set: &[SetEndpoint], now: i64) -> Result<(), Refusal> {
    let known: Vec<Endpoint> = change.state.endpoints.oldest_rows_first().filter(|it| it.is_set).cloned().collect();
    for old in known.iter().filter(|old| set.iter().all(|wanted| wanted.url != old.url)) {
        change.put(Put::EndpointGone { id: old.id.clone() });
    }
    for wanted in set {
        match known.iter().find(|old| old.url == wanted.url) {
            Some(old) if old.secret.is_none() => {}
            Some(old) => change.put(Put::Endpoint(Endpoint { secret: None, ..old.clone() })),
            None => {
                let made = endpoint(change.state, &wanted.url, Vec::new(), None, now)?;
                change.put(Put::Endpoint(Endpoint { is_set: true, secret: None, url: wanted.url.clone(), ..made }));
            }
        }
    }
    Ok(())
}

pub fn find(state: &State, id: &str) -> Result<Endpoint, Refusal> {
    state.endpoints.row(id).cloned().ok_or_else(|| Refusal::no_such("webhook endpoint", "webhook_endpoint", id))
}

pub fn render(endpoint: &Endpoint) -> Value {
    json!({
        "id": endpoint.id,
        "object": "webhook_endpoint",
        "api_version": endpoint.api_version,
        "application": null,
        "created": endpoint.created,
        "description": endpoint.description,
        "enabled_events": endpoint.enabled_events,
        "livemode": false,
        "metadata": endpoint.metadata,
        "status": if endpoint.disabled { "disabled" } else { "enabled" },
        "url": endpoint.url,
    })
}

fn check_url(url: &str) -> Result<String, Refusal> {
    let checked = crate::form::web_address(url).map(String::from);
    checked.ok_or_else(|| {
        Refusal::invalid("url must be an absolute http or https address.").code("url_invalid").param("url")
    })
}

fn check_events(enabled_events: Vec<String>) -> Result<Vec<String>, Refusal> {
    if enabled_events.len() > MAX_ENABLED_EVENTS {
        let what = format!("There can be at most {MAX_ENABLED_EVENTS} types of events.");
        return Err(Refusal::invalid(what).param("enabled_events"));
    }
    Ok(enabled_events)
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
