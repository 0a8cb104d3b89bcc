// Finds the browsers and says how they are started. Any Chromium, Chrome or Firefox on the machine will do; nothing is downloaded here.

import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Quiet and reproducible: no GPU, no QUIC, and nothing of the browser's own traffic. */
export const launchFlags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

const chromiums = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome', 'chrome']
const firefoxes = ['firefox-esr', 'firefox']

/** `CHROMIUM_PATH`, else the first such browser on the PATH, else `undefined`: Playwright's own download. */
export function findChromium(): string | undefined {
  return process.env['CHROMIUM_PATH'] || onPath(chromiums)
}

/** `FIREFOX_PATH`, else the first such browser on the PATH. Fails without one. */
export function findFirefox(): string {
  const found = process.env['FIREFOX_PATH'] || onPath(firefoxes)
  if (found === undefined) throw new Error('there is no Firefox on the PATH; FIREFOX_PATH names one (Debian: firefox-esr)')
  return found
}

function onPath(names: readonly string[]): string | undefined {
  for (const name of names) {
    for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
      const candidate = join(folder, name)
      try {
        accessSync(candidate, constants.X_OK)
        return candidate
      } catch {
        // Not here; the next folder may have it.
      }
    }
  }
  return undefined
}

/** Launch options for a browser that a test starts itself, e.g. one with a profile on disk. */
export function launchOptions(extra: string[] = []): { args: string[]; executablePath?: string } {
  const executablePath = findChromium()
  return { args: [...launchFlags, ...extra], ...(executablePath ? { executablePath } : {}) }
}
