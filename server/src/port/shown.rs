//! What the domain knows, as pages show it.

use std::collections::BTreeMap;

use app::{
    dto::{
        CartPartDto, DeclineReason as ReasonDto, LineDto, MomentDto, MoneyDto, OrderDto, OutcomeDto, OutcomeState,
        ProductDto, RefundDto, ShelfDto,
    },
    error::CheckoutError,
};
use payments::{
    Ctx,
    catalog::Product,
    intent::{Intent, Standing, State},
    money::{Currency, Money},
    order::{Line, Order, OrderState, OrderStatus},
    outcome::Outcome,
    provider::{DeclineReason, ProviderChargeId},
    refund::Refund,
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// An amount, with the text that a person reads.
pub fn money(money: Money) -> MoneyDto {
    MoneyDto { minor: money.minor, currency: money.currency.code().to_owned(), display: money.format() }
}

/// The catalogue, one shelf for each currency, in the order of their first products.
pub fn shelves(products: Vec<Product>) -> Vec<ShelfDto> {
    let mut shelves: Vec<ShelfDto> = Vec::new();
    for product in products {
        let currency = product.price.currency;
        let shown = ProductDto {
            sku: product.sku.to_string(),
            name: product.name,
            description: product.description,
            picture: product.picture,
            price: money(product.price),
            in_stock: product.stock,
        };
        match shelves.iter_mut().find(|shelf| shelf.currency == currency.code()) {
            Some(shelf) => shelf.products.push(shown),
            None => shelves.push(ShelfDto {
                title: format!("Paid in {}", currency_name(currency)),
                currency: currency.code().to_owned(),
                products: vec![shown],
            }),
        }
    }
    shelves
}

/// A currency as people call it.
fn currency_name(currency: Currency) -> String {
    match currency.code() {
        "EUR" => "euro".to_owned(),
        "JPY" => "yen".to_owned(),
        "BHD" => "Bahraini dinar".to_owned(),
        code => code.to_owned(),
    }
}

/// The cart's parts, priced by the catalogue: what a cookie says of prices would not be believed, so it says nothing.
pub fn cart_parts(products: &[Product], pieces: &BTreeMap<String, i32>) -> Result<Vec<CartPartDto>, CheckoutError> {
    let mut parts: Vec<(Currency, Money, CartPartDto)> = Vec::new();
    for product in products {
        let Some(&quantity) = pieces.get(product.sku.as_str()) else { continue };
        let currency = product.price.currency;
        let amount = product.price.checked_mul(quantity).or(Err(CheckoutError::MalformedRequest))?;
        let line = LineDto {
            sku: product.sku.to_string(),
            name: product.name.clone(),
            picture: product.picture.clone(),
            quantity,
            unit: money(product.price),
            amount: money(amount),
        };
        let short = (product.stock < quantity).then(|| product.sku.to_string());
        if let Some((_, total, part)) = parts.iter_mut().find(|(of, _, _)| *of == currency) {
            *total = total.checked_add(amount).or(Err(CheckoutError::MalformedRequest))?;
            part.total = money(*total);
            part.lines.push(line);
            part.short.extend(short);
        } else {
            let part = CartPartDto {
                currency: currency.code().to_owned(),
                lines: vec![line],
                total: money(amount),
                short: short.into_iter().collect(),
            };
            parts.push((currency, amount, part));
        }
    }
    Ok(parts.into_iter().map(|(_, _, part)| part).collect())
}

/// An order with its lines.
pub fn order(status: &OrderStatus) -> OrderDto {
    OrderDto {
        token: status.order.token.expose().to_owned(),
        reference: status.order.reference.to_string(),
        lines: status.lines.iter().map(line).collect(),
        total: money(status.order.total),
        created_at: instant(status.order.created_at),
        refunds: Vec::new(),
    }
}

/// What of an order's money goes back, or went. What failed, or came back to us, is left out.
pub fn refunds(refunds: &[Refund], charge: &ProviderChargeId) -> Vec<RefundDto> {
    let is_shown = |refund: &&Refund| refund.state != State::Failed && refund.reversed_at.is_none();
    let shown = |refund: &Refund| RefundDto {
        amount: money(refund.money),
        sent_at: refund.refunded_at.map(instant),
        second_charge: refund.charge != *charge,
    };
    refunds.iter().filter(is_shown).map(shown).collect()
}

fn line(line: &Line) -> LineDto {
    LineDto {
        sku: line.sku.as_ref().map(ToString::to_string).unwrap_or_default(),
        name: line.name.clone(),
        picture: line.picture.clone(),
        quantity: line.quantity,
        unit: money(line.unit),
        amount: money(line.amount),
    }
}

/// Where an order stands, without asking anybody.
pub fn outcome_of_status(ctx: &Ctx, status: &OrderStatus) -> OutcomeDto {
    let intent = status.live.as_ref().or(status.newest_failed.as_ref());
    outcome_of(ctx, &status.order, intent, true)
}

/// An outcome.
pub fn outcome(ctx: &Ctx, outcome: &Outcome) -> OutcomeDto {
    outcome_of(ctx, &outcome.order, outcome.intent.as_ref(), outcome.received)
}

fn outcome_of(ctx: &Ctx, order: &Order, intent: Option<&Intent>, received: bool) -> OutcomeDto {
    let mut shown = OutcomeDto {
        state: OutcomeState::Ready,
        intent: intent.map(|intent| intent.key.intent.to_string()),
        reference: order.reference.to_string(),
        amount: money(order.total),
        charge: None,
        paid_at: None,
        decline: None,
        continue_url: None,
        decide_by: intent.and_then(|intent| intent.decide_by(ctx)).map(moment),
        email_hint: order.email.as_ref().map(|email| hint(email.as_str())),
        received,
    };
    match (&order.state, intent.map(|intent| &intent.standing)) {
        (OrderState::Paid(payment), _) => {
            shown.state = OutcomeState::Paid;
            shown.intent = Some(payment.intent.to_string());
            shown.charge = Some(payment.charge.to_string());
            shown.paid_at = Some(instant(payment.paid_at));
        }
        (_, Some(Standing::Succeeded { charge, paid_at, .. })) => {
            shown.state = OutcomeState::Paid;
            shown.charge = Some(charge.to_string());
            shown.paid_at = Some(instant(*paid_at));
        }
        (_, Some(Standing::Pending)) => shown.state = OutcomeState::Pending,
        (_, Some(Standing::Unknown)) => shown.state = OutcomeState::Unknown,
        (_, Some(Standing::ActionRequired { continue_url })) => {
            shown.state = OutcomeState::ActionRequired;
            shown.continue_url = Some(continue_url.as_str().to_owned());
        }
        (OrderState::Closed, Some(Standing::Failed { .. }) | None) => {
            shown.state = OutcomeState::Closed;
            shown.intent = None;
        }
        (OrderState::Open, Some(Standing::Failed { reason, .. })) => {
            shown.state = OutcomeState::Failed;
            shown.decline = Some(decline(*reason));
        }
        (OrderState::Open, None) => {}
    }
    shown
}

fn decline(reason: DeclineReason) -> ReasonDto {
    match reason {
        DeclineReason::Generic => ReasonDto::Generic,
        DeclineReason::InsufficientFunds => ReasonDto::InsufficientFunds,
        DeclineReason::ExpiredCard => ReasonDto::ExpiredCard,
        DeclineReason::IncorrectCode => ReasonDto::IncorrectCode,
        DeclineReason::IncorrectNumber => ReasonDto::IncorrectNumber,
        DeclineReason::BankCheckFailed => ReasonDto::BankCheckFailed,
        DeclineReason::CardNotSupported => ReasonDto::CardNotSupported,
        DeclineReason::OverLimit => ReasonDto::OverLimit,
        DeclineReason::TryLater => ReasonDto::TryLater,
        DeclineReason::NotCharged => ReasonDto::NotCharged,
    }
}

/// `ana@example.org` → `a…@example.org`: enough for the payer to know it, too little for anybody else.
fn hint(email: &str) -> String {
    match email.rsplit_once('@') {
        Some((name, host)) => format!("{}…@{host}", name.chars().take(1).collect::<String>()),
        None => "…".to_owned(),
    }
}

fn instant(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).unwrap_or_default()
}

/// A moment in whole minutes, rounded up: what is promised for 14:35 must not be over at 14:34.
fn moment(at: OffsetDateTime) -> MomentDto {
    let shown = at + time::Duration::MINUTE;
    MomentDto { at: instant(at), display: format!("{:02}:{:02} UTC", shown.hour(), shown.minute()) }
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn an_address_is_shortened_to_what_its_owner_recognises() {
        assert_eq!(hint("ana+shop@example.org"), "a…@example.org");
        assert_eq!(hint("é@bücher.example"), "é…@bücher.example");
    }
}
