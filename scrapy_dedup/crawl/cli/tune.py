"""``scrapy dedup tune``: which threshold merges no pair that somebody has labelled different."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

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
    for name in ("json", "plot"):
        if (given := getattr(options, name)) is not None and not Path(given).absolute().parent.is_dir():
            yield f"--{name} {given}: there is no such folder"
        elif given is not None and Path(given).exists() and not Path(given).is_file():
            yield f"--{name} {given} is no file that can be replaced"
        elif given is not None and Path(given).absolute() == Path(options.pairs).absolute():
            yield f"--{name} {given} is the file of pairs itself"
    if options.plot is not None:
        if Path(options.plot).suffix.lower() not in PLOT_FORMATS:
            yield f"--plot {options.plot}: its name has to end in {' or '.join(PLOT_FORMATS)}"
        try:
            load_matplotlib()
        except DedupError as error:
            yield str(error)


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
    context.write(told(file, pairs, found))
    for path in _write(context, file, pairs, found):
        context.write(f"wrote {printable(str(path))}")
    return 0


def _write(
    context: Context, file: PairFile, pairs: Sequence[MeasuredPair], found: Sequence[Score]
) -> list[Path]:
    """Write the files that are asked for, each whole or not at all; return their paths."""
    options = context.options
    contents: dict[Path, bytes] = {}
    if options.json is not None:
        stated = as_json(file, pairs, found)
        contents[Path(options.json)] = (json.dumps(stated, ensure_ascii=False, indent=1) + "\n").encode()
    if options.plot is not None:
        best = {measure: best_rule(pairs, found, measure) for measure in Measure}
        contents[Path(options.plot)] = drawn(found, best, Path(options.plot).suffix)
    for path, content in contents.items():
        draft = path.with_name(f".{path.name}.tmp")
        draft.write_bytes(content)
        draft.replace(path)
    return list(contents)
