//! The one adapter: the Stripe API, as Stripe itself and the sandbox speak it.
//!
//! Promise: no word of Stripe's leaves this folder; the domain sees outcomes only. A call that moves money goes out once per
//! call of [`Provider::confirm`]: nothing in here repeats one. Never: no secret, token, card or personal datum is in a
//! `Debug`, an error or a log.
//!
//! `http` brings bytes there and back, `wire` reads them, `classify` and `declines` are the tables that say what they prove,
//! `outcomes` puts these together, `lists` does so for pages, `units` translates amounts, and `webhook` proves and reads what it
//! sends unasked.

mod classify;
mod config;
mod declines;
mod http;
mod lists;
mod outcomes;
mod refunds;
mod units;
mod webhook;
mod wire;

#[cfg(test)]
mod tests;

use std::fmt;

use async_trait::async_trait;
use time::OffsetDateTime;
use url::form_urlencoded;

pub use self::{
    config::{
        CONNECT_TIMEOUT_DEFAULT, IDLE_CONNECTIONS_MAX_DEFAULT, IDLE_TIMEOUT_DEFAULT, REQUEST_TIMEOUT_DEFAULT,
        SecretKey, StripeConfig, StripeConfigError,
    },
    webhook::WebhookSecret,
};
use self::{
    http::{Form, Http},
    units::Units,
};
use super::{
    CardSessionOutcome, ConfirmOutcome, ConfirmRequest, CreateOutcome, DisputesSeen, EventRefused, NewPaymentIntent,
    NewRefund, ProbeOutcome, Provider, ProviderChargeId, ProviderEvent, ProviderPaymentIntentId, RefundCall,
    RefundOutcome, RefundsSeen,
    ids::is_id,
    lists::{FindOutcome, ListOutcome, ListPage, ListedCharge, ListedRefund},
};
use crate::money::Money;

/// Asks for the charge itself instead of its id, so that one answer tells its amount and its time.
const EXPAND_CHARGE: (&str, &str) = ("expand[]", "latest_charge");

/// What Stripe's script in the page has to be told of an amount: the number in Stripe's own units, and the lower-case code.
/// Shown only; `None` where Stripe could not take the amount, so that there is no payment intent of it either.
pub fn amount_in_page(money: &Money) -> Option<(i64, String)> {
    Units { exceptions: true }.outgoing(money)
}

/// A provider that speaks the Stripe API.
pub struct Stripe {
    http: Http,
    units: Units,
    /// Whether the secret key moves real money.
    live: bool,
    webhook_secrets: Vec<WebhookSecret>,
}

impl Stripe {
    /// Makes the adapter and its pool of connections; connects to nothing yet.
    ///
    /// # Errors
    /// When a setting cannot work; the error names it and never shows it.
    pub fn new(config: &StripeConfig) -> Result<Self, StripeConfigError> {
        Ok(Self {
            http: Http::new(config)?,
            units: Units { exceptions: config.zero_decimal_exceptions },
            live: config.secret_key.is_live(),
            webhook_secrets: config.webhook_secrets.clone(),
        })
    }
}

impl fmt::Debug for Stripe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stripe").field("units", &self.units).finish_non_exhaustive()
    }
}

#[async_trait]
impl Provider for Stripe {
    async fn create_payment_intent(&self, new: &NewPaymentIntent) -> CreateOutcome {
        let Some((amount, currency)) = self.units.outgoing(&new.money) else {
            return CreateOutcome::Refused { code: "amount_not_supported".to_owned() };
        };
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("amount", &amount.to_string())
            .append_pair("currency", &currency)
            .append_pair("payment_method_types[]", "card")
            .append_pair("metadata[order]", &new.order)
            .append_pair("metadata[reference]", &new.reference)
            .finish()
            .into_bytes();
        let form = Form { idempotency_key: Some(&new.idempotency_key), body };
        let answer = self.http.post(&["payment_intents"], form).await;
        outcomes::created(answer, &new.money, self.units)
    }

    fn freeze_confirm(&self, payment_method: &str, return_url: &str) -> Vec<u8> {
        form_urlencoded::Serializer::new(String::new())
            .append_pair("payment_method", payment_method)
            .append_pair("return_url", return_url)
            .append_pair(EXPAND_CHARGE.0, EXPAND_CHARGE.1)
            .finish()
            .into_bytes()
    }

    async fn confirm(&self, request: &ConfirmRequest) -> ConfirmOutcome {
        let id = &request.payment_intent;
        let form = Form { idempotency_key: Some(&request.idempotency_key), body: request.body.clone() };
        let answer = self.http.post(&["payment_intents", id.as_str(), "confirm"], form).await;
        outcomes::confirmed(answer, id, self.units)
    }

    async fn probe(&self, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome {
        let answer = self.http.get(&["payment_intents", payment_intent.as_str()], &[EXPAND_CHARGE]).await;
        outcomes::probed(answer, payment_intent, self.units)
    }

    async fn cancel(&self, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome {
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("cancellation_reason", "abandoned")
            .append_pair(EXPAND_CHARGE.0, EXPAND_CHARGE.1)
            .finish()
            .into_bytes();
        // Without a key: cancelling twice is cancelling, and a remembered fault must not stand in the way for a day.
        let form = Form { idempotency_key: None, body };
        let answer = self.http.post(&["payment_intents", payment_intent.as_str(), "cancel"], form).await;
        outcomes::probed(answer, payment_intent, self.units)
    }

    async fn card_session(&self, id: &str) -> CardSessionOutcome {
        // The id comes from an address that anybody can write.
        if !is_id(id) {
            return CardSessionOutcome::Missing;
        }
        outcomes::card_session(self.http.get(&["card_sessions", id], &[]).await)
    }

    fn freeze_refund(&self, new: &NewRefund<'_>) -> Option<Vec<u8>> {
        self.refund_body(new)
    }

    async fn refund(&self, call: &RefundCall) -> RefundOutcome {
        self.send_refund(call).await
    }

    async fn refunds_of(&self, payment_intent: &ProviderPaymentIntentId) -> RefundsSeen {
        self.list_refunds_of(payment_intent).await
    }

    async fn disputes_of(&self, payment_intent: &ProviderPaymentIntentId) -> DisputesSeen {
        self.list_disputes_of(payment_intent).await
    }

    async fn list_events(&self, page: &ListPage, now: OffsetDateTime) -> ListOutcome<ProviderEvent> {
        lists::events(self.http.page("events", &lists::query(page)).await, now, self.live, self.units)
    }

    async fn list_charges(&self, page: &ListPage) -> ListOutcome<ListedCharge> {
        lists::charges(self.http.page("charges", &lists::query(page)).await, self.units)
    }

    async fn list_refunds(&self, page: &ListPage) -> ListOutcome<ListedRefund> {
        lists::refunds(self.http.page("refunds", &lists::query(page)).await, self.units)
    }

    async fn find_charge(&self, id: &ProviderChargeId) -> FindOutcome<ListedCharge> {
        lists::found_charge(self.http.get(&["charges", id.as_str()], &[]).await, self.units)
    }

    async fn find_refund(&self, id: &str) -> FindOutcome<ListedRefund> {
        if !is_id(id) {
            return FindOutcome::Missing;
        }
        lists::found_refund(self.http.get(&["refunds", id], &[]).await, self.units)
    }

    fn open_event(&self, signature: &str, body: &[u8], now: OffsetDateTime) -> Result<ProviderEvent, EventRefused> {
        webhook::prove(&self.webhook_secrets, signature, body, now)?;
        webhook::open(body, now, self.live, self.units).ok_or(EventRefused::Unreadable)
    }
}
