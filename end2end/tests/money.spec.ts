// What is shown is what is charged, to the minor unit, in every currency. Asserted on the provider's integers.

import { expectNoCharge, expectPaidOnce } from '../support/books.ts'
import { cards, createOrder, fillCard, goods, hydrated, intentOf, main, payButton, type Sku } from '../support/checkout.ts'
import { expect, test } from '../support/test.ts'
import { payAddress } from '../support/wire.ts'

// Decimal text times 100 in floating point, then cut, charges a cent less: 8.20 → 819, 19.99 → 1998, 64.10 → 6409.
const euros: [Sku, number, number, string][] = [
  ['mug', 1, 820, '€8.20'],
  ['notebook', 1, 1999, '€19.99'],
  ['kettle', 1, 6410, '€64.10'],
  ['apron', 1, 3850, '€38.50'],
  ['lamp', 1, 4990, '€49.90'],
  ['clock', 1, 123450, '€1,234.50'],
  ['mug', 2, 1640, '€16.40'],
  ['notebook', 3, 5997, '€59.97'],
  ['mug', 7, 5740, '€57.40'],
]

for (const [sku, pieces, amount, display] of euros) {
  test(`b96: ${pieces} × ${goods[sku].name} is ${display}, and ${amount} at the provider`, async ({
    page,
    sandbox,
    newOrder,
  }) => {
    const order = await newOrder(sku, pieces)
    expect(order).toMatchObject({ amount, currency: 'EUR', display })
    await page.goto(order.url)
    await hydrated(page)
    await expect(payButton(page)).toHaveText(`Pay ${display}`)
    await fillCard(page, cards.good)
    await payButton(page).click()
    const charge = await expectPaidOnce(page, sandbox, order)
    expect(charge.amount).toBe(amount)
  })
}

// Zero decimals: a check that divides by the same wrong hundred notices nothing, so the provider's integer is what counts.
for (const [sku, amount, display] of [
  ['tenugui', 500, '¥500'],
  ['chopsticks', 10000, '¥10,000'],
] as const) {
  test(`b97: ${display} is ${amount} at the provider`, async ({ page, sandbox, newOrder }) => {
    const order = await newOrder(sku)
    expect(order).toMatchObject({ amount, currency: 'JPY' })
    await page.goto(order.url)
    await hydrated(page)
    await expect(payButton(page)).toHaveText(/^Pay (JP)?¥[0-9,]+$/)
    await expect(main(page)).toContainText(display)
    await fillCard(page, cards.good)
    await payButton(page).click()
    const charge = await expectPaidOnce(page, sandbox, order)
    expect([charge.amount, charge.currency]).toEqual([amount, 'jpy'])
  })
}

// Three decimals: taken as two, a tenth is charged.
for (const [sku, amount, digits] of [
  ['coffeepot', 35200, '35.200'],
  ['cardamom', 4500, '4.500'],
] as const) {
  test(`b99: ${digits} Bahraini dinar is ${amount} at the provider`, async ({ page, sandbox, newOrder }) => {
    const order = await newOrder(sku)
    expect(order).toMatchObject({ amount, currency: 'BHD' })
    await page.goto(order.url)
    await hydrated(page)
    await expect(payButton(page)).toContainText(digits)
    await fillCard(page, cards.good)
    await payButton(page).click()
    const charge = await expectPaidOnce(page, sandbox, order)
    expect([charge.amount, charge.currency]).toEqual([amount, 'bhd'])
  })
}

