//! What crosses the wire of the API, and how it becomes a request of the domain, or comes from one. Everything is parsed here;
//! what has the right shape and a wrong value is told by the name of its member.
//!
//! The types that only the description uses (the archived answers, which `payments` writes) are held to the real bytes by the
//! tests, which read every answer back with them.

use payments::{
    ids::{Email, IntentId, Sku},
    intent::{State, summary::IntentSummary},
    money::{Currency, Money},
    order::{
        Line, Order, OrderState,
        by_key::{LineName, NewLine},
    },
    provider::PaymentMethodToken,
};
use serde::{Deserialize, Deserializer, Serialize};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use utoipa::ToSchema;

use super::problem::Problem;

/// An order to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewOrderBody {
    /// ISO 4217; every line has it.
    #[schema(pattern = "^[A-Z]{3}$", example = "EUR")]
    pub currency: String,
    #[schema(min_items = 1, max_items = 50)]
    pub lines: Vec<NewLineBody>,
    /// Where the receipt goes, unless the payment names another address.
    #[schema(max_length = 254, example = "ana@example.org")]
    pub email: Option<String>,
}

/// A product of the catalogue, or something with a name and a price of its own.
#[derive(Deserialize, ToSchema)]
#[serde(untagged, try_from = "AnyLine")]
pub enum NewLineBody {
    Product(ProductLineBody),
    Free(FreeLineBody),
}

/// A product, at the catalogue's price; its pieces are taken from the stock.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProductLineBody {
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,39}$", example = "mug")]
    pub sku: String,
    #[schema(minimum = 1, maximum = 99, example = 2)]
    pub quantity: i32,
}

/// Something that the catalogue does not have.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FreeLineBody {
    /// As customers read it; at most 200 bytes, no control characters.
    #[schema(min_length = 1, max_length = 200, example = "Gift wrapping")]
    pub name: String,
    /// Price of one piece, in minor units.
    #[schema(minimum = 1, maximum = 99_999_999_999_i64, example = 350)]
    pub unit_amount: i64,
    #[schema(minimum = 1, maximum = 99, example = 1)]
    pub quantity: i32,
}

/// A line as it is read; which kind it is shows by its members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnyLine {
    #[serde(default, deserialize_with = "present")]
    sku: Option<String>,
    #[serde(default, deserialize_with = "present")]
    name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    unit_amount: Option<i64>,
    quantity: i32,
}

/// A member that may be absent, but not null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

impl TryFrom<AnyLine> for NewLineBody {
    type Error = &'static str;

    fn try_from(line: AnyLine) -> Result<Self, &'static str> {
        let quantity = line.quantity;
        match (line.sku, line.name, line.unit_amount) {
            (Some(sku), None, None) => Ok(Self::Product(ProductLineBody { sku, quantity })),
            (None, Some(name), Some(unit_amount)) => Ok(Self::Free(FreeLineBody { name, unit_amount, quantity })),
            _ => Err("a line has either `sku`, or `name` and `unit_amount`, and always `quantity`"),
        }
    }
}

impl NewOrderBody {
    /// The currency, the lines and the e-mail address.
    ///
    /// # Errors
    /// The first member that cannot be used.
    pub fn parse(self) -> Result<(Currency, Vec<NewLine>, Option<Email>), Problem> {
        let currency = currency(&self.currency)?;
        if !(1..=payments::limits::MAX_ORDER_LINES).contains(&self.lines.len()) {
            return Err(too_many());
        }
        let lines =
            self.lines.into_iter().enumerate().map(|(place, line)| line.parse(place)).collect::<Result<_, _>>()?;
        Ok((currency, lines, email(self.email.as_deref())?))
    }
}

/// More than one order may have.
pub fn too_many() -> Problem {
    Problem::field(
        "lines",
        "An order has 1 to 50 lines, of 1 to 99 pieces each, and its total has at most eleven digits in minor units.",
    )
}

impl NewLineBody {
    fn parse(self, place: usize) -> Result<NewLine, Problem> {
        let (Self::Product(ProductLineBody { quantity, .. }) | Self::Free(FreeLineBody { quantity, .. })) = &self;
        if !(1..=payments::limits::MAX_LINE_QUANTITY).contains(quantity) {
            return Err(Problem::field(format!("lines[{place}].quantity"), "A line has 1 to 99 pieces."));
        }
        match self {
            Self::Product(ProductLineBody { sku, quantity }) => {
                let unknown = || Problem::field(format!("lines[{place}].sku"), "There is no such product.");
                Ok(NewLine::Product { sku: Sku::parse(&sku).or(Err(unknown()))?, quantity })
            }
            Self::Free(FreeLineBody { name, unit_amount, quantity }) => {
                let odd = || {
                    let rule = "A name has 1 to 200 bytes and no control characters.";
                    Problem::field(format!("lines[{place}].name"), rule)
                };
                if !(1..=payments::limits::MAX_AMOUNT_MINOR).contains(&unit_amount) {
                    let rule = "A price is at least 1, and has at most eleven digits, in minor units.";
                    return Err(Problem::field(format!("lines[{place}].unit_amount"), rule));
                }
                Ok(NewLine::Free { name: LineName::parse(&name).or(Err(odd()))?, unit_minor: unit_amount, quantity })
            }
        }
    }
}

