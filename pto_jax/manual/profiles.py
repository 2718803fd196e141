"""The page on hardware profiles."""

from ..ir import Loc
from ..profiles import KIB, PROFILES, Profile
from .topics import Part, Topic, table


def _kib(size: int) -> str:
    return f"{size // KIB} KiB" if size else "-"


def _capacities() -> list[str]:
    rows = [
        [loc.name.lower(), *(_kib(p.capacity[loc]) for p in PROFILES.values())]
        for loc in Loc
        if any(p.capacity[loc] for p in PROFILES.values())
    ]
    return table(["memory", *PROFILES], rows)


_FP8 = {"yes": "exist", "warn": "exist, with a warning", "no": "do not exist"}
_FRESH = {"zero": "zeros", "ones": "all-one bits"}
_READ = {"ones": "all-one bits (float NaN, integer -1)", "backing": "the stored bits"}


def _facts(p: Profile) -> str:
    scratch = (
        f"; instructions without tmp use the bytes {p.ub_scratch[0]} to {p.ub_scratch[1]} of vec"
        if p.ub_scratch
        else ""
    )
    return (
        f"{p.name}: {p.title} (pto.target_arch {', '.join(p.arch)}); lanes outside a source's valid region "
        f"read as {_READ[p.out_of_region]}; a fresh tile holds {_FRESH[p.fresh_tile]}; 8-bit floats "
        f"{_FP8[p.fp8]}; left tiles are {p.left_blayout.name.lower()}{scratch}"
    )


TOPIC = Topic(
    "profiles",
    "Hardware profiles: capacities, fills, what exists.",
    (
        Part(
            "Which profile",
            [
                "--profile or profile=, else the program's pto.target_arch (a3 and a2a3 are a2a3, a5 is a5), "
                "else a2a3.",
            ],
            "prose",
        ),
        Part("Capacities per core", _capacities(), "table"),
        Part("Differences", [_facts(p) for p in PROFILES.values()]),
        Part(
            "Portable programs",
            ["`pto-jax verify --portable FILE` accepts only what every profile guarantees."],
            "prose",
        ),
    ),
    ("profile", "capacity", "capacities", *PROFILES),
)
