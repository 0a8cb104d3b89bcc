// With the sandbox as provider, the page knows no foreign origin: neither its policy, nor its HTML, nor what it loads.

import { expectPaidOnce } from '../support/books.ts'
import { cards, fillCard, hydrated, payButton } from '../support/checkout.ts'
import { expect, test } from '../support/test.ts'

test('a shop with card fields of its own loads nothing from anywhere else', async ({ page, shop, sandbox, newOrder }) => {
  const order = await newOrder()
  const origins = new Set<string>()
  page.on('request', (request) => origins.add(new URL(request.url()).origin))
  const answer = await page.goto(order.url)
  expect(answer?.headers()['content-security-policy']).not.toMatch(/stripe|https:|frame-src/)
  expect(await answer?.text()).not.toMatch(/js\.stripe\.com|class="element"/)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  expect([...origins].sort()).toEqual([shop.url, sandbox.url].sort())
})
