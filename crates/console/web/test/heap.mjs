// What the heap of a page consists of, from a snapshot over the DevTools protocol: if it grew, a test says what grew.

const LARGEST = 12;

/** Returns the bytes and the number of everything in the heap, by type and constructor. */
export async function heapByConstructor(page) {
  const parts = [];
  const observe = page.observe;
  page.observe = (message) => {
    if (message.method === "HeapProfiler.addHeapSnapshotChunk") parts.push(message.params.chunk);
    else observe.call(page, message);
  };
  await page.send("HeapProfiler.takeHeapSnapshot", { reportProgress: false });
  page.observe = observe;
  const { snapshot, nodes, strings } = JSON.parse(parts.join(""));
  const fields = snapshot.meta.node_fields;
  const [type, name, size] = ["type", "name", "self_size"].map((field) => fields.indexOf(field));
  const sums = new Map();
  for (let at = 0; at < nodes.length; at += fields.length) {
    const kind = snapshot.meta.node_types[type][nodes[at + type]];
    const key = kind.includes("string") ? kind : `${kind} ${strings[nodes[at + name]].slice(0, 60)}`;
    const sum = sums.get(key) ?? { bytes: 0, count: 0 };
    sums.set(key, { bytes: sum.bytes + nodes[at + size], count: sum.count + 1 });
  }
  return sums;
}

/** Returns what grew most between two snapshots, as sentences. */
export function whatGrew(before, after) {
  const grown = [...after].map(([key, { bytes, count }]) => {
    const old = before.get(key) ?? { bytes: 0, count: 0 };
    return { key, bytes: bytes - old.bytes, count: count - old.count };
  });
  grown.sort((one, other) => other.bytes - one.bytes);
  return grown.slice(0, LARGEST).map(({ key, bytes, count }) => `${key}: ${bytes} bytes more, in ${count} more`);
}
