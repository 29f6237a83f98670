"""`workbench generate`: what a model says next."""

from __future__ import annotations

import json
from typing import Annotated, Any, cast

import typer

from ..generate import Step
from ..loading import load


def generate(
    model: Annotated[str, typer.Argument(help="A model folder, a .gguf file, or a name such as smollm2-135m.")],
    prompts: Annotated[list[str], typer.Argument(help="One text or several; several go as one batch.")],
    max_new_tokens: Annotated[int, typer.Option(help="How many tokens follow at most.")] = 20,
    temperature: Annotated[float, typer.Option(help="0 for the most probable token at each step.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(help="Draw among the k most probable tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among the most probable with this share.")] = None,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: tokens already said are less probable.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Of the draws.")] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="A text that ends a row (a line break is $'\\n' in most shells); may be repeated."),
    ] = None,
    use_kv_cache: Annotated[bool, typer.Option("--kv-cache/--no-kv-cache", help="Keep keys and values.")] = True,
    stream: Annotated[bool, typer.Option("--stream", help="Print one text as it comes, without a bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print prompts, texts and new tokens as JSON.")] = False,
) -> None:
    """Print texts with what the model says after them."""
    if stream and (as_json or len(prompts) > 1):
        raise typer.BadParameter("--stream is for one text, and not for JSON")
    loaded, steps = load(model), list[Step]()

    def on_step(step: Step) -> None:
        steps.append(step)
        if stream:
            print(prompts[0] if step.number == 0 else "", step.texts[0], sep="", end="", flush=True)

    options: dict[str, Any] = {} if stop is None else {"stop": stop}
    made = loaded.generate(
        list(prompts),
        max_new_tokens,
        temperature,
        top_k,
        top_p,
        seed=seed,
        use_kv_cache=use_kv_cache,
        repetition_penalty=repetition_penalty,
        on_step=on_step,
        progress=not stream,
        **options,
    )
    texts = cast("list[str]", made)
    if as_json:
        rows = [[int(step.tokens[row]) for step in steps if step.tokens[row] >= 0] for row in range(len(prompts))]
        said = zip(prompts, texts, rows, strict=True)
        print(json.dumps([{"prompt": prompt, "text": text, "new_tokens": row} for prompt, text, row in said], indent=1))
    elif stream:
        print()
    else:
        print("\n\n".join(texts))
