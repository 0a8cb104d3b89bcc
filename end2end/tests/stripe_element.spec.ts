// The checkout page with Stripe's own card fields: the same form, intent and outcome, with the card in a frame of theirs. What
// is theirs is stood in for; everything else is real.

import { AxeBuilder } from '@axe-core/playwright'
import type { BrowserContext, Page } from '@playwright/test'

import { expectNoCharge, expectOneCharge, expectPaidOnce } from '../support/books.ts'
import { cards, expectState, hydrated, main, passBank, payButton } from '../support/checkout.ts'
import { gate } from '../support/moments.ts'
import { cardFrame, fillElement, fillFrame, scriptAddress, standIn, told } from '../support/stripe.ts'
import { expect, test } from '../support/test.ts'
import { hammer, wasmAddress, watchPayments } from '../support/wire.ts'

test.use({ shopSettings: { PAYONCE_CARD_FIELDS: 'element' } })

const blocked = 'The card fields did not load.'

/** What the browser complains of when a policy has stopped something. */
function watchViolations(context: BrowserContext): string[] {
  const violations: string[] = []
  context.on('console', (message) => {
    if (/Content[- ]Security[- ]Policy/i.test(message.text())) violations.push(message.text())
  })
  return violations
}

/** Waits until the card fields are there. */
async function fieldsReady(page: Page): Promise<void> {
  await hydrated(page)
  await expect(page.locator('.field--element')).toHaveAttribute('data-fields', 'ready')
}

function said(page: Page) {
  return page.locator('.element__said')
}

test('a card in the frame pays once; nothing of it reaches the shop, and no policy is in the way', async ({
  page,
  context,
  sandbox,
  shop,
  newOrder,
}) => {
  const order = await newOrder('lamp')
  const violations = watchViolations(context)
  const asked = await standIn(context, sandbox)
  const payments = watchPayments(page)
  const origins = new Set<string>()
  let toShop = ''
  page.on('request', (request) => {
    origins.add(new URL(request.url()).origin)
    if (request.url().startsWith(shop.url)) toShop += `${request.url()} ${request.postData() ?? ''}\n`
  })
  await page.goto(order.url)
  await fieldsReady(page)
  await fillElement(page, cards.good)
  await payButton(page).click()
  const charge = await expectPaidOnce(page, sandbox, order)
  expect(payments.bodies).toHaveLength(1)
  expect(payments.bodies[0]?.payment_method).toBe(charge.payment_method)
  expect(toShop.replaceAll(/\D/g, '')).not.toContain('4242424242424242')
  expect(asked.filter((address) => address === scriptAddress)).toHaveLength(1)
  expect([...origins].sort()).toEqual([shop.url, sandbox.url, 'https://js.stripe.com'].sort())
  expect(violations).toEqual([])
})

test('the fields are told what is to be paid, for cards alone, in our colours, and follow the light', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder('coffeepot')
  await standIn(context, sandbox)
  await page.emulateMedia({ colorScheme: 'light' })
  await page.goto(order.url)
  await fieldsReady(page)
  const { key, elements, payment, mounted } = await told(page)
  expect({ key, mounted }).toEqual({ key: 'pk_test_payonce', mounted: 1 })
  expect(elements).toMatchObject({
    mode: 'payment',
    amount: 35200,
    currency: 'bhd',
    paymentMethodTypes: ['card'],
    paymentMethodCreation: 'manual',
    appearance: { theme: 'stripe', variables: { colorPrimary: '#1a4b98', colorBackground: '#fcfdfb' } },
  })
  expect(JSON.stringify(elements)).not.toContain('§')
  expect(payment).toMatchObject({ fields: { billingDetails: { name: 'never', email: 'never' } } })
  await page.emulateMedia({ colorScheme: 'dark' })
  await expect.poll(async () => (await told(page)).updates.at(-1)?.appearance.theme).toBe('night')
})

test('five clicks and Enter within 50 ms charge once', async ({ page, context, sandbox, newOrder }) => {
  const order = await newOrder()
  await standIn(context, sandbox)
  await page.goto(order.url)
  await fieldsReady(page)
  await fillElement(page, cards.good)
  await payButton(page).scrollIntoViewIfNeeded()
  const box = await payButton(page).boundingBox()
  await hammer(page, (box?.x ?? 0) + 20, (box?.y ?? 0) + 20)
  await expectPaidOnce(page, sandbox, order)
})

