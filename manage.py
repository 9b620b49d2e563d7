#!/usr/bin/env python
"""The operators' entry point: every command of the gateway."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    execute_from_command_line(sys.argv)
