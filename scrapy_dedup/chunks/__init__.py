"""Pieces of a text that are embedded: cut so that nothing is lost, named so that each is embedded once."""

from scrapy_dedup.chunks.cut import Cutter, Piece
from scrapy_dedup.chunks.keys import Model
from scrapy_dedup.chunks.options import ChunkOptions
from scrapy_dedup.chunks.repeated import NOTHING_REPEATED, HostPages, Repeated

__all__ = ["NOTHING_REPEATED", "ChunkOptions", "Cutter", "HostPages", "Model", "Piece", "Repeated"]
