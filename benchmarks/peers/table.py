"""The tables and figures of the gathered results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rlvc._core.atomic import atomic_write
from rlvc.report.figures import house_style, new_figure, to_png
from rlvc.report.figures.style import BLUE, GREEN, GREY, INK, ORANGE

STYLES = {
    "one": ("rlvc, one classifier", BLUE, "o"),
    "forest": ("rlvc, forest of 25", GREEN, "s"),
    "d3rlpy-dqn": ("d3rlpy DQN", ORANGE, "^"),
    "d3rlpy-cql": ("d3rlpy discrete CQL", "#E69F00", "v"),
    "sb3-dqn": ("Stable-Baselines3 DQN", "#CC79A7", "D"),
    "sb3-ppo": ("Stable-Baselines3 PPO", "#56B4E9", "P"),
    "fqi": ("Fitted Q Iteration, pixels", INK, "X"),
    "random": ("random actions", GREY, ""),
}
TITLES = {"maze": "Maze", "campus": "Campus", "hill": "Hill"}
VIEWS = 264  # test views of the campus
Z = 1.96  # of a 95% interval

Result = dict[str, Any]
SHARES: dict[str, tuple[str, str, Callable[[float], str]]] = {
    "maze": ("success", "success", lambda v: f"{v:.3f}"),
    "campus": ("error", "wrong on new views", lambda v: f"{v:.1%}"),
    "hill": ("missed", "missed", lambda v: f"{v:.1%}"),
}  # the key of the measure, its name, and its format


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return the 95% interval of a share of n trials.

    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    middle = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * np.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def spread(values: list[float], form: Callable[[float], str]) -> str:
    """Return the mean, with the lowest and the highest if there are several."""
    if not values:
        return "–"
    text = form(float(np.mean(values)))
    return text if len(values) == 1 else f"{text} ({form(min(values))}–{form(max(values))})"


def quality(task: str, rows: list[Result]) -> str:
    """Return the measure of a task: over seeds, or with the 95% interval of the only one."""
    name, _, form = SHARES[task]
    values = [row[name] for row in rows]
    if len(values) > 1:
        return spread(values, form)
    low, high = wilson(values[0], VIEWS if task == "campus" else rows[0]["episodes"])
    return f"{form(values[0])} [{form(low)}–{form(high)}]"


def seconds(value: float) -> str:
    """Return seconds as text."""
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def size(value: float) -> str:
    """Return bytes in megabytes."""
    return f"{value / 1e6:.1f}"


def task_table(task: str, results: list[Result]) -> str:
    """Return the table of a task."""
    ours = [row for row in results if row["task"] == task]
    if not ours:
        return ""
    more = {"maze": ["steps", "suboptimal", "restless"], "campus": [], "hill": ["steps"]}[task]
    names = {"restless": "success, 5% at random"}
    heads = [
        SHARES[task][1], *(names.get(name, name) for name in more), "training, s",
        "of it extraction, s", "decision, ms", "size, MB", "seeds",
    ]  # fmt: skip
    lines = [f"### {TITLES[task]}, {ours[0]['pictures']}", "", "| | " + " | ".join(heads) + " |",
             "|---" * (len(heads) + 1) + "|"]  # fmt: skip
    for method, (label, *_) in STYLES.items():
        rows = [row for row in ours if row["method"] == method]
        if rows:
            cells = [quality(task, rows), *(_further(name, rows) for name in more), *_costs(rows)]
            lines.append(f"| {label} | " + " | ".join(cells) + f" | {len(rows)} |")
    name, _, form = SHARES[task]
    drawn = [row["sampled"][name] for row in ours if "sampled" in row]
    if drawn:
        lines += [
            "",
            f"PPO when it draws its actions, as while it learns: {spread(drawn, form)}.",
        ]
    best = [
        f"{style[0]} {text}" for method, style in STYLES.items()
        if method not in ("one", "forest", "random")
        and (text := _best(task, [row for row in ours if row["method"] == method])) != "–"
    ]  # fmt: skip
    if best:
        lines += ["", "The best point of a curve, picked with hindsight: " + "; ".join(best) + "."]
    for name in ("updates", "interactions", "iterations"):
        counts = [
            f"{style[0]} {spread(found, lambda v: f'{v:,.0f}')}" for method, style in STYLES.items()
            if (found := [r[name] for r in ours if r["method"] == method and name in r])
        ]  # fmt: skip
        if counts:
            lines += ["", f"{name.capitalize()}: " + "; ".join(counts) + "."]
    return "\n".join(lines)


def _further(name: str, rows: list[Result]) -> str:
    """Return a cell of another measure."""
    values = [row.get(name) for row in rows if row["method"] != "random" or name == "steps"]
    if name == "restless":
        values = [value["success"] for value in values if value]
    known = [value for value in values if value is not None]
    return spread(known, lambda v: f"{v:.1f}" if name == "steps" else f"{v:.3f}")


def _best(task: str, rows: list[Result]) -> str:
    """Return the best points of the curves."""
    name, _, form = SHARES[task]
    pick = max if task == "maze" else min
    return spread([pick(point[name] for point in row["curve"]) for row in rows], form)


def _costs(rows: list[Result]) -> list[str]:
    """Return the cells of time and size."""
    if rows[0]["method"] == "random":
        return ["–"] * 4
    extraction = [row["looking"] for row in rows if "looking" in row]
    return [
        spread([row["seconds"] for row in rows], seconds),
        seconds(float(np.mean(extraction))) if extraction else "–",
        f"{1000 * np.mean([row['decision'] for row in rows]):.1f}",
        size(float(np.mean([row["bytes"] for row in rows]))),
    ]


def tuning_table(tries: list[Result]) -> str:
    """Return the table of the settings that were tried."""
    lines = ["| | setting | success | training, s |", "|---|---|---|---|"]
    for row in sorted(tries, key=lambda one: list(STYLES).index(one["method"])):
        setting = ", ".join(f"`{name}` {value}" for name, value in row["settings"].items())
        lines.append(f"| {STYLES[row['method']][0]} | {setting} | {row['success']:.3f} | "
                     f"{seconds(row['seconds'])} |")  # fmt: skip
    return "\n".join(lines)


def all_tables(found: dict[str, list[Result]]) -> dict[str, str]:
    """Return all tables by name."""
    tables = [task_table(task, found["results"]) for task in TITLES]
    return {
        "results": "\n\n".join(table for table in tables if table),
        "tuning": tuning_table(found["tuning"]),
    }


def fill(page: str, tables: dict[str, str]) -> str:
    """Return a page with updated tables; comments mark where they are.

    >>> fill("<!-- x -->old<!-- end of x -->", {"x": "new"}).split()
    ['<!--', 'x', '-->', 'new', '<!--', 'end', 'of', 'x', '-->']
    """
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return page


def draw_curves(results: list[Result]) -> bytes:
    """Draw the performance of every method over time: a line for each seed."""
    tasks = [task for task in TITLES if any(row["task"] == task for row in results)]
    with house_style():
        figure = new_figure(3.5 * len(tasks), 3.8)
        entries: dict[str, Any] = {}
        for number, task in enumerate(tasks):
            ax = figure.add_subplot(1, len(tasks), number + 1)
            name = SHARES[task][0]
            for method, (label, colour, marker) in STYLES.items():
                rows = [r for r in results if r["task"] == task and r["method"] == method]
                for row in rows:
                    good = [p[name] if task == "maze" else 1 - p[name] for p in row["curve"]]
                    if method == "random":
                        line = ax.axhline(good[-1], color=colour, ls=":", lw=1.2, zorder=1)
                    else:
                        at = [p["seconds"] for p in row["curve"]]
                        (line,) = ax.plot(at, good, color=colour, lw=1.3, alpha=0.85)
                        line = ax.plot(at[-1:], good[-1:], marker, color=colour, ms=6,
                                       markeredgecolor="white", zorder=4)[0]  # fmt: skip
                    entries.setdefault(label, line)
            ax.set_xscale("log")
            ax.set_ylim(-0.02, 1.03)
            ax.set_xlim(1, 800)
            ax.set_xticks([1, 10, 100, 600], ["1", "10", "100", "600"])
            ax.minorticks_off()
            ax.set_xlabel("processor time, seconds")
            ax.set_title(TITLES[task])
            ax.set_ylabel({"maze": "episodes that reach an exit",
                           "campus": "optimal decisions on new views",
                           "hill": "trials that reach the top"}[task])  # fmt: skip
        order = [label for label, *_ in STYLES.values() if label in entries]
        figure.legend([entries[label] for label in order], order, loc="outside lower center",
                      ncols=4)  # fmt: skip
        return to_png(figure)


def draw_costs(results: list[Result]) -> bytes:
    """Draw training time, decision time and size of every method on each task."""
    methods = [m for m in STYLES if m != "random" and any(r["method"] == m for r in results)]
    marks = {"maze": ("o", BLUE), "campus": ("s", ORANGE), "hill": ("^", GREEN)}
    columns = (
        ("training, seconds of the processor", "seconds", 1.0),
        ("decision, milliseconds", "decision", 1e3),
        ("policy, megabytes", "bytes", 1e-6),
    )
    with house_style():
        figure = new_figure(10.5, 3.2)
        axes = figure.subplots(1, 3, sharey=True)
        for ax, (title, name, factor) in zip(axes, columns, strict=True):
            for lane, (task, (marker, colour)) in enumerate(marks.items()):
                for row, method in enumerate(methods):
                    values = [r[name] * factor for r in results
                              if r["task"] == task and r["method"] == method]  # fmt: skip
                    if values:
                        label = TITLES[task] if row == 0 else None
                        height = row + 0.2 * (lane - 1)
                        ax.plot([np.mean(values)], [height], marker, color=colour, ms=6.5,
                                markeredgecolor="white", label=label)  # fmt: skip
            ax.set_xscale("log")
            low, high = ax.get_xlim()
            ticks = [t for k in range(-2, 5) for t in (10.0**k, 3 * 10.0**k) if low < t < high]
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
            ax.set_title(title)
        axes[0].set_yticks(range(len(methods)), [STYLES[m][0] for m in methods])
        axes[0].tick_params(axis="y", labelcolor=INK)
        axes[0].invert_yaxis()
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return to_png(figure)


def draw_all(found: dict[str, list[Result]], folder: Path) -> None:
    """Draw all figures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in (("peers-curves", draw_curves), ("peers-costs", draw_costs)):
        file = folder / f"{name}.png"
        atomic_write(file, draw(found["results"]))
        print(f"Drew {file}.\n")
