//! Disputes: a customer's bank takes a charge back, wholly or in part, until the dispute is closed. Won, the money comes back
//! to the shop; lost, it stays away. What is disputed cannot be refunded as well.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::answer::{Answer, Refusal};
use crate::ids;
use crate::records::{Charge, Dispute, DisputeStatus};
use crate::render;
use crate::request::Call;
use crate::routes::Done;
use crate::state::{Change, Put, State};

const REASONS: &[&str] = &[
    "bank_cannot_process",
    "check_returned",
    "credit_not_processed",
    "customer_initiated",
    "debit_not_authorized",
    "duplicate",
    "fraudulent",
    "general",
    "incorrect_account_details",
    "insufficient_funds",
    "noncompliant",
    "product_not_received",
    "product_unacceptable",
    "subscription_canceled",
    "unrecognized",
];

pub fn retrieve(state: &State, call: &Call, id: &str) -> Result<Done, Refusal> {
    call.params.only(&["expand"])?;
    Ok(Done::read(Answer::json(200, &render::dispute(&find(state, id)?))))
}

/// The shop's answer to the bank; evidence that is submitted ends the shop's turn.
pub fn update(change: &mut Change<'_>, call: &Call, id: &str) -> Result<Done, Refusal> {
    let params = &call.params;
    params.only(&["evidence", "expand", "metadata", "submit"])?;
    let mut dispute = find_open(change.state, id)?;
    dispute.metadata = params.merge_metadata(dispute.metadata)?;
    dispute.has_evidence |= params.has("evidence");
    // The provider submits at once unless it is told to wait.
    if dispute.has_evidence && params.text("submit") != Some("false") {
        dispute.status = DisputeStatus::UnderReview;
    }
    change.put(Put::Dispute(dispute.clone()));
    Ok(Done::executed(Answer::json(200, &render::dispute(&dispute))))
}

/// The shop gives up.
pub fn close(change: &mut Change<'_>, call: &Call, id: &str) -> Result<Done, Refusal> {
    call.params.only(&["expand"])?;
    let dispute = settle(change, id, DisputeStatus::Lost)?;
    Ok(Done::executed(Answer::json(200, &render::dispute(&dispute))))
}

/// Opens a dispute about a charge, or a part of it.
pub fn open(
    change: &mut Change<'_>,
    mut charge: Charge,
    amount: Option<i64>,
    reason: &str,
    now: i64,
) -> Result<Dispute, Refusal> {
    if !REASONS.contains(&reason) {
        return Err(Refusal::invalid(format!("reason is one of {}.", REASONS.join(", "))).param("reason"));
    }
    let is_open =
        charge.dispute.as_deref().and_then(|id| change.state.disputes.row(id)).is_some_and(|it| it.status.is_open());
    if !charge.succeeded() || is_open {
        return Err(Refusal::invalid("Only a charge that succeeded and is not disputed yet can be disputed."));
    }
    let amount = amount.unwrap_or(charge.refundable());
    if amount < 1 || amount > charge.refundable() {
        let what = format!("At most {} of this charge can be disputed.", charge.refundable());
        return Err(Refusal::invalid(what).param("amount"));
    }
    let dispute = Dispute {
        id: ids::new("du"),
        charge: charge.id.clone(),
        payment_intent: charge.payment_intent.clone(),
        amount,
        currency: charge.currency.clone(),
        reason: reason.to_owned(),
        status: DisputeStatus::NeedsResponse,
        metadata: BTreeMap::new(),
        has_evidence: false,
        created: now,
    };
    charge.amount_disputed += amount;
    charge.dispute = Some(dispute.id.clone());
    change.put(Put::Charge(charge));
    change.put(Put::Dispute(dispute.clone()));
    Ok(dispute)
}

/// Moves a dispute that is open; `Won` gives its amount back to the charge.
pub fn settle(change: &mut Change<'_>, id: &str, status: DisputeStatus) -> Result<Dispute, Refusal> {
    let mut dispute = find_open(change.state, id)?;
    let charge = change.state.charges.get(&dispute.charge).filter(|_| status == DisputeStatus::Won);
    if let Some(mut charge) = charge.map(Cow::into_owned) {
        charge.amount_disputed -= dispute.amount;
        change.put(Put::Charge(charge));
    }
    dispute.status = status;
    change.put(Put::Dispute(dispute.clone()));
    Ok(dispute)
}

fn find(state: &State, id: &str) -> Result<Dispute, Refusal> {
    state.disputes.row(id).cloned().ok_or_else(|| Refusal::no_such("dispute", "dispute", id))
}

fn find_open(state: &State, id: &str) -> Result<Dispute, Refusal> {
    let dispute = find(state, id)?;
    if dispute.status.is_open() {
        return Ok(dispute);
    }
    Err(Refusal::invalid(format!("This dispute is closed: it was {}.", dispute.status.name())))
}
