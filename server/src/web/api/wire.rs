//! What crosses the wire of the API, and how it becomes a request of the domain, or comes from one. Everything is parsed here.

mod asked;
mod refunds;
mod told;

pub use self::{
    asked::{FreeLineBody, NewLineBody, NewOrderBody, Payment, PaymentBody, ProductLineBody, RefundBody, too_many},
    refunds::{OrderRefundBody, RefundFailed, RefundPending, RefundSucceeded, RefundedBody},
    told::{
        DeclineWord, Failed, IntentBody, IntentStateWord, LineBody, OrderBody, OrderMade, OrderStateWord, PaidBody,
        Pending, PendingDetail, Succeeded,
    },
};
