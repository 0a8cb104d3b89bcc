// Starts the processes under test on free ports of their own, and ends exactly those.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const root = resolve(here, '..', '..')

/** The binary under test. */
export const binary = resolve(process.env['PAYONCE_BIN'] ?? join(root, 'target', 'release', 'payonce'))
/** The built browser files. */
export const siteRoot = resolve(process.env['PAYONCE_SITE_ROOT'] ?? join(root, 'target', 'site'))

/** How long a process may take to become ready; the first start lays out a database cluster. */
const readyWithinMs = 60_000
/** How long a process may take to end after SIGTERM. */
const stoppedWithinMs = 10_000

/** A TCP port that is free at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the system gave no port')
  server.close()
  await once(server, 'close')
  return address.port
}

/** One process of the binary under test. */
export class Running {
  readonly child: ChildProcess
  #output = ''
  readonly #dataDir: string
  readonly #killOnExit: () => void

  constructor(command: string, settings: Record<string, string>, dataDir: string) {
    if (!existsSync(binary)) throw new Error(`${binary} is not there; \`cargo xtask build\` makes it`)
    this.#dataDir = dataDir
    // Settings of the person who runs the tests must not leak into the process under test.
    const inherited = Object.entries(process.env).filter(
      ([name]) => !name.startsWith('PAYONCE_') && name !== 'DATABASE_URL',
    )
    // A server must not outlive the tests, however they end: it stops when its standard input closes.
    this.child = spawn(binary, [command, '--until-stdin-closes'], {
      env: { ...Object.fromEntries(inherited), ...settings, PAYONCE_DATA_DIR: dataDir },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    this.child.stdout?.on('data', (chunk: Buffer) => this.#keep(chunk))
    this.child.stderr?.on('data', (chunk: Buffer) => this.#keep(chunk))
    this.#killOnExit = () => this.child.kill('SIGKILL')
    process.once('exit', this.#killOnExit)
  }

  /** The last lines the process wrote. */
  get output(): string {
    return this.#output
  }

  get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null
  }

  /** Waits until `url` answers 2xx. */
  async ready(url: string): Promise<void> {
    await this.#until(`answer ${url}`, async () => {
      try {
        return (await fetch(url)).ok
      } catch {
        return false
      }
    })
  }

  /** Waits for the first line on standard output, and gives it. */
  async firstLine(pattern: RegExp): Promise<string> {
    let found = ''
    await this.#until(`print ${String(pattern)}`, async () => {
      found = pattern.exec(this.#output)?.[0] ?? ''
      return found !== ''
    })
    return found
  }

  /** Ends the process in an orderly way; by force if it does not obey. Answers whether it obeyed. */
  async stop(): Promise<boolean> {
    process.removeListener('exit', this.#killOnExit)
    if (this.hasEnded) return true
    const ended = once(this.child, 'exit')
    this.child.kill('SIGTERM')
    const obeyed = await Promise.race([ended.then(() => true), later(stoppedWithinMs).then(() => false)])
    if (!obeyed) {
      await this.kill()
      endCluster(this.#dataDir)
    }
    return obeyed
  }

  /** Ends the process at once. The database cluster that it started lives on, for the next start to deal with. */
  async kill(): Promise<void> {
    process.removeListener('exit', this.#killOnExit)
    if (!this.hasEnded) {
      const ended = once(this.child, 'exit')
      this.child.kill('SIGKILL')
      await ended
    }
  }

  #keep(chunk: Buffer): void {
    this.#output = (this.#output + chunk.toString()).slice(-20_000)
  }

  async #until(what: string, check: () => Promise<boolean>): Promise<void> {
    const deadline = Date.now() + readyWithinMs
    while (Date.now() < deadline) {
      if (await check()) return
      if (this.hasEnded) throw new Error(`the process ended before it could ${what}:\n${this.#output}`)
      await later(50)
    }
    throw new Error(`the process did not ${what} within ${readyWithinMs} ms:\n${this.#output}`)
  }
}

/** Ends the database cluster that a killed process has left behind. */
function endCluster(dataDir: string): void {
  const file = join(dataDir, 'postgres', 'cluster', 'postmaster.pid')
  if (!existsSync(file)) return
  try {
    process.kill(Number.parseInt(readFileSync(file, 'utf8').split('\n')[0] ?? '', 10), 'SIGINT')
  } catch {
    // It has ended already.
  }
}

function later(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}
