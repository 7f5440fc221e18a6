"""compare_report.py - what compare measured, as figures, as a page and as a picture."""

CORE_HOUR, GIB_HOUR = 0.04, 0.005  # dollars; the product's own defaults (learning.objective.prices)
COLOURS = {"hpa": "#d0662b", "aware": "#2b6fd0"}


def step_missed(rows, allowed):
    """Whether a step misses its objective: more than `allowed` of what ended in it was late or
    failed, or nothing ended while requests waited. None: nobody asked for anything."""
    answered = sum(row["answered"] for row in rows)
    bad = sum(row["above_slo"] + row["failed"] for row in rows)
    if answered + bad == 0:
        return True if rows[-1]["in_flight"] > 0 else None
    return bad > allowed * max(answered, bad)


def figures(load, answered, seen, warm, step_s, allowed):
    """One run in numbers; what came before `warm` seconds does not count."""
    steps = {}
    for row in answered:
        if row["time_s"] > warm:
            steps.setdefault(int((row["time_s"] - warm - 1e-3) // step_s), []).append(row)
    verdicts = [step_missed(rows, allowed) for rows in steps.values()]
    verdicts = [one for one in verdicts if one is not None]
    last = answered[-1]["time_s"] if answered else 0
    rows = [row for row in seen if warm <= row["t"] <= last]
    cpu_s = memory_s = used_s = held_s = span = replicas_s = agent_s = 0.0
    changes = 0
    for before, row in zip(rows, rows[1:]):
        length = row["t"] - before["t"]
        span += length
        cpu_s += length * row["cpu_m"] / 1000
        memory_s += length * row["memory_mi"] / 1024
        used_s += row["cpu_s"]
        held_s += length * row["held_mi"] / 1024
        replicas_s += length * row["wanted"]
        agent_s += length * row["agent"]
        changes += row["wanted"] != before["wanted"]
    span = span or 1.0
    failed = sum(load["errors"].values())
    due = max(1, load["due"])
    return {
        "missed": sum(verdicts) / max(1, len(verdicts)), "steps": len(verdicts),
        "late": load.get("above_slo", 0) / due, "failed": failed, "due": load["due"],
        "p99_ms": load["latency_ms"]["p99"], "p50_ms": load["latency_ms"]["p50"],
        "cores": cpu_s / span, "gib": memory_s / span,
        "core_hours": cpu_s / 3600, "gib_hours": memory_s / 3600,
        "cost": (cpu_s * CORE_HOUR + memory_s * GIB_HOUR) / span,
        "cpu_used": used_s / cpu_s if cpu_s else 0, "memory_used": held_s / memory_s if memory_s
        else 0, "replicas": replicas_s / span, "agent": agent_s / span, "changes": changes,
        "restarts": rows[-1]["restarts"] - rows[0]["restarts"] if rows else 0,
        "sizes": rows[-1]["sizes"] if rows else [], "span_s": span}


def line(found):
    return (f"{found['name']}: missed {100 * found['missed']:.1f}% of {found['steps']} steps, "
            f"{100 * found['late']:.2f}% late, {found['failed']} failed of {found['due']}, "
            f"p99 {found['p99_ms'] or 0:.0f} ms, {found['cores']:.2f} cores at "
            f"{100 * found['cpu_used']:.0f}%, {found['gib']:.2f} GiB at "
            f"{100 * found['memory_used']:.0f}%, {found['replicas']:.1f} replicas, "
            f"{found['changes']} scalings, {found['evictions']} evictions, agent "
            f"{100 * found['agent']:.0f}%, stages {found['stages']}, load {found['loadavg']:.1f}")


# --- the page

COLUMNS = (
    ("missed steps %", lambda one: 100 * one["missed"], "{:.1f}"),
    ("late requests %", lambda one: 100 * one["late"], "{:.2f}"),
    ("failed", lambda one: one["failed"], "{:.0f}"),
    ("p50 ms", lambda one: one["p50_ms"], "{:.0f}"),
    ("p99 ms", lambda one: one["p99_ms"], "{:.0f}"),
    ("CPU used/requested %", lambda one: 100 * one["cpu_used"], "{:.0f}"),
    ("memory used/requested %", lambda one: 100 * one["memory_used"], "{:.0f}"),
    ("core-hours", lambda one: one["core_hours"], "{:.4f}"),
    ("GiB-hours", lambda one: one["gib_hours"], "{:.4f}"),
    ("$/h", lambda one: one["cost"], "{:.4f}"),
    ("replicas", lambda one: one["replicas"], "{:.1f}"),
    ("scalings", lambda one: one["changes"], "{:.0f}"),
    ("evictions", lambda one: one["evictions"], "{:.0f}"),
    ("agent %", lambda one: 100 * one["agent"], "{:.0f}"),
)


def row(first, cells):
    return "| " + " | ".join([first, *cells]) + " |\n"


def table(rows):
    text = row("run", [name for name, _, _ in COLUMNS]) + row("---", ["--:"] * len(COLUMNS))
    for first, one in rows:
        text += row(first, [form.format(value(one) or 0) for _, value, form in COLUMNS])
    return text


def spread(runs):
    """Mean and the lowest and highest of all runs, of each column."""
    cells = []
    for _, value, form in COLUMNS:
        values = [value(one) or 0 for one in runs]
        cells.append(f"{form.format(sum(values) / len(values))} "
                     f"({form.format(min(values))} to {form.format(max(values))})")
    return cells


def write(out, result):
    pairs = list(zip(result["hpa"], result["aware"]))
    text = "## Means, with the lowest and the highest of the runs\n\n"
    text += row("", ["HPA", "aware"]) + row("---", ["--:", "--:"])
    hpa, aware = spread(result["hpa"]), spread(result["aware"])
    for (name, _, _), one, other in zip(COLUMNS, hpa, aware):
        text += row(name, [one, other])
    text += "\n## Every run\n\n" + table(
        [(f"{one['name']}, from {one['start']}:00", one) for pair in pairs for one in pair])
    text += f"\n## Tuning: HPA with a target of {result['target']} % was kept\n\n" + table(
        [(f"{one['target']} %", one) for one in result["tuning"]])
    text += "\n## While aware learned\n\n" + table([("aware", result["learning"])])
    text += "\nStages: " + ", ".join(
        f"{stage} after {at:.0f} s" for at, stage in result["learning"]["stages"]) + ".\n"
    (out / "page.md").write_text(text, encoding="utf-8")
    (out / "plot.svg").write_text(plot(out, pairs, result["settings"]), encoding="utf-8")


# --- the picture

WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 110, 62, 34, 26


def path(points, box, span, most):
    """A line through (x, y), cut at the box."""
    x, y = box
    words = []
    for at, value in points:
        px = x + WIDTH * min(1.0, at / span)
        py = y + HEIGHT * (1 - min(1.0, value / most))
        words.append(f"{'L' if words else 'M'}{px:.1f},{py:.1f}")
    return " ".join(words)


def lines_of(data, warm, step_s):
    """What is drawn of one run: by name, points of seconds and values."""
    seen = [one for one in data["seen"]]
    steps = {}
    for one in data["answered"]:
        steps.setdefault(int(one["time_s"] // step_s), []).append(one)
    return {
        "requests/s": [(at * step_s, sum(one["answered"] for one in rows) / step_s)
                       for at, rows in steps.items() if at * step_s >= warm],
        "replicas": [(one["t"], one["ready"]) for one in seen],
        "cores requested": [(one["t"], one["cpu_m"] / 1000) for one in seen],
        "GiB requested": [(one["t"], one["memory_mi"] / 1024) for one in seen],
        "highest p99 of a step, ms": [
            (at * step_s, max(one["p99_ms"] or 0 for one in rows)) for at, rows in steps.items()]}


def plot(out, pairs, settings):
    import json
    warm, step_s = settings["warm"], settings["step_s"]
    span = warm + settings["measure"]
    columns = []
    for pair in pairs:
        columns.append([(one["name"], one["start"], lines_of(
            json.loads((out / f"{one['file']}.json").read_text(encoding="utf-8")), warm, step_s))
                        for one in pair])
    names = list(columns[0][0][2])
    most = {name: max([value for column in columns for _, _, lines in column
                       for _, value in lines[name]] or [1]) * 1.08 or 1 for name in names}
    most["highest p99 of a step, ms"] = 4 * settings["slo_ms"]
    wide = LEFT + len(columns) * (WIDTH + GAP)
    high = TOP + len(names) * (HEIGHT + GAP) + 8
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
            'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" '
            'fill="white"/>']
    for i, (name, colour) in enumerate(COLOURS.items()):
        text.append(f'<text x="{LEFT + 60 * i}" y="14" fill="{colour}" font-weight="bold">'
                    f"{name}</text>")
    for c, column in enumerate(columns):
        x = LEFT + c * (WIDTH + GAP)
        text.append(f'<text x="{x + WIDTH}" y="{TOP - 6}" text-anchor="end">window from '
                    f"{column[0][1]}:00 of the trace, {span} s</text>")
        for r, name in enumerate(names):
            y = TOP + r * (HEIGHT + GAP)
            counted = x + WIDTH * warm / span
            text.append(f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" '
                        f'stroke="#bbb"/><rect x="{x}" y="{y}" width="{counted - x:.1f}" '
                        f'height="{HEIGHT}" fill="#eee"/>')
            if c == 0:
                text.append(f'<text x="{x}" y="{y - 4}">{name}</text>')
                text.append(f'<text x="{x - 4}" y="{y + 9}" text-anchor="end">{most[name]:.3g}'
                            f'</text><text x="{x - 4}" y="{y + HEIGHT}" text-anchor="end">0</text>')
            if name.startswith("highest"):
                at = y + HEIGHT * (1 - settings["slo_ms"] / most[name])
                text.append(f'<path d="M{x},{at:.1f} h{WIDTH}" stroke="#888" '
                            'stroke-dasharray="4 3"/>')
            for who, _, lines in column:
                text.append(f'<path d="{path(lines[name], (x, y), span, most[name])}" fill="none" '
                            f'stroke="{COLOURS[who]}" stroke-width="1.3"/>')
    return "\n".join(text + ["</svg>\n"])
