// The fixtures: a shop per worker, a well-behaved sandbox per test, and books that must balance after every test.

import { test as base, expect, type APIRequestContext, type BrowserContext, type Page } from '@playwright/test'

import { booksBalance } from './books.ts'
import { createOrder, type Order, type Sku } from './checkout.ts'
import { Sandbox } from './sandbox.ts'
import { Shop } from './shop.ts'

interface ShopFixtures {
  sandbox: Sandbox
  /** Every order of this test; their books must balance at the end. */
  orders: Order[]
  /** Makes an order by the public doors, with a cart of its own. */
  newOrder: (sku?: Sku, pieces?: number) => Promise<Order>
}

interface PageFixtures {
  /** Whether the test breaks the page's scripts itself, so that their complaints are no fault of the page. */
  breaksScripts: boolean
  /** Uncaught faults of scripts in any page of the test's context. */
  scriptFaults: string[]
}

interface WorkerFixtures {
  /** Settings of the shop, besides those that every shop has. */
  shopSettings: Record<string, string>
  shop: Shop
}

/** A shop without a browser of Playwright's. */
export const shopTest = base.extend<ShopFixtures, WorkerFixtures>({
  shopSettings: [{}, { option: true, scope: 'worker' }],

  shop: [
    async ({ shopSettings }, use) => {
      const shop = await Shop.start(shopSettings)
      await use(shop)
      await shop.stop()
    },
    { scope: 'worker', timeout: 90_000 },
  ],

  baseURL: async ({ shop }, use) => {
    await use(shop.url)
  },

  sandbox: async ({ shop }, use) => {
    await shop.sandbox.clearFaults()
    await use(shop.sandbox)
    await shop.sandbox.clearFaults()
  },

  orders: [
    async ({ shop, playwright, sandbox }, use, testInfo) => {
      const orders: Order[] = []
      await use(orders)
      if (testInfo.status !== testInfo.expectedStatus) {
        await testInfo.attach('server log', { body: shop.log, contentType: 'text/plain' })
        return
      }
      const request = await playwright.request.newContext()
      await sandbox.clearFaults()
      await booksBalance(request, shop.url, sandbox, orders)
      await request.dispose()
    },
    { auto: true },
  ],

  newOrder: async ({ shop, playwright, orders }, use) => {
    const contexts: APIRequestContext[] = []
    await use(async (sku = 'notebook', pieces = 1) => {
      const request = await playwright.request.newContext()
      contexts.push(request)
      const order = await createOrder(request, shop.url, sku, pieces)
      orders.push(order)
      return order
    })
    for (const context of contexts) await context.dispose()
  },
})

export const test = shopTest.extend<PageFixtures>({
  breaksScripts: [false, { option: true }],

  scriptFaults: [
    async ({ context, breaksScripts }, use) => {
      const faults: string[] = []
      watchFaults(context, faults)
      await use(faults)
      if (!breaksScripts) expect(faults, 'no script of the page failed').toEqual([])
    },
    { auto: true },
  ],
})

export { expect }

/** Collects uncaught faults of every page in the context. */
export function watchFaults(context: BrowserContext, faults: string[]): void {
  const watch = (page: Page): void => {
    page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.message}`))
  }
  for (const page of context.pages()) watch(page)
  context.on('page', watch)
}
