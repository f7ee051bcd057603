"""Prose from a seeded grammar: sentences that read like a shop, a handbook or a news page, and never repeat."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

_SLOT = re.compile(r"\{(\w+)\}")

GRAMMAR: Mapping[str, tuple[str, ...]] = {
    # What a shop says about a thing: {name} and {noun} are given by the page.
    "product": (
        "The {name} is a {quality} {noun} whose {part} is made of {stuff} and {promise}.",
        "{buyer} will like that it {promise}, even after {number} {period} of {use}.",
        "We tested it for {number} {period} of {use}, and the {part} showed {finding}.",
        "Its {part} weighs {number} grams less than that of the model before it, so the {noun} {promise}.",
        "To clean the {noun}, {care}, then let the {part} {rest} for {number} minutes.",
        "The maker in {town} fits each {part} by hand and checks it at {number} °C before it is packed.",
        "In the box you find the {noun}, a spare {part}, {number} screws and a leaflet about {use}.",
        "Store it {place}, because {stuff} {reaction} when it is left damp for more than {number} days.",
        "If the {part} ever wears out, {repair}, a job that takes about {number} minutes.",
        "Compared with cheaper ones, this {noun} has a {quality} {part} and {promise}.",
        "The guarantee covers the {part} for {number} months of {use}, but not damage from frost.",
    ),
    # What a handbook says about {topic}.
    "guide": (
        "Before you begin with {topic}, {prepare} and note the {figure} that the {device} shows.",
        "The {device} reads the {figure} every {number} seconds and {reacts} when it leaves the permitted range.",
        "For {topic}, set the {figure} to {number} and wait until the {device} {reacts}.",
        "A {figure} above {number} usually means that {cause}, so {prepare} before you go on.",
        "If the {device} stays silent, {prepare}; in most cases {cause}.",
        "Write down the {figure} after each step of {topic}, since the {device} keeps only the last {number} values.",
        "Two people are needed for {topic}: one watches the {device} while the other changes the {figure}.",
        "Older units lack the second {device}, and there the {figure} has to be read from the {panel}.",
        "Repeat {topic} after {number} weeks, or sooner when {cause}.",
        "The {panel} shows a steady light as soon as the {figure} has settled near {number}.",
    ),
    # What a local paper says about {topic}.
    "news": (
        "The council of {town} voted on {topic} after a debate of {number} minutes, and {outcome}.",
        "{person} said that {topic} had cost the town {number} thousand crowns so far.",
        "Shopkeepers near the {site} expect {topic} to bring {number} more visitors on market days.",
        "Engineers will close the {site} for {number} nights while {work}.",
        "According to {person}, {outcome}, although no date has been set for the {site}.",
        "A survey of {number} households found that most people had never heard of {topic}.",
        "Work on the {site} began in spring, when {work}, and {outcome}.",
        "{person} called {topic} a modest step and asked for {number} more benches beside the {site}.",
        "The report on {topic} runs to {number} pages and names {town} as an example.",
    ),
    # What a shop says above a list of goods in {topic}.
    "listing": (
        "Each piece in this part of our {topic} range {promise}, and most of them come from workshops near {town}.",
        "People who choose from this selection often ask whether {stuff} {reaction}, and the answer is in the notes.",
        "Every {topic} item here was carried through {number} {period} of {use} by somebody on our staff.",
        "Prices in this section start at {number} crowns, and each piece can be returned within {number} days.",
        "We added {number} new makers to this shelf after a visit to {town}, where the {part} is still cut by hand.",
        "A {quality} {part} is what the {topic} pieces in this group have in common.",
    ),
    "quality": ("sturdy", "light", "quiet", "well balanced", "compact", "hard-wearing", "plain", "carefully finished"),
    "part": ("handle", "hinge", "blade guard", "base plate", "lid", "frame", "spring", "collar", "grip", "catch"),
    "stuff": (
        "oiled ash", "brushed steel", "recycled nylon", "cast aluminium", "waxed canvas", "borosilicate glass",
        "powder-coated iron", "natural rubber", "laminated birch",
    ),
    "promise": (
        "keeps its shape", "opens with one hand", "stays cool to the touch", "fits a drawer of ordinary depth",
        "does not rattle", "can be taken apart without tools", "survives a fall from the bench",
        "holds its setting overnight",
    ),
    "buyer": (
        "Gardeners", "Home bakers", "Boat owners", "People with small flats", "Restorers", "Teachers", "Campers",
        "Anyone with cold hands",
    ),
    "period": ("weeks", "weekends", "afternoons", "winter days", "market mornings", "lessons"),
    "use": (
        "daily use", "work in the rain", "pruning old fruit trees", "cooking for eight", "moving house",
        "reading in bed", "sorting seed packets", "repairs on the balcony",
    ),
    "finding": (
        "no play at all", "a faint scratch and nothing more", "some polish where the thumb rests",
        "the first trace of rust near the rivet", "no change that our gauge could measure",
    ),
    "care": (
        "wipe it with a dry cloth", "rinse it under lukewarm water", "brush the dust out of the joints",
        "rub in a few drops of linseed oil", "take off the cover and shake it gently",
    ),
    "rest": ("rest", "dry", "cool", "settle"),
    "place": ("on a high shelf", "in the bag supplied", "hanging from its loop", "away from the stove", "lying flat"),
    "reaction": ("swells a little", "turns darker", "loses its spring", "starts to smell", "becomes brittle"),
    "repair": (
        "order the part by its number", "bring the piece to our counter", "turn the two screws at the back",
        "ask for the repair kit", "follow the drawing inside the lid",
    ),
    "town": ("Arvika", "Lindesnes", "Brodnica", "Kõrve", "Saint-Malo", "Tolmin", "Weesp", "Hjørring", "Olomouc"),
    "prepare": (
        "close the inlet valve", "switch off the pump", "let the pressure fall to zero", "remove the side panel",
        "check that both cables are seated", "load the backup of the settings", "empty the sediment bowl",
    ),
    "figure": (
        "flow rate", "return temperature", "pump speed", "line pressure", "filter index", "supply voltage",
        "humidity", "cycle count",
    ),
    "device": ("controller", "sensor head", "gateway", "inverter", "dosing unit", "expansion module", "meter"),
    "reacts": (
        "raises an alarm", "closes the bypass", "writes a line to the log", "falls back to manual mode",
        "asks for a confirmation", "restarts the measurement",
    ),
    "cause": (
        "the strainer is clogged", "air is trapped in the upper loop", "the firmware is older than the module",
        "a seal has dried out", "the clock was never set", "the two phases were swapped",
    ),
    "panel": ("front panel", "service display", "terminal block", "status bar", "cover of the cabinet"),
    "person": (
        "Ingrid Solbakken of the harbour office", "Deputy mayor Paweł Zając", "Marta Křížová, who runs the library",
        "Engineer Tõnu Rebane", "Yvonne Le Gall of the traders' union", "Architect Bram Hoekstra",
    ),
    "outcome": (
        "the plan was sent back for a second reading", "a small majority agreed", "the money will come from the reserve",
        "neighbours may still object", "the contract goes to a local firm", "two members abstained",
    ),
    "site": ("old bridge", "ferry landing", "school yard", "market hall", "north tunnel", "bus station", "lock gate"),
    "work": (
        "crews replace the drainage", "the steel is sandblasted", "divers inspect the piers", "new lamps are wired",
        "the roof is lifted off", "the paving is relaid",
    ),
    "number": tuple(str(number) for number in range(11, 97)),
}  # fmt: skip


class Writer:
    """Writes paragraphs; no sentence leaves it twice.

    Args:
        seed: equal seeds write equal texts, in the order asked for.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)
        self._written: set[str] = set()

    def paragraphs(
        self, genre: str, given: Mapping[str, str], *, count: int = 3
    ) -> tuple[tuple[str, ...], ...]:
        """Return ``count`` paragraphs of three new sentences, cycling through the patterns of a genre."""
        patterns = list(GRAMMAR[genre])
        self._random.shuffle(patterns)
        sentences = [self._new_sentence(patterns[i % len(patterns)], given) for i in range(3 * count)]
        return tuple(tuple(sentences[i : i + 3]) for i in range(0, len(sentences), 3))

    def _new_sentence(self, pattern: str, given: Mapping[str, str]) -> str:
        while True:
            text = self._expand(pattern, given)
            if text not in self._written:
                self._written.add(text)
                return text[0].upper() + text[1:]

    def _expand(self, pattern: str, given: Mapping[str, str]) -> str:
        def fill(slot: re.Match[str]) -> str:
            name = slot[1]
            return given[name] if name in given else self._expand(self._random.choice(GRAMMAR[name]), given)

        return _SLOT.sub(fill, pattern)
