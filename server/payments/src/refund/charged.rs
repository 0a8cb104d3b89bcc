//! The charge that a refund gives back, and how much of it is left.

use super::store;
use crate::{
    Ctx,
    ids::OrderId,
    money::{Currency, Money},
    pool::{StoreError, keyed},
    provider::{ProviderChargeId, ProviderPaymentIntentId},
};

/// What of an order was given back, and can still be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// By refunds that are under way or succeeded, ours and others'.
    pub refunded: Money,
    /// What disputes hold back, or have taken.
    pub disputed: Money,
    /// What can still be given back.
    pub remaining: Money,
}

/// What can still be given back of an order. `None`: there is no such order.
///
/// # Errors
/// When the database cannot answer.
pub async fn remaining(ctx: &Ctx, order: OrderId) -> Result<Option<Remaining>, StoreError> {
    Ok(find_charged(ctx, order).await?.map(|charged| charged.remaining()))
}

/// An order's charge, and what is left of it.
pub(super) struct Charged {
    pub(super) order: OrderId,
    pub(super) paid: bool,
    /// Whether a payment is under way whose end is not known.
    pub(super) unresolved: bool,
    pub(super) total: Money,
    refunded_minor: i64,
    disputed_minor: i64,
    pub(super) charge: Option<ProviderChargeId>,
    pub(super) payment_intent: Option<ProviderPaymentIntentId>,
}

impl Charged {
    pub(super) fn remaining(&self) -> Remaining {
        let money = |minor| Money::new(minor, self.total.currency);
        let paid = if self.paid { self.total.minor } else { 0 };
        let left = paid.saturating_sub(self.refunded_minor).saturating_sub(self.disputed_minor);
        Remaining {
            refunded: money(self.refunded_minor),
            disputed: money(self.disputed_minor),
            remaining: money(left.max(0)),
        }
    }
}

pub(super) async fn find_charged(ctx: &Ctx, order: OrderId) -> Result<Option<Charged>, StoreError> {
    let Some(row) = keyed(&ctx.limits, || store::find_charged(&ctx.pool, order)).await? else { return Ok(None) };
    let impossible = || StoreError::Impossible("charge of an order");
    let currency = Currency::parse(&row.currency).or(Err(impossible()))?;
    Ok(Some(Charged {
        order: OrderId(row.order_id),
        paid: row.state == "paid",
        unresolved: row.unresolved,
        total: Money::new(row.amount_minor, currency),
        refunded_minor: row.refund_reserved_minor.saturating_add(row.refunded_elsewhere_minor),
        disputed_minor: row.disputed_minor,
        charge: row.charge.as_deref().map(ProviderChargeId::parse).transpose().or(Err(impossible()))?,
        payment_intent: row
            .payment_intent
            .as_deref()
            .map(ProviderPaymentIntentId::parse)
            .transpose()
            .or(Err(impossible()))?,
    }))
}