/// A payment to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PaymentBody {
    /// The card's token at the provider. Never stored in an answer, never logged.
    #[schema(pattern = "^pm_[A-Za-z0-9_-]{1,252}$", example = "pm_card_visa")]
    pub payment_method: String,
    /// What the payer was shown, in minor units; compared with the order.
    #[schema(minimum = 1, maximum = 99_999_999_999_i64, example = 1640)]
    pub amount: i64,
    #[schema(pattern = "^[A-Z]{3}$", example = "EUR")]
    pub currency: String,
    /// The failed intent of this order that this one takes the place of.
    #[schema(format = Uuid)]
    pub replaces: Option<String>,
    /// The payer's e-mail address; without it, the order's.
    #[schema(max_length = 254)]
    pub email: Option<String>,
}

/// A payment, parsed.
pub struct Payment {
    pub payment_method: PaymentMethodToken,
    pub shown: Money,
    pub replaces: Option<IntentId>,
    pub email: Option<Email>,
}

impl PaymentBody {
    /// The payment.
    ///
    /// # Errors
    /// The first member that cannot be used.
    pub fn parse(&self) -> Result<Payment, Problem> {
        let payment_method = PaymentMethodToken::parse(&self.payment_method)
            .ok()
            .filter(|token| token.expose().starts_with("pm_"))
            .ok_or_else(|| Problem::field("payment_method", "This is no payment method of the provider's."))?;
        let replaces = self.replaces.as_deref().map(IntentId::parse).transpose();
        Ok(Payment {
            payment_method,
            shown: Money::new(self.amount, currency(&self.currency)?),
            replaces: replaces.or(Err(Problem::field("replaces", "This is no UUID of version 4.")))?,
            email: email(self.email.as_deref())?,
        })
    }
}

fn currency(code: &str) -> Result<Currency, Problem> {
    Currency::parse(code).or(Err(Problem::field("currency", "This is no ISO 4217 currency that the shop knows.")))
}

fn email(text: Option<&str>) -> Result<Option<Email>, Problem> {
    text.map(Email::parse).transpose().or(Err(Problem::field("email", "This cannot be an e-mail address.")))
}

/// An order that was made; the same bytes for every repeat.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderMade {
    #[schema(format = Uuid)]
    pub id: String,
    /// The capability to see and pay the order: whoever has it, can.
    #[schema(pattern = "^[A-Za-z0-9]{22}$", example = "0123456789abcdefABCDEF")]
    pub token: String,
    /// Where a customer can pay it.
    #[schema(format = Uri)]
    pub checkout_url: String,
    /// In minor units.
    #[schema(example = 1640)]
    pub amount: i64,
    #[schema(example = "EUR")]
    pub currency: String,
    pub state: OrderStateWord,
}

/// Whether an order can be, or was, paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrderStateWord {
    Open,
    Paid,
    Closed,
}

/// The archived answer to a payment that succeeded; the same bytes for every repeat, from a browser or a program.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Succeeded {
    #[schema(format = Uuid)]
    pub intent: String,
    #[schema(pattern = "^SUCCEEDED$")]
    pub state: String,
    pub amount: i64,
    pub currency: String,
    /// The provider's charge.
    #[schema(example = "ch_3PmxyzAbCdEf")]
    pub charge: String,
    #[schema(format = DateTime)]
    pub paid_at: String,
}

/// The archived answer to a payment that failed for good; the same bytes for every repeat. Another try is another intent, under
/// a new key, which names this one as `replaces`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    #[schema(format = Uuid)]
    pub intent: String,
    #[schema(pattern = "^FAILED$")]
    pub state: String,
    pub amount: i64,
    pub currency: String,
    pub decline: DeclineWord,
    #[schema(format = DateTime)]
    pub failed_at: String,
}

/// Why a payment failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeclineWord {
    Generic,
    InsufficientFunds,
    ExpiredCard,
    IncorrectCode,
    IncorrectNumber,
    BankCheckFailed,
    CardNotSupported,
    OverLimit,
    TryLater,
    NotCharged,
}

/// A payment whose outcome is not known yet. Send the same request again, or ask for the intent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    #[schema(format = Uuid)]
    pub intent: String,
    #[schema(pattern = "^PENDING$")]
    pub state: String,
    pub amount: i64,
    pub currency: String,
    pub detail: PendingDetail,
    /// With `action_required`: the bank's page, for the customer.
    #[schema(format = Uri, nullable = false)]
    pub continue_url: Option<String>,
}

