// The attention of the locked cell: another widget's view below the sweep, or a frame in a page without a kernel.

function attentionHead() {
  const title = element("p", { class: "wb-opened-title" });
  const problem = element("p", { class: "wb-error" });
  return { root: element("div", { class: "wb-view wb-opened", hidden: "" }, title, problem), title, problem };
}

const attentionTitle = (about, opened) =>
  `Attention of ${nounOf(about)} ${opened}${about.direction === "ablate" ? "" : ", the clean text beside the corrupted one"}`;

// Another widget's view, once there is one. It stands beside our root and not in it: it has its own styles.
function nestedView(model, el) {
  const { root, title, problem } = attentionHead();
  const holder = element("div", { "data-testid": "attention" });
  let [shown, ended] = [null, false];
  let leave = () => {};

  function open() {
    const ref = model.get("attention");
    if (ref && !root.isConnected) el.append(root, holder);
    root.hidden = !ref;
    title.textContent = attentionTitle(model.get("_sweep"), model.get("_opened"));
    if (ref === shown) return;
    shown = ref;
    leave();
    leave = () => {};
    problem.textContent = "";
    if (ref) place(ref).catch(() => wanted(ref) && (problem.textContent = "It cannot be shown here; .attention shows it in a cell of its own."));
  }

  const wanted = (ref) => !ended && shown === ref;

  async function place(ref) {
    const child = await model.widget_manager.get_model(ref.replace("IPY_MODEL_", ""));
    const made = await model.widget_manager.create_view(child);
    if (!wanted(ref)) return made.remove();
    holder.replaceChildren(made.el);
    leave = () => made.remove();
  }

  const unlisten = listen(model, { attention: open, _opened: open });
  open();
  return () => {
    ended = true;
    unlisten();
    leave();
    root.remove();
    holder.remove();
  };
}

// The same in a page without a kernel: a frame of ours, with tokens that were escaped when it was written.
function framedView(el, about, opened, html) {
  const { root, title } = attentionHead();
  root.hidden = false;
  title.textContent = attentionTitle(about, opened);
  el.append(root, document.adoptNode(new DOMParser().parseFromString(html, "text/html").querySelector("iframe")));
}
