// axe finds nothing wrong on any page, in any state, in light and in dark.

import { AxeBuilder } from '@axe-core/playwright'
import type { Page } from '@playwright/test'

import { expectPaidOnce } from '../support/books.ts'
import { cards, expectState, fillCard, hydrated, payButton } from '../support/checkout.ts'
import { expect, test } from '../support/test.ts'

const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme, contextOptions: { reducedMotion: 'reduce' } })

    test('shop, cart, checkout, order and "nothing here"', async ({ page, newOrder }) => {
      const order = await newOrder()
      await page.goto('/')
      await expectNoViolations(page)
      await page.locator('form:has([name=sku]) button').first().click()
      await expect(page).toHaveURL(/\/cart$/)
      await expectNoViolations(page)
      for (const address of [order.url, order.outcomeUrl, '/nowhere']) {
        await page.goto(address)
        await expectNoViolations(page)
      }
    })

    test('checkout: form with faults, sending, declined, paid', async ({ page, sandbox, newOrder }) => {
      const order = await newOrder()
      await page.goto(order.url)
      await hydrated(page)
      await payButton(page).click()
      await expectState(page, 'fields')
      await expectNoViolations(page)
      await fillCard(page, cards.declined)
      await payButton(page).click()
      await expectState(page, 'declined')
      await expectNoViolations(page)
      await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 2500 })
      await page.getByLabel('Card number').fill(cards.good)
      await page.getByRole('button', { name: /^(Pay|Try)/ }).click()
      await expectState(page, 'sending')
      await expectNoViolations(page)
      await expectPaidOnce(page, sandbox, order)
      await expectNoViolations(page)
    })

    test('unknown, and the bank step', async ({ page, sandbox, newOrder }) => {
      const lost = await newOrder()
      await sandbox.fault({ path: 'confirm' }, { kind: 'charge_then_drop' })
      await sandbox.silent()
      await page.goto(lost.url)
      await hydrated(page)
      await fillCard(page, cards.good)
      await payButton(page).click()
      await expectState(page, 'unknown')
      await expectNoViolations(page)
      await page.goto(lost.outcomeUrl)
      await expectState(page, 'unknown')
      await expectNoViolations(page)
      await sandbox.clearFaults()
      await expectPaidOnce(page, sandbox, lost)
      const order = await newOrder()
      await page.goto(order.url)
      await hydrated(page)
      await fillCard(page, cards.bankStep)
      await payButton(page).click()
      await expectState(page, 'bank_step')
      await expectNoViolations(page)
      await page.goto(order.outcomeUrl)
      await expectState(page, 'bank_step')
      await expectNoViolations(page)
    })

    // axe is a script itself, so the pages for plain forms are reached by blocking the browser program only.
    test.describe('plain forms', () => {
      test.use({ breaksScripts: true })

      test('review, and a card form that came back', async ({ page, newOrder }) => {
        const order = await newOrder()
        await page.route('**/*.{wasm,js}', (route) => route.abort())
        await page.goto(order.url)
        await fillCard(page, '4242 4242 4242 4241')
        await payButton(page).click()
        await expectState(page, 'fields')
        await expectNoViolations(page)
        await fillCard(page, cards.good)
        await payButton(page).click()
        await expect(page).toHaveURL(/\/review\?/)
        await expectNoViolations(page)
      })
    })
  })
}

async function expectNoViolations(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).withTags(rules).analyze()
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help} at ${nodes.map((node) => node.html).join(' · ')}`)
  expect(found, page.url()).toEqual([])
}
