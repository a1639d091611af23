// What was written, read back.
import assert from 'node:assert/strict';
import {
  beginRun, bytes, DEPLOYMENT, event, fails, newRunId, pair, slotOf, SPEC_VERSION, stepCompleted, stepCreated,
  stepStarted, textOf, WORKFLOW,
} from '../stage.mjs';

// A run with 12 rows: two of its own and one pair for each of five steps.
async function fannedOut(world, data) {
  const runId = await beginRun(world, data);
  await world.events.createBatch(runId, ['step_a', 'step_b', 'step_c', 'step_d', 'step_e'].flatMap(pair));
  return runId;
}

async function pages(list) {
  const all = [];
  let page = { hasMore: true, cursor: undefined };
  while (page.hasMore) {
    page = await list(page.cursor);
    all.push(page.data);
  }
  return all;
}

export async function a_log_in_pages(world) {
  const runId = await fannedOut(world);
  const list = (sortOrder) => (cursor) =>
    world.events.list({ runId, pagination: { limit: 5, sortOrder, cursor } });
  const forwards = await pages(list('asc'));
  assert.deepEqual(forwards.map((page) => page.map(slotOf)), [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12]]);
  assert.equal(textOf(forwards[0][2].eventData.input), 'in step_a');
  const backwards = await pages(list('desc'));
  assert.deepEqual(backwards.flat().map(slotOf), [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
  // From an event on, as the runtime names it, and from where the last page ended.
  const behind = await world.events.list({ runId, pagination: { cursor: `eid:${forwards[0][3].eventId}` } });
  assert.deepEqual(behind.data.map(slotOf), [5, 6, 7, 8, 9, 10, 11, 12]);
  const nothing = await world.events.list({ runId, pagination: { cursor: behind.cursor } });
  assert.deepEqual([nothing.data, nothing.hasMore], [[], false]);
}

export async function a_log_without_payloads(world) {
  const runId = await fannedOut(world);
  const { data } = await world.events.list({ runId, resolveData: 'none' });
  assert.equal(data.length, 12);
  assert.equal(data[2].eventData.stepName, 'work');
  assert.equal(data[2].eventData.input, undefined);
  const single = await world.events.get(runId, data[2].eventId);
  assert.deepEqual([single.eventType, single.correlationId], ['step_created', 'step_a']);
  assert.equal(textOf(single.eventData.input), 'in step_a');
  const bare = await world.events.get(runId, data[2].eventId, { resolveData: 'none' });
  assert.equal(bare.eventData.input, undefined);
}

export async function a_log_by_correlation_id(world) {
  const runId = await fannedOut(world);
  await world.events.create(runId, stepCompleted('step_b'));
  const page = await world.events.listByCorrelationId({ correlationId: 'step_b', runId });
  assert.deepEqual(page.data.map(slotOf), [5, 6, 13]);
  const limited = (cursor) =>
    world.events.listByCorrelationId({ correlationId: 'step_b', runId, pagination: { limit: 2, cursor } });
  assert.deepEqual((await pages(limited)).map((each) => each.map(slotOf)), [[5, 6], [13]]);
}

export async function runs_one_by_one_and_in_lists(world) {
  const workflowName = `workflow//interop//${newRunId()}`;
  const runIds = [];
  for (let count = 0; count < 5; count += 1) runIds.push(await beginRun(world, { workflowName }));
  await world.events.create(runIds[1], event('run_completed', null, { output: bytes('done') }));

  const run = await world.runs.get(runIds[1]);
  assert.deepEqual([run.runId, run.status, textOf(run.output)], [runIds[1], 'completed', 'done']);
  assert.ok(run.completedAt instanceof Date && run.startedAt instanceof Date);
  const bare = await world.runs.get(runIds[1], { resolveData: 'none' });
  assert.deepEqual([bare.status, bare.input, bare.output], ['completed', undefined, undefined]);
  const many = await world.runs.getMany([runIds[0], newRunId(), runIds[1]]);
  assert.deepEqual(many.map((each) => each?.status ?? null), ['running', null, 'completed']);

  const list = (sortOrder) => (cursor) =>
    world.runs.list({ workflowName, pagination: { limit: 2, sortOrder, cursor } });
  const forwards = await pages(list('asc'));
  assert.deepEqual(forwards.map((page) => page.length), [2, 2, 1]);
  assert.deepEqual(forwards.flat().map((each) => each.runId), runIds);
  assert.deepEqual((await pages(list('desc'))).flat().map((each) => each.runId), runIds.toReversed());
  const completed = await world.runs.list({ workflowName, status: 'completed' });
  assert.deepEqual(completed.data.map((each) => each.runId), [runIds[1]]);
  assert.deepEqual([completed.hasMore, textOf(completed.data[0].output)], [false, 'done']);
  const lazy = await world.runs.list({ workflowName, resolveData: 'none' });
  assert.equal(lazy.data.length, 5);
  assert.ok(lazy.data.every((each) => each.input === undefined));
}

export async function steps_one_by_one_and_in_lists(world) {
  const runId = await fannedOut(world);
  await world.events.create(runId, stepCompleted('step_c'));
  const step = await world.steps.get(runId, 'step_c');
  assert.deepEqual([step.stepId, step.stepName, step.status, step.attempt], ['step_c', 'work', 'completed', 1]);
  assert.deepEqual([textOf(step.input), textOf(step.output)], ['in step_c', 'out step_c']);
  const bare = await world.steps.get(runId, 'step_c', { resolveData: 'none' });
  assert.deepEqual([bare.status, bare.input, bare.output], ['completed', undefined, undefined]);

  const list = (cursor) => world.steps.list({ runId, pagination: { limit: 2, sortOrder: 'asc', cursor } });
  const listed = await pages(list);
  assert.deepEqual(listed.map((page) => page.length), [2, 2, 1]);
  const names = ['step_a', 'step_b', 'step_c', 'step_d', 'step_e'];
  assert.deepEqual(listed.flat().map((each) => each.stepId), names);
  assert.equal(textOf(listed[1][0].output), 'out step_c');
  const lazy = await world.steps.list({ runId, resolveData: 'none', pagination: { sortOrder: 'desc' } });
  assert.deepEqual(lazy.data.map((each) => each.stepId), names.toReversed());
  assert.ok(lazy.data.every((each) => each.input === undefined));
}

export async function hooks_one_by_one_and_in_lists(world) {
  const runId = await beginRun(world);
  const token = `a token/${runId}?&=+#%`;
  const metadata = bytes('meta');
  await world.events.create(runId, event('hook_created', `hook_a ${runId}`, { token, metadata }));
  await world.events.create(runId, event('hook_created', `hook_b ${runId}`, { token: `b ${runId}` }));
  for (const hook of [await world.hooks.getByToken(token), await world.hooks.get(`hook_a ${runId}`)]) {
    assert.deepEqual([hook.runId, hook.hookId, hook.token], [runId, `hook_a ${runId}`, token]);
    assert.deepEqual([textOf(hook.metadata), hook.isWebhook], ['meta', false]);
    assert.ok(hook.createdAt instanceof Date);
  }
  const { resumeCapabilities, resumeContext } = await world.hooks.getByToken(token);
  assert.equal(typeof resumeCapabilities.hookResumeDedupVersion, 'number');
  assert.deepEqual(resumeContext, {
    deploymentId: DEPLOYMENT, workflowName: WORKFLOW, runSpecVersion: SPEC_VERSION,
  });
  const list = (cursor) => world.hooks.list({ runId, pagination: { limit: 1, sortOrder: 'asc', cursor } });
  const listed = await pages(list);
  assert.deepEqual(listed.flat().map((hook) => hook.hookId), [`hook_a ${runId}`, `hook_b ${runId}`]);
  await world.events.create(runId, event('run_completed', null, { output: bytes('out') }));
  assert.deepEqual((await world.hooks.list({ runId })).data, []);
  await fails(world.hooks.getByToken(token), 'HookNotFoundError');
}

export async function runs_cancelled_in_bulk(world) {
  const [pending, running, completed, cancelled] = [
    await beginRun(world, { start: false }),
    await beginRun(world),
    await beginRun(world),
    await beginRun(world),
  ];
  await world.events.create(completed, event('run_completed', null, { output: bytes('out') }));
  await world.events.create(cancelled, event('run_cancelled'));
  const unknown = newRunId();
  const runIds = [pending, unknown, completed, running, cancelled];
  const { summary, results } = await world.runs.cancelMany({ runIds, cancelReason: 'all of them' });
  assert.deepEqual(
    results.map(({ runId, outcome }) => [runId, outcome]),
    [
      [pending, 'cancelled'],
      [unknown, 'not_found'],
      [completed, 'not_cancellable'],
      [running, 'cancelled'],
      [cancelled, 'already_cancelled'],
    ]
  );
  assert.equal(results[2].status, 'completed');
  assert.deepEqual(summary, {
    requested: 5, cancelled: 2, alreadyCancelled: 1, notCancellable: 1, notFound: 1, failed: 0,
  });
  const { data } = await world.events.list({ runId: running });
  assert.deepEqual(
    [data.at(-1).eventType, data.at(-1).eventData.cancelReason],
    ['run_cancelled', 'all of them']
  );
  assert.equal((await world.runs.get(pending)).status, 'cancelled');
}

export async function waiting_for_the_end_of_a_run(world) {
  const runId = await beginRun(world);
  const waiting = world.runs.waitForTerminalStatus(runId, { timeoutMs: 20_000 });
  let settled = false;
  const settle = () => {
    settled = true;
  };
  waiting.then(settle, settle);
  await world.events.create(runId, stepCreated('step_a'));
  await world.events.create(runId, stepStarted('step_a'));
  assert.equal(settled, false, 'the wait ended before the run');
  await world.events.create(runId, event('run_failed', null, { error: bytes('boom') }));
  const run = await waiting;
  assert.deepEqual([run.runId, run.status, textOf(run.error)], [runId, 'failed', 'boom']);
  const ended = await world.runs.waitForTerminalStatus(runId, { timeoutMs: 20_000 });
  assert.equal(ended.status, 'failed');
  const patient = await beginRun(world);
  const still = await world.runs.waitForTerminalStatus(patient, { timeoutMs: 1 });
  assert.equal(still.status, 'running');
  await fails(world.runs.waitForTerminalStatus(newRunId(), { timeoutMs: 1 }), 'WorkflowRunNotFoundError');
}

export async function attributes_without_an_event_of_the_caller(world) {
  const runId = await beginRun(world, { attributes: { a: '1' } });
  const changes = [{ key: 'a', value: null }, { key: 'b', value: '2' }];
  const { attributes } = await world.runs.experimentalSetAttributes(runId, changes);
  assert.deepEqual(attributes, { b: '2' });
  const reserved = [{ key: '$c', value: '3' }];
  await fails(world.runs.experimentalSetAttributes(runId, reserved), 'WorkflowWorldError', { status: 400 });
  await world.runs.experimentalSetAttributes(runId, reserved, { allowReservedAttributes: true });
  assert.deepEqual((await world.runs.get(runId)).attributes, { b: '2', $c: '3' });
  await fails(world.runs.experimentalSetAttributes(newRunId(), changes), 'WorkflowRunNotFoundError');
}

export async function a_run_that_keeps_nothing_when_it_ends(world) {
  const attributes = { $retention: '0' };
  const runId = await beginRun(world, { attributes, allowReservedAttributes: true });
  await world.events.create(runId, stepCreated('step_a'));
  await world.streams.write(runId, 'gone', 'some');
  await world.events.create(runId, event('run_completed', null, { output: bytes('secret') }));
  const run = await world.runs.get(runId);
  assert.ok(run.expiredAt instanceof Date);
  assert.deepEqual([run.status, run.input, run.output], ['completed', undefined, undefined]);
  const { data } = await world.events.list({ runId });
  assert.deepEqual(data.map(slotOf), [1, 2, 3, 4]);
  assert.deepEqual([data[0].eventData.input, data[3].eventData.output], [undefined, undefined]);
  assert.equal((await world.steps.get(runId, 'step_a')).input, undefined);
  const expired = { runId, streamId: 'gone' };
  const error = await fails(world.streams.get(runId, 'gone'), 'StreamExpiredError', expired);
  assert.equal(error.expiredAt.getTime(), run.expiredAt.getTime());
  await fails(world.streams.getChunks(runId, 'gone'), 'StreamExpiredError', expired);
  await fails(world.streams.getInfo(runId, 'gone'), 'StreamExpiredError', expired);
}
