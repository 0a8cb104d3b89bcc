// The claims that end every test: what the provider really charged, and what the customer is told.

import { expect, type APIRequestContext, type Page } from '@playwright/test'

import { askOutcome, main, type Order } from './checkout.ts'
import type { Charge, Sandbox } from './sandbox.ts'

/** Exactly one charge, of exactly what the page showed. Answers the charge. */
export async function expectOneCharge(sandbox: Sandbox, order: Order): Promise<Charge> {
  await expect
    .poll(async () => (await sandbox.ledger(order)).charges.length, { message: `charges of ${order.reference}`, timeout: 20_000 })
    .toBeGreaterThan(0)
  const { charges } = await sandbox.ledger(order)
  expect(charges, `charges of ${order.reference}`).toHaveLength(1)
  const charge = charges[0]
  if (charge === undefined) throw new Error('unreachable: the list has one entry')
  expect({ amount: charge.amount, currency: charge.currency.toUpperCase(), status: charge.status }).toEqual({
    amount: order.amount,
    currency: order.currency,
    status: 'succeeded',
  })
  return charge
}

/** No charge at all. */
export async function expectNoCharge(sandbox: Sandbox, order: Order): Promise<void> {
  expect((await sandbox.ledger(order)).charges, `charges of ${order.reference}`).toHaveLength(0)
}

/** One charge, and this page says so, about the intent that was charged. */
export async function expectPaidOnce(
  page: Page,
  sandbox: Sandbox,
  order: Order,
  options: { timeout?: number } = {},
): Promise<Charge> {
  await expect(main(page)).toHaveAttribute('data-state', /^(paid|already_paid)$/, options)
  const charge = await expectOneCharge(sandbox, order)
  const intent = await main(page).getAttribute('data-intent')
  expect(charge.idempotency_key, 'the page speaks of the intent that was charged').toContain(intent ?? 'no intent')
  await expect(main(page)).toContainText(order.display)
  await expect(page.getByRole('button', { name: /^Pay/ }), 'a paid order offers no Pay button').toHaveCount(0)
  return charge
}

/** What holds at the end of every test, whatever it did: each order was charged at most once, and only if it counts as paid. */
export async function booksBalance(
  request: APIRequestContext,
  shopUrl: string,
  sandbox: Sandbox,
  orders: readonly Order[],
): Promise<void> {
  for (const order of orders) {
    const { charges, refunds } = await sandbox.ledger(order)
    expect(charges.length, `charges of ${order.reference}`).toBeLessThanOrEqual(1)
    for (const charge of charges) {
      expect([charge.amount, charge.currency.toUpperCase()]).toEqual([order.amount, order.currency])
    }
    expect(refunds, `refunds of ${order.reference}`).toHaveLength(0)
    if (charges.length === 1) {
      await expect
        .poll(async () => (await askOutcome(request, shopUrl, order.token)).state, {
          message: `${order.reference} was charged, so it must become paid`,
          timeout: 30_000,
        })
        .toBe('paid')
    } else {
      const { state } = await askOutcome(request, shopUrl, order.token)
      expect(state, `${order.reference} was not charged`).not.toBe('paid')
    }
  }
  const { charges } = await sandbox.ledger()
  const keys = charges.map((charge) => charge.idempotency_key)
  expect(new Set(keys).size, 'one charge for each key').toBe(keys.length)
  const intents = charges.map((charge) => charge.payment_intent)
  expect(new Set(intents).size, 'one charge for each payment intent').toBe(intents.length)
}
