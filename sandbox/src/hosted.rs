//! How a card becomes a payment method: by a script (`POST /v1/payment_methods`) or by a plain form of a page without
//! scripts (`POST /hosted/cards`), which sends the browser back to the shop with a card session. Number and security code
//! end here; the shop learns brand, last four digits, name and e-mail.

use url::Url;

use crate::answer::{Answer, Refusal};
use crate::form::web_address;
use crate::ids;
use crate::pages;
use crate::records::Session;
use crate::render;
use crate::request::Call;
use crate::routes::Done;
use crate::state::{Change, Put, State};
use crate::tokens::{Typed, split_expiry, tidy, tokenize};

const METHOD_PARAMS: &[&str] = &["billing_details", "card", "expand", "key", "metadata", "type"];
const MAX_INTENT_CHARS: usize = 64;

pub fn create_method(change: &mut Change<'_>, call: &Call) -> Result<Done, Refusal> {
    let params = &call.params;
    params.only(METHOD_PARAMS)?;
    if params.required("type")? != "card" {
        return Err(Refusal::invalid("The sandbox takes cards only.").param("type"));
    }
    let method = tokenize(
        &Typed {
            number: params.required("card.number")?,
            exp_month: params.required("card.exp_month")?,
            exp_year: params.required("card.exp_year")?,
            cvc: params.given("card.cvc"),
            name: params.text("billing_details.name"),
            email: params.text("billing_details.email"),
        },
        call.now(),
    )?;
    let body = render::method(&method);
    change.put(Put::Method(method));
    Ok(Done::executed(Answer::json(200, &body)))
}

pub fn retrieve_method(state: &State, id: &str) -> Result<Done, Refusal> {
    let method = state.methods.get(id).ok_or_else(|| Refusal::no_such("payment method", "payment_method", id))?;
    Ok(Done::read(Answer::json(200, &render::method(&method))))
}

pub fn retrieve_session(state: &State, id: &str) -> Result<Done, Refusal> {
    let session = state.sessions.get(id).ok_or_else(|| Refusal::no_such("card session", "id", id))?;
    Ok(Done::read(Answer::json(200, &render::session(state, &session))))
}

/// The plain card form. Whatever the card is worth, the browser goes back to the shop; only a form that cannot be trusted
/// with a return gets a page of the sandbox.
pub fn card_form(change: &mut Change<'_>, call: &Call) -> Done {
    let params = &call.params;
    let addresses = (address(call, "return_url"), address(call, "retry_url"));
    let (Some(mut return_url), Some(mut retry_url)) = addresses else {
        let what =
            "The shop did not say where to send you afterwards. Nothing was charged. Please go back to the shop.";
        return Done::read(Answer::html(400, pages::problem("This form is incomplete", what)));
    };
    if !call.is_publishable(params.text("key").unwrap_or_default()) {
        let what = "The shop's key is not known here. Nothing was charged. Please go back to the shop.";
        return Done::read(Answer::html(401, pages::problem("This shop is not known", what)));
    }
    let intent: String = params
        .text("intent")
        .unwrap_or_default()
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
        .take(MAX_INTENT_CHARS)
        .collect();

    let (exp_month, exp_year) = split_expiry(params.text("exp").unwrap_or_default());
    let typed = Typed {
        number: params.text("cardnumber").unwrap_or_default(),
        exp_month: &exp_month,
        exp_year: &exp_year,
        cvc: Some(params.text("cvc").unwrap_or_default()),
        name: params.text("name"),
        email: params.text("email"),
    };
    let mut session = Session {
        id: ids::new("cs"),
        payment_method: None,
        name: typed.name.and_then(|name| tidy(name, 200)),
        email: typed.email.and_then(|email| tidy(email, 320)),
        error_code: None,
        error_param: None,
        intent: (!intent.is_empty()).then(|| intent.clone()),
        created: call.now(),
    };
    let target = match tokenize(&typed, call.now()) {
        Ok(method) => {
            session.payment_method = Some(method.id.clone());
            change.put(Put::Method(method));
            set_query(&mut return_url, &[("session", &session.id), ("intent", &intent)]);
            return_url
        }
        Err(refusal) => {
            session.error_code = refusal.code_text().map(str::to_owned);
            session.error_param = refusal.param_text().map(str::to_owned);
            set_query(&mut retry_url, &[("session", &session.id)]);
            retry_url
        }
    };
    change.put(Put::Session(session));
    Done::executed(Answer::see_other(target.as_str()))
}

fn address(call: &Call, name: &str) -> Option<Url> {
    web_address(call.params.text(name)?)
}

/// Sets parameters of an address and keeps the others. Empty values are left out.
pub fn set_query(url: &mut Url, values: &[(&str, &str)]) {
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| values.iter().all(|(set, _)| name != set))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let set = values.iter().filter(|(_, value)| !value.is_empty());
    let all = kept.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain(set.copied());
    url.query_pairs_mut().clear().extend_pairs(all);
    if url.query() == Some("") {
        url.set_query(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_keeps_what_it_had_and_replaces_what_is_set() {
        let mut url = Url::parse("https://shop.example/a?lang=de&session=cs_old#top").unwrap();
        set_query(&mut url, &[("session", "cs_new"), ("intent", "")]);
        assert_eq!(url.as_str(), "https://shop.example/a?lang=de&session=cs_new#top");
    }
}
