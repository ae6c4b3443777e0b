// Checksums of files, as Python writes and compares them: the CRC-32 of the text in which the checksum is empty.

const EMPTY = '"checksum": ""';

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

/** The checksum of a text, such as "crc32 9a0364b9". */
export function checksum(text) {
  let value = 0xffffffff;
  for (const byte of new TextEncoder().encode(text)) value = TABLE[(value ^ byte) & 0xff] ^ (value >>> 8);
  return `crc32 ${((value ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0")}`;
}

/** The text of a JSON file that begins with its checksum. */
export function textWithChecksum(object) {
  const text = JSON.stringify({ checksum: "", ...object }, null, 2);
  return `${text.replace(EMPTY, () => `"checksum": "${checksum(text)}"`)}\n`;
}

/** Whether a JSON file is as it was written; a file without a checksum may be. */
export function isUnchanged(text, object) {
  if (object?.checksum === undefined) return true;
  const plain = text.replace(/^\ufeff/, "").replaceAll("\r\n", "\n").trim();
  return object.checksum === checksum(plain.replace(`"checksum": "${object.checksum}"`, () => EMPTY));
}
