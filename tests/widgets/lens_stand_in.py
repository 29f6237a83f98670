"""Lenses made by plain loops, and a stand-in for the notebook's side of the lens view."""

import base64
import math

import torch

from workbench.lenses import Lens
from workbench.widgets import LensDashboard

NAN = math.nan


def made_lens(words, batch=1, rows=4, pos=5, k=3, targets=(0,), padding=(), seed=0, spread=3.0):
    """A lens over random logits; token i says words[i]. padding: for each example, how many positions at the left."""
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(batch, rows, pos, len(words), generator=generator)
    ids = torch.randint(0, len(words), (batch, pos), generator=generator).tolist()
    # Here and there the top token is the one that the text goes on with.
    for row in range(1, rows, 2):
        for at in range(0, pos - 1, 2):
            logits[:, row, at, [ids[b][at + 1] for b in range(batch)]] = 4 * spread
    pads = [*padding, *[0] * (batch - len(padding))]
    follows = [[ids[b][p + 1] if p >= pads[b] and p + 1 < pos else -1 for p in range(pos)] for b in range(batch)]
    logprobs = logits.log_softmax(-1)
    top, real = logprobs.topk(k), torch.tensor([[p >= pads[b] for p in range(pos)] for b in range(batch)])
    shown = real[:, None].expand(batch, rows, pos)

    def there(values, nothing):
        return values.masked_fill(~shown.reshape(*shown.shape, *[1] * (values.ndim - 3)), nothing)

    def followed(tokens):
        """Log-probability and rank of tokens [batch][pos], -1 for none, at each place."""
        value, rank = torch.full((batch, rows, pos), NAN), torch.full((batch, rows, pos), -1)
        for b in range(batch):
            for r in range(rows):
                for p in range(pos):
                    if (token := tokens[b][p]) >= 0 and p >= pads[b]:
                        value[b, r, p] = logprobs[b, r, p, token]
                        rank[b, r, p] = sum(other > logits[b, r, p, token] for other in logits[b, r, p])
        return value, rank

    next_logprobs, next_ranks = followed(follows)
    each = [followed([[target] * pos] * batch) for target in targets]
    nothing = torch.zeros(batch, rows, pos, 0)
    final = logprobs[:, -1:]
    return Lens(
        tokens=there(top.indices, -1),
        logprobs=there(top.values, NAN),
        labels=(*(f"{layer}_pre" for layer in range(rows - 1)), "final"),
        str_tokens=[[words[i] if p >= pads[b] else "" for p, i in enumerate(ids[b])] for b in range(batch)],
        texts=[
            [
                [[words[i] if p >= pads[b] else "" for i in top.indices[b, r, p]] for p in range(pos)]
                for r in range(rows)
            ]
            for b in range(batch)
        ],
        entropy=there(-(logprobs.exp() * logprobs).sum(-1), NAN),
        kl=there((final.exp() * (final - logprobs)).sum(-1), NAN),
        next_tokens=torch.tensor(follows),
        next_logprobs=next_logprobs,
        next_ranks=next_ranks,
        target_tokens=tuple(targets),
        target_texts=tuple(words[i] for i in targets),
        target_logprobs=torch.stack([value for value, _ in each], -1) if each else nothing,
        target_ranks=torch.stack([rank for _, rank in each], -1) if each else nothing.long(),
    )


def large_lens(rows=31, pos=1024, k=10, vocab=5000, seed=0):
    """Numbers of a long text, of no distribution in particular."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, vocab, (1, rows, pos, k), generator=generator)
    numbers = torch.rand(1, rows, pos, generator=generator)
    ranks = torch.randint(0, vocab, (1, rows, pos), generator=generator)
    ids = torch.randint(0, vocab, (pos,), generator=generator)
    follows = torch.cat([ids[1:], torch.tensor([-1])])[None]
    names = [f" t{i}" for i in range(vocab)]
    return Lens(
        tokens=tokens,
        logprobs=-torch.rand(1, rows, pos, k, generator=generator).sort(-1).values,
        labels=(*(f"{layer}_pre" for layer in range(rows - 1)), "final"),
        str_tokens=[[names[i] for i in ids.tolist()]],
        texts=[[[[names[i] for i in place] for place in row] for row in tokens[0].tolist()]],
        entropy=numbers,
        kl=numbers,
        next_tokens=follows,
        next_logprobs=-numbers,
        next_ranks=ranks,
        target_tokens=(7,),
        target_texts=(names[7],),
        target_logprobs=-numbers[..., None],
        target_ranks=ranks[..., None],
    )


OPEN = """
async ({source, css}) => {
  const module = await import(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
  document.head.append(Object.assign(document.createElement("style"), {textContent: css}));
  const bytes = (page) => page && {...page,
    data: new DataView(Uint8Array.from(atob(page.data), (c) => c.charCodeAt(0)).buffer)};
  window.shown = [];
  window.open_view = (traits) => {
    const values = {...traits, _page: bytes(traits._page)}, events = {}, pending = {}, sent = [];
    const fire = (names) => names.forEach((n) => [...(events["change:" + n] ?? [])].forEach((f) => f()));
    const model = {
      get: (name) => values[name],
      set: (name, value) => { pending[name] = values[name] = value; fire([name]); },
      save_changes: () => { sent.push({...pending}); for (const n in pending) delete pending[n]; },
      on: (name, f) => (events[name] ??= new Set()).add(f),
      off: (name, f) => events[name]?.delete(f),
      send: (message) => sent.push(message),
    };
    const el = document.createElement("div");
    el.id = "view" + shown.length;
    document.body.append(el);
    const start = performance.now();
    const close = module.default.render({model, el});
    shown.push({
      el, sent, close, took: performance.now() - start,
      listening: () => Object.values(events).reduce((n, s) => n + s.size, 0),
      receive: (traits) => {
        Object.assign(values, traits, traits._page ? {_page: bytes(traits._page)} : {});
        fire(Object.keys(traits));
      },
    });
  };
}
"""


def page_of(packed):
    return {**packed, "data": base64.b64encode(packed["data"]).decode()}


def traits_of(dashboard):
    """All that the view is sent, as JSON."""
    names = ("example", "show", "target", "layer", "pos", "_labels", "_targets", "_examples", "_note")
    return {**{name: getattr(dashboard, name) for name in names}, "_page": page_of(dashboard._page)}


def open_views(page, *dashboards):
    """Shows dashboards on an empty page, beneath each other."""
    page.goto("data:text/html,<!doctype html><html lang=en><title>t</title><body>")
    page.evaluate(OPEN, {"source": LensDashboard._esm, "css": LensDashboard._css})
    for dashboard in dashboards:
        page.evaluate("(traits) => open_view(traits)", traits_of(dashboard))
    return page
