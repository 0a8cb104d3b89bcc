// One UUID per checkout intent: there before the first press, the same in every reading, kept in every browser.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { expectNoCharge, expectOneCharge, expectPaidOnce } from '../support/books.ts'
import { launchOptions } from '../support/browser.ts'
import {
  cards,
  createOrder,
  fillCard,
  hydrated,
  inputValue,
  intentOf,
  main,
  payButton,
  readOrder,
  tokenOf,
  versionFour,
} from '../support/checkout.ts'
import { expect, test, watchFaults } from '../support/test.ts'
import { payAddress, watchPayments } from '../support/wire.ts'

// A key made again by every rendering protects nothing.
test('b16: resizing, another theme, another language, typing and an update from the server keep the key', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await page.setViewportSize({ width: 360, height: 740 })
  await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' })
  await page.evaluate(() => window.dispatchEvent(new Event('languagechange')))
  await fillCard(page, cards.good)
  const asked = page.waitForResponse('**/rpc/outcome')
  await page.evaluate(() => window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })))
  await asked
  expect(await intentOf(page)).toBe(intent)
  await page.reload()
  await hydrated(page)
  expect(await intentOf(page)).toBe(intent)
  await fillCard(page, cards.good)
  await payButton(page).click()
  const charge = await expectPaidOnce(page, sandbox, order)
  expect(charge.idempotency_key).toContain(intent)
})

// `crypto.randomUUID` does not exist on plain http outside localhost; such pages were blank or sent "undefined".
test('b22, p42: on plain http under another host name the key is version 4 and the page pays', async ({
  playwright,
  shop,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const port = new URL(shop.url).port
  const browser = await playwright.chromium.launch(launchOptions(['--host-resolver-rules=MAP shop.lan 127.0.0.1']))
  try {
    const page = await browser.newPage()
    const faults: string[] = []
    watchFaults(page.context(), faults)
    const seen = watchPayments(page)
    await page.goto(`http://shop.lan:${port}/checkout/${order.token}`)
    expect(await page.evaluate(() => [window.isSecureContext, typeof crypto.randomUUID])).toEqual([false, 'undefined'])
    await hydrated(page)
    expect(await intentOf(page)).toMatch(versionFour)
    // A decline makes the browser mint the next one itself.
    await fillCard(page, cards.declined)
    await payButton(page).click()
    await expect(main(page)).toHaveAttribute('data-state', 'declined')
    await fillCard(page, cards.good)
    await page.getByRole('button', { name: /^(Pay|Try)/ }).click()
    await expectPaidOnce(page, sandbox, order)
    expect(seen.intents).toHaveLength(2)
    for (const intent of seen.intents) expect(intent).toMatch(versionFour)
    expect(faults).toEqual([])
  } finally {
    await browser.close()
  }
})

// With site data blocked the mere touch of the storage throws.
test('b23, p43: with storage blocked a double click, and a reload, pay once', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  const seen = watchPayments(page)
  await page.addInitScript(() => {
    const blocked = (): never => {
      throw new DOMException('The operation is insecure.', 'SecurityError')
    }
    for (const name of ['localStorage', 'sessionStorage', 'indexedDB']) {
      Object.defineProperty(window, name, { get: blocked, configurable: false })
    }
    Object.defineProperty(Document.prototype, 'cookie', { get: blocked, set: blocked })
  })
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await page.reload()
  await hydrated(page)
  expect(await intentOf(page), 'the server keeps what the browser may not').toBe(intent)
  await fillCard(page, cards.good)
  await payButton(page).dblclick()
  await expectPaidOnce(page, sandbox, order)
  await page.reload()
  await expectPaidOnce(page, sandbox, order)
  expect(new Set(seen.intents)).toEqual(new Set([intent]))
})

test('b23, p43: a browser that blocks all cookies and site data pays once', async ({ playwright, sandbox, newOrder }) => {
  const order = await newOrder()
  const profile = mkdtempSync(join(tmpdir(), 'payonce-profile-'))
  mkdirSync(join(profile, 'Default'))
  const blocked = { profile: { default_content_setting_values: { cookies: 2 } } }
  writeFileSync(join(profile, 'Default', 'Preferences'), JSON.stringify(blocked))
  const context = await playwright.chromium.launchPersistentContext(profile, launchOptions())
  try {
    const faults: string[] = []
    watchFaults(context, faults)
    const page = context.pages()[0] ?? (await context.newPage())
    await page.goto(order.url)
    const storage = await page.evaluate(() => {
      try {
        return String(localStorage.length)
      } catch (error) {
        return String(error)
      }
    })
    expect(storage).toContain('SecurityError')
    await hydrated(page)
    await fillCard(page, cards.good)
    await payButton(page).dblclick()
    await expectPaidOnce(page, sandbox, order)
    await page.reload()
    await expectPaidOnce(page, sandbox, order)
    expect(faults).toEqual([])
  } finally {
    await context.close()
    rmSync(profile, { recursive: true, force: true })
  }
})

test('p43: with storage that is full the page pays once', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await page.addInitScript(() => {
    Storage.prototype.setItem = () => {
      throw new DOMException('full', 'QuotaExceededError')
    }
  })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).dblclick()
  await expectPaidOnce(page, sandbox, order)
})

