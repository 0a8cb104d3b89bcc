// Plays one impatient customer in a browser context of their own, then lets things settle and compares what every page says with
// what the provider really charged.

import { expect, type APIRequestContext, type Browser, type BrowserContext, type Page } from '@playwright/test'
import { setTimeout as sleep } from 'node:timers/promises'

import { askOutcome, main, type Order, type Outcome } from './checkout.ts'
import { aim, press, type Press } from './early_press.ts'
import type { Sandbox } from './sandbox.ts'
import type { SessionPlan, Step } from './session_plan.ts'
import { loseAnswer, outcomeAddress, payAddress, wasmAddress } from './wire.ts'

/** How long anything that a person does may hold the session up. */
const patienceMs = 3_000
/** How long the truth may take: the shop's deadline for an unknown outcome, its lease, and a slow machine. */
const settledWithinMs = 60_000

export interface World {
  browser: Browser
  request: APIRequestContext
  shopUrl: string
  sandbox: Sandbox
}

/** How a session ended, as the server and all its pages say. */
export type End = 'paid' | 'failed' | 'ready' | 'closed'

/** What the pages of an order that ended so may say. A tab whose own UUID was never sent may still offer to pay. */
const agreeing: Record<End, readonly string[]> = {
  paid: ['paid', 'already_paid'],
  failed: ['declined', 'not_charged', 'ready', 'fields', 'not_sent'],
  ready: ['ready', 'fields', 'not_sent'],
  closed: ['expired'],
}

export class Session {
  readonly #world: World
  readonly #order: Order
  readonly #plan: SessionPlan
  readonly #log: string[] = []
  readonly #claims: Promise<void>[] = []
  #context: BrowserContext
  #pages: Page[] = []
  #shown = 0
  #saidPaid = false

  private constructor(world: World, order: Order, plan: SessionPlan, context: BrowserContext) {
    this.#world = world
    this.#order = order
    this.#plan = plan
    this.#context = context
  }

  /** Plays the whole session. Fails with everything it takes to play it again. */
  static async play(world: World, order: Order, plan: SessionPlan): Promise<End> {
    // The provider hears of an order when its checkout is first looked at.
    await world.request.get(order.url)
    const { id } = await world.sandbox.paymentIntent(order)
    for (const { path, fault, next } of plan.faults) await world.sandbox.fault({ path, payment_intent: id }, fault, next)
    const session = new Session(world, order, plan, await world.browser.newContext(browsingOptions(plan)))
    try {
      await session.#prepare()
      await session.#open(order.url)
      for (const step of plan.steps) {
        await session.#do(step)
        await sleep(step.afterMs)
      }
      const end = await session.#settle()
      await Promise.all(session.#claims)
      return end
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error)
      throw new Error(
        `SEED=${plan.seed} SESSIONS=1 plays this again. Order ${order.reference}.\n${JSON.stringify(plan)}\n` +
          `${session.#log.join('\n')}\n${text}`,
      )
    } finally {
      await session.#context.close()
    }
  }

