"""Text that the extractor would lose by the way a page is built, and that is kept."""

from __future__ import annotations

import pytest

SAID = "The council adds that heavy lorries still have to take the road by the mill until further notice."


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param("hidden", id="hidden"),
        pytest.param("aria-hidden=true style='display: none; color: red'", id="not displayed"),
    ],
)
def test_the_panel_behind_a_tab_is_text(run, site, attributes):
    panel = f"<div role=tabpanel {attributes}><p>{SAID}</p></div>"
    assert SAID in run(site(article=f"<p>{SAID[:40]}</p>{panel}")).text.text


def test_what_the_browser_unfolds_to_find_it_is_text(run, site):
    assert SAID in run(site(article=f"<p>Open it.</p><div hidden=until-found><p>{SAID}</p></div>")).text.text


def test_the_tabs_of_a_cookie_dialog_are_no_text(run, site):
    tabs = f"<div role=dialog><div role=tabpanel hidden><p>{SAID}</p></div></div>"
    assert SAID not in run(site(after=tabs)).text.text


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param("Any of:<ul><li>a lorry<li>a bus</ul>or none", id="ul"),
        pytest.param("Any of:<ol><li><p>a lorry</p><li>a bus</ol>or none", id="ol"),
        pytest.param("Any of:<dl><dt>a lorry<dd>a bus</dl>or none", id="dl"),
        pytest.param("Any of:<ul><li>a lorry<ul><li>a bus</ul></ul>or none", id="nested"),
    ],
)
def test_a_list_in_a_table_cell_is_text(run, site, cell):
    table = f"<table><tr><th>Name<th>Value<tr><td>vehicle<td>{cell}</table>"
    text = run(site(article=f"<p>{SAID}</p>{table}")).text.text
    assert "| vehicle | Any of: a lorry a bus or none |" in text


@pytest.mark.parametrize(
    ("numbers", "listing"),
    [
        pytest.param("linenos", "<div class=highlight><pre>{}</pre></div>", id="Pygments"),
        pytest.param("gutter", "<pre><code>{}</code></pre>", id="Hexo"),
        pytest.param("rouge-gutter gl", "<pre>{}</pre>", id="Rouge"),
    ],
)
def test_code_with_line_numbers_keeps_its_lines(run, site, numbers, listing):
    code = listing.format("for a in b:\n    print(a)\n")
    table = f"<table><tr><td class='{numbers}'><pre>1\n2</pre></td><td>{code}</td></tr></table>"
    text = run(site(article=f"<p>{SAID}</p>{table}<p>{SAID}</p>")).text.text
    assert "```\nfor a in b:\n    print(a)\n```" in text


def test_a_table_with_a_row_for_each_line_loses_none(run, site):
    rows = "".join(f"<tr><td class=linenos>{n}<td><pre>line {n} of it</pre>" for n in range(3))
    text = run(site(article=f"<p>{SAID}</p><table>{rows}</table>")).text.text
    assert all(f"line {number} of it" in text for number in range(3))


def test_two_columns_of_line_numbers_are_no_stumbling_block(run, site):
    row = "<tr><td class=linenos>1<td class=linenos><pre>2</pre><td><pre>code</pre>"
    assert run(site(article=f"<p>{SAID}</p><table>{row}</table>")).failure is None


@pytest.mark.parametrize("name", ["disclaimer", "copyright", "legal-notice", "privacy-notice"])
def test_a_page_about_legal_matters_keeps_its_text(run, site, name):
    section = f"<section class={name}><h2>In short</h2><p>{SAID}</p></section>"
    assert SAID in run(site(article=section)).text.text
    assert SAID not in run(site(after=section)).text.text


@pytest.mark.parametrize("tag", ["font", "div", "span", "blockquote"])
def test_a_page_that_is_cut_off_by_the_parser_is_no_shorter_page(run, site, tag):
    found = run(site(after=f"<{tag}>" * 2_100 + f"<p>{SAID}</p>"))
    assert (found.text, found.failure) == (None, "recursion")
