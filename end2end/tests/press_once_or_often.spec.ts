// However often and however fast Pay is pressed, the customer is charged once and sees the outcome of that one payment.

import { expectOneCharge, expectPaidOnce } from '../support/books.ts'
import {
  cards,
  expectState,
  fillCard,
  hydrated,
  intentOf,
  main,
  passBank,
  payButton,
  readOrder,
  tokenOf,
  versionFour,
} from '../support/checkout.ts'
import { gate } from '../support/moments.ts'
import { expect, test } from '../support/test.ts'
import { hammer, payAddress, payBody, watchPayments, type PayBody } from '../support/wire.ts'

test('one press pays once', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await page.goto(order.url)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

// Two clicks 90 ms apart on a slow payment have made two orders in real shops.
test('b01: a double click pays once', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1500 })
  const seen = watchPayments(page)
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).dblclick({ delay: 20 })
  await expectPaidOnce(page, sandbox, order)
  expect(new Set(seen.intents).size).toBe(1)
})

// The same while the bank's page is still opening.
test('b01: a double click with a card that needs the bank pays once', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1500 })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.bankStep)
  await payButton(page).dblclick({ delay: 20 })
  await passBank(page, 'approve')
  await expectPaidOnce(page, sandbox, order)
})

// The key must exist before the first click: a key made inside the handler makes every submit a new payment.
test('b15: two submits 40 ms apart carry the key that the page had before', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  const seen = watchPayments(page)
  await page.goto(order.url)
  await hydrated(page)
  const before = await intentOf(page)
  expect(before).toMatch(versionFour)
  await fillCard(page, cards.good)
  await payButton(page).evaluate(async (button: HTMLButtonElement) => {
    button.form?.requestSubmit(button)
    await new Promise((resolve) => setTimeout(resolve, 40))
    button.form?.requestSubmit(button)
  })
  const charge = await expectPaidOnce(page, sandbox, order)
  expect(new Set(seen.intents)).toEqual(new Set([before]))
  expect(charge.idempotency_key).toContain(before)
})

test('five clicks and Enter in an instant pay once', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 700 })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).scrollIntoViewIfNeeded()
  const box = await payButton(page).boundingBox()
  if (box === null) throw new Error('the Pay button is not on the page')
  await hammer(page, box.x + box.width / 2, box.y + box.height / 2)
  await expectPaidOnce(page, sandbox, order)
})

// No guard of the browser is left here: each request goes out as if the button had never been guarded.
test('the same request five times at once, without any guard, pays once and all get the same bytes', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 700 })
  const held = gate()
  let captured: PayBody | undefined
  await page.route(payAddress, async (route) => {
    if (captured !== undefined) return route.continue()
    captured = payBody(route.request())
    await held.passed
    return route.continue()
  })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expect.poll(() => captured).toBeDefined()
  const answers = await page.evaluate(async (pay) => {
    const send = async (): Promise<[number, string]> => {
      const response = await fetch('/rpc/pay', {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json' },
        body: JSON.stringify({ pay }),
      })
      return [response.status, await response.text()]
    }
    return Promise.all([send(), send(), send(), send(), send()])
  }, captured)
  held.open()
  await expectPaidOnce(page, sandbox, order)
  expect(answers.map(([status]) => status)).toEqual([200, 200, 200, 200, 200])
  expect(new Set(answers.map(([, body]) => body)).size, 'identical bytes for all').toBe(1)
  expect(JSON.parse(answers[0]?.[1] ?? '{}')).toMatchObject({ state: 'SUCCEEDED', amount: order.amount })
  expect(await sandbox.confirmCalls(order), 'one confirmation reached the provider').toHaveLength(1)
})

// A customer never meets the "still in progress" that machines get.
test('p33: two impatient tabs both end on the receipt, neither shows a conflict', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1500 })
  const other = await context.newPage()
  for (const tab of [page, other]) {
    await tab.goto(order.url)
    await hydrated(tab)
    await fillCard(tab, cards.good)
  }
  await Promise.all([page, other].map((tab) => payButton(tab).click()))
  for (const tab of [page, other]) {
    await expectPaidOnce(tab, sandbox, order)
    await expect(main(tab)).not.toContainText(/409|conflict|in progress/i)
  }
})

// A disabled look does not stop Enter, nor a second way to submit.
test('p47: Enter in a field pays once, and again while busy changes nothing', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1500 })
  const seen = watchPayments(page)
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  const name = page.locator('[name=name]')
  await name.press('Enter')
  await expectState(page, 'sending')
  await name.press('Enter')
  await payButton(page).press('Space')
  await payButton(page).press('Enter')
  await expectPaidOnce(page, sandbox, order)
  expect(new Set(seen.intents).size).toBe(1)
})

// Coming back to a page inside the shop must not attach its handlers twice.
test('b14: to the checkout, away and back again: one press is one request', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  const seen = watchPayments(page)
  await page.goto('/')
  await page.goto(order.url)
  await page.getByRole('link', { name: /Tidewater/ }).first().click()
  await expect(page).toHaveURL(/\/$/)
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  expect(seen.intents).toHaveLength(1)
})

// Two checkout clicks must not make two orders either.
test('Checkout pressed twice makes one order', async ({ page, sandbox, orders, shop, request }) => {
  await page.goto('/')
  await page.locator('form:has([name=sku][value=mug]) button').first().click()
  await expect(page).toHaveURL(/\/cart$/)
  const checkout = page.locator('form[action="/checkout"]')
  const fields = await checkout.evaluate((form: HTMLFormElement) =>
    Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)])),
  )
  const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ')
  const places = await Promise.all(
    [1, 2, 3].map(async () => {
      const response = await request.post(`${shop.url}/checkout`, {
        form: fields,
        maxRedirects: 0,
        headers: { cookie, origin: shop.url },
      })
      return response.headers()['location']
    }),
  )
  await checkout.getByRole('button').click()
  await expect(page).toHaveURL(/\/checkout\//)
  expect(new Set([...places, new URL(page.url()).pathname]).size).toBe(1)
  const order = await readOrder(request, shop.url, tokenOf(page.url()))
  orders.push(order)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  await expectOneCharge(sandbox, order)
})
