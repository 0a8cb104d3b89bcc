// Pictures of every page and main state, light and dark, on a phone and on a desk. Not a test: `npm run screenshots`.

import { mkdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

import type { Page } from '@playwright/test'

import { cards, expectState, fillCard, hydrated, main, onBankPage, payButton } from '../support/checkout.ts'
import { expect, test } from '../support/test.ts'

const here = dirname(fileURLToPath(import.meta.url))
const folder = resolve(process.env['SCREENSHOTS_DIR'] ?? join(here, '..', '..', 'target', 'screenshots'))

const widths = { phone: 360, desk: 1280 }

for (const colorScheme of ['light', 'dark'] as const) {
  for (const [device, width] of Object.entries(widths)) {
    test.describe(`${colorScheme}, ${device}`, () => {
      test.use({
        colorScheme,
        viewport: { width, height: 800 },
        contextOptions: { reducedMotion: 'reduce' },
        deviceScaleFactor: 2,
      })

      const shoot = async (page: Page, name: string): Promise<void> => {
        mkdirSync(folder, { recursive: true })
        await page.evaluate(() => document.fonts.ready)
        await page.screenshot({ path: join(folder, `${name}-${colorScheme}-${width}.png`), fullPage: true })
      }

      test('shop and cart', async ({ page }) => {
        await page.goto('/')
        await shoot(page, 'shop')
        await page.goto('/cart')
        await shoot(page, 'cart-empty')
        for (const sku of ['lamp', 'mug', 'tenugui']) {
          await page.goto('/')
          await page.locator(`form:has([name=sku][value=${sku}]) button`).first().click()
          await expect(page).toHaveURL(/\/cart$/)
        }
        await shoot(page, 'cart')
        await page.goto('/nowhere')
        await shoot(page, 'nothing-here')
      })

      test('checkout', async ({ page, sandbox, newOrder }) => {
        const order = await newOrder('lamp')
        await page.goto(order.url)
        await hydrated(page)
        await shoot(page, 'checkout-ready')
        await payButton(page).click()
        await expectState(page, 'fields')
        await shoot(page, 'checkout-fields')
        await fillCard(page, cards.declined)
        await payButton(page).click()
        await expectState(page, 'declined')
        await shoot(page, 'checkout-declined')
        await page.goto(order.outcomeUrl)
        await shoot(page, 'order-declined')
        await page.goto(order.url)
        await hydrated(page)
        await sandbox.fault({ path: 'confirm' }, { kind: 'delay_before', ms: 2500 })
        await fillCard(page, cards.good)
        await payButton(page).click()
        await expectState(page, 'sending')
        await shoot(page, 'checkout-sending')
        await expectState(page, 'paid')
        await shoot(page, 'order-paid')
      })

      test('unknown and bank step', async ({ page, sandbox, newOrder }) => {
        const lost = await newOrder('kettle')
        await sandbox.fault({ path: 'confirm' }, { kind: 'charge_then_drop' })
        await sandbox.silent()
        await page.goto(lost.url)
        await hydrated(page)
        await fillCard(page, cards.good)
        await payButton(page).click()
        await expectState(page, 'unknown')
        await shoot(page, 'checkout-unknown')
        await page.goto(lost.outcomeUrl)
        await expectState(page, 'unknown')
        await shoot(page, 'order-unknown')
        await sandbox.clearFaults()
        await expectState(page, 'paid')
        const order = await newOrder('lamp')
        await page.goto(order.url)
        await hydrated(page)
        await fillCard(page, cards.bankStep)
        await payButton(page).click()
        await expectState(page, 'bank_step')
        await shoot(page, 'checkout-bank-step')
        await page.goto(order.outcomeUrl)
        await expectState(page, 'bank_step')
        await shoot(page, 'order-bank-step')
        await onBankPage(page)
        await shoot(page, 'bank')
      })

      test.describe('scripts off', () => {
        test.use({ javaScriptEnabled: false })

        test('review', async ({ page, newOrder }) => {
          const order = await newOrder('lamp')
          await page.goto(order.url)
          await fillCard(page, cards.good)
          await payButton(page).click()
          await expect(page).toHaveURL(/\/review\?/)
          await expect(main(page)).toBeVisible()
          await page.screenshot({ path: join(folder, `review-${colorScheme}-${width}.png`), fullPage: true })
        })
      })
    })
  }
}
