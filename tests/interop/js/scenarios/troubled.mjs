// What the faults of a script do to the client, and what is in the log afterwards. Which request meets which
// fault stands in `tests/interop/faults`, and the requests of a group are counted through: their order matters.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chunkOf, chunksOf } from '../chunks.mjs';
import {
  beginRun, bytes, creationData, entry, event, fails, logOf, newRunId, pair, slotOf, statuses, stepCompleted,
  stepCreated, stepStarted, textOf,
} from '../stage.mjs';

const post = (world, runId, posted, params) => world.events.create(runId, posted, params);
const twenty = Array.from({ length: 20 }, (_, index) => `step_${String(index).padStart(2, '0')}`);

export const throttle = {
  // Side by side, since each waits.
  async throttled_writes_are_waited_out(world) {
    const runId = await beginRun(world);
    const other = await beginRun(world);
    await world.streams.write(runId, 'throttled', chunkOf('once'));
    const [created, batch] = await Promise.all([
      post(world, runId, stepCreated('step_a')),
      world.events.createBatch(other, [...pair('step_b'), entry(stepCreated('step_c'))]),
      world.streams.close(runId, 'throttled'),
      fails(post(world, runId, event('run_completed')), 'ThrottleError', { retryAfter: 31 }),
      post(world, other, event('wait_created', 'wait_a', { resumeAt: new Date() })),
    ]);
    assert.equal(created.step.status, 'pending');
    assert.deepEqual(statuses(batch), [200, 200, 200]);
    // It counts attempts, so that nothing but a throttle may be answered with another try.
    const started = await post(world, runId, stepStarted('step_a'));
    assert.deepEqual([started.step.status, started.step.attempt], ['running', 1]);
    assert.deepEqual(await world.streams.getInfo(runId, 'throttled'), { tailIndex: 0, done: true });
    assert.deepEqual(await logOf(world, runId), [
      'run_created', 'run_started', 'step_created step_a', 'step_started step_a',
    ]);
    assert.equal((await logOf(world, other)).length, 6);
  },
};

export const reset = {
  async a_creation_and_a_start_that_were_lost_on_the_way_back(world) {
    const runId = newRunId();
    await fails(post(world, runId, event('run_created', null, creationData())), 'EntityConflictError');
    const { run } = await post(world, runId, event('run_started'), { skipPreload: true });
    assert.equal(run.status, 'running');
    assert.deepEqual(await logOf(world, runId), ['run_created', 'run_started']);
  },

  async steps_that_were_lost_on_the_way_back(world) {
    const runId = await beginRun(world);
    await fails(post(world, runId, stepCreated('step_a')), 'EntityConflictError');
    // Sent once: a second start would count a second attempt.
    await fails(post(world, runId, stepStarted('step_a')), 'StreamError', { code: 'STREAM_ERROR' });
    assert.equal((await post(world, runId, stepStarted('step_a'))).step.attempt, 2);
    await fails(post(world, runId, stepCompleted('step_a')), 'EntityConflictError');
    assert.deepEqual(await logOf(world, runId), [
      'run_created', 'run_started', 'step_created step_a', 'step_started step_a', 'step_started step_a',
      'step_completed step_a',
    ]);
  },

  async what_is_answered_with_the_first_event(world) {
    const runId = await beginRun(world);
    const changes = [{ key: 'a', value: '1' }];
    const set = await post(world, runId, event('attr_set', 'attr_a', { changes, writer: { type: 'workflow' } }));
    assert.equal(slotOf(set.event), 3);
    const token = `reset ${runId}`;
    await post(world, runId, event('hook_created', 'hook_a', { token }));
    const payload = bytes('resumed');
    const received = await post(world, runId, event('hook_received', 'hook_a', { token, payload }), {
      resumeId: '01M8N3CBJFGCK98VP8CKHQXT84',
      resumePayloadDigest: createHash('sha256').update(payload).digest('hex'),
    });
    assert.equal(slotOf(received.event), 5);
    const waiting = await post(world, runId, event('wait_created', 'wait_a', { resumeAt: new Date() }));
    assert.deepEqual([slotOf(waiting.event), waiting.wait.status], [6, 'waiting']);
    assert.equal((await logOf(world, runId)).length, 6);
  },

  async batches_that_were_lost_on_the_way_back(world) {
    const runId = await beginRun(world);
    const creations = twenty.map((step) => entry(stepCreated(step)));
    const { results } = await world.events.createBatch(runId, creations);
    assert.deepEqual(new Set(results.map(({ status, error }) => `${status} ${error}`)), new Set(['409 conflict']));
    await fails(world.events.createBatch(runId, pair('step_x')), 'StreamError', { code: 'STREAM_ERROR' });
    const log = await logOf(world, runId);
    assert.deepEqual(log.slice(2), [
      ...twenty.map((step) => `step_created ${step}`), 'step_created step_x', 'step_started step_x',
    ]);
  },

  async the_end_of_a_stream_that_was_lost_on_the_way_back(world) {
    const runId = await beginRun(world);
    await world.streams.write(runId, 'lost', chunkOf('one'));
    await world.streams.close(runId, 'lost');
    assert.deepEqual(await world.streams.getInfo(runId, 'lost'), { tailIndex: 0, done: true });
  },
};