test('a decline is told, keeps what was typed, and another card pays', async ({ page, context, sandbox, newOrder }) => {
  const order = await newOrder()
  await standIn(context, sandbox)
  await page.goto(order.url)
  await fieldsReady(page)
  await fillElement(page, cards.wrongCode)
  await payButton(page).click()
  await expectState(page, 'declined')
  await expect(main(page)).toContainText('The security code does not match')
  await expectNoCharge(sandbox, order)
  await expect(cardFrame(page).getByLabel('Card number')).toHaveValue(cards.wrongCode)
  await expect(page.locator('[name=email]')).toHaveValue('ana@example.org')
  // The focus is where it can be mended: in the frame.
  await expect(page.locator('.element iframe')).toBeFocused()
  await fillFrame(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

test('the bank step goes by the whole page', async ({ page, context, sandbox, newOrder }) => {
  const order = await newOrder()
  await standIn(context, sandbox)
  await page.goto(order.url)
  await fieldsReady(page)
  await fillElement(page, cards.bankStep)
  await payButton(page).click()
  await passBank(page, 'approve')
  await expectPaidOnce(page, sandbox, order)
})

test('an empty form is told field by field in our words, and forgiven as it is mended', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await standIn(context, sandbox)
  await page.goto(order.url)
  await fieldsReady(page)
  await payButton(page).click()
  await expectState(page, 'fields')
  const summary = page.locator('.error-summary')
  await expect(summary).toBeFocused()
  await expect(summary.getByRole('link')).toHaveText([
    'Enter your e-mail address',
    'Enter the card details',
    'Enter the name on the card',
  ])
  await page.locator('[name=email]').fill('ana@example.org')
  await page.locator('[name=name]').fill('Ana Example')
  await expect(summary.getByRole('link')).toHaveText(['Enter the card details'])
  await cardFrame(page).getByLabel('Card number').fill('4242')
  await payButton(page).click()
  await expect(summary.getByRole('link')).toHaveText(['Enter the whole card number'])
  await expect(page.locator('#cardnumber-error')).toHaveText('Enter the whole card number')
  await summary.getByRole('link').click()
  await expect(page.locator('.element iframe')).toBeFocused()
  await expectNoCharge(sandbox, order)
  await fillFrame(page, cards.good)
  await expect(summary).toBeHidden()
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

test('a card that the provider refuses to take is told in our words, and nothing of theirs', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await standIn(context, sandbox, { error: { type: 'card_error', code: 'incorrect_number', times: 1 } })
  await page.goto(order.url)
  await fieldsReady(page)
  await fillElement(page, cards.good)
  await payButton(page).click()
  await expectState(page, 'fields')
  await expect(page.locator('#cardnumber-error')).toHaveText('Check the card number: one digit looks wrong')
  await expect(main(page)).not.toContainText('Text of the provider')
  await expectNoCharge(sandbox, order)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

test('a provider that fails has charged nothing, and the next press pays', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await standIn(context, sandbox, { error: { type: 'api_connection_error', times: 1 } })
  await page.goto(order.url)
  await fieldsReady(page)
  await fillElement(page, cards.good)
  await payButton(page).click()
  await expectState(page, 'not_sent')
  await expectNoCharge(sandbox, order)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

test('a promise that is never kept ends, and nothing was sent', async ({ page, context, sandbox, newOrder }) => {
  const order = await newOrder()
  const payments = watchPayments(page)
  await standIn(context, sandbox, { silent: true })
  await page.clock.install()
  await page.goto(order.url)
  await fieldsReady(page)
  await fillElement(page, cards.good)
  await payButton(page).click()
  await expectState(page, 'sending')
  await page.clock.runFor(13_000)
  await expectState(page, 'not_sent')
  expect(payments.intents).toEqual([])
  await expectNoCharge(sandbox, order)
})

test('a blocked script is told at once, loses nothing, and can be loaded again', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const payments = watchPayments(page)
  await context.route('https://js.stripe.com/**', (route) => route.abort('blockedbyclient'))
  await page.goto(order.url)
  await hydrated(page)
  await expect(said(page)).toContainText(blocked)
  await page.locator('[name=email]').fill('ana@example.org')
  await page.locator('[name=name]').fill('Ana Example')
  await payButton(page).click()
  await expectState(page, 'fields')
  await expect(page.locator('#cardnumber-error')).toHaveText(
    'The card fields did not load: load them again, then press Pay again',
  )
  await expect(page.getByRole('link', { name: 'Show where this order stands' })).toHaveAttribute(
    'href',
    `/orders/${order.token}`,
  )
  expect(payments.intents).toEqual([])
  await context.unroute('https://js.stripe.com/**')
  await standIn(context, sandbox)
  await page.getByRole('button', { name: 'Load the card fields again' }).click()
  await fieldsReady(page)
  await expect(said(page)).toBeEmpty()
  await expect(page.locator('[name=email]')).toHaveValue('ana@example.org')
  await fillFrame(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

test('a slow script is told, a press meanwhile is not lost in it, and it may still come', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  const payments = watchPayments(page)
  const arrival = gate()
  await standIn(context, sandbox, { until: arrival.passed })
  await page.clock.install()
  await page.goto(order.url, { waitUntil: 'commit' })
  await hydrated(page)
  await expect(said(page)).toHaveText('The card fields are loading.')
  await page.locator('[name=email]').fill('ana@example.org')
  await page.locator('[name=name]').fill('Ana Example')
  await payButton(page).click()
  await expect(page.locator('#cardnumber-error')).toHaveText(
    'The card fields are still loading: wait a moment, then press Pay again',
  )
  await page.clock.runFor(5_100)
  await expect(said(page)).toContainText('take longer than usual')
  await page.clock.runFor(15_100)
  await expect(said(page)).toContainText(blocked)
  await expect(page.getByRole('button', { name: 'Load the card fields again' })).toBeVisible()
  arrival.open()
  await fieldsReady(page)
  expect(payments.intents).toEqual([])
  await fillFrame(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
})

test('fields that fail inside their frame are told, and can be loaded again', async ({
  page,
  context,
  sandbox,
  newOrder,
}) => {
  const order = await newOrder()
  await standIn(context, sandbox, { loadError: true })
  await page.goto(order.url)
  await hydrated(page)
  await expect(said(page)).toContainText(blocked)
  await page.getByRole('button', { name: 'Load the card fields again' }).click()
  await expect.poll(async () => (await told(page)).mounted).toBe(2)
  await expectNoCharge(sandbox, order)
})

test.describe('without our own program', () => {
  test.use({ breaksScripts: true })

  test('the page says so, sends nothing, and pays once it is loaded again', async ({
    page,
    context,
    sandbox,
    newOrder,
  }) => {
    const order = await newOrder()
    const payments = watchPayments(page)
    await standIn(context, sandbox)
    await context.route(wasmAddress, (route) => route.abort())
    await page.goto(order.url)
    await expect(page.getByText('This page did not load completely')).toBeVisible()
    await page.locator('[name=email]').fill('ana@example.org')
    await payButton(page).click()
    await expect(page).toHaveURL(order.url)
    await expect(page.locator('[name=email]')).toHaveValue('ana@example.org')
    expect(payments.intents).toEqual([])
    await context.unroute(wasmAddress)
    await page.reload()
    await fieldsReady(page)
    await expect(page.getByText('This page did not load completely')).toBeHidden()
    await fillElement(page, cards.good)
    await payButton(page).click()
    await expectPaidOnce(page, sandbox, order)
  })
})

test('a paid order loads nothing of Stripe', async ({ page, context, sandbox, newOrder }) => {
  const order = await newOrder()
  const asked = await standIn(context, sandbox)
  await page.goto(order.url)
  await fieldsReady(page)
  await fillElement(page, cards.good)
  await payButton(page).click()
  await expectPaidOnce(page, sandbox, order)
  const before = asked.length
  await page.goto(order.url)
  await expectState(page, 'paid', 'already_paid')
  await page.goto(order.outcomeUrl)
  await expectState(page, 'paid', 'already_paid')
  expect(asked.length).toBe(before)
})

test.describe('scripts off', () => {
  test.use({ javaScriptEnabled: false })

  test('the page says that it needs them, offers nothing that cannot work, and shows where the order stands', async ({
    page,
    sandbox,
    newOrder,
  }) => {
    const order = await newOrder()
    await page.goto(order.url)
    await expect(page.getByText('Paying by card needs JavaScript in this shop')).toBeVisible()
    await expect(page.locator('#pay-form')).toBeHidden()
    await expect(main(page)).toContainText(order.display)
    await page.getByRole('link', { name: 'Show where this order stands' }).first().click()
    await expect(page).toHaveURL(order.outcomeUrl)
    await expectNoCharge(sandbox, order)
  })
})

for (const colorScheme of ['light', 'dark'] as const) {
  test(`axe finds nothing in the form, its faults and its failure, ${colorScheme}`, async ({
    page,
    context,
    sandbox,
    newOrder,
  }) => {
    const clean = async (): Promise<void> => {
      // What is in the frame is not ours.
      const axe = new AxeBuilder({ page }).exclude('.element iframe')
      const { violations } = await axe.withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']).analyze()
      expect(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`)).toEqual([])
    }
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    const order = await newOrder()
    await standIn(context, sandbox)
    await page.goto(order.url)
    await fieldsReady(page)
    await clean()
    await payButton(page).click()
    await expectState(page, 'fields')
    await clean()
    await context.unroute('https://js.stripe.com/**')
    await context.route('https://js.stripe.com/**', (route) => route.abort())
    await page.reload()
    await expect(said(page)).toContainText(blocked)
    await clean()
  })
}

test('two tabs with the same order charge once', async ({ page, context, sandbox, newOrder }) => {
  const order = await newOrder()
  await standIn(context, sandbox)
  const other = await context.newPage()
  for (const tab of [page, other]) {
    await tab.goto(order.url)
    await fieldsReady(tab)
    await fillElement(tab, cards.good)
  }
  await Promise.all([payButton(page).click(), payButton(other).click()])
  await expectOneCharge(sandbox, order)
  for (const tab of [page, other]) await expectState(tab, 'paid', 'already_paid')
})
