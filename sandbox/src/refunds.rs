//! Refunds. Those of a charge never add up to more than the charge: the sum is kept on the charge itself and changes in the
//! same step as a refund is made, or fails. What a dispute holds back cannot be refunded as well.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::answer::{Answer, Refusal};
use crate::ids;
use crate::money;
use crate::records::{Charge, IntentStatus, Later, Refund, RefundConduct, RefundStatus};
use crate::render::Renderer;
use crate::request::Call;
use crate::routes::Done;
use crate::state::{Change, Put, State};

const CREATE_PARAMS: &[&str] = &["amount", "charge", "expand", "metadata", "payment_intent", "reason"];
const REASONS: &[&str] = &["duplicate", "fraudulent", "requested_by_customer"];
const FAILURE_REASONS: &[&str] =
    &["declined", "expired_or_canceled_card", "insufficient_funds", "lost_or_stolen_card", "unknown"];
const EXPANDABLE: &[&str] = &["charge", "payment_intent"];

/// A refund that is wanted, by whomever.
pub struct Wanted<'a> {
    pub charge: Option<&'a str>,
    pub payment_intent: Option<&'a str>,
    /// `None` is all that is left.
    pub amount: Option<i64>,
    pub reason: Option<&'a str>,
    pub metadata: BTreeMap<String, String>,
    pub idempotency_key: Option<String>,
    pub now_ms: i64,
    /// How long it takes if it is not settled at once.
    pub wait_ms: i64,
    /// `None`: as the card has it.
    pub status: Option<RefundStatus>,
}

/// Why there is no refund.
pub enum No {
    /// The request makes no sense; nothing remembers it.
    Refused(Refusal),
    /// The charge does not allow it; the call's key remembers that.
    NotRefundable(Refusal),
}

pub fn create(change: &mut Change<'_>, call: &Call) -> Result<Done, Refusal> {
    let params = &call.params;
    params.only(CREATE_PARAMS)?;
    Renderer::new(change.state, &call.base, params, EXPANDABLE)?;
    let wanted = Wanted {
        charge: params.text("charge"),
        payment_intent: params.text("payment_intent"),
        amount: params.integer("amount")?,
        reason: params.text("reason"),
        metadata: params.metadata()?,
        idempotency_key: call.key.clone(),
        now_ms: call.at_ms,
        wait_ms: call.refund_wait_ms(),
        status: None,
    };
    match make(change, wanted) {
        Ok(refund) => answer(change.state, call, &refund),
        Err(No::NotRefundable(refusal)) => Ok(Done::executed(refusal.answer())),
        Err(No::Refused(refusal)) => Err(refusal),
    }
}

pub fn retrieve(state: &State, call: &Call, id: &str) -> Result<Done, Refusal> {
    call.params.only(&["expand"])?;
    let body = Renderer::new(state, &call.base, &call.params, EXPANDABLE)?.refund(&find(state, id)?);
    Ok(Done::read(Answer::json(200, &body)))
}

pub fn update(change: &mut Change<'_>, call: &Call, id: &str) -> Result<Done, Refusal> {
    call.params.only(&["expand", "metadata"])?;
    Renderer::new(change.state, &call.base, &call.params, EXPANDABLE)?;
    let mut refund = find(change.state, id)?;
    refund.metadata = call.params.merge_metadata(refund.metadata)?;
    change.put(Put::Refund(refund.clone()));
    answer(change.state, call, &refund)
}

/// Only a refund that waits for the customer can be cancelled; others are on their way already.
pub fn cancel(change: &mut Change<'_>, call: &Call, id: &str) -> Result<Done, Refusal> {
    call.params.only(&["expand"])?;
    Renderer::new(change.state, &call.base, &call.params, EXPANDABLE)?;
    let refund = find(change.state, id)?;
    if refund.status != RefundStatus::RequiresAction {
        let what = format!("A refund whose status is {} cannot be canceled.", refund.status.name());
        return Ok(Done::executed(Refusal::invalid(what).answer()));
    }
    let refund = move_to(change, refund, RefundStatus::Canceled, None);
    answer(change.state, call, &refund)
}

/// Makes the refund and takes its amount off what is left of the charge.
pub fn make(change: &mut Change<'_>, wanted: Wanted<'_>) -> Result<Refund, No> {
    check(&wanted).map_err(No::Refused)?;
    let mut charge = find_charge(change.state, &wanted).map_err(No::Refused)?.into_owned();
    let amount = wanted.amount.unwrap_or(charge.refundable());
    if let Some(refusal) = not_refundable(&charge, amount) {
        return Err(No::NotRefundable(refusal));
    }
    let at_ms = wanted.now_ms.saturating_add(wanted.wait_ms);
    let (status, later) = match (wanted.status, charge.payment_method.conduct.refund) {
        (Some(status), _) => (status, None),
        (None, RefundConduct::Succeeds) => (RefundStatus::Succeeded, None),
        (None, RefundConduct::SucceedsLater) => (RefundStatus::Pending, Some(RefundStatus::Succeeded)),
        (None, RefundConduct::FailsLater) => (RefundStatus::Succeeded, Some(RefundStatus::Failed)),
    };
    let refund = Refund {
        id: ids::new("re"),
        charge: charge.id.clone(),
        payment_intent: charge.payment_intent.clone(),
        amount,
        currency: charge.currency.clone(),
        reason: wanted.reason.map(str::to_owned),
        metadata: wanted.metadata,
        idempotency_key: wanted.idempotency_key,
        created: wanted.now_ms / 1000,
        status,
        failure_reason: None,
        later: later.map(|status| Later { at_ms, status }),
    };
    charge.amount_refunded += amount;
    change.put(Put::Charge(charge));
    change.put(Put::Refund(refund.clone()));
    Ok(refund)
}

