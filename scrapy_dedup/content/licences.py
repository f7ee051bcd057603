"""The SPDX identifier of a stated licence, where the statement names exactly one licence.

What a page states as its licence is kept as found. An identifier is added only for what leaves no choice: a
Creative Commons deed with its version, the canonical address of a licence, an identifier or full name of the
SPDX list. "Creative Commons", "GPLv3" (that version only, or later ones too?), "all rights reserved" and an
address of terms get none.

Sources: the SPDX License List, https://spdx.org/licenses/, and the addresses that it gives.
"""

from __future__ import annotations

import re

# Licences that pages state, by identifier. Any of them may be stated by its identifier, in any case.
_IDENTIFIERS = (  # noqa: SIM905
    "0BSD AGPL-3.0-only AGPL-3.0-or-later Apache-1.1 Apache-2.0 Artistic-2.0 BSD-2-Clause BSD-3-Clause"
    " BSL-1.0 CC-PDDC CC-PDM-1.0 CC-SA-1.0 CC0-1.0 CDLA-Permissive-1.0 CDLA-Permissive-2.0"
    " CDLA-Sharing-1.0 CERN-OHL-P-2.0 CERN-OHL-S-2.0 CERN-OHL-W-2.0 DL-DE-BY-2.0 DL-DE-ZERO-2.0 EPL-1.0"
    " EPL-2.0 EUPL-1.1 EUPL-1.2 GFDL-1.1-only GFDL-1.1-or-later GFDL-1.2-only GFDL-1.2-or-later"
    " GFDL-1.3-only GFDL-1.3-or-later GPL-1.0-only GPL-1.0-or-later GPL-2.0-only GPL-2.0-or-later"
    " GPL-3.0-only GPL-3.0-or-later ISC LAL-1.3 LGPL-2.0-only LGPL-2.0-or-later LGPL-2.1-only"
    " LGPL-2.1-or-later LGPL-3.0-only LGPL-3.0-or-later MIT MIT-0 MPL-1.1 MPL-2.0 NLOD-1.0 NLOD-2.0"
    " O-UDA-1.0 ODbL-1.0 ODC-By-1.0 OFL-1.1 OGL-Canada-2.0 OGL-UK-1.0 OGL-UK-2.0 OGL-UK-3.0 PDDL-1.0"
    " PSF-2.0 Unlicense WTFPL Zlib etalab-2.0"
).split()

# Versions and ports of the Creative Commons licences that have an identifier; other ports have none.
_CC_VERSIONS = ("1.0", "2.0", "2.5", "3.0", "4.0")
_CC_PORTS = {
    "BY": ("2.5-AU", "3.0-AT", "3.0-AU", "3.0-DE", "3.0-IGO", "3.0-NL", "3.0-US"),
    "BY-SA": ("2.0-UK", "2.1-JP", "3.0-AT", "3.0-DE", "3.0-IGO"),
    "BY-ND": ("3.0-DE",),
    "BY-NC": ("3.0-DE",),
    "BY-NC-SA": ("2.0-DE", "2.0-FR", "2.0-UK", "3.0-DE", "3.0-IGO"),
    "BY-NC-ND": ("3.0-DE", "3.0-IGO"),
}

# Full names beside the identifiers, in lower case, without "the" before and "license" after them.
_NAMES = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    "apache software license 2.0": "Apache-2.0",
    "boost software license 1.0": "BSL-1.0",
    "bsd 2-clause": "BSD-2-Clause",
    'bsd 2-clause "simplified"': "BSD-2-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    'bsd 3-clause "new" or "revised"': "BSD-3-Clause",
    "cc0": "CC0-1.0",
    "cc0 1.0": "CC0-1.0",
    "cc0 1.0 universal": "CC0-1.0",
    "creative commons zero v1.0 universal": "CC0-1.0",
    "data licence germany – attribution – version 2.0": "DL-DE-BY-2.0",  # noqa: RUF001
    "data licence germany – zero – version 2.0": "DL-DE-ZERO-2.0",  # noqa: RUF001
    "eclipse public license 2.0": "EPL-2.0",
    "mit no attribution": "MIT-0",
    "mozilla public license 2.0": "MPL-2.0",
    "mozilla public license version 2.0": "MPL-2.0",
    "odbl 1.0": "ODbL-1.0",
    "odbl v1.0": "ODbL-1.0",
    "open data commons attribution license v1.0": "ODC-By-1.0",
    "open data commons open database license v1.0": "ODbL-1.0",
    "open data commons public domain dedication & license 1.0": "PDDL-1.0",
    "open database license 1.0": "ODbL-1.0",
    "open database license v1.0": "ODbL-1.0",
    "open government licence v1.0": "OGL-UK-1.0",
    "open government licence v2.0": "OGL-UK-2.0",
    "open government licence v3.0": "OGL-UK-3.0",
    "sil open font license 1.1": "OFL-1.1",
    "etalab open license 2.0": "etalab-2.0",
}

