// Words, focus and announcements: the page says what happened, whether money moved, and what to do next, to everybody.

import { expectNoCharge, expectPaidOnce } from '../support/books.ts'
import { cards, expectState, fillCard, hydrated, main, payButton } from '../support/checkout.ts'
import { gate } from '../support/moments.ts'
import { expect, test } from '../support/test.ts'
import { payAddress } from '../support/wire.ts'

test('the Pay button is never disabled, says what it does, and stays reachable while paying', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder('lamp')
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1500 })
  await page.goto(order.url)
  await hydrated(page)
  const button = payButton(page)
  await expect(button).toHaveText('Pay €49.90')
  await expect(button).toHaveAttribute('type', 'submit')
  await expect(button).not.toHaveAttribute('disabled')
  await fillCard(page, cards.good)
  await button.focus()
  await button.press('Enter')
  await expect(button).toHaveText('Paying €49.90…')
  await expect(button).toHaveAttribute('aria-disabled', 'true')
  await expect(button).not.toHaveAttribute('disabled')
  await expect(button).toBeFocused()
  await expect(page).toHaveTitle(/^Paying…/)
  await expectPaidOnce(page, sandbox, order)
  await expect(page).toHaveTitle(/^Paid: €49\.90 – /)
})

test('the page promises one charge beside the button', async ({ page, newOrder }) => {
  const order = await newOrder()
  await page.goto(order.url)
  await expect(main(page)).toContainText("You'll be charged once, even if you press Pay again.")
})

// A live region that arrives together with its text is not read out.
test('the live regions are in the first HTML, empty, and speak while paying', async ({
  page,
  request,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder('lamp')
  const html = await (await request.get(order.url)).text()
  for (const role of ['status', 'alert']) {
    const region = new RegExp(`<(\\w+)[^>]*role="${role}"[^>]*>((?:<!--.*?-->|<!>|\\s)*)</\\1>`).exec(html)
    expect(region, `an empty region of role ${role}`).not.toBeNull()
  }
  await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 1500 })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expect(page.getByRole('status')).toContainText('Paying €49.90')
  await expectPaidOnce(page, sandbox, order)
})

test('a bank that takes longer is spoken of after four seconds, and ten', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  const late = gate()
  await page.clock.install()
  await page.route(
    payAddress,
    async (route) => {
      await late.passed
      await route.continue()
    },
    { times: 1 },
  )
  let answering = false
  await page.route('**/rpc/outcome', (route) => (answering ? route.continue() : route.abort()))
  await page.goto(order.url)
  await page.clock.runFor(100)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectState(page, 'sending')
  await page.clock.runFor(4_500)
  await expect(main(page)).toContainText('Your bank is taking a little longer than usual')
  await page.clock.runFor(6_500)
  await expect(main(page)).toContainText("We're still waiting for your bank")
  await expect(page).toHaveTitle(/^Still paying/)
  await expect(main(page)).not.toContainText(/do not close|don't close/i)
  answering = true
  late.open()
  await expect
    .poll(async () => {
      await page.clock.runFor(1_000)
      return main(page).getAttribute('data-state')
    })
    .toBe('paid')
  await expectPaidOnce(page, sandbox, order)
})

test('an empty form is answered with a summary in focus, whose links lead to the fields', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  await payButton(page).click()
  await expectState(page, 'fields')
  const summary = page.getByRole('group', { name: 'There is a problem' })
  await expect(summary).toBeFocused()
  await expect(page).toHaveTitle(/^Error: Pay /)
  for (const text of ['Enter the card number', 'Enter the expiry date', 'Enter the name on the card']) {
    await expect(summary).toContainText(text)
  }
  await summary.getByRole('link', { name: 'Enter the card number' }).click()
  const number = page.getByLabel('Card number')
  await expect(number).toBeFocused()
  await expect(number).toHaveAttribute('aria-invalid', 'true')
  await expect(number).toHaveAccessibleDescription(/Enter the card number/)
  await expectNoCharge(sandbox, order)
  // What is mended is forgiven at once; the rest stays.
  await fillCard(page, cards.good)
  await expect(number).not.toHaveAttribute('aria-invalid', 'true')
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

const faults: [string, string, string, RegExp][] = [
  ['two digits are missing', 'Card number', '4242 4242 4242 42', /2 digits short/],
  ['one digit looks wrong', 'Card number', '4242 4242 4242 4241', /one digit looks wrong/],
  ['the month is no month', 'Expiry date', '13/34', /01 to 12/],
  ['the card is past its date', 'Expiry date', '01/20', /or later/],
  ['the address has no @', 'E-mail', 'ana.example.org', /needs an @/],
]

for (const [fault, label, value, sentence] of faults) {
  test(`when ${fault}, the page names the cause and keeps everything`, async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    await page.goto(order.url)
    await hydrated(page)
    await fillCard(page, cards.good)
    await page.getByLabel(label).fill(value)
    await payButton(page).click()
    await expectState(page, 'fields')
    await expect(page.getByLabel(label)).toHaveAccessibleDescription(sentence)
    await expect(page.getByRole('group', { name: 'There is a problem' })).toContainText(sentence)
    await expect(page.getByLabel('Name on the card')).toHaveValue('Ana Example')
    await expect(page.getByLabel('Security code')).toHaveValue('123')
    await expectNoCharge(sandbox, order)
  })
}

