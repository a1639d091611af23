// Writes that a server takes.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  beginRun, bytes, creationData, DEPLOYMENT, entry, event, logOf, newRunId, pair, slotOf, statuses,
  stepCompleted, stepCreated, stepStarted, textOf, WORKFLOW,
} from '../stage.mjs';

export async function a_run_from_its_creation_to_its_end(world) {
  const runId = newRunId();
  const executionContext = { workflowCoreVersion: '5.0.0', features: { encryption: false } };
  const created = await world.events.create(
    runId,
    event('run_created', null, creationData({ executionContext, attributes: { team: 'a' } }))
  );
  assert.equal(slotOf(created.event), 1);
  assert.deepEqual(
    [created.run.runId, created.run.status, created.run.deploymentId, created.run.workflowName],
    [runId, 'pending', DEPLOYMENT, WORKFLOW]
  );
  assert.equal(created.run.specVersion, 7);
  assert.deepEqual(created.run.executionContext, executionContext);
  assert.deepEqual(created.run.attributes, { team: 'a' });
  assert.equal(textOf(created.run.input), 'input');
  assert.equal(created.run.startedAt, undefined);

  const started = await world.events.create(runId, event('run_started'));
  assert.equal(started.run.status, 'running');
  assert.ok(started.run.startedAt instanceof Date);
  assert.equal(textOf(started.run.input), 'input');
  assert.deepEqual(started.run.attributes, { team: 'a' });
  assert.deepEqual(started.events.map((each) => each.eventType), ['run_created', 'run_started']);
  assert.equal(started.hasMore, false);
  assert.ok(started.maxEvents > 0);

  // Once more, as a second delivery would: nothing is written, and what was there is told.
  const again = await world.events.create(runId, event('run_started'), { skipPreload: true });
  assert.equal(again.event.eventId, started.event.eventId);
  assert.equal(again.run.startedAt.getTime(), started.run.startedAt.getTime());

  const completed = await world.events.create(runId, event('run_completed', null, { output: bytes('out') }));
  assert.equal(slotOf(completed.event), 3);
  assert.equal(completed.run.status, 'completed');
  assert.ok(completed.run.completedAt instanceof Date);
  assert.deepEqual(await logOf(world, runId), ['run_created', 'run_started', 'run_completed']);
  assert.equal(textOf((await world.runs.get(runId)).output), 'out');
}

export async function runs_that_fail_and_runs_that_are_cancelled(world) {
  const failing = await beginRun(world);
  const failed = await world.events.create(
    failing,
    event('run_failed', null, { error: bytes('boom'), errorCode: 'USER_ERROR' })
  );
  assert.deepEqual([failed.run.status, failed.run.errorCode], ['failed', 'USER_ERROR']);
  assert.equal(textOf((await world.runs.get(failing)).error), 'boom');
  const { data } = await world.events.list({ runId: failing });
  assert.equal(textOf(data.at(-1).eventData.error), 'boom');
  assert.equal(data.at(-1).eventData.errorCode, 'USER_ERROR');

  const cancelling = await beginRun(world, { start: false });
  const cancelled = await world.events.create(
    cancelling,
    event('run_cancelled', null, { cancelReason: 'no longer wanted' })
  );
  assert.equal(cancelled.run.status, 'cancelled');
  assert.equal(cancelled.event.eventData.cancelReason, 'no longer wanted');
}

export async function a_start_that_overtakes_its_creation(world) {
  const runId = newRunId();
  const started = await world.events.create(runId, event('run_started', null, creationData()));
  assert.equal(started.run.status, 'running');
  assert.equal(textOf(started.run.input), 'input');
  assert.deepEqual(started.events.map((each) => each.eventType), ['run_created', 'run_started']);
  assert.deepEqual(started.events.map(slotOf), [1, 2]);
  // The start's own row keeps nothing of the creation data.
  assert.equal(started.events[1].eventData?.input, undefined);
}

