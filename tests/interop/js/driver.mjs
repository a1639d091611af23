// Plays scenarios with the published JavaScript client against one server and tells of each, in one line of
// JSON, how it went: node driver.mjs GROUP, with the server's URL in VERCEL_WORKFLOW_SERVER_URL.
import { createWorld } from '@workflow/world-vercel';
import * as calm from './scenarios/calm.mjs';
import * as reads from './scenarios/reads.mjs';
import * as refusals from './scenarios/refusals.mjs';
import * as streams from './scenarios/streams.mjs';
import * as troubled from './scenarios/troubled.mjs';

const { throttle, reset, cut, refuse } = troubled;
const GROUPS = { calm: { ...calm, ...refusals, ...reads, ...streams }, throttle, reset, cut, refuse };

// Throttled writes are announced on the console, which belongs to the report.
console.warn = () => {};

const world = createWorld();
for (const [scenario, play] of Object.entries(GROUPS[process.argv[2]])) {
  let error = null;
  try {
    await play(world);
  } catch (thrown) {
    error = thrown?.stack ?? String(thrown);
    if (thrown?.cause) error += `\ncaused by ${thrown.cause.stack ?? thrown.cause}`;
  }
  process.stdout.write(`${JSON.stringify({ scenario, error })}\n`);
}
// Pooled connections would keep the process for as long as the server keeps them.
process.exit(0);
