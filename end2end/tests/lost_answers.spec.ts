// An answer that is lost, late or broken means "we do not know yet", never "failed", and never a second charge.

import { expectNoCharge, expectPaidOnce } from '../support/books.ts'
import { cards, expectState, fillCard, hydrated, intentOf, main, payButton } from '../support/checkout.ts'
import { gate } from '../support/moments.ts'
import { expect, test } from '../support/test.ts'
import { loseAnswer, outcomeAddress, payAddress, watchPayments } from '../support/wire.ts'

test('the charge is made, its answer never reaches the shop: the customer sees "paid" and is charged once', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'charge_then_drop' })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

test('the provider charges and then answers 500: the customer sees "paid" and is charged once', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'charge_then_500' })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

for (const kind of ['error_500', 'drop_before'] as const) {
  test(`the provider charges nothing (${kind}): the same key is sent again and charges once`, async ({
    page,
    sandbox,
    newOrder,
  }) => {
    const order = await newOrder()
    await sandbox.fault({ path: 'confirm' }, { kind })
    await page.goto(order.url)
    await hydrated(page)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expectPaidOnce(page, sandbox, order)
    const keys = (await sandbox.confirmCalls(order)).map((call) => call.idempotency_key)
    expect(new Set(keys).size, 'every confirmation carried the same key').toBe(1)
  })
}

test('while the outcome is unknown the page says so, offers no Pay, and ends with the truth', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'charge_then_drop' })
  await sandbox.silent()
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectState(page, 'unknown')
  expect(await intentOf(page)).toBe(intent)
  await expect(main(page)).toContainText("We don't know yet whether you've been charged")
  await expect(main(page)).not.toContainText(/failed|no money was taken|not been charged\./i)
  await expect(page.getByRole('button', { name: /^Pay/ })).toHaveCount(0)
  // Neither reload nor the checkout's own address lets the customer pay a second time.
  await page.goto(order.url)
  await expectState(page, 'unknown')
  await expect(page.getByRole('button', { name: /^Pay/ })).toHaveCount(0)
  await sandbox.clearFaults()
  await expectPaidOnce(page, sandbox, order)
})

// The provider remembers a fault under the key, so that only a cancelled payment intent can prove anything.
test('b53: unknown names the minute by which it will be known, then says "not charged", and the order can be paid', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'error_500', remember: true })
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectState(page, 'unknown')
  await expect(main(page)).toContainText(/We keep asking and will know by \d\d:\d\d\./)
  await expect(page.getByRole('status')).toContainText(/will know by \d\d:\d\d\./)
  await expectState(page, 'not_charged')
  await expect(main(page)).toContainText('We checked with the bank: you have not been charged.')
  expect(await intentOf(page)).not.toBe(intent)
  await sandbox.clearFaults()
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

// The page must not fall back from "paying" to a live Pay button that starts a second payment.
test('b03: the answer to the browser is cut off: it asks with the same key and shows the first payment', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const seen = watchPayments(page)
  await page.route(payAddress, (route) => loseAnswer(route), { times: 1 })
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  expect(new Set(seen.intents)).toEqual(new Set([intent]))
})

test('the answer is lost after the charge and a person insists: the same key again, still one charge', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const seen = watchPayments(context)
  await page.route(payAddress, (route) => loseAnswer(route))
  await page.route(outcomeAddress, (route) => route.abort('connectionreset'))
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expect.poll(async () => (await sandbox.ledger(order)).charges.length).toBe(1)
  await expectState(page, 'sending', 'unknown', 'lost_connection')
  // A second tab of the same browser, where everything works again.
  const other = await context.newPage()
  await other.goto(order.url)
  await expectPaidOnce(other, sandbox, order)
  // And the first tab, once its connection is back.
  await page.unroute(payAddress)
  await page.unroute(outcomeAddress)
  await page.evaluate(() => window.dispatchEvent(new Event('online')))
  await expectPaidOnce(page, sandbox, order)
  expect(new Set(seen.intents)).toEqual(new Set([intent]))
})