export async function steps_with_retries(world) {
  const runId = await beginRun(world);
  const created = await world.events.create(runId, stepCreated('step_a'));
  assert.deepEqual([created.step.status, created.step.attempt], ['pending', 0]);
  const first = await world.events.create(runId, stepStarted('step_a'), { computeInstanceId: 'here' });
  assert.deepEqual([first.step.status, first.step.attempt], ['running', 1]);
  assert.equal(textOf(first.step.input), 'in step_a');
  assert.equal(first.stepCreated, undefined);
  const retryAfter = new Date(Date.now() - 1000);
  const retrying = await world.events.create(
    runId,
    event('step_retrying', 'step_a', { stepName: 'work', error: bytes('busy'), retryAfter })
  );
  assert.equal(retrying.step.status, 'pending');
  assert.equal(retrying.step.retryAfter.getTime(), retryAfter.getTime());
  const second = await world.events.create(runId, stepStarted('step_a'));
  assert.deepEqual([second.step.status, second.step.attempt], ['running', 2]);
  assert.equal(second.step.startedAt.getTime(), first.step.startedAt.getTime());
  assert.equal(second.step.retryAfter, undefined);
  const completed = await world.events.create(runId, stepCompleted('step_a'));
  assert.deepEqual([completed.step.status, completed.step.attempt], ['completed', 2]);

  const lazy = await world.events.create(
    runId,
    event('step_started', 'step_b', { stepName: 'lazy', workflowName: WORKFLOW, input: bytes('late') })
  );
  assert.equal(lazy.stepCreated, true);
  assert.deepEqual([lazy.step.stepName, lazy.step.attempt, textOf(lazy.step.input)], ['lazy', 1, 'late']);
  const failed = await world.events.create(
    runId,
    event('step_failed', 'step_b', { stepName: 'lazy', error: bytes('never') })
  );
  assert.equal(failed.step.status, 'failed');
  assert.equal(textOf((await world.steps.get(runId, 'step_b')).error), 'never');
  assert.deepEqual(await logOf(world, runId), [
    'run_created', 'run_started', 'step_created step_a', 'step_started step_a', 'step_retrying step_a',
    'step_started step_a', 'step_completed step_a', 'step_created step_b', 'step_started step_b',
    'step_failed step_b',
  ]);
}

export async function waits_and_attributes(world) {
  const runId = await beginRun(world, { attributes: { team: 'a', stage: 'one' } });
  const resumeAt = new Date(Date.now() + 60_000);
  const waiting = await world.events.create(runId, event('wait_created', 'wait_a', { resumeAt }));
  assert.equal(waiting.wait.status, 'waiting');
  assert.equal(waiting.wait.waitId, `${runId}-wait_a`);
  assert.equal(waiting.wait.resumeAt.getTime(), resumeAt.getTime());
  const done = await world.events.create(runId, event('wait_completed', 'wait_a'));
  assert.equal(done.wait.status, 'completed');

  const changes = [{ key: 'stage', value: 'two' }, { key: 'team', value: null }];
  const attributes = event('attr_set', 'attr_a', { changes, writer: { type: 'workflow' } });
  const set = await world.events.create(runId, attributes);
  const repeated = await world.events.create(runId, attributes);
  assert.equal(repeated.event.eventId, set.event.eventId);
  const writer = { type: 'step', stepId: 'step_a', attempt: 1 };
  await world.events.create(
    runId,
    event('attr_set', null, { changes: [{ key: '$mark', value: 'x' }], writer, allowReservedAttributes: true })
  );
  assert.deepEqual((await world.runs.get(runId)).attributes, { stage: 'two', $mark: 'x' });
  // Here the client has the log, and works them out itself.
  const { run } = await world.events.create(runId, event('run_started'));
  assert.deepEqual(run.attributes, { stage: 'two', $mark: 'x' });
}

export async function hooks_from_their_creation_to_their_disposal(world) {
  const runId = await beginRun(world);
  const token = `token ${runId}/?&=`;
  const tokenRetentionUntil = new Date(Date.now() + 3_600_000);
  const created = await world.events.create(
    runId,
    event('hook_created', 'hook_a', { token, metadata: bytes('meta'), isWebhook: true, tokenRetentionUntil })
  );
  assert.equal(created.event.eventType, 'hook_created');
  assert.equal(created.event.eventData.token, token);
  assert.deepEqual([created.hook.hookId, created.hook.token, created.hook.isWebhook], ['hook_a', token, true]);
  assert.equal(created.hook.tokenRetentionUntil.getTime(), tokenRetentionUntil.getTime());

  for (const text of ['one', 'one']) {
    const received = await world.events.create(
      runId,
      event('hook_received', 'hook_a', { token, payload: bytes(text) })
    );
    assert.equal(received.event.eventType, 'hook_received');
  }
  await world.events.create(runId, event('hook_disposed', 'hook_a', { token }));
  // The token is free again.
  const next = await world.events.create(runId, event('hook_created', 'hook_b', { token }));
  assert.deepEqual([next.event.eventType, next.hook.hookId], ['hook_created', 'hook_b']);
  assert.deepEqual(await logOf(world, runId), [
    'run_created', 'run_started', 'hook_created hook_a', 'hook_received hook_a', 'hook_received hook_a',
    'hook_disposed hook_a', 'hook_created hook_b',
  ]);
}

