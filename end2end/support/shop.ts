// The whole product on ports of its own: shop, sandbox provider and a private database cluster in a temporary folder.

import { mkdtempSync, chmodSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { Running, freePort, siteRoot } from './process.ts'
import { Sandbox } from './sandbox.ts'

/** Short times, so that a test of waiting does not wait long itself. */
const shortTimes = { PAYONCE_PROVIDER_TIMEOUT_MS: '3000', PAYONCE_PAY_WAIT_MS: '6000', PAYONCE_UNKNOWN_DEADLINE_MS: '15000' }

/** One server with everything it needs. */
export class Shop {
  readonly url: string
  readonly sandbox: Sandbox
  readonly #dataDir: string
  readonly #settings: Record<string, string>
  #running: Running | undefined

  private constructor(port: number, sandboxPort: number, settings: Record<string, string>) {
    this.url = `http://127.0.0.1:${port}`
    this.sandbox = new Sandbox(`http://127.0.0.1:${sandboxPort}`)
    this.#dataDir = temporaryFolder()
    this.#settings = {
      ...shortTimes,
      PAYONCE_ADDR: `127.0.0.1:${port}`,
      PAYONCE_SANDBOX_ADDR: `127.0.0.1:${sandboxPort}`,
      PAYONCE_SITE_ROOT: siteRoot,
      ...settings,
    }
  }

  /** `settings` are added to what every shop has. */
  static async start(settings: Record<string, string> = {}): Promise<Shop> {
    const shop = new Shop(await freePort(), await freePort(), settings)
    await shop.#launch()
    return shop
  }

  /** Ends the server in an orderly way and starts it again on the same data, as a deployment does. Answers whether it ended in time. */
  async restart(): Promise<boolean> {
    const obeyed = (await this.#running?.stop()) ?? true
    await this.#launch()
    return obeyed
  }

  /** Kills the server as a power cut would and starts it again on the same data. */
  async crashAndRestart(): Promise<void> {
    await this.#running?.kill()
    await this.#launch()
  }

  /** Ends everything and removes the data. */
  async stop(): Promise<void> {
    await this.#running?.stop()
    rmSync(this.#dataDir, { recursive: true, force: true })
  }

  /** The server's log. */
  get log(): string {
    return this.#running?.output ?? ''
  }

  async #launch(): Promise<void> {
    this.#running = new Running('serve', this.#settings, this.#dataDir)
    await this.#running.ready(`${this.url}/readyz`)
  }
}

/** Several replicas on one database and one provider, each a process of its own. */
export class Replicas {
  readonly urls: string[] = []
  readonly sandbox: Sandbox
  readonly #dataDir = temporaryFolder()
  readonly #processes: Running[] = []

  private constructor(sandboxUrl: string) {
    this.sandbox = new Sandbox(sandboxUrl)
  }

  static async start(count: number): Promise<Replicas> {
    const sandboxAddress = `127.0.0.1:${await freePort()}`
    const replicas = new Replicas(`http://${sandboxAddress}`)
    try {
      const postgres = replicas.#spawn('postgres', {})
      const databaseUrl = await postgres.firstLine(/postgres(?:ql)?:\/\/\S+/)
      await replicas.#spawn('sandbox', { PAYONCE_SANDBOX_ADDR: sandboxAddress }).ready(
        `http://${sandboxAddress}/_sandbox/ledger`,
      )
      for (let n = 0; n < count; n += 1) {
        const address = `127.0.0.1:${await freePort()}`
        const settings = {
          ...shortTimes,
          DATABASE_URL: databaseUrl,
          PAYONCE_ADDR: address,
          PAYONCE_PROVIDER_URL: replicas.sandbox.url,
          PAYONCE_SITE_ROOT: siteRoot,
        }
        await replicas.#spawn('serve', settings).ready(`http://${address}/readyz`)
        replicas.urls.push(`http://${address}`)
      }
      return replicas
    } catch (error) {
      await replicas.stop()
      throw error
    }
  }

  async stop(): Promise<void> {
    // The servers first, the database last.
    for (const running of [...this.#processes].reverse()) await running.stop()
    rmSync(this.#dataDir, { recursive: true, force: true })
  }

  #spawn(command: string, settings: Record<string, string>): Running {
    const running = new Running(command, settings, this.#dataDir)
    this.#processes.push(running)
    return running
  }
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-e2e-'))
  // Started as root, the database runs as another user, who must be able to reach its own folder.
  chmodSync(folder, 0o755)
  return folder
}
