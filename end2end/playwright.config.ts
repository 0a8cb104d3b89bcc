// How the browser tests run: real server, real sandbox provider, real Postgres, one real browser per worker.

import { defineConfig } from '@playwright/test'

import { launchOptions } from './support/browser.ts'

export default defineConfig({
  outputDir: './test-results',
  forbidOnly: true,
  fullyParallel: true,
  workers: 2,
  // A test that passes only the second time has found something.
  retries: 0,
  timeout: 60_000,
  globalTimeout: 20 * 60_000,
  expect: { timeout: 15_000 },
  reporter: [['list'], ['html', { open: 'never', outputFolder: 'playwright-report' }]],
  use: {
    actionTimeout: 10_000,
    navigationTimeout: 15_000,
    launchOptions: launchOptions(),
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    viewport: { width: 1280, height: 900 },
    trace: 'retain-on-failure',
  },
  projects: [
    { name: 'chromium', testDir: './tests' },
    { name: 'firefox', testDir: './firefox' },
    { name: 'crowds', testDir: './crowds' },
    { name: 'screenshots', testDir: './screenshots' },
  ],
})
