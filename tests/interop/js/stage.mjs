// What scenarios are made of.
import assert from 'node:assert/strict';
import { createRunId } from '@workflow/world-vercel';

export const SPEC_VERSION = 7;
export const DEPLOYMENT = 'dpl_interop';
export const WORKFLOW = 'workflow//interop//fan-out';

export const bytes = (text) => new TextEncoder().encode(`devl${text}`);
export const textOf = (data) => {
  assert.ok(data instanceof Uint8Array, `no bytes: ${data}`);
  return new TextDecoder().decode(data).replace(/^devl/, '');
};
export const newRunId = () => `wrun_${createRunId()}`;
export const slotOf = (event) => Number(event.eventId.slice('evnt_'.length));

export const event = (eventType, correlationId, eventData) => ({
  eventType,
  specVersion: SPEC_VERSION,
  ...(correlationId ? { correlationId } : {}),
  ...(eventData ? { eventData } : {}),
});
export const stepCreated = (step) =>
  event('step_created', step, { stepName: 'work', workflowName: WORKFLOW, input: bytes(`in ${step}`) });
export const stepStarted = (step) => event('step_started', step, { stepName: 'work' });
export const stepCompleted = (step) =>
  event('step_completed', step, { stepName: 'work', result: bytes(`out ${step}`) });
export const entry = (posted) => ({ event: posted, occurredAt: new Date() });
export const pair = (step) => [entry(stepCreated(step)), entry(stepStarted(step))];

export const creationData = (more = {}) => ({
  deploymentId: DEPLOYMENT,
  workflowName: WORKFLOW,
  input: bytes('input'),
  ...more,
});

// A run that has been created, and started unless told otherwise. A start that brings what a creation has is one
// request instead of two, and costs the client much less.
export async function beginRun(world, { start = true, specVersion = SPEC_VERSION, ...data } = {}) {
  const runId = newRunId();
  const type = start ? 'run_started' : 'run_created';
  await world.events.create(runId, { ...event(type, null, creationData(data)), specVersion });
  return runId;
}

// The whole log as [slot, type, correlation id]; dense from 1.
export async function logOf(world, runId) {
  const { data, hasMore } = await world.events.list({ runId });
  assert.equal(hasMore, false);
  assert.deepEqual(data.map(slotOf), data.map((_, index) => index + 1));
  return data.map(({ eventType, correlationId }) =>
    correlationId === undefined ? eventType : `${eventType} ${correlationId}`
  );
}

// Asserts that a call fails with an error of this name and these fields, and returns the error.
export async function fails(call, name, fields = {}) {
  let error;
  try {
    await call;
  } catch (thrown) {
    error = thrown;
  }
  assert.ok(error, `${name} was expected, and the call went well`);
  const seen = Object.fromEntries(Object.keys(fields).map((key) => [key, error[key]]));
  assert.deepEqual({ name: error.name, ...seen }, { name, ...fields }, error.stack);
  return error;
}

export const statuses = ({ results }) => results.map(({ status }) => status);
