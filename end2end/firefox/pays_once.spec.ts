// Firefox keeps the promise, too: its own double clicks, reloads, history, typing, and its own idea of idempotency keys.

import type { Page } from 'puppeteer-core'

import { expectNoCharge } from '../support/books.ts'
import { cards, versionFour } from '../support/checkout.ts'
import {
  clickPay,
  expect,
  expectPaidOnce,
  expectState,
  hydrated,
  intentOf,
  offersPay,
  stateOf,
  test,
  textOf,
  typeCard,
  withFirefox,
} from '../support/firefox.ts'
import { at } from '../support/moments.ts'
import { SlowLine } from '../support/slow_line.ts'

test('b01: a double click pays once', async ({ tab, sandbox, newOrder }) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1500 })
  await tab.goto(order.url)
  await hydrated(tab)
  const intent = await intentOf(tab)
  await typeCard(tab, cards.good)
  await clickPay(tab, 2, 20)
  const charge = await expectPaidOnce(tab, sandbox, order)
  expect(charge.idempotency_key).toContain(intent)
  expect(await sandbox.confirmCalls(order)).toHaveLength(1)
})

for (const moment of [0, 90, 900]) {
  test(`p37: a reload ${moment} ms after the press keeps the payment`, async ({ tab, sandbox, newOrder }) => {
    const order = await newOrder()
    await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1200 })
    await tab.goto(order.url)
    await hydrated(tab)
    const intent = await intentOf(tab)
    await typeCard(tab, cards.good)
    const pressed = performance.now()
    await clickPay(tab)
    await at(moment, pressed)
    await tab.reload()
    await expectState(tab, 'ready', 'sending', 'unknown', 'paid', 'already_paid')
    if (await neverLeft(tab)) {
      expect(await intentOf(tab)).toBe(intent)
      await typeCard(tab, cards.good)
      await clickPay(tab)
    }
    const charge = await expectPaidOnce(tab, sandbox, order)
    expect(charge.idempotency_key).toContain(intent)
  })
}

test('b04, p36: Back after paying leads to no form, and Forward to the receipt', async ({ tab, shop, sandbox, newOrder }) => {
  const order = await newOrder()
  await tab.goto(`${shop.url}/cart`)
  await tab.goto(order.url)
  await hydrated(tab)
  await typeCard(tab, cards.good)
  await clickPay(tab)
  await expect.poll(() => tab.url()).toBe(order.outcomeUrl)
  await expectPaidOnce(tab, sandbox, order)
  await tab.goBack()
  expect(await offersPay(tab)).toBe(false)
  await tab.goForward()
  await expectPaidOnce(tab, sandbox, order)
  await tab.goto(order.url)
  await expectPaidOnce(tab, sandbox, order)
})

test('b04: Back to a form whose order another tab has paid leads to the receipt', async ({
  tab,
  shop,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await tab.goto(order.url)
  await hydrated(tab)
  await typeCard(tab, cards.good)
  await tab.goto(shop.url)
  const other = await tab.browserContext().newPage()
  await other.goto(order.url)
  await hydrated(other)
  await typeCard(other, cards.good)
  await clickPay(other)
  await expectPaidOnce(other, sandbox, order)
  await tab.bringToFront()
  await tab.goBack()
  await expectPaidOnce(tab, sandbox, order)
})

test('the charge is made, its answer never reaches the shop: the customer sees "paid" and is charged once', async ({
  tab,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'charge_then_drop' })
  await tab.goto(order.url)
  await hydrated(tab)
  await typeCard(tab, cards.good)
  await clickPay(tab)
  await expectPaidOnce(tab, sandbox, order)
})