test('nobody is blamed while typing or for leaving a field empty', async ({ page, newOrder }) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  await page.getByLabel('Card number').pressSequentially('4242 42')
  await expect(page.locator('[aria-invalid=true]')).toHaveCount(0)
  await page.getByLabel('Expiry date').focus()
  await page.getByLabel('Security code').focus()
  await expect(page.locator('[aria-invalid=true]')).toHaveCount(0)
  await expect(main(page)).toHaveAttribute('data-state', 'ready')
})

for (const [what, number] of [
  ['hyphens', '4242-4242-4242-4242'],
  ['dots', '4242.4242.4242.4242'],
  ['no-break spaces', '4242\u00a04242\u00a04242\u00a04242'],
  ['full-width digits', '４２４２４２４２４２４２４２４２'],
] as const) {
  test(`a card number with ${what} pays`, async ({ page, sandbox, newOrder }) => {
    const order = await newOrder()
    await page.goto(order.url)
    await hydrated(page)
    await fillCard(page, number)
    await payButton(page).click()
    await expectPaidOnce(page, sandbox, order)
  })
}

test('every field tells the browser what it is, so that it can be filled in', async ({ page, newOrder }) => {
  const order = await newOrder()
  await page.goto(order.url)
  for (const [label, token] of [
    ['E-mail', 'email'],
    ['Card number', 'cc-number'],
    ['Expiry date', 'cc-exp'],
    ['Security code', 'cc-csc'],
    ['Name on the card', 'cc-name'],
  ] as const) {
    await expect(page.getByLabel(label)).toHaveAttribute('autocomplete', token)
  }
})

test('when the outcome is there, the focus is on its heading', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  await expect(page.getByRole('heading', { level: 1 })).toBeFocused()
})

test('on a phone the reason of a decline is in view, not above the edge', async ({ page, sandbox, newOrder }) => {
  const order = await newOrder()
  await page.setViewportSize({ width: 360, height: 740 })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.declined)
  await payButton(page).click()
  await expectState(page, 'declined')
  await expect(page.getByText('No money was taken').first()).toBeInViewport()
  await expectNoCharge(sandbox, order)
})

test('card number and code never reach the shop, neither in a body nor in an address', async ({
  page,
  shop,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const sent: string[] = []
  page.on('request', (request) => {
    if (request.url().startsWith(shop.url)) sent.push(`${request.url()} ${request.postData() ?? ''}`)
  })
  await page.goto(order.url)
  await hydrated(page)
  await fillCard(page, cards.good, { cvc: '737' })
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  expect(sent.filter((text) => /4242[ ]?4242|\b737\b/.test(text))).toEqual([])
  expect(shop.log).not.toMatch(/4242[ ]?4242/)
  expect(await page.evaluate(() => JSON.stringify(Object.entries(localStorage)))).not.toMatch(/4242|pm_|ana@/)
})

// Words that blame, apologise for nothing or frighten.
test('no page says "please", "sorry", "oops", "invalid", "transaction" or "do not close"', async ({
  page,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const banned = /\b(please|sorry|oops|valid|invalid|error occurred|transaction|CVV|gateway)\b|do not close/i
  for (const address of ['/', '/cart', '/nowhere', order.url, order.outcomeUrl]) {
    await page.goto(address)
    await expect(page.locator('body')).not.toHaveText(banned)
  }
  await page.goto(order.url)
  await hydrated(page)
  await payButton(page).click()
  await expectState(page, 'fields')
  await expect(page.locator('body')).not.toHaveText(banned)
  await fillCard(page, cards.declined)
  await payButton(page).click()
  await expectState(page, 'declined')
  await expect(page.locator('body')).not.toHaveText(banned)
  await expectNoCharge(sandbox, order)
})

test('an address without an order is a page of its own with status 404', async ({ page }) => {
  const addresses = ['/nowhere', '/checkout/none', '/orders/none', '/checkout/none/review?session=cs_1&intent=7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11']
  for (const address of addresses) {
    const response = await page.goto(address)
    expect(response?.status(), address).toBe(404)
    await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
    await expect(page.getByRole('link').first()).toBeVisible()
  }
})

for (const width of [320, 360, 768, 1280]) {
  test(`nothing runs over the edge at ${width} px`, async ({ page, newOrder }) => {
    const order = await newOrder('clock')
    await page.setViewportSize({ width, height: 800 })
    for (const address of ['/', '/cart', order.url, order.outcomeUrl]) {
      await page.goto(address)
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      expect(over, address).toBe(0)
    }
    await page.goto(order.url)
    const box = await payButton(page).boundingBox()
    expect(box?.height ?? 0, 'a button for thumbs').toBeGreaterThanOrEqual(44)
  })
}
