// Pictures of the checkout page with Stripe's card fields (a stand-in for them), and of what it says when they do not come.

import { mkdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

import type { Page } from '@playwright/test'

import { cards, expectState, hydrated, payButton } from '../support/checkout.ts'
import { cardFrame, fillElement, standIn } from '../support/stripe.ts'
import { expect, test } from '../support/test.ts'

const here = dirname(fileURLToPath(import.meta.url))
const folder = resolve(process.env['SCREENSHOTS_DIR'] ?? join(here, '..', '..', 'target', 'screenshots'))

test.use({ shopSettings: { PAYONCE_CARD_FIELDS: 'element' } })

for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [360, 1280]) {
    test.describe(`${colorScheme}, ${width}`, () => {
      test.use({
        colorScheme,
        viewport: { width, height: 800 },
        contextOptions: { reducedMotion: 'reduce' },
        deviceScaleFactor: 2,
        breaksScripts: true,
      })

      const shoot = async (page: Page, name: string): Promise<void> => {
        mkdirSync(folder, { recursive: true })
        await page.screenshot({ path: join(folder, `stripe-${name}-${colorScheme}-${width}.png`), fullPage: true })
      }

      test('card fields', async ({ page, context, sandbox, newOrder }) => {
        const order = await newOrder('lamp')
        await standIn(context, sandbox)
        await page.goto(order.url)
        await hydrated(page)
        await expect(page.locator('.field--element')).toHaveAttribute('data-fields', 'ready')
        await expect(cardFrame(page).getByLabel('Security code')).toBeVisible()
        await shoot(page, 'ready')
        await payButton(page).press('Enter')
        await expectState(page, 'fields')
        await shoot(page, 'fields')
        await fillElement(page, cards.declined)
        await payButton(page).press('Enter')
        await expectState(page, 'declined')
        await shoot(page, 'declined')
      })

      test('card fields that do not come', async ({ page, context, newOrder }) => {
        const order = await newOrder('lamp')
        await context.route('https://js.stripe.com/**', () => undefined)
        await page.clock.install()
        await page.goto(order.url, { waitUntil: 'commit' })
        await hydrated(page)
        await shoot(page, 'loading')
        await page.clock.runFor(5_100)
        await shoot(page, 'slow')
        await page.clock.runFor(15_100)
        await expect(page.locator('.field--element')).toHaveAttribute('data-fields', 'failed')
        await shoot(page, 'failed')
        await context.unroute('https://js.stripe.com/**')
        await context.route('https://js.stripe.com/**', (route) => route.abort())
        await context.route('**/*.wasm', (route) => route.abort())
        await page.goto(order.url)
        await expect(page.locator('#stuck')).toBeVisible()
        await shoot(page, 'stuck')
      })

      test.describe('scripts off', () => {
        test.use({ javaScriptEnabled: false })

        test('no form', async ({ page, newOrder }) => {
          const order = await newOrder('lamp')
          await page.goto(order.url)
          await shoot(page, 'unscripted')
        })
      })
    })
  }
}
