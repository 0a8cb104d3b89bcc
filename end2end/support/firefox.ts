// Drives a stock Firefox, which Playwright cannot: by WebDriver BiDi, with real keys and a real pointer. Works with scripts off, too.

import { expect } from '@playwright/test'
import puppeteer, { type Browser, type Page } from 'puppeteer-core'

import { findFirefox } from './browser.ts'
import { expectOneCharge } from './books.ts'
import { shopTest } from './test.ts'
import type { Order } from './checkout.ts'
import type { Charge, Sandbox } from './sandbox.ts'

/** Settings of `about:config`. */
export type Preferences = Record<string, boolean | number | string>

async function launch(preferences: Preferences = {}): Promise<Browser> {
  return puppeteer.launch({
    browser: 'firefox',
    executablePath: findFirefox(),
    headless: true,
    timeout: 60_000,
    protocolTimeout: 30_000,
    defaultViewport: { width: 1280, height: 900 },
    extraPrefsFirefox: { 'intl.accept_languages': 'en-GB', ...preferences },
  })
}

/** A Firefox of its own, with settings of its own. */
export async function withFirefox(preferences: Preferences, work: (tab: Page) => Promise<void>): Promise<void> {
  const firefox = await launch(preferences)
  try {
    await work(await firefox.newPage())
  } finally {
    await firefox.close()
  }
}

export const test = shopTest.extend<{ tab: Page }, { firefox: Browser }>({
  firefox: [
    async ({}, use) => {
      const firefox = await launch()
      await use(firefox)
      await firefox.close()
    },
    { scope: 'worker', timeout: 90_000 },
  ],

  /** A tab that shares nothing with those of other tests. */
  tab: async ({ firefox }, use) => {
    const context = await firefox.createBrowserContext()
    await use(await context.newPage())
    await context.close()
  },
})

export { expect }

/** The text or attribute of the first such element; `null` without one, and while pages change. */
async function read(tab: Page, selector: string, attribute: string | null): Promise<string | null> {
  return tab
    .evaluate(
      (selector, attribute) => {
        const element = document.querySelector(selector)
        return (attribute === null ? element?.textContent : element?.getAttribute(attribute)) ?? null
      },
      selector,
      attribute,
    )
    .catch(() => null)
}

export async function intentOf(tab: Page): Promise<string> {
  return (await read(tab, 'main', 'data-intent')) ?? ''
}

export async function textOf(tab: Page): Promise<string> {
  return (await read(tab, 'main', null)) ?? ''
}

/** The state that the page shows; empty while pages change. */
export async function stateOf(tab: Page): Promise<string> {
  return (await read(tab, 'main', 'data-state')) ?? ''
}

export async function expectState(tab: Page, ...states: string[]): Promise<void> {
  await expect
    .poll(() => stateOf(tab), { timeout: 20_000 })
    .toMatch(new RegExp(`^(${states.join('|')})$`))
}

/** Waits until the browser program has taken over the card form. */
export async function hydrated(tab: Page): Promise<void> {
  await expect.poll(() => read(tab, '#pay-form', 'data-hydrated'), { timeout: 20_000 }).toBe('')
}

/** Types the card key by key, the way a person does. What stands in a field already is replaced. */
export async function typeCard(tab: Page, number: string): Promise<void> {
  for (const [name, value] of Object.entries({
    email: 'ana@example.org',
    cardnumber: number,
    exp: '12 / 34',
    cvc: '123',
    name: 'Ana Example',
  })) {
    await tab.evaluate((name) => document.querySelector<HTMLInputElement>(`[name=${name}]`)?.select(), name)
    await tab.evaluate((name) => document.querySelector<HTMLInputElement>(`[name=${name}]`)?.focus(), name)
    await tab.keyboard.type(value)
  }
}

/** Clicks the Pay button of the page. */
export async function clickPay(tab: Page, times = 1, apartMs = 0): Promise<void> {
  const spot = await tab.evaluate(() => {
    const button = document.querySelector('.pay-button')
    button?.scrollIntoView({ block: 'nearest' })
    const box = button?.getBoundingClientRect()
    return box === undefined ? null : { x: box.x + box.width / 2, y: box.y + box.height / 2 }
  })
  if (spot === null) throw new Error(`there is no Pay button at ${tab.url()}`)
  await tab.mouse.click(spot.x, spot.y, { count: times, delay: apartMs })
}

/** Whether the page has a Pay button to press. */
export async function offersPay(tab: Page): Promise<boolean> {
  return tab.evaluate(() => document.querySelector('.pay-button')?.checkVisibility() ?? false)
}

/** Exactly one charge, and the page says so, about the intent that was charged. */
export async function expectPaidOnce(tab: Page, sandbox: Sandbox, order: Order): Promise<Charge> {
  await expectState(tab, 'paid', 'already_paid')
  const charge = await expectOneCharge(sandbox, order)
  expect(charge.idempotency_key).toContain((await intentOf(tab)) || 'no intent')
  expect(await textOf(tab)).toContain(order.display)
  expect(await offersPay(tab), 'a paid order offers no Pay button').toBe(false)
  return charge
}
