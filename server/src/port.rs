//! The port of the pages and server functions, implemented: where the types of `app` and of `payments` meet, errors are
//! mapped, and each payment gets its one log line. Nothing is decided here.

mod errors;
mod shown;

use app::{
    dto::{
        Answer, CardDto, CartDto, CartPartDto, CheckoutDto, ElementDto, OrderDto, OutcomeDto, PayDto, ProviderDto,
        ReturnedFormDto, ReviewDto, ShelfDto,
    },
    error::CheckoutError,
    port::{Checkout, PaySaid},
};
use async_trait::async_trait;
use leptos_axum::ResponseOptions;
use payments::{
    ids::{IntentId, OrderToken},
    money::Money,
    order::{OrderState, OrderStatus},
    pay::PayRequest,
    provider::{CardSession, stripe::amount_in_page},
};
use serde_json::value::RawValue;

pub use self::errors::{RETRY_AFTER_SECONDS, order_error, unavailable};
use crate::{
    shop::{CardFields, Shop},
    stripe_js,
    web::{CartCookie, RequestFacts},
};

/// One request's door to the domain.
pub struct ShopPort {
    shop: Shop,
    facts: RequestFacts,
    /// Headers of the page that is being rendered, if one is.
    response: Option<ResponseOptions>,
}

/// What a plain form's card session stands for.
pub struct SessionCard {
    pub payment_method: String,
    pub email: String,
    pub card: CardDto,
}

impl ShopPort {
    /// A port for one request.
    pub fn new(shop: Shop, facts: RequestFacts, response: Option<ResponseOptions>) -> Self {
        Self { shop, facts, response }
    }

    /// Exchanges a card session for the card it stands for. A session pays the intent whose form made it, and no other.
    ///
    /// # Errors
    /// `NotFound` where the provider does not know it, it has no card or is of another intent, `Unavailable` where it cannot tell.
    pub async fn card_of_session(&self, session: &str, intent: IntentId) -> Result<SessionCard, CheckoutError> {
        let session = self.session(session).await?;
        let is_of_intent = |session: &CardSession| session.intent.as_deref() == Some(intent.to_string().as_str());
        let session = session.filter(is_of_intent).ok_or(CheckoutError::NotFound)?;
        let payment_method = session.payment_method.ok_or(CheckoutError::NotFound)?.expose().to_owned();
        let card = CardDto {
            brand: session.brand.unwrap_or_else(|| "card".to_owned()),
            last4: session.last4.unwrap_or_default(),
        };
        Ok(SessionCard { payment_method, email: session.email.unwrap_or_default(), card })
    }

    async fn session(&self, session: &str) -> Result<Option<CardSession>, CheckoutError> {
        // Sessions are the sandbox's own: Stripe has none, and is not asked for what anybody writes into an address.
        if self.shop.site.card_fields == CardFields::Element {
            return Ok(None);
        }
        errors::card_session(self.shop.ctx.provider.card_session(session).await)
    }

    /// The order of this token with its lines and intents.
    async fn status(&self, token: &str) -> Result<OrderStatus, CheckoutError> {
        let token = OrderToken::parse(token).or(Err(CheckoutError::NotFound))?;
        let status = payments::order::status(&self.shop.ctx, &token).await.map_err(unavailable)?;
        status.ok_or(CheckoutError::NotFound)
    }

