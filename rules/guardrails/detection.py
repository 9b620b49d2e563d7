"""The detectors of the pipeline, which know what parameters a type has."""

from gateway_project.hooks import Hook
from gateway_project.json_types import JsonObject

# Raises ValidationError, whose field begins with `parameters`, for parameters that the type cannot use.
check_parameters: Hook[[str, JsonObject], None] = Hook("check_parameters")
