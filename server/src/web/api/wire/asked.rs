//! What programs ask for. What has the right shape and a wrong value is told by the name of its member.

use payments::{
    ids::{Email, IntentId, Sku},
    money::{Currency, Money},
    order::by_key::{LineName, NewLine},
    provider::{PaymentMethodToken, RefundReason},
};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use crate::web::api::problem::Problem;

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
    /// As customers read it; at most 200 bytes, no characters that control, hide or turn text.
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
                    let rule = "A name has 1 to 200 bytes, something to see, and no control characters.";
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
        if !(1..=payments::limits::MAX_AMOUNT_MINOR).contains(&self.amount) {
            let rule = "An amount is at least 1, and has at most eleven digits, in minor units.";
            return Err(Problem::field("amount", rule));
        }
        let replaces = self.replaces.as_deref().map(IntentId::parse).transpose();
        Ok(Payment {
            payment_method,
            shown: Money::new(self.amount, currency(&self.currency)?),
            replaces: replaces.or(Err(Problem::field("replaces", "This is no UUID of version 4.")))?,
            email: email(self.email.as_deref())?,
        })
    }
}

/// A refund to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefundBody {
    /// What is to be given back, in minor units.
    #[schema(minimum = 1, maximum = 99_999_999_999_i64, example = 350)]
    pub amount: i64,
    /// The order's, where it is absent.
    #[schema(pattern = "^[A-Z]{3}$", example = "EUR")]
    pub currency: Option<String>,
    /// Why, for the bank.
    #[schema(pattern = "^(duplicate|fraudulent|requested_by_customer)$", example = "requested_by_customer")]
    pub reason: Option<String>,
}

impl RefundBody {
    /// The refund.
    ///
    /// # Errors
    /// The first member that cannot be used.
    pub fn parse(&self, of_order: Currency) -> Result<(Money, Option<RefundReason>), Problem> {
        if !(1..=payments::limits::MAX_AMOUNT_MINOR).contains(&self.amount) {
            let rule = "An amount is at least 1, and has at most eleven digits, in minor units.";
            return Err(Problem::field("amount", rule));
        }
        let currency = self.currency.as_deref().map_or(Ok(of_order), currency)?;
        let known = "A reason is `duplicate`, `fraudulent` or `requested_by_customer`.";
        let reason =
            self.reason.as_deref().map(|word| RefundReason::parse(word).ok_or(Problem::field("reason", known)));
        Ok((Money::new(self.amount, currency), reason.transpose()?))
    }
}

fn currency(code: &str) -> Result<Currency, Problem> {
    Currency::parse(code).or(Err(Problem::field("currency", "This is no ISO 4217 currency that the shop knows.")))
}

fn email(text: Option<&str>) -> Result<Option<Email>, Problem> {
    text.map(Email::parse).transpose().or(Err(Problem::field("email", "This cannot be an e-mail address.")))
}
