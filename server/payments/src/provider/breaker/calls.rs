//! The calls of a provider behind a breaker: each is let through or turned away, and what it says of the provider's health is noted.

use async_trait::async_trait;
use time::OffsetDateTime;

use super::{Breaker, Health};
use crate::provider::{
    CardSessionOutcome, ConfirmOutcome, ConfirmRequest, CreateOutcome, DisputesSeen, EventRefused, NewPaymentIntent,
    NewRefund, NotSentReason, ProbeOutcome, Provider, ProviderChargeId, ProviderEvent, ProviderPaymentIntentId,
    RefundCall, RefundOutcome, RefundsSeen, UnknownReason,
    lists::{FindOutcome, ListOutcome, ListPage, ListedCharge, ListedRefund},
};

#[async_trait]
impl<P: Provider> Provider for Breaker<P> {
    async fn create_payment_intent(&self, new: &NewPaymentIntent) -> CreateOutcome {
        let Some(pass) = self.admit() else { return CreateOutcome::NotSent(NotSentReason::CircuitOpen) };
        let outcome = self.provider.create_payment_intent(new).await;
        pass.report(match &outcome {
            CreateOutcome::Created(_) | CreateOutcome::Refused { .. } => Health::Healthy,
            CreateOutcome::NotSent(reason) => of_not_sent(*reason),
            CreateOutcome::Unknown(reason) => of_unknown(*reason),
        });
        outcome
    }

    fn freeze_confirm(&self, payment_method: &str, return_url: &str) -> Vec<u8> {
        self.provider.freeze_confirm(payment_method, return_url)
    }

    async fn confirm(&self, request: &ConfirmRequest) -> ConfirmOutcome {
        let Some(pass) = self.admit() else { return ConfirmOutcome::NotSent(NotSentReason::CircuitOpen) };
        let outcome = self.provider.confirm(request).await;
        pass.report(match &outcome {
            ConfirmOutcome::Approved(_)
            | ConfirmOutcome::Declined(_)
            | ConfirmOutcome::ActionRequired { .. }
            | ConfirmOutcome::Busy => Health::Healthy,
            ConfirmOutcome::NotSent(reason) => of_not_sent(*reason),
            ConfirmOutcome::Unknown(reason) => of_unknown(*reason),
        });
        outcome
    }

