"""The words of the synthetic language, and the vocabulary of pieces that its tokenizer knows."""

from __future__ import annotations


def _words(listed: str) -> tuple[str, ...]:
    return tuple(listed.split())


KEYS = _words(
    """anchor apple arrow badge baker banjo barrel basket beacon bishop blanket bottle bronze bucket butter cabin cactus
    camel candle canvas carpet cedar cellar cherry chisel cobalt comet copper coral cotton cradle crayon dagger daisy
    desert diamond dolphin dragon drummer eagle ember falcon feather fiddle flint forest fossil galaxy garlic ginger
    glacier goblet granite guitar hammer harbor hazel helmet honey iris ivory jacket jasmine jungle kettle ladder
    lagoon lantern lemon lizard magnet maple marble meadow mirror needle nectar nickel olive onyx orchid otter panther
    parrot pebble pepper pigeon pillow pirate planet raven ribbon saddle salmon sapphire tiger tulip velvet willow
    zebra"""
)
"""What needles are about: never a word of the filler."""

NOUNS = _words(
    """farmer teacher sailor doctor painter writer singer driver neighbor soldier merchant visitor student child woman
    man boy girl king queen captain cook clerk guard hunter judge miner nurse pilot poet priest tailor village town city
    street house garden market station school church bridge tower river lake hill valley field road path train ship boat
    wagon horse dog cat bird fish cow sheep book letter paper table chair door window wall roof floor clock lamp
    picture song story"""
)
ADJECTIVES = _words(
    """old young small large tall short quiet loud happy sad tired hungry clever kind brave calm proud rich poor strong
    weak warm cold bright dark empty full clean dusty wooden golden silver green blue red white black grey heavy
    light"""
)
VERBS = _words(
    """watched followed found passed left reached helped liked saw heard carried painted cleaned opened closed built
    sold bought moved kept lost visited described remembered counted touched lifted turned waited stood"""
)
PLACES = _words("near behind beside under above before after around inside outside with without")
DAYS = _words("monday tuesday wednesday thursday friday saturday sunday morning evening night winter summer spring")
MEASURES = _words("price weight height length age size depth width")
THINGS = _words("coins miles pounds years pages steps stones loaves")
ADVERBS = _words("slowly quickly often never always again soon today later together")
GRAMMAR = _words("the a and was is in on of it that had then there for to code question year about cost")

NUMBER = "▁"
"""The piece in front of a number's digits, and in front of every word within its own piece."""
PAD, UNKNOWN, START = "<pad>", "<unk>", "<s>"
MARKS = (".", ":", "?", ",")


def _vocabulary() -> dict[str, int]:
    words = (*KEYS, *NOUNS, *ADJECTIVES, *VERBS, *PLACES, *DAYS, *MEASURES, *THINGS, *ADVERBS, *GRAMMAR)
    pieces = (PAD, UNKNOWN, START, NUMBER, *MARKS, *"0123456789", *(NUMBER + word for word in dict.fromkeys(words)))
    return {piece: place for place, piece in enumerate(pieces)}


VOCABULARY = _vocabulary()
"""Piece to token id. Digits are single tokens; a word's piece begins with ``NUMBER``, which stands for the space."""
