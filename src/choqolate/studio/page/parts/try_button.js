import { button, h } from "../app/dom.js";
import { removalStage } from "./concept_link.js";

/** A button that puts a removal into the draft; it says so once it is there, and takes it back. */
export function tryButton(app, concepts, { mode = "rescale", label = "Try", kind = "button", key }) {
  const stages = concepts.map((name) => removalStage(app, name));
  const left = concepts.filter((_, place) => !stages[place]);
  const said = `${label}: remove ${concepts.join(", ")}`;
  if (left.length) {
    return button(label, () => app.remove(left, { mode }),
      { class: kind, "aria-label": said, title: said, "data-key": key });
  }
  const drafted = concepts.filter((_, place) => stages[place] === "draft");
  if (!drafted.length) return h("span", { class: "badge" }, "Removed");
  return button("In draft ✓", () => app.restore(drafted), {
    class: `${kind.replace("primary", "")} in-draft`,
    title: "Drop it from the draft",
    "aria-pressed": true,
    "aria-label": `In draft: ${concepts.join(", ")}. Drop it from the draft`,
    "data-key": key,
  });
}
