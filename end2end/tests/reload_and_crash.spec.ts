// Reloads, closed browsers and crashes in the middle of a payment never lose it and never repeat it.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import type { Page } from '@playwright/test'

import { expectPaidOnce } from '../support/books.ts'
import { launchOptions } from '../support/browser.ts'
import { cards, expectState, fillCard, hydrated, intentOf, main, payButton } from '../support/checkout.ts'
import { at } from '../support/moments.ts'
import { expect, test } from '../support/test.ts'
import { loseAnswer, payAddress, watchPayments } from '../support/wire.ts'

/** Ten moments of a payment for which the provider takes 1.2 s: before it is sent, while it runs, around its end. */
const moments = [0, 10, 40, 90, 200, 500, 900, 1200, 1350, 1700]

for (const moment of moments) {
  // A key that lives in memory only is lost by a reload, and the next press is a second charge.
  test(`p37: a reload ${moment} ms after the press keeps the payment`, async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1200 })
    const seen = watchPayments(page)
    await page.goto(order.url)
    await hydrated(page)
    const intent = await intentOf(page)
    await fillCard(page, cards.good)
    const pressed = performance.now()
    await payButton(page).click({ noWaitAfter: true })
    await at(moment, pressed)
    // The page may be on its way to the receipt at this very moment, and overtake the reload.
    await page.reload().catch((error: Error) => expect(error.message).toContain('ERR_ABORTED'))
    await pressAgainIfReady(page, intent)
    await expectPaidOnce(page, sandbox, order)
    expect(new Set(seen.intents)).toEqual(new Set([intent]))
  })
}

// The page that the server writes meanwhile knows nothing of a press that is still on its way.
test('a press that a reload overtook is found by the page itself, without another press', async ({
  page,
  request,
  shop,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  const underway = page.waitForRequest(payAddress)
  await page.route(payAddress, () => undefined, { times: 1 })
  await payButton(page).click({ noWaitAfter: true })
  const body = (await underway).postDataJSON() as object
  await page.reload()
  await hydrated(page)
  await expectState(page, 'ready')
  expect((await request.post(`${shop.url}/rpc/pay`, { data: body })).status()).toBe(200)
  await expectPaidOnce(page, sandbox, order)
})

test('a browser closed 50 ms after the press shows the outcome when it is opened again', async ({
  playwright,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1200 })
  const profile = mkdtempSync(join(tmpdir(), 'payonce-profile-'))
  try {
    const before = await playwright.chromium.launchPersistentContext(profile, launchOptions())
    const first = before.pages()[0] ?? (await before.newPage())
    await first.goto(order.url)
    await hydrated(first)
    const intent = await intentOf(first)
    await fillCard(first, cards.good)
    const pressed = performance.now()
    await payButton(first).click({ noWaitAfter: true })
    await at(50, pressed)
    await before.close()

    const after = await playwright.chromium.launchPersistentContext(profile, launchOptions())
    const seen = watchPayments(after)
    const again = after.pages()[0] ?? (await after.newPage())
    await again.goto(order.url)
    await pressAgainIfReady(again, intent)
    const charge = await expectPaidOnce(again, sandbox, order)
    expect(charge.idempotency_key).toContain(intent)
    expect(seen.intents.filter((sent) => sent !== intent)).toEqual([])
    await after.close()
  } finally {
    rmSync(profile, { recursive: true, force: true })
  }
})

// The answer comes after the browser has given up; reloading and pressing again has charged people twice.
test('b17: the answer is lost, the page is reloaded, Pay is pressed again if it is there: the same key, one charge', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const seen = watchPayments(page)
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 2000 })
  await page.route(payAddress, (route) => loseAnswer(route), { times: 1 })
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await fillCard(page, cards.good)
  const sent = page.waitForRequest(payAddress)
  await payButton(page).click()
  await sent
  await page.reload()
  await pressAgainIfReady(page, intent)
  await expectPaidOnce(page, sandbox, order)
  expect(new Set(seen.intents)).toEqual(new Set([intent]))
})

test('b17: the tab is closed in the middle; the reopened checkout tells the outcome', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1500 })
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await fillCard(page, cards.good)
  const sent = page.waitForRequest(payAddress)
  await payButton(page).click()
  await sent
  await page.close()
  const again = await context.newPage()
  await again.goto(order.url)
  await pressAgainIfReady(again, intent)
  const charge = await expectPaidOnce(again, sandbox, order)
  expect(charge.idempotency_key).toContain(intent)
})

test('the server is killed during the charge and started again: the page finds the one charge', async ({
  page,
  shop,
  sandbox,
  newOrder,
}) => {
  test.slow()
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_after', ms: 5000 })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expect.poll(async () => (await sandbox.ledger(order)).charges.length).toBe(1)
  await shop.crashAndRestart()
  await page.goto(order.url)
  // The dead server's lease has to run out before another one may ask.
  await expectPaidOnce(page, sandbox, order, { timeout: 40_000 })
})

/** A page that its browser knows asks by itself for five seconds; this is a little longer. */
const ASKS_BY_ITSELF_MS = 7_000

/**
 * The page may have been made before the payment arrived at the server; then it finds it by itself. If the press never left
 * the browser, the page still holds the same UUID, and a person presses again.
 */
async function pressAgainIfReady(page: Page, intent: string): Promise<void> {
  await expectState(page, 'ready', 'sending', 'unknown', 'paid', 'already_paid')
  const foundByItself = await expect(main(page))
    .not.toHaveAttribute('data-state', 'ready', { timeout: ASKS_BY_ITSELF_MS })
    .then(() => true, () => false)
  if (foundByItself) return
  expect(await intentOf(page)).toBe(intent)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
}
