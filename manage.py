#!/usr/bin/env python
"""The operators' entry point: every command of the gateway."""

import os
import sys

from django.core.management import execute_from_command_line

from gateway_project.env import SettingRefused

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    try:
        execute_from_command_line(sys.argv)
    except SettingRefused as refused:
        sys.exit(str(refused))
