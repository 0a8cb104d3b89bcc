//! Charges: looked at, and described anew. Money moves in `intents` and goes back in `refunds`.

use crate::answer::{Answer, Refusal};
use crate::render::Renderer;
use crate::request::Call;
use crate::routes::Done;
use crate::state::{Change, Put, State};

const UPDATE_PARAMS: &[&str] = &["description", "expand", "metadata"];
const EXPANDABLE: &[&str] = &["payment_intent"];

pub fn retrieve(state: &State, call: &Call, id: &str) -> Result<Done, Refusal> {
    call.params.only(&["expand"])?;
    let charge = state.charges.get(id).ok_or_else(|| Refusal::no_such("charge", "id", id))?;
    let body = Renderer::new(state, &call.base, &call.params, EXPANDABLE)?.charge(&charge);
    Ok(Done::read(Answer::json(200, &body)))
}

pub fn update(change: &mut Change<'_>, call: &Call, id: &str) -> Result<Done, Refusal> {
    let params = &call.params;
    params.only(UPDATE_PARAMS)?;
    Renderer::new(change.state, &call.base, params, EXPANDABLE)?;
    let found = change.state.charges.get(id).ok_or_else(|| Refusal::no_such("charge", "id", id))?;
    let mut charge = found.into_owned();
    charge.metadata = params.merge_metadata(charge.metadata)?;
    if let Some(description) = params.text("description") {
        charge.description = Some(description.to_owned());
    }
    change.put(Put::Charge(charge.clone()));
    let body = Renderer::new(change.state, &call.base, params, EXPANDABLE)?.charge(&charge);
    Ok(Done::executed(Answer::json(200, &body)))
}
