// A slow line between browser and shop: a forward proxy that passes pages, scripts and program on in pieces. The browser sees
// the shop's own address; nothing of what passes is changed, except that pages travel uncompressed, so that half of one can be read.

import { once } from 'node:events'
import { createServer, request as send, type IncomingHttpHeaders, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** How long each part of a checkout page takes on the line, in milliseconds. */
export interface Pace {
  page: number
  style: number
  script: number
  program: number
}

const pieces = 8

export class SlowLine {
  /** The headers of every POST that passed, by its path. */
  readonly posts: { path: string; headers: IncomingHttpHeaders }[] = []
  readonly #server: Server
  #pace: Pace = { page: 0, style: 0, script: 0, program: 0 }
  #programHasPassed = (): void => undefined

  private constructor() {
    this.#server = createServer((request, response) => {
      this.#pass(request, response).catch(() => response.destroy())
    })
  }

  static async open(): Promise<SlowLine> {
    const line = new SlowLine()
    line.#server.listen(0, '127.0.0.1')
    await once(line.#server, 'listening')
    return line
  }

  /** What a browser context takes as its proxy; addresses of this machine go through it, too. */
  get proxy(): { server: string; bypass: string } {
    return { server: `http://127.0.0.1:${this.port}`, bypass: '<-loopback>' }
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Sets the pace of the next load. The answer is kept when the last byte of the browser program has been passed on. */
  setPace(pace: Pace): { programPassed: Promise<void> } {
    this.#pace = pace
    const programPassed = new Promise<void>((resolve) => {
      this.#programHasPassed = resolve
    })
    return { programPassed }
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const address = new URL(request.url ?? '')
    if (request.method === 'POST') this.posts.push({ path: address.pathname, headers: request.headers })
    const ms = request.method === 'GET' ? this.#duration(address.pathname) : 0
    const headers = { ...request.headers }
    delete headers['proxy-connection']
    if (ms > 0 && address.pathname.startsWith('/checkout/')) headers['accept-encoding'] = 'identity'
    const onward = send(address, { method: request.method, headers })
    const gone = new AbortController()
    // When the browser hangs up, the shop's side hears it, too.
    response.once('close', () => {
      gone.abort()
      onward.destroy()
    })
    request.pipe(onward)
    const [answer] = (await once(onward, 'response')) as [IncomingMessage]
    response.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
    if (ms === 0) {
      answer.pipe(response)
      return
    }
    const body = Buffer.concat((await answer.toArray()) as Buffer[])
    const size = Math.ceil(body.length / pieces)
    response.flushHeaders()
    for (let from = 0; from < body.length; from += size) {
      await sleep(ms / pieces, undefined, { signal: gone.signal })
      response.write(body.subarray(from, from + size))
    }
    response.end()
    if (address.pathname.endsWith('.wasm')) this.#programHasPassed()
  }

  #duration(path: string): number {
    if (/^\/checkout\/[^/]+$/.test(path)) return this.#pace.page
    if (path.endsWith('.css')) return this.#pace.style
    if (path.endsWith('.js')) return this.#pace.script
    return path.endsWith('.wasm') ? this.#pace.program : 0
  }
}
