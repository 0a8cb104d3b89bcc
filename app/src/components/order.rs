//! What an order is made of: short beside the form that pays it, complete on its receipt.

use leptos::prelude::*;

use crate::{
    components::When,
    dto::{LineDto, OrderDto, OutcomeDto, OutcomeState},
};

/// Lines that are shown at once beside the form; the others unfold, so that a phone shows the form early.
const LINES_AT_ONCE: usize = 4;

/// What is being bought, short.
#[component]
pub fn Slip(order: OrderDto) -> impl IntoView {
    let OrderDto { reference, mut lines, total, .. } = order;
    let more = if lines.len() > LINES_AT_ONCE { lines.split_off(LINES_AT_ONCE - 1) } else { Vec::new() };
    let more = (!more.is_empty()).then(|| {
        view! {
            <details class="slip__more">
                <summary>{format!("and {} more", more.len())}</summary>
                <ul class="lines" role="list">{more.into_iter().map(slip_line).collect_view()}</ul>
            </details>
        }
    });
    view! {
        <section class="slip" aria-labelledby="slip-heading">
            <div class="slip__head">
                <h2 id="slip-heading">"Your order"</h2>
                <p class="reference"><span class="unseen">"Reference "</span>{reference}</p>
            </div>
            <ul class="lines" role="list">{lines.into_iter().map(slip_line).collect_view()}</ul>
            {more}
            <p class="total"><span>"Total"</span><strong class="money">{total.display}</strong></p>
        </section>
    }
}

fn slip_line(line: LineDto) -> impl IntoView {
    let each = (line.quantity > 1).then(|| format!("{} × {}", line.quantity, line.unit.display));
    view! {
        <li class="line">
            {(!line.picture.is_empty())
                .then(|| view! { <img class="line__picture" src=line.picture alt="" width="56" height="56" /> })}
            <span class="line__name">{line.name}{each.map(|each| view! { <small>{each}</small> })}</span>
            <span class="money">{line.amount.display}</span>
        </li>
    }
}

/// What was bought, complete and fit for print.
#[component]
pub fn Receipt(order: OrderDto, outcome: OutcomeDto) -> impl IntoView {
    let OrderDto { reference, lines, total, created_at, .. } = order;
    let paid = outcome.state == OutcomeState::Paid;
    let heading = if paid { "Receipt" } else { "Your order" };
    view! {
        <section class="slip receipt" class:receipt--paid=paid aria-labelledby="receipt-heading">
            <div class="slip__head">
                <h2 id="receipt-heading">{heading}</h2>
                <p class="reference"><span class="unseen">"Reference "</span>{reference}</p>
            </div>
            <table class="items">
                <thead>
                    <tr><th scope="col">"Item"</th><th scope="col">"Pieces"</th><th scope="col">"Amount"</th></tr>
                </thead>
                <tbody>{lines.into_iter().map(receipt_line).collect_view()}</tbody>
                <tfoot>
                    <tr><th scope="row" colspan="2">"Total"</th><td class="money">{total.display}</td></tr>
                </tfoot>
            </table>
            <dl class="facts">
                {fact("Ordered", view! { <When at=created_at /> })}
                {outcome.paid_at.map(|at| fact("Paid", view! { <When at /> }))}
                {outcome.email_hint.map(|email| fact("E-mail", email))}
                {outcome.charge.map(|charge| fact("Charge", view! { <code>{charge}</code> }))}
            </dl>
            {paid.then(|| view! { <p class="stamp" aria-hidden="true">"Paid"</p> })}
        </section>
    }
}

fn receipt_line(line: LineDto) -> impl IntoView {
    view! {
        <tr>
            <th scope="row">{line.name}<small>{format!("{} each", line.unit.display)}</small></th>
            <td>{line.quantity}</td>
            <td class="money">{line.amount.display}</td>
        </tr>
    }
}

fn fact(name: &'static str, value: impl IntoView) -> impl IntoView {
    view! { <div><dt>{name}</dt><dd>{value}</dd></div> }
}
