// Writes that a server refuses, and the errors that the client makes of it.
import assert from 'node:assert/strict';
import {
  beginRun, bytes, creationData, entry, event, fails, logOf, newRunId, pair, slotOf, statuses, stepCompleted,
  stepCreated, stepStarted, WORKFLOW,
} from '../stage.mjs';

const post = (world, runId, posted, params) => world.events.create(runId, posted, params);
const attributes = (changes) => event('attr_set', 'attr_x', { changes, writer: { type: 'workflow' } });

export async function what_is_there_already_is_a_conflict(world) {
  const runId = await beginRun(world);
  await fails(post(world, runId, event('run_created', null, creationData())), 'EntityConflictError');
  await post(world, runId, stepCreated('step_a'));
  await fails(post(world, runId, stepCreated('step_a')), 'EntityConflictError');
  const lazy = { stepName: 'work', workflowName: WORKFLOW, input: bytes('again') };
  await fails(post(world, runId, event('step_started', 'step_a', lazy)), 'EntityConflictError');
  await post(world, runId, stepCompleted('step_a'));
  for (const posted of [
    stepCompleted('step_a'),
    stepStarted('step_a'),
    event('step_failed', 'step_a', { error: bytes('x') }),
    event('step_retrying', 'step_a', { error: bytes('x') }),
  ]) {
    await fails(post(world, runId, posted), 'EntityConflictError');
  }
  const wait = event('wait_created', 'wait_a', { resumeAt: new Date() });
  await post(world, runId, wait);
  await fails(post(world, runId, wait), 'EntityConflictError');
  await post(world, runId, event('wait_completed', 'wait_a'));
  await fails(post(world, runId, event('wait_completed', 'wait_a')), 'EntityConflictError');
  assert.equal((await logOf(world, runId)).length, 6);
}

export async function a_run_that_has_ended(world) {
  const runId = await beginRun(world);
  await post(world, runId, stepCreated('step_a'));
  await post(world, runId, stepStarted('step_a'));
  await post(world, runId, event('run_completed', null, { output: bytes('out') }));
  await fails(post(world, runId, event('run_started')), 'RunExpiredError');
  await fails(post(world, runId, event('run_started'), { skipPreload: true }), 'RunExpiredError');
  await fails(post(world, runId, stepStarted('step_a')), 'RunExpiredError');
  for (const posted of [
    event('run_completed', null, { output: bytes('out') }),
    event('run_failed', null, { error: bytes('x') }),
    event('run_cancelled'),
    stepCreated('step_b'),
    event('wait_created', 'wait_a', { resumeAt: new Date() }),
    event('hook_created', 'hook_a', { token: `late ${runId}` }),
    attributes([{ key: 'a', value: 'b' }]),
  ]) {
    await fails(post(world, runId, posted), 'EntityConflictError');
  }
  // A step that was running may still tell how it went.
  assert.equal((await post(world, runId, stepCompleted('step_a'))).step.status, 'completed');
}

export async function a_step_that_has_to_wait(world) {
  const runId = await beginRun(world);
  await post(world, runId, stepCreated('step_a'));
  const retryAfter = new Date(Date.now() + 3_600_000);
  await post(world, runId, event('step_retrying', 'step_a', { error: bytes('busy'), retryAfter }));
  const error = await fails(post(world, runId, stepStarted('step_a')), 'TooEarlyError');
  assert.ok(error.retryAfter > 3000 && error.retryAfter <= 3600, `retryAfter is ${error.retryAfter}`);
}

export async function what_does_not_exist(world) {
  const unknown = newRunId();
  await fails(world.runs.get(unknown), 'WorkflowRunNotFoundError');
  await fails(post(world, unknown, event('run_started'), { skipPreload: true }), 'WorkflowWorldError', { status: 404 });
  await fails(post(world, unknown, stepCreated('step_a')), 'WorkflowWorldError', { status: 404 });
  await fails(world.events.list({ runId: unknown }), 'WorkflowWorldError', { status: 404 });
  await fails(world.events.createBatch(unknown, pair('step_a')), 'WorkflowWorldError', { status: 404 });
  const runId = await beginRun(world);
  await fails(post(world, runId, stepStarted('step_x')), 'WorkflowWorldError', { status: 404 });
  await fails(post(world, runId, stepCompleted('step_x')), 'WorkflowWorldError', { status: 404 });
  await fails(post(world, runId, event('wait_completed', 'wait_x')), 'WorkflowWorldError', { status: 404 });
  await fails(world.events.get(runId, 'evnt_00000000000000000000000099'), 'WorkflowWorldError', { status: 404 });
  await fails(world.steps.get(runId, 'step_x'), 'WorkflowWorldError', { status: 404 });
  await fails(world.hooks.get('hook_x'), 'WorkflowWorldError', { status: 404 });
  await fails(world.hooks.getByToken(`nobody ${runId}`), 'HookNotFoundError');
}