const types = (events) => events.map(({ eventType }) => eventType);

export const cut = {
  async lists_that_are_cut(world) {
    const runId = await beginRun(world);
    await world.events.createBatch(runId, twenty.map((step) => entry(stepCreated(step))));
    const whole = ['run_created', 'run_started', ...Array(20).fill('step_created')];
    // In the middle of a frame; before the end frame; twice in a row.
    for (let count = 0; count < 3; count += 1) {
      const { data, hasMore } = await world.events.list({ runId });
      assert.deepEqual([types(data), hasMore], [whole, false]);
      assert.deepEqual(data.map(slotOf), whole.map((_, index) => index + 1));
      assert.equal(textOf(data.at(-1).eventData.input), `in ${twenty.at(-1)}`);
    }
    // The log in the answer to a start, whose rest is cut in turn.
    const { events, run } = await post(world, runId, event('run_started'));
    assert.deepEqual([types(events), run.status], [whole, 'running']);
    await fails(world.events.list({ runId }), 'StreamError', { code: 'STREAM_ERROR' });
  },

  async answers_to_writes_that_are_cut(world) {
    const runId = await beginRun(world);
    const batch = await world.events.createBatch(runId, [entry(stepCreated('step_a')), entry(stepCreated('step_b'))]);
    assert.deepEqual(statuses(batch), [409, 409]);
    await fails(post(world, runId, stepCompleted('step_a')), 'EntityConflictError');
    assert.deepEqual((await logOf(world, runId)).slice(2), [
      'step_created step_a', 'step_created step_b', 'step_completed step_a',
    ]);
  },

  async a_live_read_that_is_cut(world) {
    const runId = await beginRun(world);
    const texts = ['one', 'two', 'three'];
    await world.streams.writeMulti(runId, 'cut', texts.map(chunkOf));
    await world.streams.close(runId, 'cut');
    const seen = [];
    await assert.rejects(async () => {
      for await (const chunk of chunksOf(await world.streams.get(runId, 'cut'))) seen.push(chunk);
    });
    assert.deepEqual(seen, ['one']);
    const rest = await world.streams.get(runId, 'cut', seen.length);
    for await (const chunk of chunksOf(rest)) seen.push(chunk);
    assert.deepEqual(seen, texts);
  },
};

export const refuse = {
  async answers_of_a_server_in_trouble(world) {
    const runId = await beginRun(world);
    const wait = event('wait_created', 'wait_a', { resumeAt: new Date() });
    await fails(post(world, runId, wait), 'PreconditionFailedError', { status: 412, retryAfter: 2 });
    await post(world, runId, wait);
    const completed = event('wait_completed', 'wait_a');
    const error = await fails(post(world, runId, completed), 'WorkflowWorldError', { status: 403, code: 'forbidden' });
    assert.match(error.message, /not here/);

    await post(world, runId, stepCreated('step_a'));
    assert.equal((await post(world, runId, stepCompleted('step_a'))).step.status, 'completed');
    await post(world, runId, stepCreated('step_b'));
    const failed = event('step_failed', 'step_b', { error: bytes('x') });
    const { message } = await fails(post(world, runId, failed), 'WorkflowWorldError', { status: 501 });
    assert.match(message, /not today/);
    const retrying = event('step_retrying', 'step_b', { error: bytes('x') });
    await fails(post(world, runId, retrying), 'StreamError', { code: 'STREAM_ERROR' });
    await fails(post(world, runId, event('run_cancelled')), 'TooEarlyError', { retryAfter: 9 });
    const hook = event('hook_created', 'hook_a', { token: `trouble ${runId}` });
    await fails(post(world, runId, hook), 'EntityConflictError');
    const changes = [{ key: 'a', value: '1' }];
    const set = event('attr_set', 'attr_a', { changes, writer: { type: 'workflow' } });
    await fails(post(world, runId, set), 'WorkflowWorldError', { code: 'SCHEMA_VALIDATION' });
    assert.deepEqual((await logOf(world, runId)).slice(2), [
      'wait_created wait_a', 'step_created step_a', 'step_completed step_a', 'step_created step_b',
      'hook_created hook_a',
    ]);
  },

  async answers_to_batches_of_a_server_in_trouble(world) {
    const runId = await beginRun(world);
    const batch = [entry(stepCreated('step_a')), entry(stepCreated('step_b'))];
    const short = world.events.createBatch(runId, batch);
    await fails(short, 'WorkflowWorldError', { code: 'SCHEMA_VALIDATION' });
    await fails(world.events.createBatch(runId, batch), 'WorkflowWorldError', { status: 404 });
    assert.deepEqual(statuses(await world.events.createBatch(runId, batch)), [409, 409]);
  },

  async reads_of_a_server_in_trouble(world) {
    const runId = await beginRun(world);
    await fails(world.runs.get(runId), 'ThrottleError', { retryAfter: 5 });
    assert.equal((await world.runs.get(runId)).status, 'running');
  },
};