/// Lets a refund succeed or fail that can still do so.
pub fn settle(
    change: &mut Change<'_>,
    id: &str,
    status: RefundStatus,
    failure_reason: Option<&str>,
) -> Result<Refund, Refusal> {
    let refund = find(change.state, id)?;
    let can = match (refund.status, status) {
        (RefundStatus::Pending | RefundStatus::RequiresAction, RefundStatus::Succeeded | RefundStatus::Failed)
        | (RefundStatus::Succeeded, RefundStatus::Failed) => true,
        (_, _) => false,
    };
    if !can {
        let what = format!("A refund whose status is {} cannot become {}.", refund.status.name(), status.name());
        return Err(Refusal::invalid(what));
    }
    if failure_reason.is_some_and(|reason| !FAILURE_REASONS.contains(&reason)) {
        return Err(Refusal::invalid(format!("failure_reason is one of {}.", FAILURE_REASONS.join(", "))));
    }
    let reason = (status == RefundStatus::Failed).then(|| failure_reason.unwrap_or("unknown").to_owned());
    Ok(move_to(change, refund, status, reason))
}

/// Money that does not go back after all is left on the charge again.
fn move_to(change: &mut Change<'_>, mut refund: Refund, status: RefundStatus, reason: Option<String>) -> Refund {
    let gives_back = refund.status.counts() && !status.counts();
    let charge = change.state.charges.get(&refund.charge).filter(|_| gives_back);
    if let Some(mut charge) = charge.map(Cow::into_owned) {
        charge.amount_refunded -= refund.amount;
        change.put(Put::Charge(charge));
    }
    refund.status = status;
    refund.failure_reason = reason;
    refund.later = None;
    change.put(Put::Refund(refund.clone()));
    refund
}

fn check(wanted: &Wanted<'_>) -> Result<(), Refusal> {
    if wanted.amount.is_some_and(|amount| amount < 1) {
        let what = "The amount of a refund must be at least 1.";
        return Err(Refusal::invalid(what).code("parameter_invalid_integer").param("amount"));
    }
    if wanted.reason.is_some_and(|reason| !REASONS.contains(&reason)) {
        let known = REASONS.join(", ");
        return Err(Refusal::invalid(format!("reason is one of {known}.")).param("reason"));
    }
    Ok(())
}

fn not_refundable(charge: &Charge, amount: i64) -> Option<Refusal> {
    let left = charge.amount - charge.amount_refunded;
    if !charge.succeeded() {
        let what = "This charge did not succeed, so nothing of it can be refunded.";
        Some(Refusal::invalid(what).param("charge"))
    } else if left == 0 {
        let what = format!("The charge {} was refunded completely before.", charge.id);
        Some(Refusal::invalid(what).code("charge_already_refunded"))
    } else if amount > left {
        let (amount, left) = (money::display(amount, &charge.currency), money::display(left, &charge.currency));
        Some(Refusal::invalid(format!("{amount} is more than the {left} that are left to refund.")).param("amount"))
    } else if charge.refundable() <= 0 || amount > charge.refundable() {
        let what = format!("The charge {} is disputed; what the dispute is about cannot be refunded.", charge.id);
        Some(Refusal::invalid(what).code("charge_disputed"))
    } else {
        None
    }
}

fn find(state: &State, id: &str) -> Result<Refund, Refusal> {
    state.refunds.row(id).cloned().ok_or_else(|| Refusal::no_such("refund", "id", id))
}

fn find_charge<'a>(state: &'a State, wanted: &Wanted<'_>) -> Result<Cow<'a, Charge>, Refusal> {
    match (wanted.charge, wanted.payment_intent) {
        (Some(id), None) => state.charges.get(id).ok_or_else(|| Refusal::missing("charge", "charge", id)),
        (None, Some(id)) => {
            let missing = || Refusal::missing("payment_intent", "payment_intent", id);
            let intent = state.intents.get(id).ok_or_else(missing)?;
            let charge = intent.latest_charge.as_deref().and_then(|id| state.charges.get(id));
            charge.filter(|_| intent.status == IntentStatus::Succeeded).ok_or_else(|| {
                Refusal::invalid("This payment intent has no successful charge to refund.").param("payment_intent")
            })
        }
        (Some(_), Some(_)) => Err(Refusal::invalid("Name either charge or payment_intent, not both.").param("charge")),
        (None, None) => {
            let what = "Name what to refund: charge or payment_intent.";
            Err(Refusal::invalid(what).code("parameter_missing").param("charge"))
        }
    }
}

