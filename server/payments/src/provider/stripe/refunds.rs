//! Refunds and disputes in Stripe's words.
//!
//! Promise: a refund is only *made* where an answer is a whole refund object, and a list only *listed* where every page was read
//! to its end and every entry reads well: an entry that cannot be read might be ours. Never: money is copied from a request.

use std::collections::BTreeMap;

use serde::Deserialize;
use time::OffsetDateTime;
use url::form_urlencoded;

use super::{
    Stripe,
    classify::{Verdict, classify},
    http::{Form, Reply, Silence},
    units::Units,
    wire::{ErrorBody, read, tame_code},
};
use crate::{
    ids::IntentId,
    money::Money,
    provider::{
        NotSentReason, ProviderChargeId, ProviderPaymentIntentId, UnknownReason,
        ids::is_id,
        refund::{DisputesSeen, NewRefund, ProviderRefund, RefundCall, RefundOutcome, RefundStatus, RefundsSeen},
    },
};

/// Where the UUID of our intent stands in a refund's metadata.
const INTENT: &str = "intent";
/// Most entries of one page, as Stripe allows.
const PAGE: &str = "100";
/// Most pages of one payment intent's refunds that are read: a hundred is what anybody makes of one charge, and this many more.
const PAGES_MAX: usize = 20;

impl Stripe {
    /// The body of a refund request; `None` where the provider cannot count this money.
    pub(super) fn refund_body(&self, new: &NewRefund<'_>) -> Option<Vec<u8>> {
        let (amount, _) = self.units.outgoing(&new.money)?;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("charge", new.charge.as_str()).append_pair("amount", &amount.to_string());
        if let Some(reason) = new.reason {
            form.append_pair("reason", reason.as_str());
        }
        form.append_pair("metadata[order]", &new.order.to_string())
            .append_pair(&format!("metadata[{INTENT}]"), &new.intent.to_string());
        Some(form.finish().into_bytes())
    }

    pub(super) async fn send_refund(&self, call: &RefundCall) -> RefundOutcome {
        let form = Form { idempotency_key: Some(&call.idempotency_key), body: call.body.clone() };
        made(self.http.post(&["refunds"], form).await, self.units)
    }

    pub(super) async fn list_refunds_of(&self, payment_intent: &ProviderPaymentIntentId) -> RefundsSeen {
        match self.list::<Refund>("refunds", payment_intent).await {
            Ok(refunds) => {
                let refunds = refunds.into_iter().map(|refund| refund.understood(self.units)).collect();
                Option::map_or(refunds, RefundsSeen::CannotTell(UnknownReason::Unreadable), RefundsSeen::Listed)
            }
            Err(reason) => RefundsSeen::CannotTell(reason),
        }
    }

    pub(super) async fn list_disputes_of(&self, payment_intent: &ProviderPaymentIntentId) -> DisputesSeen {
        match self.list::<Dispute>("disputes", payment_intent).await {
            Ok(disputes) => {
                let holding = disputes.into_iter().filter(Dispute::holds_money_back);
                let held = holding.map(|dispute| dispute.understood(self.units)).collect();
                Option::map_or(held, DisputesSeen::CannotTell(UnknownReason::Unreadable), DisputesSeen::Listed)
            }
            Err(reason) => DisputesSeen::CannotTell(reason),
        }
    }

    /// Reads a list to its end.
    async fn list<T>(&self, what: &str, of: &ProviderPaymentIntentId) -> Result<Vec<T>, UnknownReason>
    where
        T: for<'de> Deserialize<'de> + Named,
    {
        let mut all: Vec<T> = Vec::new();
        for _ in 0..PAGES_MAX {
            let after = all.last().map(|last| last.id().to_owned());
            let mut query = vec![("payment_intent", of.as_str()), ("limit", PAGE)];
            query.extend(after.as_deref().map(|id| ("starting_after", id)));
            let reply = self.http.get(&[what], &query).await.map_err(unasked)?;
            if reply.status != 200 {
                return Err(not_listed(&reply));
            }
            let page = read::<Page<T>>(&reply.body).filter(|page| page.object == "list");
            let page = page.ok_or(UnknownReason::Unreadable)?;
            let ends = !page.has_more || page.data.is_empty();
            all.extend(page.data);
            if ends {
                return Ok(all);
            }
        }
        Err(UnknownReason::Unlisted)
    }
}

