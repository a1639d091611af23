// Chunks of streams as the runtime frames them.
import assert from 'node:assert/strict';

// A chunk whose boundaries survive a read that sees nothing but bytes.
export const chunkOf = (text) => {
  const data = new TextEncoder().encode(text);
  const chunk = new Uint8Array(4 + data.length);
  new DataView(chunk.buffer).setUint32(0, data.length);
  chunk.set(data, 4);
  return chunk;
};

export async function* chunksOf(stream) {
  let rest = Buffer.alloc(0);
  for await (const data of stream) {
    rest = Buffer.concat([rest, data]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE(0)) {
      const end = 4 + rest.readUInt32BE(0);
      yield rest.subarray(4, end).toString();
      rest = rest.subarray(end);
    }
  }
  assert.equal(rest.length, 0, 'the stream ends inside a chunk');
}