  async #prepare(): Promise<void> {
    const { browsing } = this.#plan
    if (browsing === 'program blocked') await this.#context.route(wasmAddress, (route) => route.abort())
    if (browsing === 'program late') {
      await this.#context.route(wasmAddress, (route) => sleep(1_500).then(() => route.continue()).catch(() => undefined))
    }
    if (browsing === 'scripts off') return
    // Never "paid" before there is a charge, not even for a moment.
    await this.#context.exposeBinding('payonceSays', ({ page }, state: string) => this.#claim(page, state))
    await this.#context.addInitScript(tellStates, browsing === 'storage blocked')
  }

  #claim(page: Page, state: string): void {
    this.#note(`    tab ${this.#pages.indexOf(page) + 1} says ${state}`)
    if (!agreeing.paid.includes(state)) return
    this.#saidPaid = true
    this.#claims.push(
      this.#world.sandbox.ledger(this.#order).then(({ charges }) => {
        expect(charges.length, `charges when a page said "${state}"`).toBe(1)
      }),
    )
    // Looked at when the session ends; until then it is no unhandled failure.
    this.#claims.at(-1)?.catch(() => undefined)
  }

  async #open(address: string): Promise<void> {
    const page = await this.#context.newPage()
    page.setDefaultTimeout(patienceMs)
    this.#pages.push(page)
    this.#shown = this.#pages.length - 1
    await this.#patiently(page.goto(address, { waitUntil: 'domcontentloaded', timeout: patienceMs }))
  }

  async #do(step: Step): Promise<void> {
    const page = this.#page()
    const { pathname } = new URL(page.url())
    this.#note(`${JSON.stringify(step)} in tab ${this.#shown + 1} of ${this.#pages.length}, at ${pathname}`)
    const waitUntil = { waitUntil: 'commit', timeout: patienceMs } as const
    switch (step.do) {
      case 'press':
        return this.#patiently(this.#press(page, step.how, step.apartMs))
      case 'reload':
        return this.#patiently(page.reload(waitUntil))
      case 'back':
        return this.#patiently(page.goBack(waitUntil))
      case 'forward':
        return this.#patiently(page.goForward(waitUntil))
      case 'open checkout':
        return this.#patiently(page.goto(this.#order.url, waitUntil))
      case 'open outcome':
        return this.#patiently(page.goto(this.#order.outcomeUrl, waitUntil))
      case 'new tab':
        return this.#open(this.#order.url)
      case 'other tab':
        this.#shown = (this.#shown + 1) % this.#pages.length
        return this.#page().bringToFront()
      case 'close tab':
        return this.#closeTab(page)
      case 'restart':
        return this.#restart()
      case 'offline':
        await this.#context.setOffline(true)
        await sleep(step.forMs)
        return this.#context.setOffline(false)
      case 'lose':
        await this.#context.route(
          step.what === 'pay' ? payAddress : outcomeAddress,
          (route) => (step.part === 'answer' ? loseAnswer(route) : route.abort('connectionreset')).catch(() => undefined),
          { times: 1 },
        )
        return
    }
  }

  #page(): Page {
    const page = this.#pages[this.#shown]
    if (page === undefined) throw new Error('the session has no tab')
    return page
  }

  /** Presses what a person would press here: Pay, or what leads on to it. */
  async #press(page: Page, how: Press, apartMs: number): Promise<void> {
    if (/\/bank\//.test(page.url())) return this.#decideAtTheBank(page)
    if (!(await page.locator('.pay-button').isVisible())) {
      const onward = page.locator('a.onward__link:visible, .outcome__said .actions a.button:visible').first()
      if (await onward.isVisible()) await onward.click({ noWaitAfter: true })
      return
    }
    const card = this.#plan.cards[(await state(page)) === 'ready' ? 0 : 1]
    const values = { email: 'ana@example.org', cardnumber: card, exp: '12 / 34', cvc: '123', name: 'Ana Example' }
    await page.evaluate((values) => {
      for (const [name, value] of Object.entries(values)) {
        const field = document.querySelector<HTMLInputElement>(`#pay-form [name=${name}]`)
        if (field !== null) field.value = value
      }
    }, values)
    const session = await this.#context.newCDPSession(page)
    await press(session, how, await aim(page, how), apartMs)
    await session.detach()
  }

  async #decideAtTheBank(page: Page): Promise<void> {
    const decision = page.locator(`button[value=${this.#plan.atTheBank}]`)
    if (await decision.isVisible()) await decision.click({ noWaitAfter: true })
  }

  async #closeTab(page: Page): Promise<void> {
    await page.close()
    this.#pages = this.#pages.filter((other) => other !== page)
    this.#shown = 0
    if (this.#pages.length === 0) await this.#open(this.#order.url)
  }

  /** The browser is closed and opened again; what it stored is still there. */
  async #restart(): Promise<void> {
    const storageState = await this.#context.storageState()
    await this.#context.close()
    this.#context = await this.#world.browser.newContext({ ...browsingOptions(this.#plan), storageState })
    this.#pages = []
    await this.#prepare()
    await this.#open(this.#order.url)
  }

  /** Waits for what a person waits for, and no longer; that it fails is part of an impatient life. */
  async #patiently(work: Promise<unknown>): Promise<void> {
    const failed = work.then(
      () => undefined,
      (error: Error) => this.#note(`    ${error.message.split('\n')[0] ?? ''}`),
    )
    await Promise.race([failed, sleep(patienceMs)])
  }

  #note(text: string): void {
    this.#log.push(text)
  }

  /** Nothing is disturbed any more: server, provider and every open tab come to the same end. */
  async #settle(): Promise<End> {
    await this.#context.unrouteAll({ behavior: 'ignoreErrors' })
    await this.#context.setOffline(false)
    const begun = performance.now()
    let agreed = 0
    let last = ''
    while (performance.now() - begun < settledWithinMs) {
      const outcome = await askOutcome(this.#world.request, this.#world.shopUrl, this.#order.token)
      const states: string[] = []
      for (const page of this.#pages) states.push(await this.#look(page, outcome))
      last = `server: ${outcome.state}; tabs: ${states.join(', ')}`
      const end = endOf(outcome)
      agreed = end !== undefined && states.every((state) => agreeing[end].includes(state)) ? agreed + 1 : 0
      // Twice, since a request that was on its way when it all ended may arrive in between.
      if (end !== undefined && agreed === 3) {
        await this.#compare(end)
        return end
      }
      await sleep(400)
    }
    throw new Error(`no agreement within ${settledWithinMs} ms; ${last}`)
  }

  /** A person looks at the tab again; what needs a person's hand is done. Answers the state that it shows. */
  async #look(page: Page, outcome: Outcome): Promise<string> {
    const end = endOf(outcome)
    if (/\/bank\//.test(page.url())) {
      // Whoever sits at a bank that has nothing more to ask goes back to the shop.
      await this.#patiently(end === undefined ? this.#decideAtTheBank(page) : this.#comeBack(page))
      return 'at the bank'
    }
    const shows = await state(page)
    const isLate = end !== undefined && shows !== null && !agreeing[end].includes(shows)
    if (shows === 'bank_step' && !isLate) await this.#patiently(page.locator('a.onward__link').click({ noWaitAfter: true }))
    const isPlain = withoutProgram.includes(this.#plan.browsing) || /review/.test(page.url())
    const isBehind = outcome.state !== 'ready' && shows === 'ready'
    if (shows === null || (isPlain && (isBehind || isLate))) {
      // No page of the shop, or one that cannot ask by itself: it says what was known when it was loaded, and to check again.
      await this.#patiently(this.#comeBack(page))
    } else if (isBehind) {
      await this.#patiently(page.evaluate(() => document.dispatchEvent(new Event('visibilitychange'))))
    }
    return shows ?? 'nothing of the shop'
  }

  async #comeBack(page: Page): Promise<void> {
    await page.goto(this.#order.url, { waitUntil: 'domcontentloaded', timeout: patienceMs })
  }

  async #compare(end: End): Promise<void> {
    const { charges, refunds } = await this.#world.sandbox.ledger(this.#order)
    expect(charges.length, `charges of an order that ended as ${end}`).toBe(end === 'paid' ? 1 : 0)
    expect(refunds).toHaveLength(0)
    for (const { amount, currency } of charges) {
      expect([amount, currency.toUpperCase()]).toEqual([this.#order.amount, this.#order.currency])
    }
    if (this.#saidPaid) expect(end, 'a page had said "paid"').toBe('paid')
    for (const page of this.#pages) {
      const shows = await state(page)
      const words = main(page)
      if (shows === 'declined' || shows === 'not_charged') {
        await expect(words).toContainText(/no money was taken|you have not been charged/i)
      } else {
        await expect(words).not.toContainText(/no money was taken/i)
      }
      if (end === 'paid') await expect(page.locator('.pay-button:visible'), 'a paid order offers no Pay button').toHaveCount(0)
    }
  }
}

/** Pages that do not ask by themselves: the program never comes, or comes when nobody waits any more. */
const withoutProgram: readonly string[] = ['scripts off', 'program blocked', 'program late']

function browsingOptions(plan: SessionPlan): { javaScriptEnabled: boolean; locale: string } {
  return { javaScriptEnabled: plan.browsing !== 'scripts off', locale: 'en-GB' }
}

function endOf(outcome: Outcome): End | undefined {
  switch (outcome.state) {
    case 'paid':
    case 'failed':
    case 'ready':
    case 'closed':
      return outcome.state
    case 'pending':
    case 'action_required':
    case 'unknown':
      return undefined
  }
}

/** The state that the page shows; `null` when it is none of the shop's pages, or none yet. */
async function state(page: Page): Promise<string | null> {
  return main(page)
    .getAttribute('data-state', { timeout: 1_000 })
    .catch(() => null)
}

/** Runs in every page, before anything of its own. */
function tellStates(blockStorage: boolean): void {
  if (blockStorage) {
    Object.defineProperty(window, 'localStorage', {
      get: () => {
        throw new DOMException('storage is blocked', 'SecurityError')
      },
    })
  }
  const says = (window as unknown as { payonceSays: (state: string) => void }).payonceSays
  let last = ''
  new MutationObserver(() => {
    const state = document.querySelector('main')?.getAttribute('data-state') ?? ''
    if (state === last) return
    last = state
    says(state)
  }).observe(document, { attributes: true, attributeFilter: ['data-state'], subtree: true, childList: true })
}
