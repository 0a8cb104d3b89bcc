//! Reads and checks a request: address, key, size, parameters, idempotency key. What is refused here did nothing and is
//! remembered nowhere but in the log of calls.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};

use crate::answer::Refusal;
use crate::calls::{Entry, Outcome};
use crate::events::{API_VERSION, Cause};
use crate::faults::Subject;
use crate::form::Params;
use crate::routes::{Caller, Object, Op};
use crate::state::State;
use crate::{Config, READ_SECONDS, Sandbox, clock, idempotency};

pub const VERSION_HEADER: &str = "stripe-version";
const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_LOGGED_PATH_CHARS: usize = 200;

/// One call, checked and ready to be executed.
pub struct Call {
    pub op: Op,
    pub method: Method,
    pub path: String,
    pub key: Option<String>,
    pub params: Params,
    /// Hash of the parameters, for the idempotency key.
    pub fingerprint: String,
    /// The address it came to, e.g. `http://127.0.0.1:3001`.
    pub base: String,
    pub request_id: String,
    /// The version of the API that it names.
    pub version: String,
    /// When it arrived, and later when it is executed.
    pub at_ms: i64,
    /// The decline that a fault wants.
    pub decline: Option<String>,
    /// Whether a fault wants the key to be ignored.
    pub ignores_key: bool,
    config: Arc<Config>,
}

impl Call {
    /// The instant of its execution, in seconds.
    pub fn now(&self) -> i64 {
        self.at_ms / 1000
    }

    pub fn endpoint(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub fn is_publishable(&self, key: &str) -> bool {
        key == self.config.publishable_key
    }

    /// How long the bank waits for the customer.
    pub fn bank_wait_ms(&self) -> i64 {
        milliseconds(self.config.bank_wait)
    }

    /// How long a refund that is not settled at once takes.
    pub fn refund_wait_ms(&self) -> i64 {
        milliseconds(self.config.refund_wait)
    }

    /// What made the changes of this call.
    pub fn cause(&self) -> Cause {
        let is_api = self.op.caller() != Caller::Anyone;
        Cause {
            call: self.op.name(),
            at_ms: self.at_ms,
            request_id: is_api.then(|| self.request_id.clone()),
            idempotency_key: self.key.clone().filter(|_| is_api),
        }
    }

    /// The key under which the answer is looked up and remembered. Browsers' forms have none.
    pub fn memory_key(&self) -> Option<&str> {
        let remembers = self.method == Method::POST && self.op.caller() != Caller::Anyone && !self.ignores_key;
        self.key.as_deref().filter(|_| remembers)
    }
}

/// Reads and checks a request. What is refused here is in the log of calls as well.
pub async fn read(sandbox: &Sandbox, request: Request, request_id: &str) -> Result<Call, Refusal> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let op = Op::find(&parts.method, &path);
    let name = op.as_ref().map_or("unknown", Op::name);
    let method = parts.method.clone();
    let key = parts.headers.get("idempotency-key").map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
    let call = async {
        let Some(op) = op else {
            let shown: String = path.chars().take(MAX_LOGGED_PATH_CHARS).collect();
            return Err(Refusal::new(404, "invalid_request_error", format!("There is no {method} {shown} here.")));
        };
        let body = read_body(body).await?;
        let version = version(&parts.headers)?;
        let params = if method == Method::GET || (method == Method::DELETE && body.is_empty()) {
            Params::parse(parts.uri.query().unwrap_or_default().as_bytes())?
        } else {
            check_content_type(&parts.headers)?;
            Params::parse(&body)?
        };
        authorize(&sandbox.config, &op, &parts.headers, &params)?;
        let key = key.as_deref().map(idempotency::check_key).transpose()?;
        Ok(Call {
            op,
            method: method.clone(),
            path: path.clone(),
            key,
            fingerprint: idempotency::fingerprint(&params),
            params,
            base: format!("http://{}", host(&parts.headers).unwrap_or(&sandbox.address)),
            request_id: request_id.to_owned(),
            version,
            at_ms: clock::now_ms(),
            decline: None,
            ignores_key: false,
            config: Arc::clone(&sandbox.config),
        })
    }
    .await;
    if call.is_err() {
        let number = sandbox.calls.begin(entry(name, &method, &path, key.clone(), request_id));
        let status = call.as_ref().err().map(|refusal| refusal.clone().answer().status);
        sandbox.calls.end(number, Outcome::Answered, status, false);
    }
    call
}

