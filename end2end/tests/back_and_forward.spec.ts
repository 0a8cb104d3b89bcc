// Back, Forward, restored pages and returns from the bank never make people pay twice, and never leave them stuck.

import type { Browser, Page, PlaywrightWorkerArgs } from '@playwright/test'

import { expectOneCharge, expectPaidOnce } from '../support/books.ts'
import { launchOptions } from '../support/browser.ts'
import {
  cards,
  expectState,
  fillCard,
  hydrated,
  intentOf,
  main,
  onBankPage,
  passBank,
  payButton,
} from '../support/checkout.ts'
import { expect, test } from '../support/test.ts'
import { watchPayments } from '../support/wire.ts'

// Back once led to the old form with a live Pay button and the old key.
test('b04, p36: Back after paying leads to no form, and the checkout address tells that it is paid', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const seen = watchPayments(page)
  await page.goto('/cart')
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expect(page).toHaveURL(order.outcomeUrl)
  await expectPaidOnce(page, sandbox, order)
  await page.goBack()
  await expect(payButton(page)).toHaveCount(0)
  await page.goForward()
  await expectPaidOnce(page, sandbox, order)
  await page.goto(order.url)
  await expectPaidOnce(page, sandbox, order)
  await page.goBack()
  await expectPaidOnce(page, sandbox, order)
  expect(seen.intents).toHaveLength(1)
})

// The browser may keep the whole page in memory and bring it back as it was left, button and all.
test('b04, p36: a form that comes back from memory after its order was paid asks, and turns into the receipt', async ({
  playwright,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const browser = await launchWithPageMemory(playwright)
  try {
    const context = await browser.newContext()
    const page = await context.newPage()
    const seen = watchPayments(context)
    await rememberPage(page, order.url)
    await page.goto(order.url)
    await hydrated(page)
    await fillCard(page, cards.good)
    await page.getByRole('link', { name: /Tidewater/ }).first().click()
    await expect(page.getByRole('heading', { level: 1 })).toContainText('Plain things')
    const other = await context.newPage()
    await other.goto(order.url)
    await hydrated(other)
    await fillCard(other, cards.good)
    await payButton(other).click()
    await expectPaidOnce(other, sandbox, order)
    await page.goBack({ waitUntil: 'commit' })
    await expect(page.locator('html'), 'the page came from memory').toHaveAttribute('data-persisted', 'true')
    await expectPaidOnce(page, sandbox, order)
    expect(seen.intents).toHaveLength(1)
  } finally {
    await browser.close()
  }
})

// Whatever the browser restores, a page that still shows the form asks the server before anything can be pressed.
test('b04: a page that was restored with the form still on it asks and turns into the receipt', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  const other = await context.newPage()
  await other.goto(order.url)
  await hydrated(other)
  await fillCard(other, cards.good)
  await payButton(other).click()
  await expectPaidOnce(other, sandbox, order)
  await page.evaluate(() => window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })))
  await expectPaidOnce(page, sandbox, order)
})

// Back from the bank's page has left frozen buttons, so that people could not pay at all.
test('b05: Back from the bank leads to a page that goes on, with the same key', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  const seen = watchPayments(page)
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await fillCard(page, cards.bankStep)
  await payButton(page).click()
  await onBankPage(page)
  await page.goBack()
  await expectState(page, 'bank_step')
  expect(await intentOf(page)).toBe(intent)
  await passBank(page, 'approve')
  await expectPaidOnce(page, sandbox, order)
  expect(new Set(seen.intents)).toEqual(new Set([intent]))
})

test('b05: the page comes back from the bank out of memory, goes on within a second, with the same key', async ({
  playwright,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const browser = await launchWithPageMemory(playwright)
  try {
    const page = await browser.newPage()
    const seen = watchPayments(page)
    await rememberPage(page, order.url)
    await page.goto(order.url)
    await hydrated(page)
    const intent = await intentOf(page)
    await fillCard(page, cards.bankStep)
    await payButton(page).click()
    await onBankPage(page)
    await page.goBack({ waitUntil: 'commit' })
    await expect(page.locator('html'), 'the page came from memory').toHaveAttribute('data-persisted', 'true')
    await expect(page.getByRole('link', { name: /^Continue to/ })).toBeVisible({ timeout: 1000 })
    await expectState(page, 'bank_step')
    expect(await intentOf(page)).toBe(intent)
    await passBank(page, 'approve')
    await expectPaidOnce(page, sandbox, order)
    expect(new Set(seen.intents)).toEqual(new Set([intent]))
  } finally {
    await browser.close()
  }
})

// Three times to the bank and back; no page shows what the database thinks of that.
test('b06: to the bank and back three times, then through: one order, one charge, no raw fault', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder('mug', 3)
  const statuses: number[] = []
  page.on('response', (response) => statuses.push(response.status()))
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.bankStep)
  await payButton(page).click()
  for (let n = 0; n < 3; n += 1) {
    await onBankPage(page)
    await page.goto(order.url)
    await expectState(page, 'bank_step')
    await expect(main(page)).not.toContainText(/constraint|duplicate|unique|violat/i)
    await page.getByRole('link', { name: /^Continue to/ }).click()
  }
  await passBank(page, 'approve')
  await expectPaidOnce(page, sandbox, order)
  expect(statuses.filter((status) => status >= 400)).toEqual([])
})

