// A page that is open while the server is replaced still pays, once.

import { once } from 'node:events'
import { connect } from 'node:net'

import { expectPaidOnce } from '../support/books.ts'
import { cards, expectState, fillCard, hydrated, intentOf, main, payButton } from '../support/checkout.ts'
import { expect, test } from '../support/test.ts'
import { payAddress } from '../support/wire.ts'

// Addresses with a build's hash in them answer 404 to every tab that was open across the deploy.
test('b140: a tab from before a deploy pays after it, at an address without a hash', async ({
  page,
  shop,
  sandbox,
  newOrder,
}) => {
  test.slow()
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  await fillCard(page, cards.good)
  await shop.restart()
  const sent = page.waitForRequest(payAddress)
  await payButton(page).click()
  expect(new URL((await sent).url()).pathname).toBe('/rpc/pay')
  const charge = await expectPaidOnce(page, sandbox, order)
  expect(charge.idempotency_key).toContain(intent)
})

test('pressed while the server is away: nothing is lost, and it pays once when the server is back', async ({
  page,
  shop,
  sandbox,
  newOrder,
}) => {
  test.slow()
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  let restarted: Promise<boolean> | undefined
  await page.route(
    payAddress,
    async (route) => {
      restarted = shop.restart()
      // The old server takes no new connections from here on.
      await route.abort('connectionrefused')
    },
    { times: 1 },
  )
  await payButton(page).click()
  await expect.poll(() => restarted).toBeDefined()
  await restarted
  await expectState(page, 'sending', 'unknown', 'lost_connection', 'not_sent', 'paid')
  if ((await main(page).getAttribute('data-state')) === 'not_sent') {
    await page.getByRole('button', { name: /^(Pay|Try again)/ }).click()
  }
  await expectPaidOnce(page, sandbox, order, { timeout: 40_000 })
})

test('p21: stopped in an orderly way during a charge, the server finishes it, and its page knows', async ({
  page,
  shop,
  sandbox,
  newOrder,
}) => {
  test.slow()
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_after', ms: 1500 })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expect.poll(async () => (await sandbox.ledger(order)).charges.length).toBe(1)
  await shop.restart()
  await expectPaidOnce(page, sandbox, order, { timeout: 40_000 })
})

// Idle connections, and one that a browser opened in advance without asking anything, have kept servers from ending.
test('b129: told to stop while browsers are open, the server ends in time', async ({ page, shop, newOrder }) => {
  test.slow()
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  const idle = connect({ host: '127.0.0.1', port: Number(new URL(shop.url).port) })
  await once(idle, 'connect')
  idle.on('error', () => undefined)
  expect(await shop.restart(), 'it ended within ten seconds').toBe(true)
  idle.destroy()
})