async fn read_body(body: Body) -> Result<Bytes, Refusal> {
    let too_large = || {
        let what = format!("A request has at most {MAX_BODY_BYTES} bytes.");
        Refusal::new(413, "invalid_request_error", what)
    };
    match tokio::time::timeout(READ_SECONDS, to_bytes(body, MAX_BODY_BYTES)).await {
        Ok(read) => read.map_err(|_too_large_or_broken_off| too_large()),
        Err(_elapsed) => Err(Refusal::new(408, "invalid_request_error", "The request did not arrive in time.")),
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The version that a call names, if it is the name of one. It makes one difference here: how the kinds of payment methods of a
/// new payment intent are called.
fn version(headers: &HeaderMap) -> Result<String, Refusal> {
    let Some(given) = headers.get(VERSION_HEADER) else { return Ok(API_VERSION.to_owned()) };
    let given = given.to_str().unwrap_or_default();
    let (date, name) = given.split_once('.').unwrap_or((given, "a"));
    let is_date = date.len() == 10
        && date.bytes().enumerate().all(
            |(place, byte)| {
                if matches!(place, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() }
            },
        );
    if is_date && !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Ok(given.to_owned());
    }
    let shown: String = given.chars().take(32).collect();
    Err(Refusal::invalid(format!("'{shown}' is not a version of the API.")))
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    if kind.is_empty() || kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Ok(());
    }
    Err(Refusal::invalid("Parameters are sent form-encoded: application/x-www-form-urlencoded."))
}

fn authorize(config: &Config, op: &Op, headers: &HeaderMap, params: &Params) -> Result<(), Refusal> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = header.and_then(|value| value.split_once(' ')).map(|(_, key)| key.trim());
    let refused = |what: &str| Err(Refusal::new(401, "invalid_request_error", what));
    match op.caller() {
        Caller::Anyone => Ok(()),
        Caller::Browser => match bearer.or_else(|| params.text("key")) {
            Some(key) if key == config.publishable_key || key == config.secret_key => Ok(()),
            Some(_) => refused("This key is not known."),
            None => refused("A publishable key is needed: as Authorization: Bearer, or as the parameter key."),
        },
        Caller::Server => match bearer {
            Some(key) if key == config.secret_key => Ok(()),
            Some(key) if key == config.publishable_key => {
                let refusal = Refusal::new(401, "invalid_request_error", "This call needs the secret key.");
                Err(refusal.code("secret_key_required"))
            }
            Some(_) => refused("This key is not known."),
            None => refused("A secret key is needed, as Authorization: Bearer."),
        },
    }
}

fn host(headers: &HeaderMap) -> Option<&str> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let plain = host.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-:[]".contains(letter));
    (plain && !host.is_empty()).then_some(host)
}

/// A new line for the log of calls.
pub fn entry(call: &'static str, method: &Method, path: &str, key: Option<String>, request_id: &str) -> Entry {
    Entry {
        number: 0,
        at: clock::now_ms(),
        call,
        method: method.to_string(),
        path: path.chars().take(MAX_LOGGED_PATH_CHARS).collect(),
        idempotency_key: key,
        request_id: request_id.to_owned(),
        order: None,
        payment_intent: None,
        outcome: Outcome::Running,
        status: None,
        replayed: false,
    }
}

/// What faults and the log of calls can know of a call before it is executed.
pub fn subject(state: &State, call: &Call) -> Subject {
    let payment_intent = payment_intent(state, call);
    let intent = payment_intent.as_deref().and_then(|id| state.intents.get(id));
    let order = match (&call.op, intent) {
        (Op::CreateIntent, _) => call.params.text("metadata.order").map(str::to_owned),
        (_, Some(intent)) => intent.metadata.get("order").cloned(),
        (_, None) => None,
    };
    Subject { call: call.op.name(), order, payment_intent, event: None }
}

/// The payment intent that a call is about, by whatever object it names.
fn payment_intent(state: &State, call: &Call) -> Option<String> {
    let of_charge = |id: &str| state.charges.get(id).map(|charge| charge.payment_intent.clone());
    let of_refund = |id: &str| state.refunds.row(id).map(|refund| refund.payment_intent.clone());
    let of_dispute = |id: &str| state.disputes.row(id).map(|dispute| dispute.payment_intent.clone());
    match call.op.object() {
        Some(Object::Intent(id)) => Some(id.to_owned()),
        Some(Object::Charge(id)) => of_charge(id),
        Some(Object::Refund(id)) => of_refund(id),
        Some(Object::Dispute(id)) => of_dispute(id),
        None => {
            let named = call.params.text("payment_intent").map(str::to_owned);
            named.or_else(|| of_charge(call.params.text("charge")?))
        }
    }
}
