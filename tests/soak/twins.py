"""Twins"""

TWINS = {}
PLACES = {}


def install(name): ...
