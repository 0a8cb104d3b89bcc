// A page that waits is told when its payment moves, and asks by itself where nobody tells it.

import { expectPaidOnce } from '../support/books.ts'
import { cards, expectState, fillCard, hydrated, payButton, type Order } from '../support/checkout.ts'
import type { Sandbox } from '../support/sandbox.ts'
import { expect, test } from '../support/test.ts'
import type { Page } from '@playwright/test'

const newsAddress = '**/orders/*/news'

/** Presses Pay, and gets to the page that does not know: charged, the answer lost, and the provider says nothing. */
async function payInSilence(page: Page, sandbox: Sandbox, order: Order): Promise<void> {
  await sandbox.fault({ path: 'confirm' }, { kind: 'charge_then_drop' })
  await sandbox.silent()
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectState(page, 'unknown')
}

test('the outcome is pushed: a page whose own clock stands still knows it', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await page.clock.install()
  const listening = page.waitForRequest(newsAddress)
  await payInSilence(page, sandbox, order)
  await listening
  // No timer of the page ends any more, so that it asks only when it is told to.
  await page.clock.pauseAt(Date.now() + 60_000)
  await sandbox.clearFaults()
  // Nobody asks, so that the server itself has to look, which it does ever more rarely.
  await expectPaidOnce(page, sandbox, order, { timeout: 40_000 })
})

test('without the stream the page asks by itself', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await page.route(newsAddress, (route) => route.abort())
  await payInSilence(page, sandbox, order)
  await sandbox.clearFaults()
  // It asks every eight seconds by now, and the shop spares a provider that failed for two more.
  await expectPaidOnce(page, sandbox, order, { timeout: 40_000 })
})

test('a payment that goes well needs no stream', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  const streams: string[] = []
  page.on('request', (request) => {
    if (new URL(request.url()).pathname.endsWith('/news')) streams.push(request.url())
  })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  expect(streams).toEqual([])
})

test('two tabs: the one that waits hears of the end that the other one reached', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await payInSilence(page, sandbox, order)
  const other = await context.newPage()
  await other.goto(order.url)
  await expectState(other, 'unknown')
  await sandbox.clearFaults()
  await expectPaidOnce(other, sandbox, order, { timeout: 40_000 })
  await page.bringToFront()
  await expectPaidOnce(page, sandbox, order)
})
