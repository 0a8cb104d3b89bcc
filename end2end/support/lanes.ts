// Many customers at once, a bounded number at a time.

/** Does `work` for each number from `first` on, `count` times, at most `lanes` at once. Every failure counts; none stops the others. */
export async function inLanes(
  lanes: number,
  first: number,
  count: number,
  work: (number: number) => Promise<void>,
): Promise<void> {
  const failures: string[] = []
  let next = first
  const lane = async (): Promise<void> => {
    while (next < first + count) {
      const number = next
      next += 1
      try {
        await work(number)
      } catch (error) {
        failures.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
      }
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  if (failures.length > 0) throw new Error(`${failures.length} of ${count} failed:\n\n${failures.join('\n\n')}`)
}

/** A whole number of the environment, e.g. `SEED`. */
export function setting(name: string, otherwise: number): number {
  const given = process.env[name]
  if (given === undefined || given === '') return otherwise
  if (!/^\d{1,9}$/.test(given)) throw new Error(`${name} is a whole number, not ${given}`)
  return Number(given)
}
