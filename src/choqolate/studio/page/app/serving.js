/** The server behind the page, if there is one; addresses are relative, so that it works behind a proxy. */
export class Api {
  /** Get binary content. */
  async bytes(address) {
    const answer = await fetch(address, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(await sentence(answer));
    return answer.arrayBuffer();
  }

  /** Post JSON, or a file as it is; returns the answer's JSON or, with as = "blob", its content. */
  async post(address, body, { type = "application/json", as = "json" } = {}) {
    const content = type === "application/json" ? JSON.stringify(body) : body;
    const headers = { "Content-Type": type, "X-Choqolate-Studio": "1" };
    const answer = await fetch(address, { method: "POST", credentials: "same-origin", headers, body: content });
    if (!answer.ok) throw new Error(await sentence(answer));
    return as === "blob" ? answer.blob() : answer.json();
  }
}

async function sentence(answer) {
  try {
    return (await answer.json()).error ?? `The server answered ${answer.status}.`;
  } catch {
    return `The server answered ${answer.status}.`;
  }
}