test('p43: storage cleared in the middle keeps the key', async ({ page, context, sandbox, newOrder }) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await page.evaluate(() => localStorage.clear())
  await context.clearCookies()
  await page.reload()
  await hydrated(page)
  expect(await intentOf(page)).toBe(intent)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

// A cache once handed the token of one shopper to all of them.
test('b25, p38: checkout pages are stored by nobody, and two customers never share a key or an outcome', async ({
  page,
  browser,
  request,
  sandbox,
  newOrder,
}) => {
  const [a, b] = [await newOrder('mug'), await newOrder('kettle')]
  const intents: string[] = []
  for (const order of [a, b]) {
    for (const address of [order.url, order.outcomeUrl]) {
      const response = await request.get(address)
      expect(response.headers()['cache-control'], address).toContain('no-store')
    }
    intents.push(inputValue(await (await request.get(order.url)).text(), 'intent'))
  }
  expect(intents[0]).not.toBe(intents[1])
  const other = await (await browser.newContext()).newPage()
  for (const [tab, order] of [
    [page, a],
    [other, b],
  ] as const) {
    await tab.goto(order.url)
    await hydrated(tab)
    await fillCard(tab, cards.good)
  }
  await Promise.all([page, other].map((tab) => payButton(tab).click()))
  await expectPaidOnce(page, sandbox, a)
  await expectPaidOnce(other, sandbox, b)
  expect(await other.content()).not.toContain(a.reference)
  await other.context().close()
})

// An id made while rendering once differed between server and browser.
test('b26: one key in the HTML, in the form after hydration, and with scripts off', async ({
  page,
  browser,
  request,
  newOrder,
}) => {
  const order = await newOrder()
  const messages: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') messages.push(message.text())
  })
  const html = await (await request.get(order.url)).text()
  const inHtml = inputValue(html, 'intent')
  expect(inHtml).toMatch(versionFour)
  await page.goto(order.url)
  await hydrated(page)
  expect(await intentOf(page)).toBe(inHtml)
  expect(await page.locator('[name=intent]').inputValue()).toBe(inHtml)
  const plain = await (await browser.newContext({ javaScriptEnabled: false })).newPage()
  await plain.goto(order.url)
  expect(await intentOf(plain)).toBe(inHtml)
  expect(await plain.locator('[name=intent]').inputValue()).toBe(inHtml)
  await plain.context().close()
  expect(messages).toEqual([])
})

// A worker in the background that sends a POST again hours later would be a second pair of hands.
test('p44: no service worker is registered, so nothing is sent again behind the page', async ({ page, newOrder }) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  const found = await page.evaluate(async () => (await navigator.serviceWorker?.getRegistrations())?.length ?? 0)
  expect(found).toBe(0)
})

// Some browsers add an Idempotency-Key of their own to a POST.
test('p46: an Idempotency-Key that the browser adds changes nothing: the UUID in the body counts', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await page.route(payAddress, (route, request) =>
    route.continue({ headers: { ...request.headers(), 'idempotency-key': `"${crypto.randomUUID()}"` } }),
  )
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await fillCard(page, cards.good)
  await payButton(page).dblclick()
  const charge = await expectPaidOnce(page, sandbox, order)
  expect(charge.idempotency_key).toContain(intent)
})

// A changed cart is another order; the key of the first must not pay it unseen, nor be answered with the first's outcome.
test('p48: a changed cart is another order with another key, and each is charged its own amount', async ({
  page,
  shop,
  sandbox,
  orders,
}) => {
  const request = page.request
  const first = await createOrder(request, shop.url, 'mug')
  const second = await createOrder(request, shop.url, 'kettle')
  orders.push(first, second)
  expect(second.token).not.toBe(first.token)
  expect(second.amount).toBe(820 + 6410)
  await page.goto(first.url)
  await hydrated(page)
  const old = await intentOf(page)
  await page.goto(second.url)
  await hydrated(page)
  expect(await intentOf(page)).not.toBe(old)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, second)
  await expectNoCharge(sandbox, first)
})

// One customer's key in another customer's order gets nothing of the first: neither name nor outcome nor amount.
test('b35: a key that paid one order, sent under another, discloses nothing and pays only its own order', async ({
  page,
  request,
  shop,
  sandbox,
  newOrder,
}) => {
  const [a, b] = [await newOrder('mug'), await newOrder('kettle')]
  const seen = watchPayments(page)
  await page.goto(a.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  const charge = await expectPaidOnce(page, sandbox, a)
  const [body] = seen.bodies
  const answer = await request.post(`${shop.url}/rpc/pay`, {
    data: { pay: { ...body, order: b.token, amount: b.amount, currency: b.currency } },
  })
  const text = await answer.text()
  expect(text).not.toContain(charge.id)
  expect(text).not.toContain(String(a.amount) + ',')
  expect((await sandbox.ledger(b)).charges.length).toBe(answer.status() === 200 ? 1 : 0)
  await expectOneCharge(sandbox, a)
})

test('buying the same thing again later is a new order, and is charged again', async ({ page, shop, sandbox, orders }) => {
  for (const n of [1, 2]) {
    await page.goto('/')
    await page.locator('form:has([name=sku][value=mug]) button').first().click()
    await page.locator('form[action="/checkout"]').getByRole('button').click()
    await expect(page).toHaveURL(/\/checkout\//)
    const order = await readOrder(page.request, shop.url, tokenOf(page.url()))
    expect(orders.map(({ token }) => token)).not.toContain(order.token)
    orders.push(order)
    await hydrated(page)
    await fillCard(page, cards.good)
    await payButton(page).click()
    await expectPaidOnce(page, sandbox, order)
    expect(orders).toHaveLength(n)
  }
})
