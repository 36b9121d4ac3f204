"""One-compartment kinetics: a dose is given at once, and leaves at a rate that its level sets."""

import math


def half_life(clearance, volume):
    """Time in which the level falls by half: hours, for litres an hour and litres."""
    return math.log(2) * volume / clearance


def level(dose, clearance, volume, time):
    """Level at a time after the dose: milligrams a litre, for milligrams and hours."""
    return dose / volume * math.exp(-clearance / volume * time)
