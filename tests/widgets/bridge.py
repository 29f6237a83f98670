"""What a dashboard would send to its view, without a notebook: the messages, and what a view makes of the bytes."""

import base64

import numpy as np

DATA = (bytes, bytearray, memoryview)


class Line:
    """A widget's line to its views: what it sends, as a notebook's comm would carry it."""

    def __init__(self, widget):
        self.widget, self.messages = widget, []
        widget._send = lambda message, buffers=None: self.messages.append((message, buffers or []))

    @property
    def bytes(self):
        return sum(len(str(message)) + sum(len(b) for b in buffers) for message, buffers in self.messages)

    def clear(self):
        self.messages.clear()

    def traits(self):
        """What the messages say, bytes put back in their places, later ones last; and forgets them."""
        said = {}
        for message, buffers in self.messages:
            said |= message["state"]
            for path, data in zip(message["buffer_paths"], buffers, strict=True):
                said[path[0]] = bytes(data)
        self.clear()
        return said


def everything(widget):
    """All that a view gets when it opens, its code left out."""
    state = widget.get_state()
    return {
        name: value for name, value in state.items() if name not in ("_esm", "_css") and not name.startswith("_view")
    }


def in_json(traits):
    """Traits for a page: bytes as {"base64": text}; what no page needs left out."""
    plain = {}
    for name, value in traits.items():
        if isinstance(value, DATA):
            plain[name] = {"base64": base64.b64encode(bytes(value)).decode()}
        elif not name.startswith(("layout", "comm", "tooltip", "tabbable")):
            plain[name] = value
    return plain


def patterns_of(traits):
    """[run, query, key] as a view reads the bytes: written after the description in `coding.py`, not after the view."""
    n, start, found = len(traits["_tokens"]), 0, []
    for part in traits["_shown"]["parts"]:
        data = bytes(traits["_pattern"])[start : start + part["bytes"]]
        start += part["bytes"]
        values = np.frombuffer(data, {"float32": "<f4", "uint16": "<u2"}[part["dtype"]]).astype(np.float64)
        values = (values / 65535) ** 2 if part["dtype"] == "uint16" else values
        whole = np.zeros((n, n))
        if part["half"]:
            whole[np.tril_indices(n)] = values
        else:
            whole[:] = values.reshape(n, n)
        found.append(whole)
    assert start == len(traits["_pattern"])
    return np.stack(found)


def thumbs_of(traits):
    """[head, row, column]."""
    side, half = traits["_thumbs_of"]["side"], traits["_thumbs_of"]["half"]
    values = np.frombuffer(bytes(traits["_thumbs"]), np.uint8).astype(np.float64) / 255
    heads = len(traits["_heads"])
    whole = np.zeros((heads, side, side))
    if half:
        whole[:, *np.tril_indices(side)] = values.reshape(heads, -1) ** 2
    else:
        whole[:] = values.reshape(heads, side, side) ** 2
    return whole


# The notebook's side of a view: traits with events, and a record of what would be sent to the kernel.
PAGE = """
async ({source, css}) => {
  const module = await import(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
  document.head.append(Object.assign(document.createElement("style"), {textContent: css}));
  window.shown ??= [];
  const view = (b) => new DataView(Uint8Array.from(atob(b), (c) => c.charCodeAt(0)).buffer);
  const read = (value) => value?.base64 === undefined ? value : view(value.base64);
  const plain = (traits) => Object.fromEntries(Object.entries(traits).map(([name, value]) => [name, read(value)]));
  window.open_view = (traits, attach) => {
    const values = plain(traits), events = {}, pending = {}, sent = [];
    const fire = (names) => names.forEach((n) => [...(events["change:" + n] ?? [])].forEach((f) => f()));
    const model = {
      get: (name) => values[name],
      set: (name, value) => {
        if (JSON.stringify(values[name]) === JSON.stringify(value)) return;
        pending[name] = values[name] = value;
        fire([name]);
      },
      save_changes: () => {
        if (Object.keys(pending).length) sent.push({...pending});
        for (const n in pending) delete pending[n];
      },
      on: (name, f) => (events[name] ??= new Set()).add(f),
      off: (name, f) => events[name]?.delete(f),
      send: (message) => sent.push(message),
    };
    const el = document.createElement("div");
    el.id = "view" + shown.length;
    if (attach) document.body.append(el);
    const close = module.default.render({model, el});
    shown.push({
      el, sent, close,
      listening: () => Object.values(events).reduce((n, s) => n + s.size, 0),
      receive: (traits) => { Object.assign(values, plain(traits)); fire(Object.keys(traits)); },
    });
    return shown.length - 1;
  };
}
"""


class View:
    """A dashboard's view on a page, and the widget behind it, with nothing of a notebook between them."""

    def __init__(self, page, widget, attach=True):
        self.page, self.widget, self.line = page, widget, Line(widget)
        page.evaluate(PAGE, {"source": widget._esm, "css": widget._css})
        self.number = page.evaluate(
            "([traits, attach]) => open_view(traits, attach)", [in_json(everything(widget)), attach]
        )
        self.root = page.locator(f"#view{self.number}")
        self._read = 0

    def sent(self):
        """What the view has told the kernel so far."""
        return self.page.evaluate(f"shown[{self.number}].sent")

    def pump(self):
        """Lets the kernel hear what the view said since, and the view what the kernel answers."""
        for said in self.sent()[self._read :]:
            self._read += 1
            self.widget.set_state(said)
        self.answer()

    def answer(self):
        """Lets the view see what was set in Python."""
        self.page.evaluate(f"(traits) => shown[{self.number}].receive(traits)", in_json(self.line.traits()))

    def get(self, testid):
        return self.root.get_by_test_id(testid)