# Addresses without scheme, "www.", query, fragment, and the slash at the end.
_ADDRESSES = {
    "apache.org/licenses/license-2.0": "Apache-2.0",
    "apache.org/licenses/license-2.0.html": "Apache-2.0",
    "apache.org/licenses/license-2.0.txt": "Apache-2.0",
    "boost.org/license_1_0.txt": "BSL-1.0",
    "creativecommons.org/licenses/publicdomain": "CC-PDDC",
    "creativecommons.org/licenses/sa/1.0": "CC-SA-1.0",
    "creativecommons.org/publicdomain/mark/1.0": "CC-PDM-1.0",
    "creativecommons.org/publicdomain/zero/1.0": "CC0-1.0",
    "eclipse.org/legal/epl-2.0": "EPL-2.0",
    "eclipse.org/legal/epl-v10.html": "EPL-1.0",
    "govdata.de/dl-de/by-2-0": "DL-DE-BY-2.0",
    "govdata.de/dl-de/zero-2-0": "DL-DE-ZERO-2.0",
    "mozilla.org/en-us/mpl/2.0": "MPL-2.0",
    "mozilla.org/mpl/2.0": "MPL-2.0",
    "nationalarchives.gov.uk/doc/open-government-licence/version/1": "OGL-UK-1.0",
    "nationalarchives.gov.uk/doc/open-government-licence/version/2": "OGL-UK-2.0",
    "nationalarchives.gov.uk/doc/open-government-licence/version/3": "OGL-UK-3.0",
    "opendatacommons.org/licenses/by/1-0": "ODC-By-1.0",
    "opendatacommons.org/licenses/by/1.0": "ODC-By-1.0",
    "opendatacommons.org/licenses/odbl/1-0": "ODbL-1.0",
    "opendatacommons.org/licenses/odbl/1.0": "ODbL-1.0",
    "opendatacommons.org/licenses/pddl/1-0": "PDDL-1.0",
    "opendatacommons.org/licenses/pddl/1.0": "PDDL-1.0",
    "unlicense.org": "Unlicense",
}

# Sites that show a licence under its identifier.
_SHELVES = re.compile(
    r"(?:spdx\.org/licenses|opensource\.org/licenses?|choosealicense\.com/licenses)/(?P<identifier>[a-z0-9.-]+?)"
    r"(?:\.html|\.json|\.txt|\.php)?"
)

_ADDRESS = re.compile(r"(?:https?:)?//(?:www\.)?(?P<place>[^?#\s]+)(?:[?#]\S*)?")
_CC_ADDRESS = re.compile(
    r"creativecommons\.org/licenses/(?P<code>[a-z-]+)/(?P<version>\d\.\d)(?:/(?P<port>[a-z]{2,3}))?"
)
# The pages of one Creative Commons licence: its summary and its text, in some language.
_CC_PAGE = re.compile(r"/(?:deed|legalcode)(?:\.[a-z-]+)?(?:\.txt)?$")

_UNPORTED = r"(?: (?:international|unported|generic))?"
_CC_SHORT = re.compile(
    rf"cc[ -](?P<code>by[a-z-]*?)[ -]v?(?P<version>\d\.\d)(?:[ -](?P<port>[a-z]{{2,3}}))?{_UNPORTED}"
)
_CC_LONG = re.compile(rf"creative commons (?P<terms>attribution[a-z -]*?) v?(?P<version>\d\.\d){_UNPORTED}")
_CC_BOTH = re.compile(r"(?P<name>creative commons .+) \((?P<short>cc[ -][^()]+)\)")
_SPLIT_TERMS = re.compile(
    r"(?<=non)[ -](?=commercial)|(?<=no)[ -](?=deriv)|(?<=derivative)[ -](?=works)|(?<=share)[ -](?=alike)"
)
_CC_TERMS = {
    "attribution": "by",
    "noncommercial": "nc",
    "noderivatives": "nd",
    "noderivs": "nd",
    "noderivativeworks": "nd",
    "sharealike": "sa",
}

