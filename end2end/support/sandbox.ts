// Talks to the sandbox provider: asks what was really charged, and tells it to misbehave.

/** A charge that was really made. */
export interface Charge {
  id: string
  amount: number
  currency: string
  payment_intent: string
  metadata: Record<string, string>
  idempotency_key: string | null
  created: number
  status: string
  payment_method: string
  refunded: number
}

/** A refund that was really made. */
export interface Refund {
  id: string
  charge: string
  amount: number
  currency: string
  payment_intent: string
  status: string
}

export interface Ledger {
  charges: Charge[]
  refunds: Refund[]
}

/** A request that reached the provider. */
export interface Call {
  method: string
  path: string
  idempotency_key: string | null
  status: number | null
}

/** The provider's object for one order. */
export interface PaymentIntent {
  id: string
  amount: number
  currency: string
  status: string
  metadata: Record<string, string>
}

/** Which requests misbehave. */
export interface Match {
  path: 'confirm' | 'create' | 'retrieve' | 'events' | 'list' | 'any'
  order?: string
  payment_intent?: string
}

/** How they misbehave. */
export interface Fault {
  kind:
    | 'delay_before'
    | 'delay_after'
    | 'charge_then_drop'
    | 'charge_then_500'
    | 'error_500'
    | 'refuse'
    | 'conflict_409'
    | 'drop_before'
    | 'decline'
    | 'status'
  ms?: number
  /** Whether the provider remembers the faulty answer under its key. */
  remember?: boolean
  /** For `decline`. */
  code?: string
  /** For `status`. */
  status?: number
  /** For `status`: seconds. */
  retry_after?: number
}

const secretKey = 'sk_test_payonce'

export class Sandbox {
  readonly url: string

  constructor(url: string) {
    this.url = url
  }

  /** Everything that was really charged and refunded, of one order or of all. */
  async ledger(order?: { reference: string }): Promise<Ledger> {
    const ledger = await this.#json<Ledger>('/_sandbox/ledger')
    if (order === undefined) return ledger
    const charges = ledger.charges.filter((charge) => charge.metadata['reference'] === order.reference)
    const ids = new Set(charges.map((charge) => charge.id))
    return { charges, refunds: ledger.refunds.filter((refund) => ids.has(refund.charge)) }
  }

  /** The provider's payment intent of the order. */
  async paymentIntent(order: { reference: string }): Promise<PaymentIntent> {
    const list = await this.#json<{ data: PaymentIntent[] }>('/v1/payment_intents?limit=100')
    const found = list.data.find((intent) => intent.metadata['reference'] === order.reference)
    if (found === undefined) throw new Error(`the provider knows no payment intent of ${order.reference}`)
    return found
  }

  /** The calls that asked to confirm the order's payment intent. */
  async confirmCalls(order: { reference: string }): Promise<Call[]> {
    const { id } = await this.paymentIntent(order)
    const { calls } = await this.#json<{ calls: Call[] }>(`/_sandbox/calls?call=confirm&payment_intent=${id}`)
    return calls
  }

  /** The bank stops waiting for the customer. */
  async expireBankStep(order: { reference: string }): Promise<void> {
    const { id } = await this.paymentIntent(order)
    const response = await fetch(`${this.url}/_sandbox/payment_intents/${id}/expire`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    if (!response.ok) throw new Error(`the bank still waits: ${response.status} ${await response.text()}`)
  }

  /** Makes the next `next` matching requests misbehave. */
  async fault(match: Match, fault: Fault, next = 1): Promise<void> {
    const response = await fetch(`${this.url}/_sandbox/faults`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ match, fault, next }),
    })
    if (!response.ok) throw new Error(`the sandbox refused the fault: ${response.status} ${await response.text()}`)
  }

  /** Tells nothing of what it did: neither of a payment intent, nor by its lists, which the shop reads once a minute. */
  async silent(): Promise<void> {
    for (const path of ['retrieve', 'events', 'list'] as const) await this.fault({ path }, { kind: 'error_500' }, 100_000)
  }

  /** Ends all misbehaviour. */
  async clearFaults(): Promise<void> {
    const response = await fetch(`${this.url}/_sandbox/faults`, { method: 'DELETE' })
    if (!response.ok) throw new Error(`the sandbox kept its faults: ${response.status}`)
  }

  async #json<T>(path: string): Promise<T> {
    const response = await fetch(this.url + path, { headers: { authorization: `Bearer ${secretKey}` } })
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
    return (await response.json()) as T
  }
}