test('a declined card: no money was taken, and another card pays', async ({ tab, sandbox, newOrder }) => {
  const order = await newOrder()
  await tab.goto(order.url)
  await hydrated(tab)
  await typeCard(tab, cards.declined)
  await clickPay(tab)
  await expectState(tab, 'declined')
  expect(await textOf(tab)).toContain('No money was taken')
  await expectNoCharge(sandbox, order)
  await typeCard(tab, cards.good)
  await clickPay(tab)
  await expectPaidOnce(tab, sandbox, order)
})

test('a card typed with spaces is grouped when it is left, and pays by Enter', async ({ tab, sandbox, newOrder }) => {
  const order = await newOrder()
  await tab.goto(order.url)
  await hydrated(tab)
  await typeCard(tab, '42 4242 424242 424 2')
  const typed = await tab.evaluate(() => document.querySelector<HTMLInputElement>('[name=cardnumber]')?.value)
  expect(typed).toBe(cards.good)
  await tab.keyboard.press('Enter')
  await expectPaidOnce(tab, sandbox, order)
})

test('p46: the key of the page decides, and the Idempotency-Key that Firefox adds does not', async ({ sandbox, newOrder }) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 700 })
  const line = await SlowLine.open()
  const preferences = {
    'network.http.idempotencyKey.enabled': true,
    // What really leaves the browser is read on its line.
    'network.proxy.type': 1,
    'network.proxy.http': '127.0.0.1',
    'network.proxy.http_port': line.port,
    'network.proxy.allow_hijacking_localhost': true,
    'network.proxy.no_proxies_on': '',
  }
  try {
    await withFirefox(preferences, async (tab) => {
      await tab.goto(order.url)
      await hydrated(tab)
      const intent = await intentOf(tab)
      expect(intent).toMatch(versionFour)
      await typeCard(tab, cards.good)
      await clickPay(tab, 2, 30)
      const charge = await expectPaidOnce(tab, sandbox, order)
      expect(charge.idempotency_key).toContain(intent)
      const added = line.posts.filter(({ path }) => path === '/rpc/pay').map(({ headers }) => headers['idempotency-key'])
      expect(added.length).toBeGreaterThan(0)
      for (const key of added) {
        expect(key, 'Firefox has added a key of its own').toMatch(/^".+"$/)
        expect(key).not.toContain(intent)
      }
      expect(await sandbox.confirmCalls(order)).toHaveLength(1)
    })
  } finally {
    await line.close()
  }
})

test('scripts off: a fault in the card comes back with everything but number and code, and then the order is paid', async ({
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await withFirefox({ 'javascript.enabled': false }, async (tab) => {
    await tab.goto(order.url)
    const intent = await intentOf(tab)
    await typeCard(tab, '4242 4242 4242 4241')
    await clickPay(tab)
    await expectState(tab, 'fields')
    expect(tab.url()).toMatch(new RegExp(`/checkout/${order.token}\\?session=`))
    expect(await textOf(tab)).toContain('There is a problem')
    const kept = await tab.evaluate(() =>
      ['email', 'name', 'cardnumber', 'cvc'].map((name) => document.querySelector<HTMLInputElement>(`[name=${name}]`)?.value),
    )
    expect(kept).toEqual(['ana@example.org', 'Ana Example', '', ''])
    await expectNoCharge(sandbox, order)
    await typeCard(tab, cards.good)
    await clickPay(tab)
    await expect.poll(() => tab.url()).toMatch(/\/review\?/)
    await expectNoCharge(sandbox, order)
    await clickPay(tab, 2, 30)
    const charge = await expectPaidOnce(tab, sandbox, order)
    expect(charge.idempotency_key).toContain(intent)
    await tab.goBack()
    await expectPaidOnce(tab, sandbox, order)
  })
})

/** Whether the press never left the browser: a page that its browser knows asks by itself for five seconds; this waits longer. */
async function neverLeft(tab: Page): Promise<boolean> {
  return expect
    .poll(() => stateOf(tab), { timeout: 7_000 })
    .not.toMatch(/^(ready|)$/)
    .then(() => false, () => true)
}
