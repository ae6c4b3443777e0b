/** Put children into an element in this order; those in place are not touched, so that they can change gently. */
export function place(element, children) {
  const active = element.contains(document.activeElement) ? document.activeElement : null;
  children.forEach((child, index) => {
    if (element.children[index] !== child) element.insertBefore(child, element.children[index] ?? null);
  });
  while (element.children.length > children.length) element.lastElementChild.remove();
  if (active && active !== document.activeElement) active.focus({ preventScroll: true });
}