/// `pending`: at the provider. `unknown`: its answer was lost, and is being looked for. `action_required`: the bank wants to see
/// the customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PendingDetail {
    Pending,
    Unknown,
    ActionRequired,
}

/// An order with its lines and intents.
#[derive(Serialize, ToSchema)]
pub struct OrderBody {
    #[schema(format = Uuid)]
    id: String,
    token: String,
    #[schema(format = Uri)]
    checkout_url: String,
    /// For people.
    #[schema(example = "AB23-CD45")]
    reference: String,
    amount: i64,
    currency: String,
    state: OrderStateWord,
    #[schema(format = DateTime)]
    created_at: String,
    /// Once it is known: where the receipt goes.
    email: Option<String>,
    /// With `paid`.
    paid: Option<PaidBody>,
    lines: Vec<LineBody>,
    /// Newest first, at most 100.
    intents: Vec<IntentBody>,
}

/// What paid an order.
#[derive(Serialize, ToSchema)]
pub struct PaidBody {
    #[schema(format = Uuid)]
    intent: String,
    charge: String,
    #[schema(format = DateTime)]
    paid_at: String,
}

/// One line of an order.
#[derive(Serialize, ToSchema)]
pub struct LineBody {
    /// Null for a line that a program named and priced itself.
    sku: Option<String>,
    name: String,
    quantity: i32,
    unit_amount: i64,
    amount: i64,
}

/// Where an intent stands.
#[derive(Serialize, ToSchema)]
pub struct IntentBody {
    /// The idempotency key of its payment.
    #[schema(format = Uuid)]
    intent: String,
    #[schema(format = Uuid)]
    order: String,
    state: IntentStateWord,
    /// With `PENDING`.
    detail: Option<PendingDetail>,
    amount: i64,
    currency: String,
    #[schema(format = Uuid)]
    replaces: Option<String>,
    /// With `action_required`: the bank's page, for the customer.
    #[schema(format = Uri)]
    continue_url: Option<String>,
    /// With `SUCCEEDED`.
    charge: Option<String>,
    #[schema(format = DateTime)]
    paid_at: Option<String>,
    /// With `FAILED`.
    #[schema(value_type = Option<DeclineWord>)]
    decline: Option<&'static str>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    finished_at: Option<String>,
}

/// The first two are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum IntentStateWord {
    Succeeded,
    Failed,
    Pending,
}

impl OrderBody {
    /// An order, as a program is shown it.
    pub fn of(order: &Order, checkout_url: String, lines: &[Line], intents: Vec<IntentBody>) -> Self {
        let (state, paid) = match &order.state {
            OrderState::Open => (OrderStateWord::Open, None),
            OrderState::Closed => (OrderStateWord::Closed, None),
            OrderState::Paid(payment) => (
                OrderStateWord::Paid,
                Some(PaidBody {
                    intent: payment.intent.to_string(),
                    charge: payment.charge.to_string(),
                    paid_at: instant(payment.paid_at),
                }),
            ),
        };
        let line = |line: &Line| LineBody {
            sku: line.sku.as_ref().map(Sku::to_string),
            name: line.name.clone(),
            quantity: line.quantity,
            unit_amount: line.unit.minor,
            amount: line.amount.minor,
        };
        Self {
            id: order.id.to_string(),
            token: order.token.expose().to_owned(),
            checkout_url,
            reference: order.reference.to_string(),
            amount: order.total.minor,
            currency: order.total.currency.to_string(),
            state,
            created_at: instant(order.created_at),
            email: order.email.as_ref().map(|email| email.as_str().to_owned()),
            paid,
            lines: lines.iter().map(line).collect(),
            intents,
        }
    }
}

impl IntentBody {
    /// An intent; `page` gives the address of the bank's page for whoever asked.
    pub fn of(intent: &IntentSummary, page: impl Fn(&str) -> String) -> Self {
        let (state, detail) = match intent.state {
            State::Succeeded => (IntentStateWord::Succeeded, None),
            State::Failed => (IntentStateWord::Failed, None),
            State::Pending => (IntentStateWord::Pending, Some(PendingDetail::Pending)),
            State::Unknown => (IntentStateWord::Pending, Some(PendingDetail::Unknown)),
            State::ActionRequired => (IntentStateWord::Pending, Some(PendingDetail::ActionRequired)),
        };
        Self {
            intent: intent.id.to_string(),
            order: intent.order.to_string(),
            state,
            detail,
            amount: intent.money.minor,
            currency: intent.money.currency.to_string(),
            replaces: intent.replaces.map(|id| id.to_string()),
            continue_url: intent.continue_url.as_ref().map(|url| page(url.as_str())),
            charge: intent.charge.as_ref().map(ToString::to_string),
            paid_at: intent.paid_at.map(instant),
            decline: intent.decline.map(payments::provider::DeclineReason::as_str),
            created_at: instant(intent.created_at),
            finished_at: intent.finished_at.map(instant),
        }
    }
}

fn instant(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).unwrap_or_default()
}
