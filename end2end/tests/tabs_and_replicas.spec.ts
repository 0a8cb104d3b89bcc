// Several tabs, browsers and replicas at one order: one payment, and each of them learns its outcome.

import { expectPaidOnce } from '../support/books.ts'
import { cards, createOrder, fillCard, hydrated, intentOf, payButton } from '../support/checkout.ts'
import { Replicas } from '../support/shop.ts'
import { expect, test } from '../support/test.ts'
import { watchPayments } from '../support/wire.ts'

// Duplicating a tab copies what the tab stored; both must still mean the same payment.
test('p35: a duplicated tab pays the same intent, and both tabs learn the outcome', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1000 })
  const seen = watchPayments(context)
  await page.goto(order.url)
  await hydrated(page)
  const opened = context.waitForEvent('page')
  await page.evaluate(() => window.open(location.href))
  const twin = await opened
  await twin.waitForLoadState()
  await hydrated(twin)
  const intent = await intentOf(page)
  expect(await intentOf(twin)).toBe(intent)
  for (const tab of [page, twin]) await fillCard(tab, cards.good)
  await Promise.all([page, twin].map((tab) => payButton(tab).click()))
  for (const tab of [page, twin]) await expectPaidOnce(tab, sandbox, order)
  expect(new Set(seen.intents)).toEqual(new Set([intent]))
})

test('two tabs, one after the other: the second learns that the order is paid', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const other = await context.newPage()
  for (const tab of [page, other]) {
    await tab.goto(order.url)
    await hydrated(tab)
    await fillCard(tab, cards.good)
  }
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  // The other tab may have learned it by itself already; if its button is still there, pressing it is harmless.
  const button = payButton(other)
  if (await button.isVisible()) await button.click({ timeout: 2000 }).catch(() => undefined)
  await expectPaidOnce(other, sandbox, order)
})

test('two browsers with different cards: one payment, both learn its outcome', async ({
  page,
  browser,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1000 })
  const other = await (await browser.newContext()).newPage()
  const numbers = new Map([
    [page, cards.good],
    [other, cards.amex],
  ])
  for (const [tab, number] of numbers) {
    await tab.goto(order.url)
    await hydrated(tab)
    await fillCard(tab, number, { cvc: number === cards.amex ? '1234' : '123' })
  }
  await Promise.all([page, other].map((tab) => payButton(tab).click()))
  for (const tab of [page, other]) await expectPaidOnce(tab, sandbox, order)
  await other.context().close()
})

// Two replicas behind a proxy share nothing but the database; here not even the browser's storage, since the ports differ.
test('two tabs at two replicas pay once', async ({ context, request }) => {
  test.slow()
  const replicas = await Replicas.start(2)
  try {
    const [first = '', second = ''] = replicas.urls
    const order = await createOrder(request, first, 'lamp')
    await replicas.sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1500 })
    const tabs = await Promise.all([first, second].map(async (url) => {
      const tab = await context.newPage()
      await tab.goto(`${url}/checkout/${order.token}`)
      await hydrated(tab)
      await fillCard(tab, cards.good)
      return tab
    }))
    await Promise.all(tabs.map((tab) => payButton(tab).click()))
    for (const tab of tabs) await expectPaidOnce(tab, replicas.sandbox, order)
    expect(await replicas.sandbox.confirmCalls(order)).toHaveLength(1)
  } finally {
    await replicas.stop()
  }
})
