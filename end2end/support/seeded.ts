// Chance that can be had again: the same seed gives the same numbers, on every machine.

export class Seeded {
  #state: number

  constructor(seed: number) {
    // Neighbouring seeds must not begin alike.
    this.#state = Math.imul(seed + 1, 0x9e3779b1) >>> 0
  }

  /** From 0 up to 1, without 1. */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  /** A whole number from `least` to `most`, both included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.fraction() * (most - least + 1))
  }

  /** Whether something of this probability happens. */
  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  /** One of the entries, each as often as its weight says. */
  weighted<T>(entries: readonly (readonly [weight: number, value: T])[]): T {
    let rest = this.fraction() * entries.reduce((sum, [weight]) => sum + weight, 0)
    for (const [weight, value] of entries) {
      rest -= weight
      if (rest < 0) return value
    }
    const last = entries.at(-1)
    if (last === undefined) throw new Error('there is nothing to choose from')
    return last[1]
  }

  one<T>(values: readonly T[]): T {
    return this.weighted(values.map((value) => [1, value] as const))
  }
}