    async fn probe(&self, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome {
        let Some(pass) = self.admit() else { return ProbeOutcome::CannotTell(UnknownReason::NotAsked) };
        let outcome = self.provider.probe(payment_intent).await;
        pass.report(of_probe(&outcome));
        outcome
    }

    async fn cancel(&self, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome {
        let Some(pass) = self.admit() else { return ProbeOutcome::CannotTell(UnknownReason::NotAsked) };
        let outcome = self.provider.cancel(payment_intent).await;
        pass.report(of_probe(&outcome));
        outcome
    }

    async fn card_session(&self, id: &str) -> CardSessionOutcome {
        let Some(pass) = self.admit() else { return CardSessionOutcome::Unavailable };
        let outcome = self.provider.card_session(id).await;
        pass.report(match &outcome {
            CardSessionOutcome::Found(_) | CardSessionOutcome::Missing => Health::Healthy,
            CardSessionOutcome::Unavailable => Health::Untold,
        });
        outcome
    }

    fn freeze_refund(&self, new: &NewRefund<'_>) -> Option<Vec<u8>> {
        self.provider.freeze_refund(new)
    }

    async fn refund(&self, call: &RefundCall) -> RefundOutcome {
        let Some(pass) = self.admit() else { return RefundOutcome::NotSent(NotSentReason::CircuitOpen) };
        let outcome = self.provider.refund(call).await;
        pass.report(match &outcome {
            RefundOutcome::Made(_) | RefundOutcome::Refused { .. } | RefundOutcome::Busy => Health::Healthy,
            RefundOutcome::NotSent(reason) => of_not_sent(*reason),
            RefundOutcome::Unknown(reason) => of_unknown(*reason),
        });
        outcome
    }

    async fn refunds_of(&self, payment_intent: &ProviderPaymentIntentId) -> RefundsSeen {
        let Some(pass) = self.admit() else { return RefundsSeen::CannotTell(UnknownReason::NotAsked) };
        let seen = self.provider.refunds_of(payment_intent).await;
        pass.report(match &seen {
            RefundsSeen::Listed(_) => Health::Healthy,
            RefundsSeen::CannotTell(reason) => of_unknown(*reason),
        });
        seen
    }

    async fn disputes_of(&self, payment_intent: &ProviderPaymentIntentId) -> DisputesSeen {
        let Some(pass) = self.admit() else { return DisputesSeen::CannotTell(UnknownReason::NotAsked) };
        let seen = self.provider.disputes_of(payment_intent).await;
        pass.report(match &seen {
            DisputesSeen::Listed(_) => Health::Healthy,
            DisputesSeen::CannotTell(reason) => of_unknown(*reason),
        });
        seen
    }

    async fn list_events(&self, page: &ListPage, now: OffsetDateTime) -> ListOutcome<ProviderEvent> {
        if !self.is_closed() {
            return ListOutcome::CannotTell(UnknownReason::NotAsked);
        }
        self.provider.list_events(page, now).await
    }

    async fn list_charges(&self, page: &ListPage) -> ListOutcome<ListedCharge> {
        if !self.is_closed() {
            return ListOutcome::CannotTell(UnknownReason::NotAsked);
        }
        self.provider.list_charges(page).await
    }

    async fn list_refunds(&self, page: &ListPage) -> ListOutcome<ListedRefund> {
        if !self.is_closed() {
            return ListOutcome::CannotTell(UnknownReason::NotAsked);
        }
        self.provider.list_refunds(page).await
    }

    async fn find_charge(&self, id: &ProviderChargeId) -> FindOutcome<ListedCharge> {
        if !self.is_closed() {
            return FindOutcome::CannotTell(UnknownReason::NotAsked);
        }
        self.provider.find_charge(id).await
    }

    async fn find_refund(&self, id: &str) -> FindOutcome<ListedRefund> {
        if !self.is_closed() {
            return FindOutcome::CannotTell(UnknownReason::NotAsked);
        }
        self.provider.find_refund(id).await
    }

    fn open_event(&self, signature: &str, body: &[u8], now: OffsetDateTime) -> Result<ProviderEvent, EventRefused> {
        self.provider.open_event(signature, body, now)
    }
}

fn of_probe(outcome: &ProbeOutcome) -> Health {
    match outcome {
        ProbeOutcome::Charged(_)
        | ProbeOutcome::NotCharged
        | ProbeOutcome::ActionRequired { .. }
        | ProbeOutcome::Cancelled
        | ProbeOutcome::Processing => Health::Healthy,
        ProbeOutcome::CannotTell(reason) => of_unknown(*reason),
    }
}

fn of_not_sent(reason: NotSentReason) -> Health {
    match reason {
        NotSentReason::NotConnected => Health::Faulty,
        NotSentReason::KeyRefused | NotSentReason::RateLimited => Health::Healthy,
        NotSentReason::NotBuilt | NotSentReason::CircuitOpen => Health::Untold,
    }
}

fn of_unknown(reason: UnknownReason) -> Health {
    match reason {
        UnknownReason::NotConnected | UnknownReason::ConnectionLost | UnknownReason::ServerFault => Health::Faulty,
        UnknownReason::TimedOut => Health::Silent,
        UnknownReason::UnexpectedState
        | UnknownReason::Processing
        | UnknownReason::KeyReused
        | UnknownReason::Busy
        | UnknownReason::NotFound
        | UnknownReason::Mismatch => Health::Healthy,
        // Turned away or never built; or something in between has answered.
        UnknownReason::NotAsked | UnknownReason::Unreadable | UnknownReason::Unlisted => Health::Untold,
    }
}