# Identifiers that SPDX replaced, by the meaning that its list gives them, and a usual form of the later ones.
_GNU_SHORT = re.compile(r"(?P<licence>[al]?gpl|gfdl)-(?P<version>\d\.\d)(?P<later>\+?)")
_GNU_LATER = re.compile(r"(?P<licence>[al]?gpl) ?v(?P<version>\d(?:\.\d)?)(?P<later>\+)")
_GNU_LONG = re.compile(
    r"gnu (?P<licence>(?:affero |lesser |library )?general public|free documentation) license v?"
    r"(?P<version>\d(?:\.\d)?) (?P<later>only|or later)"
)
_GNU_CODES = {
    "affero general public": "agpl",
    "free documentation": "gfdl",
    "general public": "gpl",
    "lesser general public": "lgpl",
    "library general public": "lgpl",
}

_BY_LOWER_CASE = {
    identifier.lower(): identifier
    for identifier in (
        *_IDENTIFIERS,
        *(f"CC-{code}-{version}" for code, ports in _CC_PORTS.items() for version in (*_CC_VERSIONS, *ports)),
    )
}


def spdx_id(stated: str) -> str | None:
    """Return the SPDX identifier of a licence, stated as an address or by name, or None.

    >>> spdx_id("https://creativecommons.org/licenses/by-sa/4.0/deed.de"), spdx_id("CC BY-NC 3.0 IGO")
    ('CC-BY-SA-4.0', None)
    >>> spdx_id("MIT License"), spdx_id("GPL-3.0+"), spdx_id("GPLv3")
    ('MIT', 'GPL-3.0-or-later', None)
    """
    plain = " ".join(stated.split()).lower()
    address = _ADDRESS.fullmatch(plain)
    return _by_address(address["place"].rstrip("/")) if address else _by_name(plain)


def _by_address(place: str) -> str | None:
    licence = _CC_PAGE.sub("", place)
    if found := _CC_ADDRESS.fullmatch(licence):
        return _creative_commons(found["code"], found["version"], found["port"])
    if found := _SHELVES.fullmatch(place):
        return _BY_LOWER_CASE.get(found["identifier"])
    return _ADDRESSES.get(licence)


def _by_name(name: str) -> str | None:
    if found := _CC_SHORT.fullmatch(name):
        return _creative_commons(found["code"], found["version"], found["port"])
    if found := _CC_BOTH.fullmatch(name):
        identifier = _by_name(found["name"])
        return identifier if identifier == _by_name(found["short"]) else None
    for form in (_GNU_SHORT, _GNU_LATER, _GNU_LONG):
        if found := form.fullmatch(name):
            return _gnu(found["licence"], found["version"], found["later"])
    bare = re.sub(r",(?= version)|^the |(?: public)? licen[cs]e$|\.$", "", name)
    if found := _CC_LONG.fullmatch(bare):
        return _creative_commons(_code_of(found["terms"]), found["version"], None)
    return _BY_LOWER_CASE.get(bare) or _NAMES.get(bare)


def _creative_commons(code: str, version: str, port: str | None) -> str | None:
    code = "by-nc-nd" if code == "by-nd-nc" else code  # so named in version 1.0
    return _BY_LOWER_CASE.get("-".join(filter(None, ("cc", code, version, port))))


def _gnu(licence: str, version: str, later: str) -> str | None:
    code = _GNU_CODES.get(licence, licence)
    version = version if "." in version else f"{version}.0"
    return _BY_LOWER_CASE.get(f"{code}-{version}-{'or-later' if later in ('+', 'or later') else 'only'}")


def _code_of(terms: str) -> str:
    """Return the code of the terms of a Creative Commons licence; a term that is none stays as it is.

    >>> _code_of("attribution-noncommercial-share alike")
    'by-nc-sa'
    """
    joined = _SPLIT_TERMS.sub("", terms)
    return "-".join(_CC_TERMS.get(term, term) for term in re.split(r"[ -]+", joined))
