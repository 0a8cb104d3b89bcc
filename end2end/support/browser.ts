// Finds the browser and says how it is started. Any Chromium or Chrome on the machine will do; nothing is downloaded here.

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

const names = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome', 'chrome']

/** `CHROMIUM_PATH`, else the first browser on the PATH, else `undefined`: Playwright's own download. */
export function findChromium(): string | undefined {
  const given = process.env['CHROMIUM_PATH']
  if (given) return given
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