/// What a refund request ended with.
fn made(answer: Result<Reply, Silence>, units: Units) -> RefundOutcome {
    let reply = match answer {
        Ok(reply) => reply,
        Err(Silence::NotSent(reason)) => return RefundOutcome::NotSent(reason),
        Err(Silence::Unknown(reason)) => return RefundOutcome::Unknown(reason),
    };
    if reply.status == 200 {
        let refund = read::<Refund>(&reply.body).and_then(|refund| refund.understood(units));
        return refund.map_or(RefundOutcome::Unknown(UnknownReason::Unreadable), RefundOutcome::Made);
    }
    let error = read::<ErrorBody>(&reply.body).map(|body| body.error);
    let code = error.as_ref().and_then(|error| error.code.clone());
    match classify(reply.status, error.as_ref(), None) {
        Verdict::Refused => RefundOutcome::Refused { code: tame_code(code.as_deref()) },
        Verdict::KeyRefused => RefundOutcome::NotSent(NotSentReason::KeyRefused),
        Verdict::RateLimited => RefundOutcome::NotSent(NotSentReason::RateLimited),
        Verdict::Busy => RefundOutcome::Busy,
        // No card says no to a refund in this way.
        Verdict::Declined => RefundOutcome::Unknown(UnknownReason::Unlisted),
        Verdict::Unknown(reason) => RefundOutcome::Unknown(reason),
    }
}

fn unasked(silence: Silence) -> UnknownReason {
    match silence {
        Silence::NotSent(NotSentReason::NotConnected) => UnknownReason::NotConnected,
        Silence::NotSent(_) => UnknownReason::NotAsked,
        Silence::Unknown(reason) => reason,
    }
}

fn not_listed(reply: &Reply) -> UnknownReason {
    let error = read::<ErrorBody>(&reply.body).map(|body| body.error);
    match classify(reply.status, error.as_ref(), None) {
        Verdict::KeyRefused | Verdict::RateLimited => UnknownReason::NotAsked,
        Verdict::Busy => UnknownReason::Busy,
        Verdict::Declined | Verdict::Refused => UnknownReason::Unlisted,
        Verdict::Unknown(reason) => reason,
    }
}

#[derive(Deserialize)]
struct Page<T> {
    object: String,
    data: Vec<T>,
    #[serde(default)]
    has_more: bool,
}

/// What a list is read on from.
trait Named {
    fn id(&self) -> &str;
}

#[derive(Deserialize)]
struct Refund {
    id: String,
    object: String,
    amount: i64,
    currency: String,
    charge: Option<String>,
    created: i64,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    failure_reason: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

impl Named for Refund {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Refund {
    fn understood(self, units: Units) -> Option<ProviderRefund> {
        let status = match self.status.as_deref()? {
            "pending" | "requires_action" => RefundStatus::Pending,
            "succeeded" => RefundStatus::Succeeded,
            "failed" | "canceled" => RefundStatus::Failed,
            _ => return None,
        };
        let is_refund = self.object == "refund" && is_id(&self.id);
        let money = units.incoming(self.amount, &self.currency).filter(|_| is_refund)?;
        Some(ProviderRefund {
            charge: ProviderChargeId::parse(self.charge.as_deref()?).ok()?,
            money,
            status,
            created: OffsetDateTime::from_unix_timestamp(self.created).ok()?,
            intent: self.metadata.get(INTENT).and_then(|text| IntentId::parse(text).ok()),
            failure: self.failure_reason.map(|reason| tame_code(Some(&reason))),
            id: self.id,
        })
    }
}

#[derive(Deserialize)]
struct Dispute {
    id: String,
    amount: i64,
    currency: String,
    charge: Option<String>,
    status: String,
}

impl Named for Dispute {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Dispute {
    /// Whether it takes money from us: not while it is only an inquiry, and not once it is won. A state that nobody knows does.
    fn holds_money_back(&self) -> bool {
        !matches!(
            self.status.as_str(),
            "won" | "prevented" | "warning_needs_response" | "warning_under_review" | "warning_closed"
        )
    }

    fn understood(self, units: Units) -> Option<(ProviderChargeId, Money)> {
        let money = units.incoming(self.amount, &self.currency)?;
        Some((ProviderChargeId::parse(self.charge.as_deref()?).ok()?, money))
    }
}