test('the amount is the same in shop, cart, button, review, receipt and at the provider', async ({
  browser,
  shop,
  sandbox,
  orders,
}) => {
  const context = await browser.newContext({ javaScriptEnabled: false, baseURL: shop.url })
  const page = await context.newPage()
  const { display } = goods.clock
  await page.goto('/')
  await expect(main(page)).toContainText(display)
  const order = await createOrder(context.request, shop.url, 'clock')
  orders.push(order)
  await page.goto('/cart')
  await expect(main(page)).toContainText(display)
  await page.goto(order.url)
  await expect(payButton(page)).toHaveText(`Pay ${display}`)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expect(page).toHaveURL(/\/review\?/)
  await expect(payButton(page)).toHaveText(`Pay ${display}`)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  await expect(page).toHaveTitle(new RegExp(`^Paid: ${display}`))
  await context.close()
})

test('things in two currencies are two orders', async ({ page, shop, sandbox, orders }) => {
  const inEuros = await createOrder(page.request, shop.url, 'mug')
  const inYen = await createOrder(page.request, shop.url, 'tenugui')
  orders.push(inEuros, inYen)
  expect(inYen.token).not.toBe(inEuros.token)
  expect(inYen).toMatchObject({ amount: 500, currency: 'JPY' })
  await page.goto(inYen.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, inYen)
  await expectNoCharge(sandbox, inEuros)
  await page.goto('/cart')
  await expect(main(page)).toContainText('Tidemark mug')
  await expect(main(page)).not.toContainText('Tenugui')
})

// The page was made when the lamp was cheaper. The server compares, and refuses before anything is reserved.
test('a page with a stale total is told both totals, nothing is charged, and the right one pays', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder('lamp')
  await page.addInitScript(() => {
    document.addEventListener('readystatechange', () => {
      if (document.readyState !== 'interactive' || !location.pathname.startsWith('/checkout/')) return
      const older = (text: string): string => text.replaceAll('49.90', '44.90').replaceAll('4990', '4490')
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT)
      for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
        if (node instanceof Text) node.data = older(node.data)
        else if (node instanceof Element) for (const attribute of node.attributes) attribute.value = older(attribute.value)
      }
    })
  })
  await page.goto(order.url)
  await hydrated(page)
  await expect(payButton(page)).toHaveText('Pay €44.90')
  await fillCard(page, cards.good)
  const answered = page.waitForResponse(payAddress)
  await payButton(page).click()
  const answer = await answered
  expect(answer.status()).toBe(409)
  expect(await answer.json()).toMatchObject({
    type: 'price_changed',
    shown: { minor: 4490, currency: 'EUR', display: '€44.90' },
    now: { minor: 4990, currency: 'EUR', display: '€49.90' },
  })
  await expect(main(page)).toHaveAttribute('data-state', 'price_changed')
  await expect(main(page)).toContainText('It was €44.90, it is now €49.90')
  await expect(main(page)).toContainText('Nothing has been charged')
  await expectNoCharge(sandbox, order)
  await page.getByRole('button', { name: 'Pay €49.90' }).click()
  await expectPaidOnce(page, sandbox, order)
})

// What the browser sends is only ever compared.
test('b163: an amount, a currency or a quantity of the customer’s own making buys nothing', async ({
  page,
  request,
  shop,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder('lamp')
  await page.goto(order.url)
  await hydrated(page)
  const intent = await intentOf(page)
  const pay = {
    order: order.token,
    intent,
    replaces: null,
    payment_method: 'pm_card_visa',
    email: 'ana@example.org',
    amount: order.amount,
    currency: order.currency,
  }
  for (const change of [{ amount: 1 }, { amount: 0 }, { amount: -4990 }, { currency: 'JPY' }, { amount: 499000 }]) {
    const answer = await request.post(`${shop.url}/rpc/pay`, { data: { pay: { ...pay, ...change } } })
    expect([409, 422], JSON.stringify(change)).toContain(answer.status())
  }
  for (const quantity of ['-1', '1.5', '1e9', '100']) {
    const answer = await request.post(`${shop.url}/cart`, {
      form: { sku: 'lamp', change: 'set', quantity },
      maxRedirects: 0,
    })
    expect(answer.status(), quantity).toBe(422)
  }
  await expectNoCharge(sandbox, order)
})
