"""``scrapy dedup tune``: which threshold merges no pair that somebody has labelled different."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from scrapy_dedup.batch.record_files import drafts_of
from scrapy_dedup.crawl.cli.batch import bars
from scrapy_dedup.crawl.cli.context import Context
from scrapy_dedup.crawl.cli.output import printable
from scrapy_dedup.crawl.cli.pair_file import PairFile
from scrapy_dedup.crawl.cli.tune_plot import PLOT_FORMATS, drawn, load_matplotlib
from scrapy_dedup.crawl.cli.tune_sample import sample, sampling_problems
from scrapy_dedup.crawl.cli.tune_told import as_json, told
from scrapy_dedup.errors import ConfigError, DedupError, InputError
from scrapy_dedup.near.tuning import Measure, MeasuredPair, Score, all_scores, best_rule, measure_pairs

EXIT_FAULTY_LINES = 2


def run(context: Context) -> int:
    """Judge thresholds by labelled pairs, or draw pairs to be labelled."""
    problems = list(_option_problems(context))
    if problems:
        raise ConfigError(problems, "the options of tune")
    if context.options.sample is not None:
        return sample(context)
    try:
        return _tune(context)
    except InputError as error:
        sys.stderr.write("\n".join(map(printable, f"scrapy dedup tune: {error}".splitlines())) + "\n")
        return EXIT_FAULTY_LINES


def _option_problems(context: Context) -> Iterator[str]:
    options = context.options
    sampling = options.sample is not None
    if sampling == (options.pairs is not None):
        yield "either a file of labelled pairs, or --sample N to draw pairs"
        return
    misplaced = ("json", "plot") if sampling else ("out", "corpus", "extractor", "jaccard", "seed")
    for name in misplaced:
        if getattr(options, name) is not None:
            yield f"--{name} goes {'with a file of pairs' if sampling else 'with --sample'}"
    yield from sampling_problems(context.options) if sampling else _tuning_problems(context)


def _tuning_problems(context: Context) -> Iterator[str]:
    options = context.options
    if not Path(options.pairs).is_file():
        yield f"{options.pairs} is no file"
    yield from _target_problems(context)
    if options.plot is not None:
        if Path(options.plot).suffix.lower() not in PLOT_FORMATS:
            yield f"--plot {options.plot}: its name has to end in {' or '.join(PLOT_FORMATS)}"
        try:
            load_matplotlib()
        except DedupError as error:
            yield str(error)


def _target_problems(context: Context) -> Iterator[str]:
    """Yield why the files that are asked for cannot be written where they are."""
    options = context.options
    for name in ("json", "plot"):
        if (given := getattr(options, name)) is None:
            continue
        if not Path(given).absolute().parent.is_dir():
            yield f"--{name} {given}: there is no such folder"
        elif Path(given).exists() and not Path(given).is_file():
            yield f"--{name} {given} is no file that can be replaced"
        elif _is_same_file(given, options.pairs):
            yield f"--{name} {given} is the file of pairs itself"
    if options.json is not None and options.plot is not None and _is_same_file(options.json, options.plot):
        yield f"--json and --plot both name {options.plot}"


def _is_same_file(a: str, b: str) -> bool:
    """Tell whether two paths, of which neither has to exist, lead to one file by whatever way."""
    return Path(a).resolve() == Path(b).resolve() or (
        Path(a).exists() and Path(b).exists() and Path(a).samefile(b)
    )


# -- labelled pairs


def _tune(context: Context) -> int:
    options = context.options
    file = PairFile(Path(options.pairs))
    size = file.path.stat().st_size
    pairs: list[MeasuredPair] = []
    with bars() as progress:
        for part in file.parts():
            pairs += measure_pairs(part)
            progress("reading", file.bytes_read, size)
    file.problems.raise_any()
    found = all_scores(pairs)
    written = _write(context, file, pairs, found)
    context.write(told(file, pairs, found))
    for path in written:
        context.write(f"wrote {printable(str(path))}")
    return 0


def _write(
    context: Context, file: PairFile, pairs: Sequence[MeasuredPair], found: Sequence[Score]
) -> list[Path]:
    """Write the files that are asked for, all or none; return their paths."""
    options = context.options
    contents: dict[Path, bytes] = {}
    if options.json is not None:
        stated = as_json(file, pairs, found)
        contents[Path(options.json)] = (json.dumps(stated, ensure_ascii=False, indent=1) + "\n").encode()
    if options.plot is not None:
        best = {measure: best_rule(pairs, found, measure) for measure in Measure}
        contents[Path(options.plot)] = drawn(found, best, Path(options.plot).suffix)
    with drafts_of(contents) as drafts:
        for path, draft in drafts.items():
            draft.write_bytes(contents[path])
        for path, draft in drafts.items():
            draft.replace(path)
    return list(contents)
