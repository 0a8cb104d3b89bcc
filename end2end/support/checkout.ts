// What a customer does, through the same doors: cart, checkout, card form, Pay.

import { expect, type APIRequestContext, type Locator, type Page } from '@playwright/test'

/** An order as its own address tells it. */
export interface Order {
  token: string
  /** For people, e.g. `AB12-CD34`. */
  reference: string
  amount: number
  currency: string
  /** The amount as the page shows it. */
  display: string
  /** Address of the checkout page. */
  url: string
  /** Address of the outcome page. */
  outcomeUrl: string
}

/** What the server says of an order. */
export interface Outcome {
  state: 'ready' | 'pending' | 'action_required' | 'unknown' | 'paid' | 'failed' | 'closed'
  intent: string | null
  reference: string
  amount: { minor: number; currency: string; display: string }
  charge: string | null
  decline: string | null
  continue_url: string | null
  received: boolean
}

/** Goods of the demonstration shop; amounts in minor units, written down here by hand and never computed. */
export const goods = {
  lamp: { name: 'Harbour desk lamp', currency: 'EUR', amount: 4990, display: '€49.90' },
  mug: { name: 'Tidemark mug', currency: 'EUR', amount: 820, display: '€8.20' },
  notebook: { name: 'Logbook', currency: 'EUR', amount: 1999, display: '€19.99' },
  kettle: { name: 'Galley kettle', currency: 'EUR', amount: 6410, display: '€64.10' },
  apron: { name: "Chandler's apron", currency: 'EUR', amount: 3850, display: '€38.50' },
  clock: { name: 'Watch clock', currency: 'EUR', amount: 123450, display: '€1,234.50' },
  tenugui: { name: 'Tenugui cloth', currency: 'JPY', amount: 500, display: '¥500' },
  chopsticks: { name: 'Lacquered chopsticks', currency: 'JPY', amount: 10000, display: '¥10,000' },
  coffeepot: { name: 'Dallah coffee pot', currency: 'BHD', amount: 35200, display: 'BHD 35.200' },
  cardamom: { name: 'Green cardamom', currency: 'BHD', amount: 4500, display: 'BHD 4.500' },
} as const

export type Sku = keyof typeof goods

/** Public test cards. */
export const cards = {
  good: '4242 4242 4242 4242',
  amex: '3782 822463 10005',
  declined: '4000 0000 0000 0002',
  noFunds: '4000 0000 0000 9995',
  lost: '4000 0000 0000 9987',
  expired: '4000 0000 0000 0069',
  wrongCode: '4000 0000 0000 0127',
  bankStep: '4000 0000 0000 3220',
} as const

export const versionFour = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Fills a cart with `pieces` of `sku` and checks it out; `request` keeps the cart's cookie. */
export async function createOrder(
  request: APIRequestContext,
  shopUrl: string,
  sku: Sku,
  pieces = 1,
): Promise<Order> {
  const added = await request.post(`${shopUrl}/cart`, {
    form: { sku, change: 'add', quantity: String(pieces) },
    maxRedirects: 0,
  })
  expect(added.status(), 'adding to the cart sends the customer to the cart').toBe(303)
  const cart = inputValue(await (await request.get(`${shopUrl}/cart`)).text(), 'cart')
  expect(cart, 'the cart page carries the UUID of the cart').toMatch(versionFour)
  const begun = await request.post(`${shopUrl}/checkout`, {
    form: { cart, currency: goods[sku].currency },
    maxRedirects: 0,
  })
  expect(begun.status(), 'checking out sends the customer to the order').toBe(303)
  return readOrder(request, shopUrl, tokenOf(begun.headers()['location'] ?? ''))
}

/** The order behind a token, asked at the public door. */
export async function readOrder(request: APIRequestContext, shopUrl: string, token: string): Promise<Order> {
  const { reference, amount } = await askOutcome(request, shopUrl, token)
  return {
    token,
    reference,
    amount: amount.minor,
    currency: amount.currency,
    display: amount.display,
    url: `${shopUrl}/checkout/${token}`,
    outcomeUrl: `${shopUrl}/orders/${token}`,
  }
}

/** Asks the server for the order's outcome; asking never pays. */
export async function askOutcome(
  request: APIRequestContext,
  shopUrl: string,
  token: string,
  intent: string | null = null,
): Promise<Outcome> {
  const response = await request.post(`${shopUrl}/rpc/outcome`, { data: { order: token, intent } })
  expect(response.status(), await response.text()).toBe(200)
  return (await response.json()) as Outcome
}

/** Value of the first input called `name` in `html`. */
export function inputValue(html: string, name: string): string {
  const tag = new RegExp(`<input[^>]*\\bname="${name}"[^>]*>`).exec(html)?.[0] ?? ''
  return /\bvalue="([^"]*)"/.exec(tag)?.[1] ?? ''
}

/** The token in the address of a checkout or outcome page. */
export function tokenOf(address: string): string {
  const token = /\/(?:checkout|orders)\/([^/?#]+)/.exec(address)?.[1]
  if (token === undefined) throw new Error(`no order in ${address}`)
  return token
}

/** `<main>`, which carries the state. */
export function main(page: Page): Locator {
  return page.locator('main')
}

/** The Pay button, whatever it says at the moment. */
export function payButton(page: Page): Locator {
  return page.getByRole('button', { name: /^(Pay|Paying) / })
}

/** Fills in the card form the way a person does. */
export async function fillCard(page: Page, number: string, options: { cvc?: string; email?: string } = {}): Promise<void> {
  await page.locator('[name=email]').fill(options.email ?? 'ana@example.org')
  await page.locator('[name=cardnumber]').fill(number)
  await page.locator('[name=exp]').fill('12 / 34')
  await page.locator('[name=cvc]').fill(options.cvc ?? '123')
  await page.locator('[name=name]').fill('Ana Example')
}

/** The UUID that the page holds. */
export async function intentOf(page: Page): Promise<string> {
  return (await main(page).getAttribute('data-intent')) ?? ''
}

/** Expects `<main>` to reach one of the states. */
export async function expectState(page: Page, ...states: string[]): Promise<void> {
  await expect(main(page)).toHaveAttribute('data-state', new RegExp(`^(${states.join('|')})$`))
}

/** Waits until the browser program has taken over the card form. */
export async function hydrated(page: Page): Promise<void> {
  await expect(page.locator('#pay-form')).toHaveAttribute('data-hydrated', '')
}

/** Goes on to the bank's own page at the provider, from wherever the checkout stands. */
export async function onBankPage(page: Page): Promise<void> {
  const onward = page.getByRole('link', { name: /^Continue to/ })
  await expect(onward.or(page.getByRole('button', { name: /approve/i })).first()).toBeVisible()
  if (await onward.isVisible()) await onward.click()
  await expect(page).toHaveURL(/\/bank\//)
}

/** Goes through the bank's own page at the provider. */
export async function passBank(page: Page, decision: 'approve' | 'refuse'): Promise<void> {
  await onBankPage(page)
  await page.getByRole('button', { name: decision === 'approve' ? /approve/i : /refuse|decline|fail/i }).click()
}
