/** Where the small images come from: the file itself, or the server. */
export function thumbnailSource(rows, inlined) {
  return (row) => {
    if (!rows.hasImage[row]) return null;
    if (!inlined) return `api/images/${rows.number[row]}`;
    return inlined[row] ? `data:image/jpeg;base64,${inlined[row]}` : null;
  };
}
