"""A stated licence gets an SPDX identifier where it names exactly one, and none otherwise."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_dedup.content import licences
from scrapy_dedup.content.licences import spdx_id

CC = "https://creativecommons.org"

STATED = [
    ("deed", f"{CC}/licenses/by-sa/4.0/", "CC-BY-SA-4.0"),
    ("deed in a language", f"{CC}/licenses/by/4.0/deed.de", "CC-BY-4.0"),
    ("deed in a language of a region", f"{CC}/licenses/by/4.0/deed.pt-br", "CC-BY-4.0"),
    ("legal code", f"{CC}/licenses/by-nc-nd/3.0/legalcode", "CC-BY-NC-ND-3.0"),
    ("legal code as text", f"{CC}/licenses/by/4.0/legalcode.txt", "CC-BY-4.0"),
    ("http, www, upper case", "HTTP://WWW.creativecommons.org/Licenses/by-nc/2.5", "CC-BY-NC-2.5"),
    ("no scheme", "//creativecommons.org/licenses/by/2.0/", "CC-BY-2.0"),
    ("chooser", f"{CC}/licenses/by/4.0/?ref=chooser-v1", "CC-BY-4.0"),
    ("terms in the order of version 1.0", f"{CC}/licenses/by-nd-nc/1.0/", "CC-BY-NC-ND-1.0"),
    ("port with an identifier", f"{CC}/licenses/by-sa/3.0/de/deed.de", "CC-BY-SA-3.0-DE"),
    ("intergovernmental", f"{CC}/licenses/by/3.0/igo/legalcode", "CC-BY-3.0-IGO"),
    ("version of a port", f"{CC}/licenses/by-sa/2.1/jp/", "CC-BY-SA-2.1-JP"),
    ("port without an identifier", f"{CC}/licenses/by/3.0/fr/", None),
    ("port that has one under other terms", f"{CC}/licenses/by-nd/3.0/igo/", None),
    ("version of a port alone", f"{CC}/licenses/by-sa/2.1/", None),
    ("no version", f"{CC}/licenses/by/", None),
    ("version that is none", f"{CC}/licenses/by/5.0/", None),
    ("terms that are none", f"{CC}/licenses/by-xx/4.0/", None),
    ("zero", f"{CC}/publicdomain/zero/1.0/deed.en", "CC0-1.0"),
    ("public domain mark", f"{CC}/publicdomain/mark/1.0/", "CC-PDM-1.0"),
    ("another host", "https://creativecommons.org.evil.test/licenses/by/4.0/", None),
    ("address in a query", f"https://a.test/?to={CC}/licenses/by/4.0/", None),
    ("short name", "CC BY 4.0", "CC-BY-4.0"),
    ("identifier", "cc-by-nc-sa-4.0", "CC-BY-NC-SA-4.0"),
    ("short name of a port", "CC BY-SA 3.0 DE", "CC-BY-SA-3.0-DE"),
    ("short name of a port without identifier", "CC BY-NC 3.0 IGO", None),
    ("short name without version", "CC BY-SA", None),
    ("full name", "Creative Commons Attribution 4.0 International", "CC-BY-4.0"),
    (
        "full name in full",
        "Creative Commons Attribution-NonCommercial-ShareAlike 4.0 International Public License",
        "CC-BY-NC-SA-4.0",
    ),
    (
        "full name with spaces",
        "Creative Commons Attribution Non-Commercial No Derivatives 4.0",
        "CC-BY-NC-ND-4.0",
    ),
    (
        "older name",
        "Creative Commons Attribution-Noncommercial-No Derivative Works 3.0 Unported License",
        "CC-BY-NC-ND-3.0",
    ),
    (
        "both names",
        "Creative Commons Attribution-ShareAlike 4.0 International (CC BY-SA 4.0)",
        "CC-BY-SA-4.0",
    ),
    ("names that disagree", "Creative Commons Attribution 4.0 International (CC BY-SA 4.0)", None),
    ("full name of a port", "Creative Commons Attribution 3.0 Australia", None),
    ("brand", "Creative Commons", None),
    ("zero by name", "CC0", "CC0-1.0"),
    ("zero by full name", "CC0 1.0 Universal", "CC0-1.0"),
    ("MIT", "MIT", "MIT"),
    ("MIT in words", "The MIT License", "MIT"),
    ("Apache", "Apache License, Version 2.0", "Apache-2.0"),
    ("Apache address", "http://www.apache.org/licenses/LICENSE-2.0.txt", "Apache-2.0"),
    ("Apache without version", "Apache", None),
    ("BSD", 'BSD 3-Clause "New" or "Revised" License', "BSD-3-Clause"),
    ("BSD of some kind", "BSD", None),
    ("shelf", "https://opensource.org/license/bsd-3-clause/", "BSD-3-Clause"),
    ("shelf of SPDX", "https://spdx.org/licenses/CC-BY-4.0.html", "CC-BY-4.0"),
    ("shelf for choosing", "https://choosealicense.com/licenses/mit/", "MIT"),
    ("shelf with a licence or later ones", "https://opensource.org/licenses/GPL-3.0", None),
    ("GPL, that version", "GPL-3.0-only", "GPL-3.0-only"),
    ("GPL, later versions", "GPL-2.0-or-later", "GPL-2.0-or-later"),
    ("GPL, replaced identifier", "LGPL-2.1", "LGPL-2.1-only"),
    ("GPL, replaced identifier for later versions", "AGPL-3.0+", "AGPL-3.0-or-later"),
    ("GPL, usual form for later versions", "GPLv3+", "GPL-3.0-or-later"),
    ("GPL in words", "GNU Lesser General Public License v2.1 only", "LGPL-2.1-only"),
    ("GPL in words, later versions", "GNU General Public License v3.0 or later", "GPL-3.0-or-later"),
    ("GPL in doubt", "GPLv3", None),
    ("GPL in doubt, in words", "GNU General Public License v3.0", None),
    ("GPL address", "https://www.gnu.org/licenses/gpl-3.0.html", None),
    ("GPL of no such version", "GPL-4.0", None),
    ("ODbL", "https://opendatacommons.org/licenses/odbl/1-0/", "ODbL-1.0"),
    ("ODbL by name", "Open Data Commons Open Database License v1.0", "ODbL-1.0"),
    (
        "OGL",
        "http://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/",
        "OGL-UK-3.0",
    ),
    ("OGL by name", "Open Government Licence v3.0", "OGL-UK-3.0"),
    ("OGL of the day", "https://www.nationalarchives.gov.uk/doc/open-government-licence/", None),
    ("notice", "© 2026 The Daily. All rights reserved.", None),
    ("terms", "https://daily.test/terms", None),
    ("path", "/terms", None),
    ("choice", "MIT OR Apache-2.0", None),
    ("nothing", "", None),
]


@pytest.mark.parametrize(
    ("stated", "identifier"), [row[1:] for row in STATED], ids=[row[0] for row in STATED]
)
def test_a_stated_licence(stated, identifier):
    assert spdx_id(stated) == identifier


def test_white_space_around_and_within_does_not_matter():
    assert spdx_id("\n Apache   License\t2.0 ") == "Apache-2.0"


def test_every_identifier_stands_for_itself_in_any_case():
    for identifier in licences._BY_LOWER_CASE.values():
        assert spdx_id(identifier) == spdx_id(identifier.upper()) == identifier


def test_every_name_and_address_of_the_tables_can_be_reached():
    for name, identifier in licences._NAMES.items():
        assert spdx_id(name) == spdx_id(f"The {name} License") == identifier
    for address, identifier in licences._ADDRESSES.items():
        assert spdx_id(f"https://{address}/") == identifier


def test_the_tables_name_only_what_they_list():
    known = set(licences._BY_LOWER_CASE.values())
    assert {*licences._NAMES.values(), *licences._ADDRESSES.values()} <= known


@given(st.text(max_size=1000))
def test_any_text_is_answered_with_an_identifier_of_the_list_or_none(stated):
    found = spdx_id(stated)
    assert found is None or re.fullmatch(r"[A-Za-z0-9.-]+", found)


@pytest.mark.parametrize("part", ["/", "creative commons attribution ", "cc by ", "no ", "(cc by) "])
def test_a_long_statement_takes_no_time(part):
    assert spdx_id(("https:" if part == "/" else "") + part * (1000 // len(part))) is None
    assert spdx_id("creative commons attribution" + part * (900 // len(part))) is None
