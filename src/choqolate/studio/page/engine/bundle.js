// The bundle: one safetensors blob with the arrays of a model and its rows, and a JSON document in its metadata.

const TYPES = { F64: Float64Array, F32: Float32Array, I32: Int32Array, U16: Uint16Array, U8: Uint8Array };

/** Read the document and the arrays of a bundle; the arrays are views of the given bytes. */
export function parseBundle(bytes) {
  const start = 8 + headerLength(bytes);
  const { __metadata__: metadata = {}, ...entries } = JSON.parse(text(bytes, 8, start));
  const arrays = new Map();
  for (const [name, entry] of Object.entries(entries)) arrays.set(name, readArray(bytes, start, name, entry));
  return { document: JSON.parse(metadata.studio ?? "null"), arrays };
}

function headerLength(bytes) {
  const length = bytes.byteLength < 8 ? NaN : Number(new DataView(bytes).getBigUint64(0, true));
  if (!(length <= bytes.byteLength - 8)) throw new Error("The data of this page are incomplete. Export it again.");
  return length;
}

function text(bytes, start, end) {
  return new TextDecoder().decode(new Uint8Array(bytes, start, end - start));
}

function readArray(bytes, start, name, { dtype, shape, data_offsets: [from, to] }) {
  const Type = TYPES[dtype];
  if (!Type) throw new Error(`The array ${name} has the type ${dtype}, which this page does not read.`);
  const at = start + from;
  const count = (to - from) / Type.BYTES_PER_ELEMENT;
  const aligned = at % Type.BYTES_PER_ELEMENT === 0;
  return { shape, data: aligned ? new Type(bytes, at, count) : new Type(bytes.slice(at, start + to)) };
}