test('the bank says no: nothing is charged, and another card pays', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.bankStep)
  await payButton(page).click()
  await passBank(page, 'refuse')
  await expectState(page, 'declined')
  await expect(main(page)).toContainText('Your bank could not confirm it was you')
  expect((await sandbox.ledger(order)).charges).toEqual([])
  await page.getByRole('link', { name: /^Try again/ }).or(payButton(page)).first().click()
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

// The return address is called twice, and pasted into somebody else's browser.
test('b10: the return address opened twice at once, and again elsewhere, takes effect once', async ({
  page,
  context,
  browser,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.bankStep, { email: 'ana.private@example.org' })
  await payButton(page).click()
  await passBank(page, 'approve')
  await expectPaidOnce(page, sandbox, order)
  const returned = page.url()
  const twins = await Promise.all([context.newPage(), context.newPage()])
  await Promise.all(twins.map((twin) => twin.goto(returned)))
  for (const twin of twins) await expectPaidOnce(twin, sandbox, order)
  const elsewhere = await browser.newContext()
  const stranger = await elsewhere.newPage()
  // With one letter of the order's secret changed there is nothing to see.
  const guess = returned.replace(order.token, order.token.slice(0, -1) + (order.token.endsWith('A') ? 'B' : 'A'))
  const answer = await stranger.goto(guess)
  expect(answer?.status()).toBe(404)
  await expect(stranger.locator('body')).not.toContainText(/ana\.private|€19\.99/)
  // Even with it, the address of the payer is never shown whole.
  await stranger.goto(returned)
  await expect(stranger.locator('body')).not.toContainText('ana.private@example.org')
  await elsewhere.close()
  await expectOneCharge(sandbox, order)
})

// The bank's app may come back in another browser than the one that paid.
test('p45: the return from the bank in a fresh profile shows the outcome', async ({ page, browser, sandbox, newOrder }) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.bankStep)
  await payButton(page).click()
  await onBankPage(page)
  const bankAddress = page.url()
  const elsewhere = await browser.newContext()
  const app = await elsewhere.newPage()
  await app.goto(bankAddress)
  await passBank(app, 'approve')
  await expectPaidOnce(app, sandbox, order)
  await elsewhere.close()
  await page.goto(order.url)
  await expectPaidOnce(page, sandbox, order)
})

// A page that is the answer to a POST sends it again on reload.
test('p41: reloading the outcome is harmless', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  const posts: string[] = []
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  await page.goto(order.outcomeUrl)
  page.on('request', (request) => {
    if (request.isNavigationRequest() && request.method() === 'POST') posts.push(request.url())
  })
  await page.reload()
  await page.reload()
  await expectPaidOnce(page, sandbox, order)
  expect(posts).toEqual([])
})

test('an old link to a paid checkout tells that it is paid, and offers no payment', async ({
  page,
  browser,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  const elsewhere = await browser.newContext()
  const later = await elsewhere.newPage()
  await later.goto(order.url)
  await expectPaidOnce(later, sandbox, order)
  await elsewhere.close()
})

/** Playwright switches the back/forward cache off; people's browsers have it on. */
async function launchWithPageMemory(playwright: PlaywrightWorkerArgs['playwright']): Promise<Browser> {
  return playwright.chromium.launch({ ...launchOptions(), ignoreDefaultArgs: ['--disable-back-forward-cache'] })
}

/** Browsers may keep even pages that say `no-store`; here they do, so that the page is not allowed to rely on it. */
async function rememberPage(page: Page, address: string): Promise<void> {
  const session = await page.context().newCDPSession(page)
  session.on('Fetch.requestPaused', ({ requestId, responseStatusCode = 200, responseHeaders = [] }) => {
    const headers = responseHeaders.filter(({ name }) => name.toLowerCase() !== 'cache-control')
    void session.send('Fetch.continueResponse', { requestId, responseCode: responseStatusCode, responseHeaders: headers })
  })
  await session.send('Fetch.enable', { patterns: [{ urlPattern: address, requestStage: 'Response' }] })
  await page.addInitScript(() => {
    window.addEventListener('pageshow', (event) => {
      document.documentElement.dataset['persisted'] = String(event.persisted)
    })
  })
}
