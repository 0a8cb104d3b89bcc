// The bank wants to see the customer: there and back by full pages, with and without scripts, and every way of not coming back.
// Whatever happens there, the provider charges once or never, and every page says which.

import type { Browser, Page } from '@playwright/test'

import { booksBalance, expectNoCharge, expectOneCharge, expectPaidOnce } from '../support/books.ts'
import {
  askOutcome,
  cards,
  createOrder,
  expectState,
  fillCard,
  hydrated,
  intentOf,
  main,
  onBankPage,
  passBank,
  payButton,
  type Order,
} from '../support/checkout.ts'
import { Shop } from '../support/shop.ts'
import { expect, test } from '../support/test.ts'

/** Pays with a card that needs the bank, up to the bank's page. */
async function toTheBank(page: Page, order: Order, scripts: boolean): Promise<string> {
  await page.goto(order.url)
  if (scripts) await hydrated(page)
  const intent = await intentOf(page)
  await fillCard(page, cards.bankStep)
  await payButton(page).click()
  if (!scripts) {
    await expect(page).toHaveURL(/\/review\?/)
    await payButton(page).click()
  }
  await onBankPage(page)
  return intent
}

/** Pays with a good card after a failed try, from wherever the page stands. */
async function payWithAnother(page: Page, scripts: boolean): Promise<void> {
  await page.getByRole('link', { name: /^Try again/ }).or(payButton(page)).first().click()
  if (scripts) await hydrated(page)
  await fillCard(page, cards.good)
  await payButton(page).click()
  if (!scripts) {
    await expect(page).toHaveURL(/\/review\?/)
    await payButton(page).click()
  }
}

for (const scripts of [true, false]) {
  test.describe(scripts ? 'with scripts' : 'without scripts', () => {
    test.use({ javaScriptEnabled: scripts })

    test('approved: paid once', async ({ page, sandbox, newOrder }) => {
      const order = await newOrder()
      const intent = await toTheBank(page, order, scripts)
      await expectNoCharge(sandbox, order)
      await passBank(page, 'approve')
      await expect(page).toHaveURL(new RegExp(`/orders/${order.token}`))
      const charge = await expectPaidOnce(page, sandbox, order)
      expect(charge.idempotency_key).toContain(intent)
    })

    test('refused: nothing is charged, and another card pays', async ({ page, sandbox, newOrder }) => {
      const order = await newOrder()
      const first = await toTheBank(page, order, scripts)
      await passBank(page, 'refuse')
      await expectState(page, 'declined')
      await expect(main(page)).toContainText('Your bank could not confirm it was you')
      await expect(main(page)).toContainText('No money was taken')
      await expectNoCharge(sandbox, order)
      await payWithAnother(page, scripts)
      const charge = await expectPaidOnce(page, sandbox, order)
      expect(charge.idempotency_key).not.toContain(first)
    })

    test('b05: Back from the bank: the page waits for the bank and offers no second payment', async ({
      page,
      sandbox,
      newOrder,
    }) => {
      const order = await newOrder()
      await toTheBank(page, order, scripts)
      await page.goto(order.url)
      for (const address of [order.url, order.outcomeUrl]) {
        await page.goto(address)
        await expectState(page, 'bank_step')
        await expect(main(page)).toContainText("Your bank wants to check it's you")
        await expect(payButton(page), address).toBeHidden()
        await expect(page.getByRole('link', { name: 'Continue to your bank' })).toBeVisible()
        await page.reload()
        await expectState(page, 'bank_step')
      }
      await expectNoCharge(sandbox, order)
      expect(await sandbox.confirmCalls(order)).toHaveLength(1)
      await passBank(page, 'approve')
      await expectPaidOnce(page, sandbox, order)
    })

    test('p45: the return in another profile shows the truth, and so does the first browser', async ({
      page,
      browser,
      sandbox,
      newOrder,
    }) => {
      for (const decision of ['approve', 'refuse'] as const) {
        const order = await newOrder()
        await toTheBank(page, order, scripts)
        const elsewhere = await freshProfile(browser, scripts)
        await elsewhere.goto(page.url())
        await passBank(elsewhere, decision)
        if (decision === 'approve') {
          await expectPaidOnce(elsewhere, sandbox, order)
        } else {
          await expectState(elsewhere, 'declined')
          await expectNoCharge(sandbox, order)
        }
        await expect(elsewhere.locator('body')).not.toContainText('ana@example.org')
        await elsewhere.context().close()
        await page.goto(order.outcomeUrl)
        await expectState(page, decision === 'approve' ? 'paid' : 'declined')
      }
    })

    test('p41: reloads at the bank and on the way back pay once', async ({ page, sandbox, newOrder }) => {
      const order = await newOrder()
      await toTheBank(page, order, scripts)
      await page.reload()
      await page.reload()
      await expect(page.getByRole('button', { name: /approve/i })).toBeVisible()
      await expectNoCharge(sandbox, order)
      await passBank(page, 'approve')
      await page.reload()
      await page.reload()
      await expectPaidOnce(page, sandbox, order)
      expect(await sandbox.confirmCalls(order)).toHaveLength(1)
    })

    test('the bank stops waiting: nothing is charged, and another card pays', async ({ page, sandbox, newOrder }) => {
      const order = await newOrder()
      await toTheBank(page, order, scripts)
      await sandbox.expireBankStep(order)
      await page.getByRole('button', { name: /approve/i }).click()
      await expectNoCharge(sandbox, order)
      await page.goto(order.outcomeUrl)
      await expectState(page, 'declined')
      await expect(main(page)).toContainText('No money was taken')
      await payWithAnother(page, scripts)
      await expectPaidOnce(page, sandbox, order)
    })

    test('two tabs finish the same step: one charge, one truth', async ({ page, context, sandbox, newOrder }) => {
      for (const [one, other, end] of [
        ['approve', 'approve', 'paid'],
        ['approve', 'refuse', 'paid'],
        ['refuse', 'approve', 'declined'],
      ] as const) {
        const order = await newOrder()
        await toTheBank(page, order, scripts)
        const twin = await context.newPage()
        await twin.goto(page.url())
        await expect(twin.getByRole('button', { name: /approve/i })).toBeVisible()
        await passBank(page, one)
        await expectState(page, end)
        await twin.getByRole('button', { name: one === other || other === 'approve' ? /approve/i : /refuse/i }).click()
        // The bank's page may say that it is over; the shop's page says how it ended.
        await twin.goto(order.outcomeUrl)
        await expectState(twin, end)
        if (end === 'paid') await expectOneCharge(sandbox, order)
        else await expectNoCharge(sandbox, order)
        await twin.close()
      }
    })
  })
}