    /// What the provider's pages and ours need to find each other, to pay this.
    fn provider(&self, total: &Money) -> ProviderDto {
        let provider = self.shop.site.provider_url(self.facts.host_name());
        let element = match self.shop.site.card_fields {
            CardFields::Own => None,
            CardFields::Element => amount_in_page(total).map(|(amount, currency)| ElementDto {
                script_url: stripe_js::SCRIPT.to_owned(),
                amount,
                currency,
            }),
        };
        ProviderDto {
            payment_methods_url: format!("{provider}/v1/payment_methods"),
            hosted_cards_url: format!("{provider}/hosted/cards"),
            publishable_key: self.shop.site.publishable_key.clone(),
            element,
        }
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.shop.site.shop_url(self.facts.host.as_deref()))
    }

    /// What was paid leaves the cart; the rest stays, under a UUID of its own, so that buying the same again is a new order.
    fn empty_cart_of(&self, status: &OrderStatus) {
        let Some(cart) = self.facts.cart.as_ref().filter(|cart| cart.id == status.order.cart) else { return };
        let bought: Vec<String> = status.lines.iter().filter_map(|line| Some(line.sku.as_ref()?.to_string())).collect();
        self.store(&cart.without(&bought, self.shop.ctx.ids.cart()));
    }

    /// The order has closed; its cart stays as it is, under another UUID, so that it can be ordered again.
    fn renew_cart_of(&self, status: &OrderStatus) {
        if let Some(cart) = self.facts.cart.as_ref().filter(|cart| cart.id == status.order.cart) {
            self.store(&cart.without(&[], cart.id.successor()));
        }
    }

    fn store(&self, cart: &CartCookie) {
        let Some(response) = &self.response else { return };
        let mut headers = http::HeaderMap::new();
        cart.store(&mut headers);
        for (name, value) in &headers {
            response.append_header(name.clone(), value.clone());
        }
    }

    /// The bank's page by an address that this browser can reach.
    fn for_this_browser(&self, mut outcome: OutcomeDto) -> OutcomeDto {
        let host = self.facts.host_name();
        outcome.continue_url = outcome.continue_url.map(|page| self.shop.site.provider_page(&page, host));
        outcome
    }

    /// The answer's bytes as they are. Only one that is still pending can name a bank page; that address is moved to where this
    /// browser reaches the provider. Archived bytes are not even looked at.
    fn answer(&self, answer: &payments::intent::archive::Answer) -> Result<Answer, CheckoutError> {
        let unreadable = CheckoutError::InProgress { retry_after_seconds: errors::RETRY_AFTER_SECONDS };
        let body = reachable(&self.shop, &self.facts, answer);
        let text = String::from_utf8(body.to_vec()).or(Err(unreadable.clone()))?;
        RawValue::from_string(text).map(Answer).or(Err(unreadable))
    }

    fn pay_request(&self, pay: &PayDto) -> Result<PayRequest, CheckoutError> {
        let order = OrderToken::parse(&pay.order).or(Err(CheckoutError::NotFound))?;
        let return_url = self.address(&format!("/orders/{}", pay.order));
        errors::pay_request(pay, order, &return_url)
    }
}

#[async_trait]
impl Checkout for ShopPort {
    async fn shop(&self) -> Result<Vec<ShelfDto>, CheckoutError> {
        let products = payments::catalog::list_products(&self.shop.ctx).await.map_err(unavailable)?;
        Ok(shown::shelves(products))
    }

    async fn cart(&self) -> Result<CartDto, CheckoutError> {
        let Some(cart) = &self.facts.cart else { return Ok(CartDto::default()) };
        let products = payments::catalog::list_products(&self.shop.ctx).await.map_err(unavailable)?;
        let parts: Vec<CartPartDto> = shown::cart_parts(&products, &cart.lines)?;
        let pieces = parts.iter().flat_map(|part| &part.lines).map(|line| line.quantity).sum();
        Ok(CartDto { id: Some(cart.id.to_string()), parts, pieces })
    }

    async fn checkout(&self, order: &str, session: Option<&str>) -> Result<CheckoutDto, CheckoutError> {
        let status = self.status(order).await?;
        if status.order.state == OrderState::Closed {
            self.renew_cart_of(&status);
        } else if status.order.provider_payment_intent.is_none() {
            match payments::order::ensure_payment_intent(&self.shop.ctx, &status.order).await {
                Ok(_) => {}
                Err(error) if error.refused => return Err(CheckoutError::AmountRefused),
                // Any other fault is told by Pay, if the customer gets that far before the provider is back.
                Err(error) => tracing::warn!(order = %status.order.id, %error, "no payment intent yet"),
            }
        }
        let returned = match session {
            Some(session) => self.session(session).await?.map(|session| ReturnedFormDto {
                email: session.email.unwrap_or_default(),
                name: session.name.unwrap_or_default(),
                error_code: session.error_code.unwrap_or_default(),
            }),
            None => None,
        };
        let outcome = self.for_this_browser(shown::outcome_of_status(&self.shop.ctx, &status));
        Ok(CheckoutDto {
            intent: outcome_intent(&outcome).unwrap_or_else(|| status.order.offered_intent.to_string()),
            replaces: status.newest_failed.as_ref().map(|intent| intent.key.intent.to_string()),
            order: shown::order(&status),
            outcome,
            provider: self.provider(&status.order.total),
            review_url: self.address(&format!("/checkout/{order}/review")),
            returned,
        })
    }