fn answer(state: &State, call: &Call, refund: &Refund) -> Result<Done, Refusal> {
    let body = Renderer::new(state, &call.base, &call.params, EXPANDABLE)?.refund(refund);
    Ok(Done::executed(Answer::json(200, &body)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bulk::Bulk;
    use crate::disputes;
    use crate::events::Cause;
    use crate::records::DisputeStatus;

    const CHARGE: &str = "ch_aaaaaaaaaaaa000000000000";
    const AMOUNT: i64 = 1000;

    #[derive(Clone, Debug)]
    enum Step {
        Refund(Option<i64>, Option<RefundStatus>),
        Settle(usize, RefundStatus),
        Dispute(Option<i64>),
        Close(DisputeStatus),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let amount = || prop::option::of(1_i64..=AMOUNT);
        let made = prop::option::of(prop_oneof![
            Just(RefundStatus::Pending),
            Just(RefundStatus::RequiresAction),
            Just(RefundStatus::Succeeded)
        ]);
        let settled = prop_oneof![Just(RefundStatus::Succeeded), Just(RefundStatus::Failed)];
        let closed = prop_oneof![Just(DisputeStatus::Won), Just(DisputeStatus::Lost), Just(DisputeStatus::UnderReview)];
        let step = prop_oneof![
            4 => (amount(), made).prop_map(|(amount, status)| Step::Refund(amount, status)),
            3 => (0_usize..8, settled).prop_map(|(which, status)| Step::Settle(which, status)),
            2 => amount().prop_map(Step::Dispute),
            2 => closed.prop_map(Step::Close),
        ];
        prop::collection::vec(step, 0..40)
    }

    fn charge(state: &State) -> Charge {
        state.charges.get(CHARGE).unwrap().into_owned()
    }

    /// What is refused changes nothing; the test does not ask why.
    fn act(change: &mut Change<'_>, step: &Step, refunds: &mut Vec<String>) {
        match step {
            Step::Refund(amount, status) => {
                let wanted = Wanted {
                    charge: Some(CHARGE),
                    payment_intent: None,
                    amount: *amount,
                    reason: None,
                    metadata: BTreeMap::new(),
                    idempotency_key: None,
                    now_ms: 0,
                    wait_ms: 0,
                    status: *status,
                };
                if let Ok(refund) = make(change, wanted) {
                    refunds.push(refund.id);
                }
            }
            Step::Settle(which, status) => {
                if let Some(id) = refunds.get(*which) {
                    settle(change, id, *status, None).ok();
                }
            }
            Step::Dispute(amount) => {
                let charge = charge(change.state);
                disputes::open(change, charge, *amount, "general", 0).ok();
            }
            Step::Close(status) => {
                if let Some(id) = charge(change.state).dispute {
                    disputes::settle(change, &id, *status).ok();
                }
            }
        }
    }

    proptest! {
        #[test]
        fn what_goes_back_and_what_is_disputed_is_never_more_than_the_charge(steps in steps()) {
            let bulk = Bulk {
                prefix: "aaaaaaaaaaaa".into(),
                count: 1,
                created: 0,
                per_second: 1,
                amount: AMOUNT,
                amounts: 1,
                currency: "eur".into(),
                metadata: BTreeMap::new(),
            };
            let (mut state, mut replayed) = (State::default(), State::default());
            state.apply(Put::Bulk(bulk.clone()));
            replayed.apply(Put::Bulk(bulk));
            let mut refunds = Vec::new();
            for step in &steps {
                let mut change = Change::new(&mut state);
                act(&mut change, step, &mut refunds);
                let (puts, _events) = change.finish(&Cause::own("test", 0));
                for put in puts {
                    let line = serde_json::to_string(&put).unwrap();
                    replayed.apply(serde_json::from_str(&line).unwrap());
                }

                let charge = charge(&state);
                let rows = || state.refunds.oldest_rows_first();
                let back: i64 = rows().filter(|refund| refund.status.counts()).map(|refund| refund.amount).sum();
                let disputes = state.disputes.oldest_rows_first();
                let disputed: i64 =
                    disputes.filter(|dispute| dispute.status != DisputeStatus::Won).map(|dispute| dispute.amount).sum();
                prop_assert_eq!((charge.amount_refunded, charge.amount_disputed), (back, disputed));
                prop_assert!(back >= 0 && disputed >= 0 && back + disputed <= AMOUNT, "{} {}", back, disputed);
            }
            // The journal tells the same story, events included.
            let kinds = |state: &State| {
                state.events.oldest_rows_first().map(|event| (event.id.clone(), event.kind.clone())).collect::<Vec<_>>()
            };
            prop_assert_eq!(kinds(&replayed), kinds(&state));
            prop_assert_eq!(format!("{:?}", charge(&replayed)), format!("{:?}", charge(&state)));
            prop_assert_eq!(replayed.due, state.due);
        }
    }
}
