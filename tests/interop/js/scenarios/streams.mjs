// Streams: written, read back, followed while they are written.
import assert from 'node:assert/strict';
import { chunkOf, chunksOf } from '../chunks.mjs';
import { beginRun, fails } from '../stage.mjs';

const all = async (stream) => {
  const chunks = [];
  for await (const chunk of chunksOf(stream)) chunks.push(chunk);
  return chunks;
};

export async function a_stream_is_followed_while_it_is_written(world) {
  const runId = await beginRun(world);
  const name = 'strm_01M8N3CBJFGCK98VP8CKHQXT84_user';
  assert.deepEqual(await world.streams.list(runId), []);
  const follower = chunksOf(await world.streams.get(runId, name));
  await world.streams.write(runId, name, chunkOf('one'));
  assert.equal((await follower.next()).value, 'one');
  await world.streams.writeMulti(runId, name, ['two', 'three'].map(chunkOf));
  assert.equal((await follower.next()).value, 'two');
  assert.equal((await follower.next()).value, 'three');
  const last = chunksOf(await world.streams.get(runId, name, -1));
  assert.equal((await last.next()).value, 'three');
  await world.streams.close(runId, name);
  for (const each of [follower, last]) assert.deepEqual(await each.next(), { value: undefined, done: true });

  assert.deepEqual(await all(await world.streams.get(runId, name)), ['one', 'two', 'three']);
  assert.deepEqual(await all(await world.streams.get(runId, name, 1)), ['two', 'three']);
  assert.deepEqual(await all(await world.streams.get(runId, name, -9)), ['one', 'two', 'three']);
  assert.deepEqual(await world.streams.list(runId), [name]);
}

export async function a_stream_that_is_closed(world) {
  const runId = await beginRun(world);
  await world.streams.close(runId, 'short');
  await world.streams.close(runId, 'short');
  assert.deepEqual(await world.streams.getInfo(runId, 'short'), { tailIndex: -1, done: true });
  await fails(world.streams.write(runId, 'short', chunkOf('late')), 'StreamError', { status: 409 });
  await fails(world.streams.writeMulti(runId, 'short', [chunkOf('late')]), 'StreamError', { status: 409 });
  assert.deepEqual(await all(await world.streams.get(runId, 'short')), []);
}

export async function the_chunks_of_a_stream_in_pages(world) {
  const runId = await beginRun(world);
  assert.deepEqual(await world.streams.getInfo(runId, 'pages'), { tailIndex: -1, done: false });
  // More than one request may carry, so the client splits them.
  const texts = Array.from({ length: 1003 }, (_, index) => `chunk ${index}`);
  await world.streams.writeMulti(runId, 'pages', texts);
  assert.deepEqual(await world.streams.getInfo(runId, 'pages'), { tailIndex: 1002, done: false });
  await world.streams.close(runId, 'pages');
  const seen = [];
  let page = { cursor: undefined, hasMore: true };
  while (page.hasMore) {
    page = await world.streams.getChunks(runId, 'pages', { limit: 400, cursor: page.cursor });
    assert.equal(page.done, true);
    for (const { index, data } of page.data) {
      assert.equal(index, seen.length);
      seen.push(Buffer.from(data).toString());
    }
  }
  assert.deepEqual(seen, texts);
  assert.equal(page.cursor, null);
  assert.equal((await world.streams.getChunks(runId, 'pages')).data.length, 100);
}
