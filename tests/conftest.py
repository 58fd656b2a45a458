"""Shared test settings."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))  # for `contracts`

# Examples compile; a first one is slow, and that is no failure.
settings.register_profile("edrl", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("edrl")