export async function a_resume_that_is_delivered_twice(world) {
  const runId = await beginRun(world);
  const token = `resume ${runId}`;
  await world.events.create(runId, event('hook_created', 'hook_a', { token }));
  const payload = bytes('resumed');
  const claim = {
    resumeId: '01M8N3CBJFGCK98VP8CKHQXT84',
    resumePayloadDigest: createHash('sha256').update(payload).digest('hex'),
  };
  const received = event('hook_received', 'hook_a', { token, payload });
  const first = await world.events.create(runId, received, claim);
  assert.equal(first.event.resumeId, claim.resumeId);
  const second = await world.events.create(runId, received, { ...claim, preloadEvents: true });
  assert.equal(second.event.eventId, first.event.eventId);
  assert.equal(second.hasMore, false);
  assert.equal(second.run.status, 'running');
  assert.ok(second.maxEvents > 0 && second.cursor !== null);
  assert.deepEqual(second.events.map(slotOf), [1, 2, 3, 4]);
  assert.equal(textOf(second.events[3].eventData.payload), 'resumed');
  assert.equal(textOf(second.events[0].eventData.input), 'input');
}

export async function deltas_and_reports(world) {
  const runId = await beginRun(world);
  const { cursor } = await world.events.list({ runId });
  await world.events.create(runId, stepCreated('step_a'));
  const delta = await world.events.create(runId, stepCreated('step_b'), { sinceCursor: cursor });
  assert.deepEqual(delta.events.map(slotOf), [3, 4]);
  assert.equal(textOf(delta.events[0].eventData.input), 'in step_a');
  assert.equal(delta.hasMore, false);
  const later = await world.events.create(runId, stepStarted('step_a'), { sinceCursor: delta.cursor });
  assert.deepEqual(later.events.map(slotOf), [5]);

  // The writer knows of the first two rows only: it is told of those between.
  const report = await world.events.create(runId, stepStarted('step_b'), { eventCount: 2 });
  assert.deepEqual(report.events.map(slotOf), [3, 4, 5]);
  assert.deepEqual([report.cursor, report.hasMore], [null, false]);
  const nothing = await world.events.create(runId, stepCompleted('step_b'), { eventCount: 6 });
  assert.equal(nothing.events, undefined);
}

export async function a_fan_out_in_batches(world) {
  const runId = await beginRun(world);
  const names = Array.from({ length: 12 }, (_, index) => `step_${String(index).padStart(2, '0')}`);
  const { results } = await world.events.createBatch(runId, [
    ...names.slice(0, 8).flatMap(pair),
    ...names.slice(8).map((step) => entry(stepCreated(step))),
    entry(event('wait_created', 'wait_a', { resumeAt: new Date() })),
  ]);
  assert.deepEqual(new Set(results.map(({ status }) => status)), new Set([200]));
  assert.deepEqual(results.map((result) => slotOf(result.event)), results.map((_, index) => index + 3));
  for (const index of [1, 15]) {
    assert.deepEqual([results[index].step.status, results[index].step.attempt], ['running', 1]);
    assert.ok(results[index].step.startedAt instanceof Date);
  }
  assert.equal(results[16].step.status, 'pending');
  assert.equal(results[20].wait.status, 'waiting');

  // The caller asks for payloads.
  const completed = await world.events.createBatch(
    runId,
    [...names.slice(0, 8).map((step) => entry(stepCompleted(step))), entry(event('wait_completed', 'wait_a'))],
    { resolveData: 'all', requestId: 'req_1' }
  );
  assert.deepEqual(statuses(completed), Array(9).fill(200));
  assert.equal(textOf(completed.results[0].event.eventData.result), 'out step_00');

  const end = await world.events.createBatch(runId, [
    ...names.slice(8).map((step) => entry(event('step_failed', step, { error: bytes('late') }))),
    entry(event('run_completed', null, { output: bytes('all') })),
  ]);
  assert.deepEqual(statuses(end), Array(5).fill(200));
  assert.equal(end.results.at(-1).run.status, 'completed');
  assert.equal((await logOf(world, runId)).length, 2 + 21 + 9 + 5);
  // What a batch says happened then is when it happened.
  const occurredAt = new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 678));
  const other = await beginRun(world);
  const past = await world.events.createBatch(other, [{ event: stepCreated('step_a'), occurredAt }]);
  assert.equal(past.results[0].event.createdAt.getTime(), occurredAt.getTime());
}

export async function a_run_from_before_event_sourcing(world) {
  const old = { v1Compat: true };
  const { run } = await world.events.create(null, event('run_created', null, creationData()), old);
  assert.deepEqual([run.status, run.workflowName], ['pending', WORKFLOW]);
  const received = event('hook_received', 'hook_a', { payload: bytes('one') });
  const { event: stored } = await world.events.create(run.runId, received, old);
  assert.deepEqual([stored.eventType, stored.correlationId, stored.runId], ['hook_received', 'hook_a', run.runId]);
  const cancelled = await world.events.create(run.runId, event('run_cancelled'), old);
  assert.deepEqual([cancelled.run.runId, cancelled.run.status], [run.runId, 'cancelled']);
  assert.equal((await world.runs.get(run.runId)).status, 'cancelled');
}
