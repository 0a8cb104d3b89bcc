// Whole sessions of impatient people by seed: they press, reload, go back, lose the network, close the browser and come back, while
// the provider misbehaves. Then things settle, and every page agrees with what was really charged: once, or not at all.
//
// `SEED` is the first session's seed and `SESSIONS` their number; `SEED=… SESSIONS=1` plays one again.

import { inLanes, setting } from '../support/lanes.ts'
import { Session, type End } from '../support/session.ts'
import { sessionPlan } from '../support/session_plan.ts'
import { test } from '../support/test.ts'

const seed = setting('SEED', 1)
const sessions = setting('SESSIONS', 40)
/** Customers at once in one browser. */
const lanes = 5
/** So that workers can share them. */
const sessionsPerTest = 20

test.use({ trace: 'off' })

for (let first = seed; first < seed + sessions; first += sessionsPerTest) {
  const count = Math.min(sessionsPerTest, seed + sessions - first)
  test(`impatient people, seeds ${first} to ${first + count - 1}: each is charged once or not at all, and told so`, async ({
    browser,
    request,
    shop,
    sandbox,
    newOrder,
  }) => {
    test.setTimeout(120_000 + count * 20_000)
    const ends: Record<End, number> = { paid: 0, failed: 0, ready: 0, closed: 0 }
    await inLanes(lanes, first, count, async (n) => {
      const order = await newOrder()
      ends[await Session.play({ browser, request, shopUrl: shop.url, sandbox }, order, sessionPlan(n))] += 1
    })
    console.log(`seeds ${first} to ${first + count - 1}: ${JSON.stringify(ends)}`)
  })
}