export async function hooks_that_are_gone_or_taken(world) {
  const runId = await beginRun(world);
  const token = `taken ${runId}`;
  const received = event('hook_received', 'hook_a', { token, payload: bytes('x') });
  await fails(post(world, runId, received), 'HookNotFoundError');
  await fails(post(world, runId, event('hook_disposed', 'hook_a')), 'HookNotFoundError');
  await post(world, runId, event('hook_created', 'hook_a', { token }));
  await fails(post(world, runId, event('hook_created', 'hook_a', { token })), 'EntityConflictError');

  const other = await beginRun(world);
  const taken = await post(world, other, event('hook_created', 'hook_b', { token }));
  assert.equal(taken.event.eventType, 'hook_conflict');
  assert.deepEqual(taken.event.eventData, { token, conflictingRunId: runId });
  assert.equal(taken.hook, undefined);
  assert.deepEqual(await logOf(world, other), ['run_created', 'run_started', 'hook_conflict hook_b']);

  const claim = { resumeId: '01M8N3CBJFGCK98VP8CKHQXT84', resumePayloadDigest: 'a'.repeat(64) };
  await post(world, runId, received, claim);
  await fails(post(world, runId, received, { ...claim, resumePayloadDigest: 'b'.repeat(64) }), 'EntityConflictError');
  await post(world, runId, event('hook_disposed', 'hook_a'));
  await fails(post(world, runId, event('hook_disposed', 'hook_a')), 'HookNotFoundError');
  await fails(post(world, runId, received), 'HookNotFoundError');
  // The claim outlives the hook.
  assert.equal(slotOf((await post(world, runId, received, claim)).event), 4);
}

export async function what_is_not_valid(world) {
  const runId = await beginRun(world);
  const invalid = { status: 400 };
  for (const changes of [
    [{ key: '$reserved', value: 'x' }],
    [{ key: 'twice', value: 'x' }, { key: 'twice', value: 'y' }],
    [{ key: 'k'.repeat(257), value: 'x' }],
    [{ key: 'k', value: 'v'.repeat(257) }],
    Array.from({ length: 65 }, (_, index) => ({ key: `k${index}`, value: 'x' })),
  ]) {
    await fails(post(world, runId, attributes(changes)), 'WorkflowWorldError', invalid);
  }
  await fails(
    post(world, newRunId(), event('run_created', null, creationData({ attributes: { $x: 'y' } }))),
    'WorkflowWorldError',
    invalid
  );
  const beyond = new Date(Date.now() + 40 * 86_400_000);
  const hook = event('hook_created', 'hook_a', { token: `long ${runId}`, tokenRetentionUntil: beyond });
  await fails(post(world, runId, hook), 'WorkflowWorldError', invalid);
  await fails(world.events.list({ runId, pagination: { cursor: 'nonsense' } }), 'WorkflowWorldError', invalid);
  await fails(
    post(world, runId, stepCreated('step_a'), { sinceCursor: 'nonsense' }),
    'WorkflowWorldError',
    invalid
  );
  assert.deepEqual(await logOf(world, runId), ['run_created', 'run_started']);
}

export async function a_batch_with_losers(world) {
  const runId = await beginRun(world);
  const batch = [...pair('step_a'), entry(stepCreated('step_b'))];
  assert.deepEqual(statuses(await world.events.createBatch(runId, batch)), [200, 200, 200]);
  const again = await world.events.createBatch(runId, batch);
  assert.deepEqual(statuses(again), [409, 409, 409]);
  for (const { error, message } of again.results) {
    assert.equal(error, 'conflict');
    assert.ok(message.length > 0);
  }

  // Those that are taken stand side by side; a refused one uses up nothing.
  const mixed = await world.events.createBatch(runId, [
    ...pair('step_c'),
    ...pair('step_a'),
    entry(stepCompleted('step_b')),
    entry(stepCompleted('step_x')),
    ...pair('step_d'),
  ]);
  assert.deepEqual(statuses(mixed), [200, 200, 409, 409, 200, 404, 200, 200]);
  const slots = mixed.results.filter(({ status }) => status === 200).map((result) => slotOf(result.event));
  assert.deepEqual(slots, [6, 7, 8, 9, 10]);
  assert.equal((await logOf(world, runId)).length, 10);
}

export async function batches_that_are_refused_whole(world) {
  const runId = await beginRun(world);
  const before = await logOf(world, runId);
  const step = entry(stepCreated('step_a'));
  const whole = { status: 400, code: 'batch-not-expressible' };
  for (const posted of [
    event('run_created', null, creationData()),
    event('run_started'),
    event('run_cancelled'),
    event('hook_created', 'hook_a', { token: `batch ${runId}` }),
    event('hook_disposed', 'hook_a'),
    attributes([{ key: 'a', value: 'b' }]),
    stepCreated('step_a'),
    event('step_started', 'step_b', { stepName: 'work', input: bytes('lazy') }),
  ]) {
    const batch = world.events.createBatch(runId, [step, entry(posted)]);
    await fails(batch, 'WorkflowWorldError', whole);
  }
  const many = Array.from({ length: 51 }, (_, index) => entry(stepCreated(`step_${index}`)));
  const tooLarge = { status: 400, code: 'batch-too-large' };
  await fails(world.events.createBatch(runId, many), 'WorkflowWorldError', tooLarge);
  // Refused by the client itself.
  await fails(world.events.createBatch(runId, []), 'WorkflowWorldError', { status: 400 });
  const received = event('hook_received', 'hook_a', { payload: bytes('x') });
  await fails(world.events.createBatch(runId, [entry(received)]), 'WorkflowWorldError', { status: 400 });
  assert.deepEqual(await logOf(world, runId), before);

  const old = await beginRun(world, { specVersion: 5 });
  const tooOld = { status: 400, code: 'batch-requires-slot-identity' };
  await fails(world.events.createBatch(old, [step]), 'WorkflowWorldError', tooOld);
}