test('the request never reaches the shop: the page finds that out and sends the same key again', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const seen = watchPayments(page)
  await page.route(payAddress, (route) => route.abort('connectionreset'), { times: 1 })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  expect(seen.intents.length).toBeGreaterThan(1)
  expect(new Set(seen.intents).size).toBe(1)
})

for (const status of [500, 502, 504]) {
  test(`a ${status} of a proxy on the way means "not known yet", not "failed"`, async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    await page.route(
      payAddress,
      async (route) => {
        await route.fetch()
        await route.fulfill({ status, contentType: 'text/html', body: '<h1>upstream</h1>' })
      },
      { times: 1 },
    )
    await page.goto(order.url)
    await hydrated(page)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expectPaidOnce(page, sandbox, order)
  })
}

// The provider's "another request with this key is running" is a lock, not a refusal of the card.
test('b33: a lock at the provider is waited for, not taken for a decline', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'conflict_409' })
  const states = await watchStates(page)
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  expect(states).not.toContain('declined')
})

test('the provider cannot be reached: proven not sent, nothing charged, and the same press again pays', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await fillCard(page, cards.good)
  const held = gate()
  await page.route(
    payAddress,
    async (route) => {
      // The card is tokenised by now; from here on nobody listens at the provider.
      await sandbox.fault({ path: 'any' }, { kind: 'refuse', ms: 4000 })
      held.open()
      await route.continue()
    },
    { times: 1 },
  )
  await payButton(page).click()
  await held.passed
  await expectState(page, 'not_sent', 'paid')
  if ((await main(page).getAttribute('data-state')) === 'not_sent') {
    await expect(main(page)).toContainText('you have not been charged')
    expect(await intentOf(page)).toBe(intent)
    await expect.poll(() => sandbox.clearFaults().then(() => true, () => false)).toBe(true)
    await expectNoCharge(sandbox, order)
    await expect(page.locator('[name=cardnumber]')).not.toHaveValue('')
    await page.getByRole('button', { name: /^(Pay|Try again)/ }).click()
  }
  await expectPaidOnce(page, sandbox, order)
})

test('offline before sending: a truthful refusal, and the press after it pays', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await context.setOffline(true)
  await payButton(page).click()
  await expectState(page, 'offline')
  await expect(main(page)).toContainText('Nothing has been sent and nothing has been charged')
  await expectNoCharge(sandbox, order)
  await context.setOffline(false)
  await expect(page.locator('[name=cardnumber]')).not.toHaveValue('')
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

test('the connection drops while paying: the page says so and finds the outcome when it is back', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1500 })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expect.poll(async () => (await sandbox.confirmCalls(order)).length).toBe(1)
  await context.setOffline(true)
  await expectState(page, 'lost_connection')
  await expect(main(page)).toContainText("Don't start again")
  await context.setOffline(false)
  await expectPaidOnce(page, sandbox, order)
})

// Background tabs have their timers slowed down; coming back must ask at once.
test('p49: a tab that was hidden while the bank was slow asks as soon as it is shown', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'charge_then_drop' })
  await sandbox.silent()
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectState(page, 'unknown')
  const asked = page.waitForRequest(outcomeAddress)
  await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')))
  await asked
  await sandbox.clearFaults()
  await expectPaidOnce(page, sandbox, order)
})

/** Collects every state that `<main>` goes through. */
async function watchStates(page: import('@playwright/test').Page): Promise<string[]> {
  const states: string[] = []
  await page.exposeFunction('payonceState', (state: string) => states.push(state))
  await page.addInitScript(() => {
    const report = (window as unknown as { payonceState: (state: string) => void }).payonceState
    new MutationObserver(() => {
      const state = document.querySelector('main')?.getAttribute('data-state')
      if (state) report(state)
    }).observe(document, { attributes: true, attributeFilter: ['data-state'], subtree: true, childList: true })
  })
  return states
}