async function freshProfile(browser: Browser, scripts: boolean): Promise<Page> {
  return (await browser.newContext({ javaScriptEnabled: scripts })).newPage()
}

test.describe('never coming back', () => {
  test('the event of the provider settles it, and the next visit shows it paid', async ({ browser, playwright }) => {
    const shop = await Shop.start({ PAYONCE_WEBHOOK_SECRETS: 'whsec_of_a_shop_in_a_test' })
    const request = await playwright.request.newContext()
    try {
      const order = await createOrder(request, shop.url, 'notebook')
      const page = await freshProfile(browser, true)
      await toTheBank(page, order, true)
      const address = page.url()
      await page.context().close()
      // In the bank's app; the browser that would lead back is closed.
      const bank = await playwright.request.newContext()
      const step = /name="step" value="(\d+)"/.exec(await (await bank.get(address)).text())?.[1] ?? ''
      const approved = await bank.post(new URL(address).origin + new URL(address).pathname, {
        form: { decision: 'approve', step },
        maxRedirects: 0,
      })
      expect(approved.status()).toBe(303)
      await bank.dispose()
      await expect
        .poll(() => shop.log.includes('payment_intent.succeeded'), { message: 'the event came', timeout: 15_000 })
        .toBe(true)
      const visit = await freshProfile(browser, true)
      await visit.goto(order.url)
      await expectPaidOnce(visit, shop.sandbox, order)
      await visit.context().close()
      await booksBalance(request, shop.url, shop.sandbox, [order])
    } finally {
      await request.dispose()
      await shop.stop()
    }
  })

  for (const scripts of [true, false]) {
    test(`past the deadline it is not charged, and another card pays, ${scripts ? 'with' : 'without'} scripts`, async ({
      browser,
      playwright,
    }) => {
      const shop = await Shop.start({ PAYONCE_BANK_DEADLINE_MS: '3000' })
      const request = await playwright.request.newContext()
      try {
        const order = await createOrder(request, shop.url, 'notebook')
        const page = await freshProfile(browser, scripts)
        await toTheBank(page, order, scripts)
        const address = page.url()
        await expect
          .poll(async () => (await askOutcome(request, shop.url, order.token)).state, { timeout: 30_000 })
          .toBe('failed')
        expect((await shop.sandbox.paymentIntent(order)).status).toBe('canceled')
        // Whoever approves now is told by the bank's page, and charged nothing.
        await page.goto(address)
        const approve = page.getByRole('button', { name: /approve/i })
        if (await approve.isVisible()) await approve.click()
        await expectNoCharge(shop.sandbox, order)
        await page.goto(order.url)
        await expectState(page, 'not_charged')
        await expect(main(page)).toContainText('you have not been charged')
        await payWithAnother(page, scripts)
        await expectPaidOnce(page, shop.sandbox, order)
        await page.context().close()
        await booksBalance(request, shop.url, shop.sandbox, [order])
      } finally {
        await request.dispose()
        await shop.stop()
      }
    })

    test(`past the hold time the checkout has closed, ${scripts ? 'with' : 'without'} scripts`, async ({ browser }) => {
      const shop = await Shop.start({ PAYONCE_ORDER_HOLD_MS: '4000' })
      try {
        const page = await freshProfile(browser, scripts)
        await page.goto(shop.url)
        await page.locator('form:has([name=sku][value=mug]) button').first().click()
        await page.locator('form[action="/checkout"]').getByRole('button').click()
        await expect(page).toHaveURL(/\/checkout\/[^/]+$/)
        const closed = page.url()
        const token = closed.split('/').pop() ?? ''
        const request = page.context().request
        await expect.poll(async () => (await askOutcome(request, shop.url, token)).state, { timeout: 30_000 }).toBe('closed')
        // The page that was open all the time, with a card typed in: told plainly, and nothing is sent.
        await fillCard(page, cards.good).catch(() => undefined)
        if (await payButton(page).isVisible()) await payButton(page).click()
        await expect(page.locator('body')).toContainText('This checkout has closed')
        await page.goto(closed)
        await expectState(page, 'expired')
        await expect(main(page)).toContainText('It was not paid and nothing was charged.')
        await expect(payButton(page)).toBeHidden()
        expect((await shop.sandbox.ledger()).charges).toEqual([])
        await page.getByRole('link', { name: 'Start again with the same cart' }).first().click()
        await expect(main(page)).toContainText('Tidemark mug')
        await page.locator('form[action="/checkout"]').getByRole('button').click()
        await expect(page).toHaveURL(/\/checkout\/[^/]+$/)
        expect(page.url()).not.toBe(closed)
        await page.context().close()
      } finally {
        await shop.stop()
      }
    })
  }
})
