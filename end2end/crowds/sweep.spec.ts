// Pay is pressed at every moment of the page's loading: while its text arrives, while the program is on its way, while it comes to
// life, and after. Each press is worth exactly one charge, and every customer reads "paid".
//
// The line is slow in a way that the seed decides. `LOADS` is the number of loads for each kind of press.

import type { Browser, CDPSession, Page, TestInfo } from '@playwright/test'

import { expectPaidOnce } from '../support/books.ts'
import { main, payButton, type Order } from '../support/checkout.ts'
import { aim, phases, press, presses, watchLoads, type Loads, type Phase, type Press } from '../support/early_press.ts'
import { inLanes, setting } from '../support/lanes.ts'
import { at } from '../support/moments.ts'
import { Seeded } from '../support/seeded.ts'
import { SlowLine, type Pace } from '../support/slow_line.ts'
import type { Sandbox } from '../support/sandbox.ts'
import { expect, test } from '../support/test.ts'

const loads = setting('LOADS', 40)
const seed = setting('SEED', 1)
/** Customers at once. */
const lanes = 3
/** How many loads one browser context makes; each with an empty cache, and an order of its own. */
const loadsPerContext = 10

test.use({ trace: 'off' })

for (const how of presses) {
  test(`b02, p39: ${how} at ${loads} moments of the loading: each is one charge, none is lost`, async ({
    browser,
    sandbox,
    newOrder,
  }, testInfo) => {
    test.setTimeout(60_000 + loads * 5_000)
    const seen: Seen = { met: new Map(), tooEarly: 0, plain: 0, waited: 0 }
    const before = (await sandbox.ledger()).charges.length
    await inLanes(lanes, 0, Math.ceil(loads / loadsPerContext), async (nth) => {
      await visit(browser, async (customer) => {
        for (let n = nth * loadsPerContext; n < Math.min((nth + 1) * loadsPerContext, loads); n += 1) {
          await load(customer, sandbox, await newOrder(), how, n, seen)
        }
      })
    })
    expect((await sandbox.ledger()).charges.length - before, 'charges').toBe(loads)
    tell(testInfo, how, seen)
    // The sweep has met what it is for. The moment of coming to life is too short to be promised.
    for (const phase of phases.filter((phase) => phase !== 'coming to life')) {
      expect(seen.met.get(phase) ?? 0, `loads whose press met "${phase}"`).toBeGreaterThan(0)
    }
  })
}

/** What the presses of one test met. */
interface Seen {
  met: Map<Phase, number>
  /** Presses on a page that was not painted yet; browsers drop these. */
  tooEarly: number
  /** Loads that paid by the plain form. */
  plain: number
  /** Those of them whose press had waited for the program, and it came too late. */
  waited: number
}

/** One browser context on a line of its own. */
interface Customer {
  line: SlowLine
  page: Page
  session: CDPSession
  pageLoads: Loads
}

async function visit(browser: Browser, work: (customer: Customer) => Promise<void>): Promise<void> {
  const line = await SlowLine.open()
  const context = await browser.newContext({ proxy: line.proxy })
  try {
    const page = await context.newPage()
    await work({ line, page, session: await context.newCDPSession(page), pageLoads: await watchLoads(page) })
  } finally {
    await context.close()
    await line.close()
  }
}

interface Plan {
  pace: Pace
  /** How many times slower the processor is. */
  slowness: number
  /** Whether the moment counts from the program's last byte, or from when the form stands there. */
  justThere: boolean
  moment: number
  apartMs: number
}

/** One load by seed: how slow its line and its processor are, and when Pay is pressed. */
function plan(n: number): Plan {
  const chance = new Seeded(seed * 1000 + n)
  const page = chance.between(160, 640)
  const rest = chance.between(100, 500)
  const pace = { page, style: chance.between(10, 40), script: chance.between(20, 200), program: page + rest }
  // Every fifth press waits for the program's last byte, since that moment is short; the others are spread evenly over what is
  // left of the loading when the form stands there, and a little more.
  const justThere = n % 5 === 4
  const moment = justThere ? chance.between(0, 20) : (n / loads) * (page / 4 + rest + 200)
  return { pace, slowness: justThere ? 6 : chance.one([1, 1, 3]), justThere, moment, apartMs: chance.between(20, 200) }
}

async function load(customer: Customer, sandbox: Sandbox, order: Order, how: Press, n: number, seen: Seen): Promise<void> {
  const { line, page, session, pageLoads } = customer
  const { pace, slowness, justThere, moment, apartMs } = plan(n)
  try {
    await session.send('Network.clearBrowserCache')
    await session.send('Emulation.setCPUThrottlingRate', { rate: slowness })
    const { programPassed } = line.setPace(pace)
    const stands = pageLoads.nextStands()
    await page.goto(order.url, { waitUntil: 'commit' })
    await stands
    let since = performance.now()
    let spot = await aim(page, how)
    if (justThere) await programPassed.then(() => (since = performance.now()))
    await at(moment, since)
    await press(session, how, spot, apartMs)
    await expect(async () => {
      if (await isMet(pageLoads)) return
      seen.tooEarly += 1
      spot = await aim(page, how)
      await press(session, how, spot, apartMs)
      expect(await isMet(pageLoads), 'the press reaches the page').toBe(true)
    }).toPass({ intervals: [5], timeout: 5_000 })
    const [first] = pageLoads.met
    if (first !== undefined) seen.met.set(first, (seen.met.get(first) ?? 0) + 1)
    await toTheEnd(page, first, seen)
    await expectPaidOnce(page, sandbox, order)
  } catch (error) {
    const told = JSON.stringify({ seed, n, how, ...plan(n), order: order.reference, met: pageLoads.met, at: page.url() })
    throw new Error(`${told}\n${error instanceof Error ? error.message : String(error)}`)
  }
}

/** What the page tells arrives a little later than what the browser did. */
async function isMet(pageLoads: Loads): Promise<boolean> {
  return expect
    .poll(() => pageLoads.met.length, { intervals: [5], timeout: 250 })
    .toBeGreaterThan(0)
    .then(() => true, () => false)
}

/** A press goes by the program or by the plain form, and that one asks once more. */
async function toTheEnd(page: Page, first: Phase | undefined, seen: Seen): Promise<void> {
  const reached = async (): Promise<string | null> =>
    /\/review\?/.test(page.url()) ? 'review' : main(page).getAttribute('data-state')
  await expect.poll(reached, { intervals: [20], timeout: 20_000 }).toMatch(/^(review|paid|already_paid)$/)
  if (!/\/review\?/.test(page.url())) return
  seen.plain += 1
  if (first !== 'page arriving') seen.waited += 1
  // The second click of two may have landed on this page's button, and the page be leaving.
  await payButton(page).click({ timeout: 3_000 }).catch(() => undefined)
}

function tell(testInfo: TestInfo, how: Press, seen: Seen): void {
  const met = phases.map((phase) => `${seen.met.get(phase) ?? 0} ${phase}`).join(', ')
  const text =
    `${how}: ${loads} loads; met: ${met}; ${seen.plain} by the plain form, ${seen.waited} of them after waiting; ` +
    `${seen.tooEarly} presses before the first paint`
  testInfo.annotations.push({ type: 'sweep', description: text })
  console.log(text)
}