    async fn review(&self, order: &str, intent: &str, session: &str) -> Result<ReviewDto, CheckoutError> {
        let intent = IntentId::parse(intent).or(Err(CheckoutError::InvalidIntent))?;
        let status = self.status(order).await?;
        let card = self.card_of_session(session, intent).await?;
        let outcome = self.for_this_browser(shown::outcome_of_status(&self.shop.ctx, &status));
        Ok(ReviewDto {
            order: shown::order(&status),
            intent: outcome_intent(&outcome).unwrap_or_else(|| intent.to_string()),
            replaces: status.newest_failed.as_ref().map(|intent| intent.key.intent.to_string()),
            outcome,
            email: card.email,
            card: card.card,
            session: session.to_owned(),
        })
    }

    async fn order(&self, order: &str) -> Result<(OrderDto, OutcomeDto), CheckoutError> {
        let outcome = self.outcome(order, None).await?;
        let status = self.status(order).await?;
        let mut shown = shown::order(&status);
        match &status.order.state {
            OrderState::Open => {}
            OrderState::Paid(payment) => {
                self.empty_cart_of(&status);
                let refunds = payments::refund::list_of_order(&self.shop.ctx, status.order.id).await;
                shown.refunds = shown::refunds(&refunds.map_err(unavailable)?, &payment.charge);
            }
            OrderState::Closed => self.renew_cart_of(&status),
        }
        Ok((shown, outcome))
    }

    async fn outcome(&self, order: &str, intent: Option<&str>) -> Result<OutcomeDto, CheckoutError> {
        let order = OrderToken::parse(order).or(Err(CheckoutError::NotFound))?;
        let intent = intent.map(IntentId::parse).transpose().or(Err(CheckoutError::InvalidIntent))?;
        let outcome = payments::outcome::ask(&self.shop.ctx, &order, intent).await.map_err(unavailable)?;
        let outcome = outcome.ok_or(CheckoutError::NotFound)?;
        Ok(self.for_this_browser(shown::outcome(&self.shop.ctx, &outcome)))
    }

    async fn pay(&self, pay: PayDto) -> Result<PaySaid, CheckoutError> {
        let request = self.pay_request(&pay)?;
        let intent = request.intent;
        match payments::pay::pay(&self.shop.ctx, request).await {
            Ok(said) => {
                tracing::info!(%intent, status = said.answer.status, replayed = said.replayed, "pay answered");
                Ok(PaySaid { answer: self.answer(&said.answer)?, replayed: said.replayed })
            }
            Err(error) => {
                let error = errors::pay_error(error);
                tracing::info!(%intent, %error, "pay refused");
                Err(error)
            }
        }
    }
}

/// The body of an answer, with the bank's page by an address that a browser of this host can reach.
pub fn reachable(shop: &Shop, facts: &RequestFacts, answer: &payments::intent::archive::Answer) -> bytes::Bytes {
    if answer.status == http::StatusCode::ACCEPTED.as_u16()
        && let Ok(mut pending) = serde_json::from_slice::<serde_json::Value>(&answer.body)
        && let Some(page) = pending["continue_url"].as_str()
    {
        pending["continue_url"] = shop.site.provider_page(page, facts.host_name()).into();
        return pending.to_string().into();
    }
    answer.body.clone()
}

/// The intent of an order that is under way or has paid it: the one its pages carry.
fn outcome_intent(outcome: &OutcomeDto) -> Option<String> {
    use app::dto::OutcomeState::{ActionRequired, Closed, Failed, Paid, Pending, Ready, Unknown};
    match outcome.state {
        Pending | ActionRequired | Unknown | Paid => outcome.intent.clone(),
        Ready | Failed | Closed => None,
    }
}
